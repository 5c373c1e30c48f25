"""Tells in which form texts are times, as `strptime` of SQL and of Python is told it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from itertools import product

DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d"),
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%m-%d-%y"),
    *("%d/%b/%Y", "%d-%b-%Y", "%d %b %Y", "%b %d %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
    *("%a, %d %b %Y", "%a %b %d %Y"),
)
BETWEEN = (" ", ":", ", ", "T", " at ")
CLOCKS = ("%H:%M:%S", "%H:%M:%S.%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p", "%H.%M.%S", "%H%M%S")
ZONES = ("", " %z", "%z")
FORMS = (*DATES, *("".join(parts) for parts in product(DATES, BETWEEN, CLOCKS, ZONES)))

EXAMPLE = "%d/%m/%Y %H:%M:%S"


def find_time_forms(texts: Sequence[str]) -> list[str]:
    """Return the forms that all of some texts have, the more usual ones first; none if there is none."""
    if not texts:
        return []
    shape = _find_shape(texts[0])
    forms = [form for form in FORMS if _find_shape(form) == shape and _fits(texts[:1], form)]
    return [form for form in forms if _fits(texts[1:], form)]


def _find_shape(text: str) -> str:
    """Return what stands between the numbers and words of a text or form: most forms need not be tried."""
    return re.sub(r"[+-]\d\d:\d\d$|%[A-Za-z]|\d+|[A-Za-z]+|[+-]", "", text)


def _fits(texts: Iterable[str], form: str) -> bool:
    try:
        for text in texts:
            dt.datetime.strptime(text, form)
    except ValueError:
        return False
    return True
