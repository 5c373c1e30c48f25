"""A real browser, where there is one: Chromium without a window, with nothing of anyone's in its profile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1500,1100",
)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all tests of a worker."""
    selenium = pytest.importorskip("selenium.webdriver", reason="pages are tested with selenium, which is not here")
    chromium = os.environ.get("MOTET_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = os.environ.get("MOTET_CHROMEDRIVER") or shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("pages are tested in Chromium: neither it nor its chromedriver may be missing")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = selenium.Chrome(options=options, service=selenium.ChromeService(chromedriver))
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
