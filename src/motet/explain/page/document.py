"""Puts a page together: one file with its own style, script and data, that asks nothing of any network."""

from __future__ import annotations

import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

# Nothing may be fetched but what is named here; the live page asks the server that it came from.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def document(name: str, data: dict[str, Any], policy: str = POLICY) -> str:
    """The page of a name, with its data inside."""
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(f"{name.capitalize()}: {data['title']}"),
        "body": asset(f"{name}.html"),
        "style": asset("base.css") + asset(f"{name}.css"),
        "script": asset("base.js") + asset(f"{name}.js"),
        "data": embedded(data),
    }
    page = asset("frame.html")
    for mark, text in parts.items():
        page = page.replace(f"<!--{mark}-->", text, 1)
    return page


def framed(page: str, title: str, height: int = 720) -> str:
    """A page inside another, such as a notebook: its style and script keep to themselves."""
    return (
        f'<iframe title="{html.escape(title)}" srcdoc="{html.escape(page)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {height}px; border: 1px solid #8888; border-radius: 8px"></iframe>'
    )


def embedded(data: dict[str, Any]) -> str:
    """JSON that no script element ends in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def asset(name: str) -> str:
    """A file of the page."""
    return files("motet.explain.page").joinpath("assets", name).read_text(encoding="utf-8")
