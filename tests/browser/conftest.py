"""A real browser, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import BrowserMissing, start_browser


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests of a worker."""
    pytest.importorskip("selenium.webdriver", reason="pages are tested with selenium, which is not here")
    try:
        found = start_browser(tmp_path_factory.mktemp("profile"))
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    yield found
    found.quit()


@pytest.fixture
def browser(driver: Any) -> Iterator[Any]:
    """The browser, as a new one would be; what a page complains of fails the test."""
    driver.get("about:blank")
    driver.get_log("browser")  # what an earlier test left
    look(driver, "light")
    yield driver
    complaints = [entry["message"] for entry in driver.get_log("browser")]
    assert not complaints


def look(browser: Any, scheme: str, motion: str = "no-preference") -> None:
    """Let the system prefer a light or a dark look, and motion or none."""
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": motion},
    ]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def opened(browser: Any, page: str, folder: Path) -> None:
    """Open a page as a file, and wait until it says that it is ready."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    browser.get(file.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"
