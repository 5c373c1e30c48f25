"""Charts as files: a browser shows them without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import motet
from benchmarks.chart import write_chart
from benchmarks.registry import load_experiments
from benchmarks.run import Result

By = pytest.importorskip("selenium.webdriver.common.by").By
pytest.importorskip("altair")

ROOT = Path(__file__).parents[2]
EVENTS = pa.table({"time": list(range(40)), "type": ["A", "B"] * 20, "key": ["u", "u", "v", "v"] * 10})
QUERY = "QUERY pairs RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY key WITHIN 10 s SLIDE 10 s"


def assert_drawn_offline(browser: Any, file: Path) -> None:
    browser.get(file.as_uri())
    assert browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    assert browser.find_elements(By.CSS_SELECTOR, "#vis canvas, #vis svg")


@pytest.mark.filterwarnings("error:inline argument")
def test_a_plot_of_results(browser: Any, tmp_path: Path) -> None:
    chart = motet.ask(EVENTS, QUERY).plot("pairs")
    chart.save(tmp_path / "plot.html")
    assert_drawn_offline(browser, tmp_path / "plot.html")
    wider = chart.properties(width=900)  # altair's own methods go on
    shown = wider._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert "text/html" not in shown  # which would load a script


# Text that is cut off by the edge of a picture, or lies over other text.
FAULTS = """
const svg = document.querySelector("svg"), paper = svg.getBoundingClientRect();
const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim());
const boxes = texts.map((each) => each.getBoundingClientRect());
const faults = [];
boxes.forEach((box, at) => {
  if (box.left < paper.left || box.right > paper.right || box.top < paper.top || box.bottom > paper.bottom)
    faults.push(`cut off: ${texts[at].textContent}`);
  if (texts[at].textContent.endsWith("…")) faults.push(`shortened: ${texts[at].textContent}`);
  boxes.slice(0, at).forEach((other, before) => {
    const across = box.left < other.right - 1 && other.left < box.right - 1;
    if (across && box.top < other.bottom - 3 && other.top < box.bottom - 3)
      faults.push(`${texts[before].textContent} over ${texts[at].textContent}`);
  });
});
return faults;
"""


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.svg")), ids=lambda file: file.stem)
def test_text_of_a_picture_is_whole(browser: Any, picture: Path) -> None:
    browser.get(picture.as_uri())
    assert browser.execute_script(FAULTS) == []


@pytest.mark.filterwarnings("error:inline argument")
def test_a_chart_of_an_experiment(browser: Any, tmp_path: Path) -> None:
    experiment = next(each for each in load_experiments().values() if each.axes is not None and not each.axes.by)
    axes = experiment.axes
    assert axes is not None
    rows = [{axes.x: at, **dict.fromkeys(axes.series, at * 2.0)} for at in (1, 2, 3)]
    result = Result(**{**dict.fromkeys(Result.__dataclass_fields__, ""), "name": experiment.name, "rows": rows})
    assert write_chart(result, tmp_path / "chart.html")
    assert_drawn_offline(browser, tmp_path / "chart.html")
