"""Which texts can be translated, and by what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from motet.errors import MotetError
from motet.translate.flink import from_flink
from motet.translate.outcome import Source, Translation
from motet.translate.sase import from_sase


@dataclass(frozen=True, slots=True)
class Columns:
    """What the data calls the time and the type of an event."""

    time: str
    type: str


# SQL is read by sqlglot, which is not always installed: what needs it is imported when it is asked for.


def _rows(source: Source, columns: Columns, name: str) -> Translation:
    from motet.translate.match_recognize import from_match_recognize

    return from_match_recognize(source, columns.time, columns.type, name)


def _clickhouse(source: Source, columns: Columns, name: str) -> Translation:
    from motet.translate.clickhouse import from_clickhouse

    return from_clickhouse(source, columns.time, columns.type, name)


def _flink(source: Source, columns: Columns, name: str) -> Translation:
    return from_flink(source, columns.type, name)


def _sase(source: Source, columns: Columns, name: str) -> Translation:
    return from_sase(source, name)


SOURCES: dict[str, Callable[[Source, Columns, str], Translation]] = {
    "match-recognize": _rows,
    "flink-cep": _flink,
    "sase": _sase,
    "clickhouse": _clickhouse,
}


def translate(
    text: str,
    source: str,
    *,
    time: str = "time",
    type: str = "type",
    name: str = "translated",
    origin: str = "<text>",
) -> Translation:
    """The queries that mean what a text for another system means: `source` is one of `SOURCES`.

    Raises QueryError at the place whose meaning our model does not have. `time` and `type` are the columns that hold
    those of the data, and `name` is what the query is to be called.
    """
    if source not in SOURCES:
        raise MotetError(f"texts of {source!r} cannot be translated: use one of {', '.join(SOURCES)}")
    try:
        return SOURCES[source](Source(text, origin), Columns(time, type), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlglot":
            raise
        raise MotetError("SQL is read by sqlglot, which is not installed: pip install 'motet[translate]'") from None
