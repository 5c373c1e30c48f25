"""Builds a page: one file with its own style, script and data that loads nothing from any network."""

from __future__ import annotations

import html
import json
from functools import cache
from importlib.resources import files
from typing import Any

# Nothing may be fetched but what is named here; the live page asks the server that it came from.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def build_document(name: str, data: dict[str, Any], policy: str = POLICY) -> str:
    """Build the page of a name, with its data inside."""
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(f"{name.capitalize()}: {data['title']}"),
        "body": read_asset(f"{name}.html"),
        "style": read_asset("base.css") + read_asset(f"{name}.css"),
        "script": read_asset("base.js") + read_asset(f"{name}.js"),
        "data": encode_for_script(data),
    }
    page = read_asset("frame.html")
    for mark, text in parts.items():
        page = page.replace(f"<!--{mark}-->", text, 1)
    return page


def embed_in_iframe(page: str, title: str) -> str:
    """Embed a page in another, such as a notebook, apart from its style and script."""
    return (
        f'<iframe title="{html.escape(title)}" srcdoc="{html.escape(page)}" sandbox="allow-scripts" '
        f'style="width: 100%; height: 720px; border: 1px solid #8888; border-radius: 8px"></iframe>'
    )


def encode_for_script(data: dict[str, Any]) -> str:
    """Return JSON that cannot end the script element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def read_asset(name: str) -> str:
    """Return the text of an asset."""
    return files("motet.explain.page").joinpath("assets", name).read_text(encoding="utf-8")
