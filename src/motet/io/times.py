"""Read times that are text or numbers: which type they get, and which unit they seem to have."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import DataError, UnreadableError
from motet.row_patterns.tokens import quote
from motet.schema import MAX_MICROS, TICKS, is_text, is_time, keep_times_in_range, to_microseconds

ZONE = re.compile(r"([Zz]|[+-]\d\d(:?\d\d)?)$")
SECONDS_PER_YEAR = 31_556_952
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
MAX_FORM_TEXTS = 1000  # that tell the form of all
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

# The forms that times have as texts, as `strptime` of SQL and of Python is told them.
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


def choose_time_type(sample: pa.Array, name: str, time_unit: str, origin: str) -> pa.DataType:
    """Return the type as which a time column is read, by the first of its values.

    Timestamps, dates and whole numbers stay what they are. Text in ISO 8601 is read as timestamps, with a zone if the
    first value has one. Floating numbers count from 1970, and are read as timestamps of microseconds.

    Raises:
        DataError: The column cannot hold times, or its numbers seem to count another unit.
    """
    found = sample.type
    if pa.types.is_null(found):
        return pa.timestamp("us")
    if is_text(found):
        return _choose_zone(sample.drop_null(), name, origin)
    if is_time(found):
        return found
    if not (pa.types.is_integer(found) or _is_fractional(found)):
        raise DataError(
            f"column {name!r} of {origin} holds {found}: that is no time "
            "(timestamps, dates, numbers since 1970 and ISO 8601 text are)"
        )
    _require_likely_unit(sample, name, time_unit, origin)
    return found if pa.types.is_integer(found) else pa.timestamp("us")


def _choose_zone(texts: pa.Array, name: str, origin: str) -> pa.DataType:
    type = _find_time_type(texts[0].as_py() if len(texts) else "")
    try:
        if len(texts) and not _is_time(_prepare_times(texts.slice(0, 1))[0], type):
            parse_times(texts, type, name, origin)
    except UnreadableError as error:
        # Known before anything has run: wrong from the start rather than broken on the way.
        raise DataError(str(error)) from error
    return type


def _find_time_type(text: str) -> pa.DataType:
    return pa.timestamp("us", "UTC" if ZONE.search(text[10:].strip()) else None)


def _is_fractional(type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type) or pa.types.is_decimal(type))


def holds_times(sample: pa.Array) -> bool:
    """Return whether values seem to be times: as such, as texts in their form, or as numbers that lead to our days."""
    if is_text(sample.type):
        first = sample.drop_null().slice(0, 1)
        if not len(first):
            return False
        text = first[0].as_py().strip()
        is_iso = _is_time(_prepare_times(first)[0], _find_time_type(text))
        return is_iso or (not text.isdigit() and bool(find_time_forms([text])))
    if pa.types.is_integer(sample.type) or _is_fractional(sample.type):
        middle = _find_middle(sample)
        return middle is not None and find_likely_unit(middle) is not None
    return is_time(sample.type)


def find_likely_unit(number: float) -> str | None:
    """Return the unit in which a number since 1970 is a time of our days; None if there is none."""
    return next((unit for unit in UNIT_NAMES if 1980 <= _find_year(number, unit) < 2100), None)


def _find_year(number: float, unit: str) -> int:
    return 1970 + int(number / PER_SECOND[unit] / SECONDS_PER_YEAR)


def _find_middle(sample: pa.Array) -> float | None:
    """Return the middle one of some numbers; None if there is none."""
    values = np.sort(sample.drop_null().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    values = values[np.isfinite(values)]
    return float(values[len(values) // 2]) if len(values) else None


def _require_likely_unit(sample: pa.Array, name: str, time_unit: str, origin: str) -> None:
    """Raise if the middle one of some numbers is after the year 9999, and another unit leads to our days."""
    middle = _find_middle(sample)
    if middle is None:
        return
    likely = find_likely_unit(middle)
    if _find_year(middle, time_unit) > 9999 and likely is not None:
        shown = f"{middle:.0f}"
        raise DataError(
            f"column {name!r} of {origin} holds {shown}, in {UNIT_NAMES[time_unit]} a time in the year "
            f"{_find_year(middle, time_unit):,}; in {UNIT_NAMES[likely]} it is one in {_find_year(middle, likely)}\n"
            f"  --time-unit {likely} (in Python time_unit={likely!r}) says that it counts those"
        )


def convert_times(column: Any, type: pa.DataType, name: str, time_unit: str, origin: str) -> Any:
    """Return a time column, an array or a chunked one, with the type that was chosen for it."""
    if column.type == type:
        return _keep_in_range(column, time_unit)
    if is_text(column.type):
        return parse_times(column, type, name, origin)
    if _is_fractional(column.type):
        return pa.array(_to_micros(column, time_unit)).cast(type)
    return pc.cast(column, type)


def _keep_in_range(column: Any, time_unit: str) -> Any:
    """Return times with null for those that are out of range: rows without a time are set aside."""
    if pa.types.is_integer(column.type):
        return keep_times_in_range(column, time_unit).cast(column.type)
    micros = to_microseconds(column, time_unit)
    if micros.null_count == column.null_count:
        return column
    return pc.if_else(pc.is_valid(micros), column, pa.scalar(None, column.type))


def _to_micros(column: Any, time_unit: str) -> pa.Array:
    """Return floating times as microseconds, rounded to the nearest; what is out of range is null, as NaN is."""
    values = (
        column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else (column.cast(pa.float64()).to_numpy())
    )
    with np.errstate(over="ignore"):
        micros = np.rint(values / 1000 if time_unit == "ns" else values * TICKS[time_unit])
    usable = np.abs(micros) < MAX_MICROS  # False for NaN
    return pa.array(np.where(usable, micros, 0).astype(np.int64), mask=~usable)


def parse_times(column: Any, type: pa.DataType, name: str, origin: str) -> Any:
    """Parse text as times."""
    prepared = _prepare_times(column)
    try:
        return pc.cast(prepared, type)
    except pa.ArrowInvalid as error:
        texts = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
        wrong = next(text.as_py() for text, each in zip(texts, prepared, strict=True) if not _is_time(each, type))
        zone = " with a zone" if type.tz else ""
        message = f"column {name!r} of {origin} is text, and {wrong!r} is no ISO 8601 time{zone}"
        known = [wrong, *texts.drop_null().slice(0, MAX_FORM_TEXTS).to_pylist()]
        raise UnreadableError(f"{message}\n  {_suggest_parsing(known, name)}") from error


def _prepare_times(column: Any) -> Any:
    """Return texts as Arrow reads times: a space before the zone is not ISO 8601, but common."""
    text = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    return pc.replace_substring_regex(text, r" ([Zz]|[+-]\d\d(:?\d\d)?)$", r"\1")


def _suggest_parsing(texts: Sequence[str], name: str) -> str:
    """Return the option that reads texts as times."""
    column = name if name.isidentifier() else quote(name, "duckdb")
    if all(re.fullmatch(r"-?\d+(\.\d+)?", text) for text in texts):
        kind = "DOUBLE" if any("." in text for text in texts) else "BIGINT"
        return f"{_replace(f'CAST({column} AS {kind})', column)} reads numbers since 1970, in --time-unit"
    forms = find_time_forms(texts)
    said = _replace(f"strptime({column}, '{forms[0] if forms else EXAMPLE}')", column)
    if not forms:
        return f"{said} reads other forms"
    months_first = forms[0].replace("%d/%m", "%m/%d").replace("%d-%m", "%m-%d")
    other = f", and '{months_first}' where months come first" if months_first in forms[1:] else ""
    return f"{said} reads them{other}"


def _replace(value: str, column: str) -> str:
    """Return the option that replaces a column by an SQL expression, as a shell takes it."""
    return '--select "{}"'.format(f"* REPLACE ({value} AS {column})".replace('"', '\\"'))


def _is_time(value: pa.StringScalar, type: pa.DataType) -> bool:
    try:
        pc.cast(value, type)
    except pa.ArrowInvalid:
        return False
    return True


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
