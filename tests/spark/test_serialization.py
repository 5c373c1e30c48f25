"""Values that workers keep between tasks."""

from __future__ import annotations

import pickle

from motet.spark import serialization
from motet.spark.serialization import CachedPickle


def test_a_worker_unpickles_a_value_once() -> None:
    sent = CachedPickle({"queries": [1, 2]})
    first, second = (pickle.loads(pickle.dumps(sent)) for _ in range(2))
    assert first.value == sent.value
    assert first.value is not sent.value
    assert second is first, "with all that was made of it"


def test_equal_values_of_two_runs_are_two() -> None:
    one, other = (pickle.loads(pickle.dumps(CachedPickle([1]))) for _ in range(2))
    assert one.value == other.value
    assert one.value is not other.value


def test_a_worker_keeps_the_last_few_values_alone() -> None:
    sent = [CachedPickle([number]) for number in range(serialization.MAX_CACHED + 1)]
    received = [pickle.loads(pickle.dumps(each)) for each in sent]
    assert len(serialization._cache) == serialization.MAX_CACHED
    assert pickle.loads(pickle.dumps(sent[-1])) is received[-1]
    again = pickle.loads(pickle.dumps(sent[0]))
    assert again is not received[0]
    assert again.value == [0]
