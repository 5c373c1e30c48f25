"""The workloads of the papers parse as they are printed."""

from __future__ import annotations

import random
import re
from itertools import cycle, product

import pyarrow as pa
import pytest

import motet
from motet.language import parse
from motet.model.expression import Attribute, Comparison, Literal
from motet.model.pattern import And, Event, Repeat, Seq
from motet.model.pattern import events as written_events
from motet.model.query import Aggregate, AllVariables, GroupKey, Policy, Workload
from motet.model.window import TimeWindow
from motet.reference.tables import run_table as enumerate_table
from tests.comparison import assert_same_results

SECOND = 1_000_000
MINUTE = 60 * SECOND


def sequence(*types: str) -> Seq:
    return Seq(tuple(map(Event, types)))


def patterns(workload: Workload) -> dict[str, object]:
    return {query.name: query.pattern for query in workload.queries}


def test_sharon_figure_1_the_traffic_workload() -> None:
    workload = parse(
        """

q1: RETURN COUNT(*)
    PATTERN OakSt, MainSt, StateSt
    WHERE [vehicle] WITHIN 10 min SLIDE 1 min

q2: OakSt, MainSt, WestSt      q5: MainSt, StateSt
q3: LindenSt, ParkAve, OakSt, MainSt  q6: EastPark, ElmSt, ParkAve
q4: ParkAve, OakSt, MainSt, WestSt  q7: ElmSt, ParkAve, GreenHill

"""
    )
    assert patterns(workload) == {
        "q1": sequence("OakSt", "MainSt", "StateSt"),
        "q2": sequence("OakSt", "MainSt", "WestSt"),
        "q3": sequence("LindenSt", "ParkAve", "OakSt", "MainSt"),
        "q4": sequence("ParkAve", "OakSt", "MainSt", "WestSt"),
        "q5": sequence("MainSt", "StateSt"),
        "q6": sequence("EastPark", "ElmSt", "ParkAve"),
        "q7": sequence("ElmSt", "ParkAve", "GreenHill"),
    }
    for query in workload.queries:
        assert query.returns == (Aggregate("COUNT"),)
        assert query.equivalence == ("vehicle",)
        assert query.window == TimeWindow(10 * MINUTE, MINUTE)


def test_sharon_figure_2_the_purchase_workload() -> None:
    workload = parse(
        """
q8: RETURN COUNT(*)
    PATTERN Laptop, Case, Adapter, Mouse
    WHERE [customer] WITHIN 20 min SLIDE 1 min

q9: Laptop, Case, KeyBoardProtector
q10: Monitor, Laptop, Case, Adapter
q11: Laptop, Case, Phone, ScreenProtector
"""
    )
    assert list(patterns(workload)) == ["q8", "q9", "q10", "q11"]
    assert workload["q11"].pattern == sequence("Laptop", "Case", "Phone", "ScreenProtector")
    assert {query.window for query in workload.queries} == {TimeWindow(20 * MINUTE, MINUTE)}
    assert {query.equivalence for query in workload.queries} == {("customer",)}


def test_gloria_figure_1_the_delivery_workload() -> None:
    workload = parse(
        """Query:
RETURN district, SUM (Travel.duration)
PATTERN P
WHERE [driver_id] GROUP_BY district
WINDOW 20min SLIDE 5 min

q_1 : Request, (Pickup, Travel)+, Delivery
q_2 : AppOrder, Request, (Pickup, Travel)+, Delivery
q_3 : AppOrder, Request, (Pickup, Travel)+, Cancel
"""
    )
    travels = Repeat(sequence("Pickup", "Travel"), 1, None)
    assert patterns(workload) == {
        "q_1": Seq((Event("Request"), travels, Event("Delivery"))),
        "q_2": Seq((Event("AppOrder"), Event("Request"), travels, Event("Delivery"))),
        "q_3": Seq((Event("AppOrder"), Event("Request"), travels, Event("Cancel"))),
    }
    for query in workload.queries:
        assert query.returns == (GroupKey("district"), Aggregate("SUM", "Travel", "duration"))
        assert query.partition == ("district", "driver_id")
        assert query.window == TimeWindow(20 * MINUTE, 5 * MINUTE)


