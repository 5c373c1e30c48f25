"""The arguments and options that commands share; what an option means is said in `motet.options`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from motet.options import CostModel, Counts, OnLimit, OptimizerName, TimeUnit, help_text

SourceDialect = Literal["match-recognize", "flink-cep", "sase", "clickhouse"]
PlanFormat = Literal["text", "json", "mermaid", "html"]
ReportFormat = Literal["text", "json"]
ResultFormat = Literal["table", "jsonl", "csv", "parquet"]
ReaderEngine = Literal["local", "spark"]
BenchSize = Literal["quick", "paper"]


def _option(name: str, **settings: Any) -> Any:
    """Return the command-line form of an option of `motet.options`."""
    return typer.Option(help=help_text(name), **settings)


QueryFile = Annotated[Path, typer.Argument(help="Queries in text.", metavar="FILE", show_default=False)]
Events = Annotated[
    Path, typer.Option(help="Events: a parquet, csv or json lines file, or a folder of them.", show_default=False)
]
Time = Annotated[str, _option("time")]
Type = Annotated[str, _option("type")]
Unit = Annotated[TimeUnit, _option("time_unit")]
CountsOption = Annotated[Counts, _option("counts")]
Optimizer = Annotated[OptimizerName, _option("optimizer")]
Budget = Annotated[str, _option("budget")]
Costs = Annotated[CostModel, _option("costs")]
StatisticsFile = Annotated[Path | None, _option("statistics", show_default=False)]
MatchLimit = Annotated[int | None, _option("match_limit", min=1, show_default=False)]
MemoryLimit = Annotated[str, _option("memory_limit")]
OnLimitOption = Annotated[OnLimit, _option("on_limit")]
Master = Annotated[str, typer.Option(help="Spark master, for --engine spark.")]
