"""Start Chromium without a window, with nothing of anyone's in its profile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

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


class BrowserMissing(Exception):
    """Chromium or its chromedriver is not on this machine."""


def start_browser(profile: Path, *more: str) -> Any:
    """Start the browser that is on the path, or that MOTET_CHROMIUM and MOTET_CHROMEDRIVER name, with more switches."""
    from selenium import webdriver

    chromium = os.environ.get("MOTET_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = os.environ.get("MOTET_CHROMEDRIVER") or shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        raise BrowserMissing("pages are shown in Chromium: neither it nor its chromedriver may be missing")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, *more, f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