MOTTO = {
    "q_1": sequence("E_1", "E_2", "E_3"),
    "q_2": sequence("E_1", "E_3"),
    "q_3": sequence("E_1", "E_2", "E_4"),
    "q_4": sequence("E_2", "E_4", "E_3"),
    "q_5": And((Event("E_1"), Event("E_3"))),
}


def test_motto_listing_1_as_set_in_the_text() -> None:
    workload = parse(
        r"$q_1 = \text{SEQ}(E_1, E_2, E_3), q_2 = \text{SEQ}(E_1, E_3),$ $q_3 = \text{SEQ}(E_1, E_2, E_4), "
        r"q_4 = \text{SEQ}(E_2, E_4, E_3),$ $q_5 = \text{CONJ}(E_1 \& E_3)$"
    )
    assert patterns(workload) == MOTTO
    assert {query.returns for query in workload.queries} == {(AllVariables(),)}


def test_motto_listing_1_as_plain_text() -> None:
    workload = parse(
        """q_1 = SEQ(E_1, E_2, E_3), q_2 = SEQ(E_1, E_3),
        q_3 = SEQ(E_1, E_2, E_4), q_4 = SEQ(E_2, E_4, E_3),
        q_5 = CONJ(E_1 & E_3)"""
    )
    assert patterns(workload) == MOTTO


def test_a_seq_application_1_network_security() -> None:
    query = parse(
        "PATTERN <SEQ(TypeUsername,TypePassword,ClickSubmit)> "
        "WHERE <TypePassword.value!=TypeUsername.Password> GROUP BY <IP>\n\n[AGG COUNT] [WITHIN 10s]"
    ).queries[0]
    assert query.pattern == sequence("TypeUsername", "TypePassword", "ClickSubmit")
    assert query.conditions == (
        Comparison("!=", Attribute("TypePassword", "value"), Attribute("TypeUsername", "Password")),
    )
    assert query.group_by == ("IP",)
    assert query.returns == (Aggregate("COUNT"),)
    assert query.window == TimeWindow(10 * SECOND)


def test_a_seq_application_2_e_commerce() -> None:
    query = parse(
        """PATTERN <SEQ(Kindle, KindleCase, Stylus)> WHERE <Kindle.userId=KindleCase.userId=Stylus.userId>

[AGG COUNT] [WITHIN 1hour]"""
    ).queries[0]
    kindle, case, stylus = (Attribute(name, "userId") for name in ("Kindle", "KindleCase", "Stylus"))
    assert query.conditions == (Comparison("=", kindle, case), Comparison("=", case, stylus))
    assert query.window == TimeWindow(60 * MINUTE)


def test_a_seq_example_6_five_queries() -> None:
    workload = parse(
        """Q1 = SEQ(VKindle, BKindle, VCase, BCase)
Q2 = SEQ(VKindle, BKindle, VKindleFire)
Q3 = SEQ(VKindle, BKindle, VCase, BCase, VeBook, BeBook)
Q4 = SEQ(VKindle, BKindle, VCase, BCase, VLight, BLight)
Q5 = SEQ(Vipad, VKindleFire, VKindle, BKindle)
"""
    )
    assert list(patterns(workload)) == ["Q1", "Q2", "Q3", "Q4", "Q5"]
    assert workload["Q5"].pattern == sequence("Vipad", "VKindleFire", "VKindle", "BKindle")


# The form of the Gloria authors' files: the name of a query on a line of its own, the grouping attribute of a type,
# which RETURN repeats, and patterns without spaces after some commas. Types are stocks, stops and zones by two to five
# letters, some of which are words of the language.
GLORIA_PATTERNS = [
    "SEQ(RIOT, CBAY,OBSV,LFVN,TOPS, ON)",
    "SEQ(CBAY+, PDP,TRUE)",
    "CBAY+",
    "SEQ(SEQ(CBAY,PRTO,KL,PLW)+, NO,IN)",
    "SEQ(SEQ(CBAY,SEQ(PDP,SEQ(ICAD,SEQ(TOPS,OBSV)+,GAIA)+,AGFS)+,SASR)+, IS,SQE)",
    "SEQ(CBAY+, PDP,SQQQ,CBAY)",
    "SEQ(MI, CBAY,KL,NEXT,LE, CBAY)",
    "SEQ(SEQ(CBAY,OR,AS)+, AND)",
]
GLORIA_QUERY = """q{number}
RETURN CBAY.open_level, {value}
PATTERN {pattern}
WHERE CBAY.vol > {least}
GROUP-BY CBAY.open_level
WITHIN {size} min SLIDE 5 min

"""
GLORIA_VALUES = ["COUNT(*)", "SUM(CBAY.open)", "AVG(CBAY.open)"]


