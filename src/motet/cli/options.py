"""The arguments and options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Engine(StrEnum):
    """What runs a workload."""

    LOCAL = "local"
    SPARK = "spark"
    ORACLE = "oracle"


class Reader(StrEnum):
    """What reads events where nothing is matched."""

    LOCAL = "local"
    SPARK = "spark"


class TimeUnit(StrEnum):
    """What a whole-number time counts."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"


class Counts(StrEnum):
    """How matches are counted."""

    EXACT = "exact"
    DOUBLE = "double"


class Optimizer(StrEnum):
    """What queries share."""

    AUTO = "auto"
    PREFIX = "prefix"
    NONE = "none"
    SHARON = "sharon"
    SHARON_GREEDY = "sharon-greedy"
    SHARON_EXHAUSTIVE = "sharon-exhaustive"
    GLORIA = "gloria"
    GLORIA_GREEDY = "gloria-greedy"
    GLORIA_NOPRUNE = "gloria-noprune"
    SHARE = "share"
    REORDER = "reorder"
    MOTTO = "motto"
    MOTTO_MERGE = "motto-merge"
    MOTTO_LCSE = "motto-lcse"
    MULTITREE = "multitree"
    MULTITREE_PREFIX = "multitree-prefix"


class Costs(StrEnum):
    """What Gloria's optimizer takes for the cost of a plan."""

    CALIBRATED = "calibrated"
    PRINTED = "printed"


class Foreign(StrEnum):
    """Systems whose queries can be translated."""

    MATCH_RECOGNIZE = "match-recognize"
    FLINK_CEP = "flink-cep"
    SASE = "sase"
    CLICKHOUSE = "clickhouse"


class OnLimit(StrEnum):
    """What to do where a query has more matches, or needs more memory, than it may."""

    ERROR = "error"
    TRUNCATE = "truncate"


class Mode(StrEnum):
    """Which results a stream gives."""

    APPEND = "append"
    UPDATE = "update"


class BenchSize(StrEnum):
    """How large experiments are."""

    QUICK = "quick"
    PAPER = "paper"


class Shown(StrEnum):
    """How statistics are written."""

    TEXT = "text"
    JSON = "json"


class Drawn(StrEnum):
    """How plans are written: Mermaid draws the graph that an optimizer searched, html is a page to explore."""

    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    HTML = "html"


File = Annotated[Path, typer.Argument(help="Queries in text.", metavar="FILE", show_default=False)]
Events = Annotated[
    Path, typer.Option(help="Events: a parquet, csv or json lines file, or a folder of them.", show_default=False)
]
Time = Annotated[str, typer.Option(help="Column that holds the time.")]
Type = Annotated[str, typer.Option(help="Column that holds the event type.")]
Unit = Annotated[TimeUnit, typer.Option(help="What a whole-number time counts.")]
Master = Annotated[str, typer.Option(help="Spark master, for --engine spark.")]
Sharing = Annotated[
    Optimizer,
    typer.Option(
        help="What queries share: nothing, equal prefixes, runs anywhere (sharon), transitions (gloria); and how "
        "matches are joined: as written (share), each as is cheapest (reorder), both together (multitree)."
    ),
]
Budget = Annotated[float, typer.Option(min=0.0, help="Seconds that an optimizer may take.")]
Pricing = Annotated[
    Costs, typer.Option(help="What gloria goes by: what our kernels take, or the equations of its paper.")
]
MatchLimit = Annotated[
    int | None, typer.Option(min=1, help="Most matches of a query and key in one window.", show_default=False)
]
MemoryLimit = Annotated[int, typer.Option(min=1, help="Megabytes for parts of matches.")]
Beyond = Annotated[OnLimit, typer.Option(help="What to do beyond a limit.")]
Facts = Annotated[
    Path | None,
    typer.Option(help="What `motet profile --format json` wrote, or rates by hand.", show_default=False),
]
