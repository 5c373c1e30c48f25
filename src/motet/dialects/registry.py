"""Maps each source dialect to the module that translates it."""

from __future__ import annotations

from importlib import import_module

from motet.dialects.translation import SourceText, Translation
from motet.errors import MotetError

# Each module has a function `translate_source`, and loads on first use: those of SQL need sqlglot, which is optional.
SOURCES = {
    "match-recognize": "motet.dialects.match_recognize",
    "flink-cep": "motet.dialects.flink",
    "sase": "motet.dialects.sase",
    "clickhouse": "motet.dialects.clickhouse",
}


def translate(
    text: str, source: str, *, time: str = "time", type: str = "type", name: str = "translated", origin: str = "<text>"
) -> Translation:
    """Translate a text for another system into queries that mean the same.

    Args:
        text: What was written for the other system.
        source: The dialect of the text, one of `SOURCES`.
        time: The column of the data that holds the time of events.
        type: The column of the data that holds the type of events.
        name: What the query is to be called.
        origin: Where the text comes from, for error messages.

    Returns:
        The queries, with notes on where they mean the same.

    Raises:
        QueryError: At the place whose meaning our model does not have.
        MotetError: If the dialect is unknown, or needs a package that is not installed.

    Examples:
        >>> import motet
        >>> motet.translate("PATTERN SEQ(A a, B b) WITHIN 1 hour", "sase").workload.queries[0].name
        'translated'
    """
    if source not in SOURCES:
        raise MotetError(f"texts of {source!r} cannot be translated: use one of {', '.join(SOURCES)}")
    try:
        module = import_module(SOURCES[source])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sqlglot":
            raise
        raise MotetError("SQL is read by sqlglot, which is not installed: pip install 'motet[translate]'") from None
    written = SourceText(text, origin, time, type, name)
    try:
        translation: Translation = module.translate_source(written)
    except RecursionError:
        raise written.error_at("this is nested too deeply", 0, hint="with fewer brackets in each other") from None
    return translation
