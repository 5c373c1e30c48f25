"""Results that know their queries: shown, handed on, plotted."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import motet
from motet.errors import MotetError

EVENTS = pa.table(
    {
        "time": pa.array([1_000_000 * at for at in range(60)], pa.timestamp("us")),
        "type": [("A", "B", "C")[at % 3] for at in range(60)],
        "key": [("u", "<v>")[at % 2] for at in range(60)],
        "x": [float(at % 7) for at in range(60)],
    }
)
WORKLOAD = """
QUERY windows RETURN COUNT(*), MAX(b.x) AS top PATTERN SEQ(A, B b) GROUP BY key WITHIN 10 s SLIDE 10 s
QUERY always RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s
QUERY whole RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY key
QUERY found RETURN a.x AS one, b PATTERN SEQ(A a, B b) WHERE [key] AND a.x < b.x WITHIN 10 s
QUERY nothing RETURN COUNT(*) PATTERN SEQ(A, Z) WITHIN 10 s SLIDE 10 s
"""


@pytest.fixture(scope="module")
def result() -> motet.Result:
    return motet.ask(EVENTS, WORKLOAD)


def test_the_answer_is_that_of_run(result: motet.Result) -> None:
    assert result.to_arrow().equals(motet.run(EVENTS, WORKLOAD))
    assert pa.table(result).equals(result.to_arrow())
    assert len(result) == len(result.to_pandas())
    assert result.queries == ("windows", "always", "whole", "found", "nothing")
    assert result["windows"].column_names == ["window_start", "window_end", "key", "COUNT(*)", "top"]
    assert motet.ask(EVENTS.to_pandas(), WORKLOAD).to_arrow()["query"].equals(result.to_arrow()["query"])
    with pytest.raises(MotetError, match="did you mean 'windows'"):
        result["window"]
    with pytest.raises(MotetError, match="give to_spark the session"):
        result.to_spark()


def test_a_result_shows_itself_in_short(result: motet.Result) -> None:
    page = result._repr_html_()
    assert "&lt;v&gt;" in page
    assert "<v>" not in page
    assert "more rows" in page
    assert "<b>nothing</b>: no match" in page
    assert page.count("<tr>") <= 11 * 4
    assert "rows>" in repr(result)


def test_queries_and_workloads_show_their_text() -> None:
    workload = motet.read(WORKLOAD)
    assert "SEQ(A a, B b)" in workload["found"]._repr_html_()  # type: ignore[attr-defined]
    page = workload._repr_html_()  # type: ignore[attr-defined]
    assert page.count("<details>") == 5
    assert "a.x &lt; b.x" in page


def test_a_plan_shows_itself_in_a_frame() -> None:
    page = motet.plan(EVENTS, WORKLOAD)._repr_html_()
    assert page.startswith("<iframe")
    assert 'sandbox="allow-scripts"' in page
    assert "<script>" not in page  # all of it is one attribute


def test_plots(result: motet.Result) -> None:
    pytest.importorskip("altair")
    together = result.plot().to_dict()
    assert len(together["vconcat"]) == 4  # nothing to draw for the one without a result
    windows = result.plot("windows", y="top").to_dict()
    assert windows["encoding"]["y"]["title"] == "top"
    assert windows["encoding"]["color"]["title"] == "key"
    assert result.plot("whole").to_dict()["mark"]["type"] == "bar"
    assert result.plot("always").to_dict()["mark"]["interpolate"] == "step-after"
    assert result.plot("found").to_dict()["mark"]["type"] == "circle"
    with pytest.raises(MotetError, match="returns no 'bottom'"):
        result.plot("windows", y="bottom")
    with pytest.raises(MotetError, match="nothing to plot"):
        result.plot("nothing")


@pytest.mark.parametrize("times", [pa.timestamp("us"), pa.int64()])
def test_a_plot_has_no_line_over_windows_without_a_match(times: pa.DataType) -> None:
    pytest.importorskip("altair")
    unit = 1_000_000 if pa.types.is_timestamp(times) else 1
    at = [1, 2, 11, 12, 51, 52]  # of the windows that begin at 0, 10 and 50
    events = pa.table({"time": pa.array([unit * each for each in at], times), "type": ["A", "B"] * 3})
    drawn = motet.ask(events, "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 10 s SLIDE 10 s").plot("q").to_dict()
    points = sorted((str(point["time"])[-8:], point["value"]) for point in drawn["data"]["values"])
    labels = [f"00:00:{each:02}" if pa.types.is_timestamp(times) else str(each) for each in (0, 10, 20, 50)]
    assert points == list(zip(labels, (1, 1, None, 1), strict=True))
    assert drawn["encoding"]["y"]["axis"] == {"tickMinStep": 1}  # a count has no tenths


def test_what_is_missing_is_said(result: motet.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MotetError, match=r"pip install 'motet\[plot\]'"):
        result.plot()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MotetError, match="to_pandas needs pandas"):
        result.to_pandas()


@pytest.mark.spark
def test_answers_come_from_spark_and_go_there(result: motet.Result, spark) -> None:  # type: ignore[no-untyped-def]
    there = motet.ask(spark.createDataFrame(EVENTS.to_pandas()), "QUERY n RETURN COUNT(*) PATTERN SEQ(A, B)")
    assert "has not run yet" in there._repr_html_()
    assert there.to_spark() is there.content
    assert len(there) == 1
    assert "<table>" in there._repr_html_()
    to_json_value = motet.ask(EVENTS, "QUERY n RETURN COUNT(*) PATTERN SEQ(A, B)")
    assert to_json_value.to_spark(spark).count() == 1
