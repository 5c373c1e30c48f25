"""Maps each source dialect to its translator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from motet.dialects.flink import translate_flink
from motet.dialects.sase import translate_sase
from motet.dialects.translation import SourceText, Translation
from motet.errors import MotetError


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The columns that hold the time and the type of an event."""

    time: str
    type: str


# SQL is read by sqlglot, which is not always installed: what needs it is imported when it is asked for.


def _match_recognize(source: SourceText, columns: ColumnNames, name: str) -> Translation:
    from motet.dialects.match_recognize import translate_match_recognize

    return translate_match_recognize(source, columns.time, columns.type, name)


def _clickhouse(source: SourceText, columns: ColumnNames, name: str) -> Translation:
    from motet.dialects.clickhouse import translate_clickhouse

    return translate_clickhouse(source, columns.time, columns.type, name)


def _flink(source: SourceText, columns: ColumnNames, name: str) -> Translation:
    return translate_flink(source, columns.type, name)


def _sase(source: SourceText, columns: ColumnNames, name: str) -> Translation:
    return translate_sase(source, name)


SOURCES: dict[str, Callable[[SourceText, ColumnNames, str], Translation]] = {
    "match-recognize": _match_recognize,
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
    """Translate a text for another system into queries that mean the same: `source` is one of `SOURCES`.

    Raises QueryError at the place whose meaning our model does not have. `time` and `type` are the columns that hold
    those of the data, and `name` is what the query is to be called.
    """
    if source not in SOURCES:
        raise MotetError(f"texts of {source!r} cannot be translated: use one of {', '.join(SOURCES)}")
    try:
        return SOURCES[source](SourceText(text, origin), ColumnNames(time, type), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlglot":
            raise
        raise MotetError("SQL is read by sqlglot, which is not installed: pip install 'motet[translate]'") from None
