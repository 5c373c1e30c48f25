"""Pages of few and of many queries: nothing lies over anything else, and nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import motet
from motet import datasets
from tests.browser.conftest import opened
from tests.browser.geometry import find_faults, set_window
from tests.browser.workloads import SCHEMA, make_shop_events, write_shop_queries

By = pytest.importorskip("selenium.webdriver.common.by").By

FLIGHTS = 60  # queries that come with the data
# Patterns in any order, which branch most: alone, inside a sequence, with alternatives, as matches, and of many parts.
ANY_ORDER = """
QUERY both RETURN COUNT(*) PATTERN SEQ(search, AND(view_item, apply_coupon), sign_out)
WHERE [user] WITHIN 1 h SLIDE 1 h
QUERY nested RETURN COUNT(*) PATTERN AND(search, view_item, SEQ(apply_coupon, sign_out))
WHERE [user] WITHIN 1 h SLIDE 1 h
QUERY either RETURN COUNT(*) PATTERN SEQ(search, OR(AND(view_item, apply_coupon), sign_out+))
WHERE [user] WITHIN 1 h SLIDE 1 h
QUERY found RETURN * PATTERN AND(search a, view_item b, sign_out c) WHERE [user] AND a.amount < c.amount WITHIN 1 h
QUERY many RETURN COUNT(*) PATTERN AND(search, view_item, apply_coupon, sign_out) WHERE [user] WITHIN 1 h SLIDE 1 h
"""
# Nothing of a graph is beyond its frame.
IS_WHOLE = """
const frame = document.querySelector("#graph");
return frame.scrollWidth <= frame.clientWidth + 1 && frame.scrollHeight <= frame.clientHeight + 1;
"""


@cache
def render(queries: int | str) -> str:
    """Return the page of so many queries of a shop, of those that come with the flights, or of a text."""
    if isinstance(queries, str):
        return motet.plan(SCHEMA, queries).to_html()
    if queries == FLIGHTS:
        return motet.plan(
            datasets.load("nyc_flights").slice(0, 20_000), datasets.workload_path("nyc_flights"), analyze=True
        ).to_html()
    ran = {"events": make_shop_events(3_000), "analyze": True} if queries <= 100 else {"events": SCHEMA}
    return motet.plan(workload=write_shop_queries(queries), **ran).to_html()  # type: ignore[arg-type]


def visit_views(browser: Any) -> Iterator[str]:
    """Show each view of each graph in turn, and yield its name."""
    tabs = len(browser.find_elements(By.CSS_SELECTOR, "#tabs button"))
    for tab in range(tabs):
        browser.execute_script(f"document.querySelectorAll('#tabs button')[{tab}].click()")
        for view in range(len(browser.find_elements(By.CSS_SELECTOR, "#views button")) or 1):
            browser.execute_script(f"document.querySelectorAll('#views button')[{view}]?.click()")
            yield f"graph {tab}, view {view}"


@pytest.mark.parametrize("queries", [1, 13, FLIGHTS, 100, 500, pytest.param(ANY_ORDER, id="any order")])
def test_nothing_overlaps_or_is_cut_off(browser: Any, queries: int | str, tmp_path: Path) -> None:
    for width in (1280, 1920):
        set_window(browser, width)
        opened(browser, render(queries), tmp_path)
        for where in visit_views(browser):
            assert not find_faults(browser), f"{queries} queries at {width}: {where}"
            if where.endswith("view 0"):  # the one that is shown first
                assert browser.execute_script(IS_WHOLE), (
                    f"{queries} queries at {width}: {where} is in part out of sight"
                )
        browser.execute_script("document.querySelectorAll('#list button')[0].click()")
        assert not find_faults(browser), f"{queries} queries at {width}: a query is chosen"


@pytest.mark.parametrize(
    ("harm", "seen"),
    [
        ("n[2].setAttribute('transform', n[1].getAttribute('transform'))", "one over the other"),
        ("n[1].querySelector('text').setAttribute('textLength', 400)", "out of its box"),
        ("n[1].setAttribute('transform', 'translate(-60,20)')", "cut off: node"),
        ("mark.setAttribute('y', 0)", "cut off: label"),
        ("n[1].querySelector('text').textContent = 'a name that…'", "shortened"),
        ("n[1].querySelector('text').style.fontSize = '7px'", "too small"),
        ("document.querySelector('.scroll').style.width = '2rem'", "scrolls sideways"),
        ("document.querySelector('.details').style.marginTop = '-9rem'", "panel over panel"),
        (
            "n.at(-1).setAttribute('transform',"
            " `translate(${mark.getAttribute('x') - 20},${mark.getAttribute('y') - 20})`)",
            "an arrow crosses",
        ),
    ],
)
def test_what_is_wrong_is_found(browser: Any, harm: str, seen: str, tmp_path: Path) -> None:
    text = "QUERY one RETURN COUNT(*) PATTERN SEQ(AND(search, view_item), sign_out) WITHIN 1 h SLIDE 1 h"
    set_window(browser, 1280)
    opened(browser, motet.plan(SCHEMA, text).to_html(), tmp_path)
    assert not find_faults(browser)
    things = "const n = [...document.querySelectorAll('.node')], mark = document.querySelector('.edge text');"
    browser.execute_script(f"{things} {harm}")
    assert any(seen in fault for fault in find_faults(browser))
