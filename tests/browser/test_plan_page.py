"""The page of a plan in a browser: what is there, what clicks and keys do, and that it asks nothing of any network."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import motet
from tests.browser.conftest import look, opened

By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

SCHEMA = pa.schema(
    [("time", pa.timestamp("us")), ("type", pa.string()), ("key", pa.string()), ("x", pa.float64())],
)
FIVE = """
-- Two <b>steps</b> & more.
QUERY two RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [key] WITHIN 10 min SLIDE 1 min
QUERY three RETURN COUNT(*) PATTERN SEQ(A, B, C) WHERE [key] WITHIN 10 min SLIDE 1 min
QUERY other RETURN COUNT(*) PATTERN SEQ(C, B, D) WHERE [key] WITHIN 10 min SLIDE 1 min
QUERY pairs RETURN * PATTERN SEQ(A a, B b) WHERE [key] AND a.x < b.x WITHIN 10 min
QUERY triples RETURN * PATTERN SEQ(A a, B b, C c) WHERE [key] AND a.x < b.x WITHIN 10 min
"""


def many(queries: int) -> str:
    """Write queries that have parts in common."""
    letters = [f"T{at}" for at in range(40)]
    lines = []
    for number in range(queries):
        at = number * 7 % 33
        steps = letters[at : at + 3 + number % 5]
        lines.append(f"QUERY q{number} RETURN COUNT(*) PATTERN SEQ({', '.join(steps)}) WITHIN 10 min SLIDE 1 min")
    return "\n".join(lines)


def classes(element: Any) -> set[str]:
    return set((element.get_attribute("class") or "").split())


def buttons(browser: Any, name: str) -> Any:
    return next(each for each in browser.find_elements(By.CSS_SELECTOR, "#list button") if name in each.text)


@pytest.fixture(scope="module")
def five() -> str:
    return motet.plan(SCHEMA, FIVE).to_html()


def test_a_query_highlights_its_path(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)
    assert [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#list .name")] == [
        "two", "three", "other", "pairs", "triples",
    ]  # fmt: skip
    buttons(browser, "two").click()
    lit = browser.find_elements(By.CSS_SELECTOR, ".node.lit")
    assert {each.get_attribute("aria-label").split(",")[0] for each in lit} == {"start", "A", "B"}
    assert len(browser.find_elements(By.CSS_SELECTOR, ".node:not(.lit)")) >= 2
    said = browser.find_element(By.ID, "said").get_attribute("textContent")
    assert said == "two: 3 nodes of its path are highlighted"
    details = browser.find_element(By.ID, "details").text
    assert "PATTERN SEQ(A, B)" in details
    assert "Two <b>steps</b> & more." in details  # as text, not as markup
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert not browser.find_elements(By.CSS_SELECTOR, ".node.lit")


def test_a_node_says_who_shares_it(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)
    node = next(each for each in browser.find_elements(By.CSS_SELECTOR, ".node.shared") if each.text.startswith("A"))
    assert "shared by 2 queries" in node.get_attribute("aria-label")
    node.click()
    sharing = [
        each.text.split(" ")[0].split("\n")[0] for each in browser.find_elements(By.CSS_SELECTOR, "button.shares")
    ]
    assert sharing == ["two", "three"]
    chips = browser.find_elements(By.CSS_SELECTOR, "#details .chips button")
    assert [each.text for each in chips] == ["two", "three"]
    chips[1].click()
    assert "QUERY three" in browser.find_element(By.ID, "details").text


def test_joins_are_drawn_too(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)
    buttons(browser, "triples").click()  # another branch: its graph is shown
    selected = browser.find_element(By.CSS_SELECTOR, "[role=tab][aria-selected=true]")
    assert selected.text == "Branch 2: joins"
    lit = browser.find_elements(By.CSS_SELECTOR, ".node.lit")
    assert {"A", "B", "C"} <= {each.get_attribute("aria-label").split(",")[0] for each in lit}


def test_all_of_it_by_keys(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("/")
    search = browser.switch_to.active_element
    assert search.get_attribute("id") == "search"
    search.send_keys("SEQ(C, B")
    assert browser.find_element(By.ID, "found").text == "1 of 5 queries"
    search.send_keys(Keys.ENTER)
    assert "QUERY other" in browser.find_element(By.ID, "details").text
    search.send_keys(Keys.ESCAPE)
    search.clear()
    search.send_keys(" ", Keys.BACKSPACE, Keys.ARROW_DOWN)
    assert browser.switch_to.active_element.text.startswith("two")
    browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("aria-pressed") == "true"
    assert "QUERY three" in browser.find_element(By.ID, "details").text
    # From the list, Tab comes to the tabs, to the buttons of the graph, and to one node of it.
    for _ in range(12):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if "node" in classes(browser.switch_to.active_element):
            break
    node = browser.switch_to.active_element
    assert node.get_attribute("aria-label").startswith("start")
    assert browser.find_element(By.ID, "tip").is_displayed()
    outline = browser.execute_script("return getComputedStyle(arguments[0].querySelector('.ring')).stroke", node)
    assert outline != "none"
    node.send_keys(Keys.ARROW_RIGHT)
    following = browser.switch_to.active_element
    assert following != node
    following.send_keys(Keys.ENTER)
    assert following.get_attribute("aria-pressed") == "true"
    following.send_keys(Keys.ESCAPE)
    assert following.get_attribute("aria-pressed") == "false"


def test_light_dark_and_calm(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)

    def paper() -> str:
        return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

    light = paper()
    look(browser, "dark", motion="reduce")
    dark = paper()
    assert light != dark
    assert browser.execute_script("return getComputedStyle(document.querySelector('.node')).transitionDuration") == "0s"
    theme = browser.find_element(By.ID, "theme")
    theme.click()
    assert theme.text == "Theme: light"
    assert paper() == light
    theme.click()
    look(browser, "light")
    assert theme.text == "Theme: dark"
    assert paper() == dark
    theme.click()
    assert paper() == light


def test_every_control_has_a_name(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('button, input, [role=button], [role=tab], a')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length)))"
        ".map((e) => e.outerHTML)"
    )
    assert not nameless
    assert len(browser.find_elements(By.TAG_NAME, "h1")) == 1
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en"


def test_nothing_is_fetched(browser: Any, five: str, tmp_path: Path) -> None:
    opened(browser, five, tmp_path)
    assert browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)") == []
    for address in ("http:", "https:", "//cdn"):
        assert address not in five.replace("http://www.w3.org/2000/svg", "")


def test_two_hundred_queries(browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    page = motet.plan(SCHEMA, many(200), optimizer="prefix").to_html()
    made = time.monotonic()
    opened(browser, page, tmp_path)
    shown = time.monotonic()
    nodes = len(browser.find_elements(By.CSS_SELECTOR, ".node"))
    with capsys.disabled():
        size = f"{len(page) / 1e3:,.0f} kB, {nodes} nodes"
        sys.stdout.write(f"\n200 queries: {size}, made in {made - began:.1f} s, shown in {shown - made:.1f} s\n")
    assert 5 < nodes <= 200
    assert len(browser.find_elements(By.CSS_SELECTOR, "#list button")) == 200
    browser.find_element(By.ID, "search").send_keys("q19")
    assert browser.find_element(By.ID, "found").text == "11 of 200 queries"
    buttons(browser, "q190").click()
    road = browser.find_elements(By.CSS_SELECTOR, "#details ol.chips button")
    assert len(road) == 3 + 190 % 5
    assert browser.find_elements(By.CSS_SELECTOR, ".node.lit")
    everything = next(each for each in browser.find_elements(By.CSS_SELECTOR, "#views button") if "All" in each.text)
    everything.click()
    assert len(browser.find_elements(By.CSS_SELECTOR, ".node")) > nodes
    assert browser.find_elements(By.CSS_SELECTOR, ".node.lit")


def test_gloria_and_sharon(browser: Any, tmp_path: Path) -> None:
    routes = ("A, B, C", "A, B, D", "E, A, B", "F, A, B, D", "B, C")
    text = "\n".join(
        f"QUERY q{at} RETURN COUNT(*) PATTERN SEQ({route}) WITHIN 10 min SLIDE 1 min" for at, route in enumerate(routes)
    )
    opened(browser, motet.plan(SCHEMA, text, optimizer="gloria").to_html(), tmp_path)
    mark = browser.find_element(By.CSS_SELECTOR, ".set-mark")
    mark.click()
    lit = browser.find_elements(By.CSS_SELECTOR, ".edge.lit text")
    assert lit
    assert {each.text for each in lit} == {mark.text}  # a Q-set is told by its label, not by colour alone
    opened(browser, motet.plan(SCHEMA, text, optimizer="sharon").to_html(), tmp_path)
    browser.find_element(By.XPATH, "//button[.='Sharon: candidates']").click()
    assert browser.find_elements(By.CSS_SELECTOR, ".edge.conflict")
    heads = [each.text for each in browser.find_elements(By.CSS_SELECTOR, ".lane")]
    assert any(each.startswith("shared") for each in heads)


def test_a_run_is_shown_beside_what_was_expected(browser: Any, tmp_path: Path) -> None:
    rows = {
        "time": pa.array([60_000_000 * at for at in range(40)], pa.timestamp("us")),
        "type": [("A", "B", "C", "D")[at % 4] for at in range(40)],
        "key": ["u"] * 40,
        "x": [float(at % 3) for at in range(40)],
    }
    opened(browser, motet.plan(pa.table(rows), FIVE, analyze=True).to_html(), tmp_path)
    heads = [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#below h2")]
    assert {"Events", "Instances: estimated and found", "Time"} <= set(heads)
    assert "results" in buttons(browser, "pairs").text


def test_a_notebook_has_it_in_a_frame(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "cell.html"
    file.write_text(f"<!doctype html><title>cell</title>{motet.plan(SCHEMA, FIVE)._repr_html_()}")
    browser.get(file.as_uri())
    browser.switch_to.frame(browser.find_element(By.TAG_NAME, "iframe"))
    buttons(browser, "two").click()
    assert browser.find_elements(By.CSS_SELECTOR, ".node.lit")
    browser.find_element(By.ID, "theme").click()  # what it cannot remember here it does without
    browser.switch_to.default_content()
