"""The arguments and options that commands share; what an option means is said in `motet.options`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from motet.options import CostModel, Counts, OnLimit, OptimizerName, Options, TimeUnit, help_text

Command = TypeVar("Command", bound=Callable[..., None])

SourceDialect = Literal["match-recognize", "flink-cep", "sase", "clickhouse"]
PlanFormat = Literal["text", "json", "mermaid", "html"]
ReportFormat = Literal["text", "json"]
ResultFormat = Literal["table", "jsonl", "csv", "parquet", "arrow", "duckdb", "delta", "iceberg"]
ReaderEngine = Literal["local", "spark"]
BenchSize = Literal["quick", "paper"]


def _option(name: str, **settings: Any) -> Any:
    """Return the command-line form of an option of `motet.options`."""
    return typer.Option(help=help_text(name), **settings)


QueryFile = Annotated[Path, typer.Argument(help="Queries in text.", metavar="FILE")]
EVENTS_HELP = (
    "Events: a parquet, arrow, csv or json file, a folder of them, a pattern such as 'logs/*.csv.gz', or - for "
    "standard input; may be repeated."
)
Events = Annotated[list[Path], typer.Option("--events", "--data", help=EVENTS_HELP)]
OptionalEvents = Annotated[list[Path] | None, typer.Option("--events", "--data", help=EVENTS_HELP)]
StatisticsFile = Annotated[Path | None, _option("statistics")]
Master = Annotated[str, typer.Option(help="Spark master, for --engine spark: local[4], spark://host:7077, yarn, ...")]
Conf = Annotated[list[str] | None, typer.Option(help="Setting of Spark, NAME=VALUE; may be repeated.")]

# Options of `motet.options` that several commands take, as the command line writes them.
_SHARED: dict[str, Any] = {
    "time": Annotated[str, _option("time")],
    "type": Annotated[str, _option("type")],
    "time_unit": Annotated[TimeUnit, _option("time_unit")],
    "delimiter": Annotated[str | None, _option("delimiter")],
    "header": Annotated[str | None, _option("header")],
    "column_type": Annotated[
        list[str] | None, typer.Option(help=f"NAME=TYPE. {help_text('column_types')} May be repeated.")
    ],
    "select": Annotated[
        list[str] | None, typer.Option(help=f"{help_text('select')} May be repeated; '*' takes all columns.")
    ],
    "counts": Annotated[Counts, _option("counts")],
    "optimizer": Annotated[OptimizerName, _option("optimizer")],
    "budget": Annotated[str, _option("budget")],
    "costs": Annotated[CostModel, _option("costs")],
    "match_limit": Annotated[int | None, _option("match_limit", min=1)],
    "memory_limit": Annotated[str, _option("memory_limit")],
    "on_limit": Annotated[OnLimit, _option("on_limit")],
}
TIMES = ("time", "type", "time_unit")
READING = (*TIMES, "delimiter", "header", "column_type", "select")
PLANNING = ("optimizer", "budget", "costs")
RUNNING = ("counts", *PLANNING, "match_limit", "memory_limit", "on_limit")


def takes_options(*names: str) -> Callable[[Command], Command]:
    """Let a command take options by these names beside its own; it gets them as keywords, for `make_options`."""
    kind, default = Parameter.KEYWORD_ONLY, {name: getattr(Options, name, None) or None for name in names}
    shared = [Parameter(name, kind, default=default[name], annotation=_SHARED[name]) for name in names]

    def decorate(command: Command) -> Command:
        every = signature(command, eval_str=True).parameters.values()
        own = [each for each in every if each.kind is not Parameter.VAR_KEYWORD]
        command.__dict__["__signature__"] = Signature([*own, *shared])
        return command

    return decorate


def parse_pairs(options: Sequence[str], name: str) -> dict[str, str]:
    """Return options that are written NAME=VALUE."""
    found = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{name} {option!r}: write NAME=VALUE")
        found[key] = value
    return found


def make_options(given: dict[str, Any]) -> Options:
    """Return options from what the command line gives for shared ones."""
    kinds: dict[str, Any] = {}
    for text in given.pop("column_type", None) or ():
        name, equals, kind = text.rpartition("=")
        if not equals or not name:
            raise typer.BadParameter(f"write --column-type NAME=TYPE, not {text!r}")
        kinds[name] = kind
    for name in given.keys() & {"header", "select"}:
        given[name] = given[name] or ()
    return Options(**given, column_types=kinds or None)
