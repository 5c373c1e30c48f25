"""The workloads of the papers parse as they are printed."""

from __future__ import annotations

from motet.language import parse
from motet.model.expression import Attribute, Comparison
from motet.model.pattern import And, Event, Repeat, Seq
from motet.model.query import Aggregate, AllVariables, GroupKey, Workload
from motet.model.window import TimeWindow

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
