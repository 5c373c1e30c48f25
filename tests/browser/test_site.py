"""The documentation in a browser, read from files: it can be searched, and nothing is cut off on a small screen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WIDTH = 1280
# What is cut off: the page itself, code that is wider than its box, tables and images that nobody can scroll to.
CUT_OFF = """
const wide = document.documentElement.scrollWidth > window.innerWidth ? ["page"] : [];
const code = [...document.querySelectorAll(".md-content pre code")].filter(
  (each) => each.scrollWidth > each.clientWidth + 1
);
const right = document.querySelector(".md-content").getBoundingClientRect().right + 1;
const others = [...document.querySelectorAll(".md-content table, .md-content img, .md-content svg")].filter(
  (each) => !each.closest(".md-typeset__scrollwrap") && each.getBoundingClientRect().right > right
);
const outputs = [...document.querySelectorAll(".md-content .output")].filter(
  (each) => each.scrollWidth > each.clientWidth + 1
);
return [...wide, ...[...code, ...others, ...outputs].map((each) => each.textContent.slice(0, 300) || each.src)];
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        check=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    return folder


@pytest.fixture
def small(browser: Any) -> Iterator[Any]:
    """The browser with a small window."""
    before = browser.get_window_size()
    browser.set_window_size(WIDTH, 900)
    yield browser
    browser.set_window_size(before["width"], before["height"])


def test_the_site_is_searched_from_files(browser: Any, site: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((site / "howto" / "funnels.html").as_uri())
    browser.execute_script("document.querySelector('[data-md-toggle=search]').click()")
    browser.find_element("css selector", "input.md-search__input").send_keys("watermark")
    found = WebDriverWait(browser, 120).until(
        lambda page: [
            each.get_attribute("href") for each in page.find_elements("css selector", "a.md-search-result__link")
        ]
    )
    assert any("streaming.html" in link for link in found)


def test_nothing_is_cut_off(small: Any, site: Path) -> None:
    found = {}
    for page in sorted(set(site.rglob("*.html")) - {site / "404.html"}):
        small.get(page.as_uri())
        found[page.relative_to(site).as_posix()] = small.execute_script(CUT_OFF)
    assert {page: cut for page, cut in found.items() if cut} == {}


def test_pages_of_plans_are_drawn_in_notebooks(browser: Any, site: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    drawn = 0
    for page in sorted((site / "notebooks").glob("*.html")):
        browser.get(page.as_uri())
        for frame in browser.find_elements("css selector", ".md-content iframe"):
            browser.execute_script("arguments[0].scrollIntoView()", frame)
            browser.switch_to.frame(frame)
            WebDriverWait(browser, 30).until(
                lambda inside: inside.execute_script("return document.documentElement.dataset.ready") == "yes"
            )
            assert browser.find_elements("css selector", ".node")
            browser.switch_to.default_content()
            drawn += 1
    assert drawn
