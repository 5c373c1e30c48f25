"""Options: one set of names, types and meanings for Python and the command line."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any, get_type_hints

import pyarrow as pa
import pytest

import motet
from motet.errors import MotetError, OptionError
from motet.options import OptionKeywords, Options, bytes_of, microseconds_of, resolve_options

EVENTS = pa.table({"time": [1, 2, 3], "type": ["A", "B", "B"]})
QUERY = "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s"


def test_keywords_have_the_names_and_types_of_the_options() -> None:
    assert get_type_hints(OptionKeywords) == get_type_hints(Options)


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().time = "at"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("duration", "micros"),
    [
        ("10 minutes", 600_000_000),
        ("10min", 600_000_000),
        ("1 hour 30 min", 5_400_000_000),
        ("250 ms", 250_000),
        ("7", 7_000_000),
        (0.5, 500_000),
        (timedelta(seconds=3), 3_000_000),
        ("0 seconds", 0),
    ],
)
def test_durations_are_written_in_words_or_given_as_timedelta_or_seconds(duration: Any, micros: int) -> None:
    assert microseconds_of(duration) == micros


@pytest.mark.parametrize("duration", ["soon", "", "10 parsecs", "10 s and more", -1, timedelta(-1), True, None])
def test_what_is_no_duration_is_refused(duration: Any) -> None:
    with pytest.raises(OptionError, match="write a duration such as '10 minutes'"):
        microseconds_of(duration)


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("4GiB", 4 << 30),
        ("4g", 4 << 30),
        ("512 MB", 512_000_000),
        ("1kib", 1024),
        ("10", 10),
        (10, 10),
        ("1.5m", 3 << 19),
    ],
)
def test_sizes_are_written_in_words_or_given_in_bytes(size: Any, found: int) -> None:
    assert bytes_of(size) == found


@pytest.mark.parametrize("size", ["much", "", "4 GiBs", -1, 0, True, 1.5, None])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(OptionError, match="write a size such as '4GiB'"):
        bytes_of(size)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"counts": "some"}, "counts is 'some': use one of exact, double"),
        ({"on_limit": "stop"}, "on_limit is 'stop': use one of error, truncate"),
        ({"match_limit": 0}, "match_limit is 0: at least 1 is needed"),
        ({"memory_limit": "much"}, "memory_limit is 'much'"),
        ({"budget": "long"}, "budget is 'long'"),
        ({"optimiser": "auto"}, "there is no option 'optimiser'; did you mean 'optimizer'?"),
        ({"watermark": "1 s"}, "watermark does not apply to a run in process: it is for a stream on Spark"),
        ({"keep_late": True}, "keep_late does not apply to a run in process"),
        ({"optimizer": "best"}, "optimizer is 'best': use one of auto"),
    ],
)
def test_a_wrong_option_is_an_error_that_says_what_will_do(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as raised:
        motet.run(EVENTS, QUERY, **keywords)
    assert message in str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, MotetError)


def test_an_option_object_is_checked_as_keywords_are() -> None:
    with pytest.raises(OptionError, match="watermark does not apply"):
        motet.run(EVENTS, QUERY, Options(watermark="1 s"))
    with pytest.raises(OptionError, match="options is a dict"):
        motet.run(EVENTS, QUERY, {"time": "at"})  # type: ignore[call-overload]


def test_keywords_win_over_the_object() -> None:
    settled = resolve_options("local", Options(time="at", counts="double"), {"counts": "exact"})
    assert (settled.time, settled.counts) == ("at", "exact")


def test_progress_is_for_runs_in_process() -> None:
    rows: list[int] = []
    motet.run(EVENTS, QUERY, progress=rows.append)
    assert rows == [3]
    with pytest.raises(OptionError, match="progress applies to runs in process only"):
        motet.run(EVENTS, QUERY, engine="oracle", progress=rows.append)  # type: ignore[call-overload]


def test_an_unknown_engine_is_an_error() -> None:
    with pytest.raises(OptionError, match="use one of local, spark, oracle"):
        motet.run(EVENTS, QUERY, engine="gpu")  # type: ignore[call-overload]


def test_events_and_workload_the_wrong_way_round_are_noticed() -> None:
    with pytest.raises(MotetError, match="events come first, then queries"):
        motet.plan(QUERY, EVENTS)
