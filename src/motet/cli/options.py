"""The arguments and options that commands share; what an option means is said in `motet.options`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from motet.options import CostModel, Counts, OnLimit, OptimizerName, Options, TimeUnit, help_text

SourceDialect = Literal["match-recognize", "flink-cep", "sase", "clickhouse"]
PlanFormat = Literal["text", "json", "mermaid", "html"]
ReportFormat = Literal["text", "json"]
ResultFormat = Literal["table", "jsonl", "csv", "parquet", "arrow", "duckdb", "delta", "iceberg"]
ReaderEngine = Literal["local", "spark"]
BenchSize = Literal["quick", "paper"]


def _option(name: str, **settings: Any) -> Any:
    """Return the command-line form of an option of `motet.options`."""
    return typer.Option(help=help_text(name), **settings)


QueryFile = Annotated[Path, typer.Argument(help="Queries in text.", metavar="FILE", show_default=False)]
EVENTS_HELP = (
    "Events: a parquet, arrow, csv or json file, a folder of them, a pattern such as 'logs/*.csv.gz', or - for "
    "standard input; may be repeated."
)
Events = Annotated[list[Path], typer.Option("--events", "--data", help=EVENTS_HELP, show_default=False)]
OptionalEvents = Annotated[list[Path] | None, typer.Option("--events", "--data", help=EVENTS_HELP, show_default=False)]
Time = Annotated[str, _option("time")]
Type = Annotated[str, _option("type")]
Unit = Annotated[TimeUnit, _option("time_unit")]
Delimiter = Annotated[str | None, _option("delimiter", show_default=False)]
Header = Annotated[str | None, _option("header", show_default=False)]
ColumnTypes = Annotated[
    list[str] | None,
    typer.Option("--column-type", help=f"NAME=TYPE. {help_text('column_types')} May be repeated.", show_default=False),
]
Select = Annotated[
    list[str] | None,
    typer.Option(help=f"{help_text('select')} May be repeated; '*' takes all columns.", show_default=False),
]
CountsOption = Annotated[Counts, _option("counts")]
Optimizer = Annotated[OptimizerName, _option("optimizer")]
Budget = Annotated[str, _option("budget")]
Costs = Annotated[CostModel, _option("costs")]
StatisticsFile = Annotated[Path | None, _option("statistics", show_default=False)]
MatchLimit = Annotated[int | None, _option("match_limit", min=1, show_default=False)]
MemoryLimit = Annotated[str, _option("memory_limit")]
OnLimitOption = Annotated[OnLimit, _option("on_limit")]
Master = Annotated[str, typer.Option(help="Spark master, for --engine spark: local[4], spark://host:7077, yarn, ...")]
Conf = Annotated[
    list[str] | None, typer.Option(help="Setting of Spark, NAME=VALUE; may be repeated.", show_default=False)
]


def parse_pairs(options: Sequence[str], name: str) -> dict[str, str]:
    """Return options that are written NAME=VALUE."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{name} {option!r}: write NAME=VALUE")
        found[key] = value
    return found


def make_reading_options(
    time: str,
    type: str,
    time_unit: TimeUnit,
    delimiter: str | None,
    header: str | None,
    column_types: list[str] | None,
    select: list[str] | None,
) -> Options:
    """Return options that say how events are read, from what stands on the command line."""
    kinds: dict[str, Any] = {}
    for text in column_types or ():
        name, equals, kind = text.rpartition("=")
        if not equals or not name:
            raise typer.BadParameter(f"write --column-type NAME=TYPE, not {text!r}")
        kinds[name] = kind
    return Options(
        time=time,
        type=type,
        time_unit=time_unit,
        delimiter=delimiter,
        header=header or (),
        column_types=kinds or None,
        select=select or (),
    )
