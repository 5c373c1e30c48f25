"""The workloads of the papers parse as they are printed."""

from __future__ import annotations

import pyarrow as pa
import pytest

import motet
from motet.language import parse
from motet.model.expression import Attribute, Comparison
from motet.model.pattern import And, Event, Repeat, Seq
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


def test_files_of_the_gloria_authors() -> None:
    # Grouping by the attribute of a type, which RETURN repeats; a type that occurs twice.
    workload = parse(
        """
        RETURN CBAY.open_level, COUNT(*)
        PATTERN SEQ(CBAY, AAPL+, CBAY)
        WHERE [sector]
        GROUP-BY CBAY.open_level
        WITHIN 10 min SLIDE 5 min

        RETURN CBAY.open_level, COUNT(*)
        PATTERN SEQ(CBAY, SEQ(AAPL, CBAY)+)
        GROUP-BY CBAY.open_level
        WITHIN 10 min SLIDE 5 min
        """
    )
    assert [query.group_by for query in workload.queries] == [("open_level",), ("open_level",)]
    minute = 60
    rows = [(0, "CBAY", 1), (1, "AAPL", 1), (2, "AAPL", 1), (3, "CBAY", 1), (4, "AAPL", 2), (4, "CBAY", 2)]
    events = pa.Table.from_pylist(
        [{"time": at * minute, "type": kind, "open_level": level, "sector": "s"} for at, kind, level in rows]
    )
    result = motet.run(events, workload)
    assert_same_results(result, enumerate_table(workload, events))
    first = [(row["open_level"], row["COUNT(*)"]) for row in result.to_pylist() if row["window_start"] == 0]
    assert first == [(1, 3), (1, 2)]


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