def make_gloria_file() -> str:
    """Return a file of the authors' form: every pattern with every value."""
    kinds = product(GLORIA_PATTERNS, GLORIA_VALUES)
    settings = cycle(product((30, 100), (5, 10, 15, 20)))
    return "".join(
        GLORIA_QUERY.format(number=number, pattern=pattern, value=value, least=least, size=size)
        for number, ((pattern, value), (least, size)) in enumerate(zip(kinds, settings, strict=False))
    )


def test_files_of_the_gloria_authors() -> None:
    workload = parse(make_gloria_file())
    assert [query.name for query in workload.queries] == [f"q{number}" for number in range(len(GLORIA_PATTERNS) * 3)]
    assert {query.group_by for query in workload.queries} == {("open_level",)}
    assert {query.returns[0] for query in workload.queries} == {GroupKey("open_level")}
    assert {query.conditions for query in workload.queries} == {
        (Comparison(">", Attribute("CBAY", "vol"), Literal(least)),) for least in (30, 100)
    }
    first, *_, last = workload.queries
    assert first.pattern == sequence("RIOT", "CBAY", "OBSV", "LFVN", "TOPS", "ON")
    assert last.pattern == Seq((Repeat(sequence("CBAY", "OR", "AS"), 1, None), Event("AND")))
    assert last.window == TimeWindow(20 * MINUTE, 5 * MINUTE)


def test_files_of_the_gloria_authors_give_the_results_of_plain_enumeration() -> None:
    workload = parse(make_gloria_file())
    dice = random.Random(3)
    types = sorted({event.type for query in workload.queries for event in written_events(query.pattern)})
    # Each pattern is there in order, and others between its events.
    written = [re.findall(r"\w+", pattern.replace("SEQ", "")) for pattern in GLORIA_PATTERNS]
    kinds = [(kind, level, 200) for level in (1, 2) for pattern in written for kind in pattern]
    for _ in range(20):
        kinds.insert(dice.randrange(len(kinds)), (dice.choice(types), dice.choice([1, 2]), dice.choice([20, 50, 200])))
    rows = [
        {"time": at * 5, "type": kind, "open_level": level, "vol": vol, "open": dice.randint(1, 9)}
        for at, (kind, level, vol) in enumerate(kinds)
    ]
    events = pa.Table.from_pylist(rows)
    result = motet.run(events, workload)
    assert_same_results(result, enumerate_table(workload, events))
    assert set(result["query"].to_pylist()) == {query.name for query in workload.queries}


def test_hamlet_query_1() -> None:
    workload = parse(
        """
        RETURN T.district, COUNT(*), SUM(T.duration)
        PATTERN SEQ(R, T+, P)
        WHERE T.speed < 10 AND [driver, rider]
        GROUP-BY T.district
        WITHIN 10 min SLIDE 5 min
        """
    )
    (query,) = workload.queries
    assert (query.group_by, query.equivalence) == (("district",), ("driver", "rider"))


@pytest.mark.parametrize(
    ("semantics", "policy"),
    [
        ("contiguous", Policy.CONTIGUOUS),
        ("skip-till-next-match", Policy.SKIP_TILL_NEXT),
        ("skip-till-any-match", Policy.SKIP_TILL_ANY),
    ],
)
def test_cogra_query_1_under_each_semantics(semantics: str, policy: Policy) -> None:
    workload = parse(
        f"""
        RETURN patient, MIN(M.rate), MAX(M.rate)
        PATTERN Measurement M+
        SEMANTICS {semantics}
        WHERE [patient] AND M.rate < NEXT(M).rate AND M.activity = passive
        GROUP-BY patient
        WITHIN 10 minutes SLIDE 30 seconds
        """
    )
    (query,) = workload.queries
    assert (query.policy, query.group_by) == (policy, ("patient",))
