"""Nothing hangs or explodes without a word: what is too large is refused, and the refusal names the part."""

from __future__ import annotations

import os
import random
import time
from functools import partial

import pyarrow as pa
import pytest

import motet
from motet.errors import QueryError
from tests.growth import measure_cpu_times

TYPES = [f"T{number}" for number in range(25)]
ANY_TYPE = f"OR({', '.join(TYPES)})"
EVENTS = pa.table({"time": list(range(20)), "type": ["A", "B"] * 10, "x": list(range(20)), "k": [1] * 20})
SECONDS = 60.0  # of the processor: each of these takes a few, and what explodes would take hours

REFUSED = {
    "copies": ("RETURN COUNT(*) PATTERN SEQ(B, A{1,1000000}) WITHIN 10 s", "this stands for 1,000,000 events"),
    "fewer copies": ("RETURN COUNT(*) PATTERN SEQ(B, A{1,5000}) WITHIN 10 s", "this stands for 5,000 events"),
    "copies of matches": ("RETURN * PATTERN A{1,5000} a WITHIN 10 s", "this stands for 5,000 events"),
    "copies of copies": ("RETURN COUNT(*) PATTERN ((A{1,20}){1,20}){1,20} WITHIN 10 s", "this stands for 8,000 events"),
    "a long sequence": (
        f"RETURN COUNT(*) PATTERN SEQ({', '.join(['A'] * 3000)}) WITHIN 10 s",
        "this stands for 3,000 events",
    ),
    "windows": (
        "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 20000000 days SLIDE 1 day",
        "SLIDE is too short: each event is in 20,000,000 windows",
    ),
    "short slides": (
        "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 days SLIDE 1 us",
        "SLIDE is too short: each event is in 864,000,000,000 windows",
    ),
    "conditions": (
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE {' AND '.join(['a.x > 1'] * 350_000)} WITHIN 10 s",
        "WHERE has 4,200,002 letters",
    ),
    "fewer conditions": (
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE {' AND '.join(f'a.x > {at}' for at in range(6000))} WITHIN 10 s",
        "WHERE has 6,000 conditions",
    ),
    "words": (
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE a.x IN ({','.join(['1'] * 60_000)}) WITHIN 10 s",
        "WHERE has 120,0",
    ),
    "brackets": (
        f"RETURN COUNT(*) PATTERN SEQ(A a, B) WHERE {'(' * 5000}a.x > 1{')' * 5000} WITHIN 10 s",
        "WHERE is nested too deeply",
    ),
    "a text that is no query": ("A " * 500_000, "what is before the first clause has 1,000,000 letters"),
    "optional events": (
        f"RETURN COUNT(*) PATTERN SEQ({', '.join(['A?'] * 1000)}) WITHIN 10 s",
        "there are 499,500 ways from one event of this to one that may follow",
    ),
    "nothing": ("", "there is no query here"),
    "a comment": ("-- nothing", "there is no query here"),
    "operators": (
        f"RETURN COUNT(*) PATTERN {'OR(A, ' * 500}B{')' * 500} WITHIN 10 s",
        "PATTERN is nested too deeply",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_query_that_asks_for_too_much_is_refused(case: str) -> None:
    query, message = REFUSED[case]
    before = time.process_time()
    with pytest.raises(QueryError) as refused:
        motet.plan(EVENTS, query)
    assert message in str(refused.value)
    assert len(str(refused.value)) < 2000, "a message shows the place, not the whole line"
    assert time.process_time() - before < SECONDS


PLANNED = {
    "all orders of 25 types": f"RETURN COUNT(*) PATTERN AND({', '.join(TYPES)}) WITHIN 10 s SLIDE 10 s",
    "matches of 25 types": f"RETURN * PATTERN AND({', '.join(TYPES)}) WITHIN 10 s",
    "25 repeated types": f"RETURN COUNT(*) PATTERN AND({'+, '.join(TYPES)}+) WITHIN 10 s SLIDE 10 s",
    "the most copies": "RETURN COUNT(*) PATTERN A{1,1000} WITHIN 10 s SLIDE 10 s",
    "many alternatives": f"RETURN COUNT(*) PATTERN SEQ({', '.join([ANY_TYPE] * 40)}) WITHIN 10 s SLIDE 10 s",
    "repetitions of repetitions": f"RETURN COUNT(*) PATTERN {'(' * 20}A+{')+' * 20} WITHIN 10 s SLIDE 10 s",
    "the most windows": "RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 1000000 s SLIDE 1 s",
    "many conditions": "RETURN COUNT(*) PATTERN SEQ(A a, B b) WHERE "
    + " AND ".join(f"a.x + b.x > {at}" for at in range(500))
    + " WITHIN 10 s",
}


@pytest.mark.parametrize("case", PLANNED)
def test_what_is_just_within_the_limits_is_planned_and_run_in_seconds(case: str) -> None:
    before = time.process_time()
    motet.plan(EVENTS, PLANNED[case])
    motet.run(EVENTS, PLANNED[case])
    assert time.process_time() - before < SECONDS


def random_queries(count: int) -> str:
    """Sequences of two to four of forty types, with three kinds of window."""
    rng = random.Random(3)
    texts = []
    for number in range(count):
        types = rng.sample(range(40), rng.randint(2, 4))
        window = rng.choice(["WITHIN 10 min SLIDE 1 min", "WITHIN 20 min SLIDE 5 min", "WITHIN 5 min"])
        pattern = ", ".join([f"T{types[0]}{rng.choice(['', '+'])}", *(f"T{each}" for each in types[1:])])
        returns = rng.choice(["COUNT(*)", f"COUNT(*), SUM(T{types[0]}.x)"])
        texts.append(f"QUERY q{number} RETURN {returns} PATTERN SEQ({pattern}) GROUP BY k {window}")
    return "\n".join(texts)


def test_each_of_a_thousand_queries_is_planned_as_fast_as_each_of_a_hundred() -> None:
    few, many = random_queries(100), random_queries(1000)
    short, long = measure_cpu_times(partial(motet.plan, EVENTS, few), partial(motet.plan, EVENTS, many), rounds=2)
    assert long < 20 * short


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("MOTET_LONG"), reason="half a minute: MOTET_LONG=1")
def test_ten_thousand_queries_are_compiled_and_planned_in_under_a_hundred_seconds() -> None:
    before = time.process_time()
    motet.plan(EVENTS, random_queries(10_000))
    assert time.process_time() - before < 100.0
