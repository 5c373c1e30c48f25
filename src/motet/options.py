"""How events are read and queries are run: one set of options for Python and the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args, get_type_hints

from motet.errors import OptionError, did_you_mean
from motet.model.window import UNITS
from motet.statistics.model import Statistics

Engine = Literal["local", "spark", "oracle"]
TimeUnit = Literal["s", "ms", "us", "ns"]
Counts = Literal["exact", "double"]
WindowStrategy = Literal["auto", "panes", "pairs", "stacks"]
OptimizerName = Literal[
    "auto",
    "prefix",
    "none",
    "sharon",
    "sharon-greedy",
    "gloria",
    "gloria-greedy",
    "gloria-noprune",
    "share",
    "reorder",
    "motto",
    "motto-merge",
    "multitree",
    "multitree-prefix",
    "multitree-vertex",
]
CostModel = Literal["calibrated", "printed"]
OnLimit = Literal["error", "truncate"]
OutputMode = Literal["append", "update"]
ColumnType = Literal["text", "integer", "number", "boolean", "time"]

Duration = str | timedelta | float  # "10 minutes", a timedelta, or a number of seconds
Size = str | int  # "4GiB", or a number of bytes

# What is being done -> how messages name it.
USES = {
    "local": "a run in process",
    "spark": "a batch run on Spark",
    "oracle": "a run of the oracle",
    "batches": "reading results batch by batch",
    "stream": "a stream on Spark",
    "live": "a live workload in process",
    "plan": "a plan",
    "profile": "a profile",
    "explain": "an explanation",
    "sql": "a SQL statement",
}
WORKLOADS = tuple(use for use in USES if use != "sql")
RUNS = ("local", "spark", "batches", "stream", "live")
STREAMS = ("stream", "live")
READS = ("local", "spark", "oracle", "batches", "plan", "profile", "explain")


def _option(default: Any, help: str, *uses: str) -> Any:
    """Return a field with its default, a line that explains it, and what it applies to (nothing: to all workloads)."""
    return field(default=default, metadata={"help": help, "uses": uses or WORKLOADS})


@dataclass(frozen=True, kw_only=True)
class Options:
    """How events are read and queries are run.

    Every function of motet that takes a workload takes `options=Options(...)`, or the same names as keywords. An option
    that does not apply to what is done is an error.

    Attributes:
        time: Column that holds the time.
        type: Column that holds the event type.
        time_unit: What a time that is a number counts since 1970: 's', 'ms', 'us' or 'ns'.
        delimiter: What separates the columns of a csv file; 'tab' or '\\t' for a tab.
        header: Names of the columns of a csv file whose first line has none.
        column_types: Types of columns in csv and json files, by name: 'text', 'integer', 'number', 'boolean', 'time'.
        select: SQL expressions that make the columns from those of the events: all columns, as in
            `SELECT ... FROM events`. DuckDB computes them in process, Spark on Spark.
        counts: 'exact' (64-bit whole numbers; null where a count exceeds them) or 'double'.
        windows: How windows are computed: 'auto' chooses by cost; 'panes', 'pairs' and 'stacks' force a strategy
            wherever it is possible.
        optimizer: What queries share. 'none' runs every query alone, 'prefix' computes equal prefixes once, 'sharon'
            and its variants look for equal runs anywhere in the patterns, 'gloria' and its variants for transitions,
            repetitions included. Where matches are found, 'none' joins in the order of the pattern and shares nothing,
            'share' computes equal joins once, 'reorder' joins each pattern as is cheapest for it alone, 'motto' and
            'multitree' decide on both together. 'auto' takes the cheapest of what it knows.
        statistics: What is known of the data (see `motet.profile`), in place of a sample of it; plans go by it.
        budget: How long an optimizer may search.
        costs: What Sharon's and Gloria's optimizers go by: costs 'calibrated' to motet's kernels, or 'printed' in their
            papers; a plan by printed costs is carried out as it is, whatever it costs here.
        match_limit: Most matches of a query and key in a stretch of its window's length; None for no limit.
        memory_limit: Memory for partial matches, and for results held together.
        on_limit: What happens beyond a limit: 'error', or 'truncate' to go on without the rest.
        mode: Which results a stream gives: 'append' gives each once, when it is final; 'update' gives early values too.
        watermark: How far a stream's watermark stays behind its newest event, that is, how late events may come.
        replan: Compare plans again when a rate has changed by this share; None for never.
        horizon: For how long a plan is expected to serve a stream; None stands for ten times the longest window.
        keep_late: Add a column `late` to the results of a stream, which holds rows that came too late.
        checkpoint: Folder of the stream's checkpoint, needed where its queries may change later.
        buckets: Into how many parts the state of a stream is cut; None for one per state partition.
        step_limit: The most steps that the search for row patterns may take in a partition of a SQL statement.

    Examples:
        >>> from motet import Options
        >>> Options(time="at", memory_limit="1GiB").memory_bytes
        1073741824
    """

    time: str = _option("time", "Column that holds the time.")
    type: str = _option("type", "Column that holds the event type.")
    time_unit: TimeUnit = _option("s", "What a time that is a number counts since 1970.")
    delimiter: str | None = _option(None, "What separates the columns of a csv file: ';', tab, ...", *READS)
    header: Sequence[str] = _option((), "Names of a csv file's columns, where its first line has none.", *READS)
    column_types: Mapping[str, ColumnType] | None = _option(
        None, "Type of a csv or json column: text, integer, number, boolean or time.", *READS
    )
    select: Sequence[str] = _option((), "SQL expression for a column.", *READS)
    counts: Counts = _option("exact", "Whole numbers up to 2^63 - 1, or floating.", *RUNS, "oracle", "plan")
    windows: WindowStrategy = _option("auto", "How windows are computed; auto chooses by cost.", *RUNS, "plan")
    optimizer: OptimizerName = _option(
        "auto",
        "What queries share: nothing, equal prefixes, runs anywhere (sharon), transitions (gloria); and how "
        "matches are joined: as written (share), each as is cheapest (reorder), both together (multitree).",
        *RUNS,
        "plan",
    )
    statistics: Statistics | None = _option(
        None, "What `motet profile --format json` wrote, or rates by hand.", *RUNS, "plan"
    )
    budget: Duration = _option("10 s", "How long an optimizer may search.", *RUNS, "plan")
    costs: CostModel = _option(
        "calibrated",
        "What sharon and gloria go by: what our kernels take, or the equations of their papers.",
        *RUNS,
        "plan",
    )
    match_limit: int | None = _option(None, "Most matches of a query and key in one window.", *RUNS)
    memory_limit: Size = _option("4GiB", "Memory for partial matches.", *RUNS)
    on_limit: OnLimit = _option("error", "What to do beyond a limit.", *RUNS)
    mode: OutputMode | None = _option(None, "Each result once, or early values too.", *STREAMS)
    watermark: Duration | None = _option(None, "How late rows may come.", *STREAMS)
    replan: float | None = _option(0.5, "Compare plans when a rate has changed by this share; 0: never.", *STREAMS)
    horizon: Duration | None = _option(None, "For how long a plan is expected to serve.", *STREAMS)
    keep_late: bool = _option(False, "Add a column with rows that come too late.", "stream")
    checkpoint: str | None = _option(None, "Folder that a restart goes on from.", "stream")
    buckets: int | None = _option(None, "Parts of the state, fixed by the first start; one a core.", "stream")
    step_limit: int = _option(1_000_000_000, "Most steps of the search for row patterns in a partition.", "sql")

    def __post_init__(self) -> None:
        """Check every value."""
        for name, allowed in _CHOICES.items():
            given = getattr(self, name)
            if given not in allowed:
                raise OptionError(f"{name} is {given!r}: use one of {', '.join(c for c in allowed if c is not None)}")
        for name in ("match_limit", "buckets", "step_limit"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise OptionError(f"{name} is {given}: at least 1 is needed")
        if self.replan is not None and not 0 <= self.replan < 1:
            raise OptionError(f"replan is {self.replan}: a share between 0 and 1, or None, will do")
        for name in ("budget", "watermark", "horizon"):
            if getattr(self, name) is not None:
                microseconds_of(getattr(self, name), name)
        bytes_of(self.memory_limit, "memory_limit")
        self._settle_reading()

    def _settle_reading(self) -> None:
        """Check how files are read; names may be one text with commas, and one expression stands for a list of it."""
        header = self.header.split(",") if isinstance(self.header, str) else self.header
        object.__setattr__(self, "header", tuple(name.strip() for name in header))
        object.__setattr__(self, "select", (self.select,) if isinstance(self.select, str) else tuple(self.select))
        if self.delimiter is not None:
            delimiter = {"tab": "\t", "\\t": "\t"}.get(self.delimiter, self.delimiter)
            if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\r\n"':
                raise OptionError(f"delimiter is {self.delimiter!r}: one character will do, or 'tab'")
            object.__setattr__(self, "delimiter", delimiter)
        for column, kind in (self.column_types or {}).items():
            if kind not in get_args(ColumnType):
                known = ", ".join(get_args(ColumnType))
                raise OptionError(f"column_types has {kind!r} for {column!r}: use one of {known}")

    def for_reading(self) -> Options:
        """Return options that say how events are read, and nothing else."""
        names = ("time", "type", "time_unit", "delimiter", "header", "column_types", "select")
        return Options(**{name: getattr(self, name) for name in names})

    @property
    def budget_seconds(self) -> float:
        """How long an optimizer may search, in seconds."""
        return microseconds_of(self.budget, "budget") / 1e6

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        return bytes_of(self.memory_limit, "memory_limit")

    @property
    def watermark_micros(self) -> int:
        """How far the watermark stays behind the newest event, in microseconds; 0 unless given."""
        return 0 if self.watermark is None else microseconds_of(self.watermark, "watermark")

    @property
    def horizon_seconds(self) -> float | None:
        """For how many seconds of a stream a plan is expected to serve, where given."""
        return None if self.horizon is None else microseconds_of(self.horizon, "horizon") / 1e6


class OptionKeywords(TypedDict, total=False):
    """The names and types of `Options` as keywords of functions."""

    time: str
    type: str
    time_unit: TimeUnit
    delimiter: str | None
    header: Sequence[str]
    column_types: Mapping[str, ColumnType] | None
    select: Sequence[str]
    counts: Counts
    windows: WindowStrategy
    optimizer: OptimizerName
    statistics: Statistics | None
    budget: Duration
    costs: CostModel
    match_limit: int | None
    memory_limit: Size
    on_limit: OnLimit
    mode: OutputMode | None
    watermark: Duration | None
    replan: float | None
    horizon: Duration | None
    keep_late: bool
    checkpoint: str | None
    buckets: int | None
    step_limit: int


_FIELDS: dict[str, Field[Any]] = {each.name: each for each in fields(Options)}


def _list_choices() -> dict[str, tuple[Any, ...]]:
    """Return the values that each option with a fixed set of them may have."""
    hints = get_type_hints(Options)
    found = {}
    for name in _FIELDS:
        parts = [hints[name], *get_args(hints[name])]
        literals = [part for part in parts if getattr(part, "__origin__", None) is Literal]
        if literals:
            optional = (None,) if type(None) in parts else ()
            found[name] = (*get_args(literals[0]), *optional)
    del found["optimizer"]  # further optimizers may be registered: `motet.optimizer` knows them
    return found


_CHOICES = _list_choices()


def help_text(name: str) -> str:
    """Return the line that explains an option."""
    return str(_FIELDS[name].metadata["help"])


def resolve_options(use: str, options: Options | None, keywords: Mapping[str, Any]) -> Options:
    """Return the options for a use from an `Options` object and keywords, which win.

    Args:
        use: What is being done, a key of `USES`.
        options: Options given as an object; None for the defaults.
        keywords: Options given by name.

    Raises:
        OptionError: An option is unknown, does not apply to this use, or has no such value.
    """
    if options is not None and not isinstance(options, Options):
        raise OptionError(f"options is a {type(options).__name__}: give motet.Options(...), or keywords")
    for name in keywords:
        if name not in _FIELDS:
            raise OptionError(f"there is no option {name!r}; {did_you_mean(name, _FIELDS)}")
    given = [*keywords, *(name for name in _FIELDS if options is not None and _is_changed(options, name))]
    for name in given:
        uses: Sequence[str] = _FIELDS[name].metadata["uses"]
        if use not in uses:
            others = ", ".join(USES[each] for each in uses)
            raise OptionError(f"{name} does not apply to {USES[use]}: it is for {others}")
    return replace(options or Options(), **keywords)


def _is_changed(options: Options, name: str) -> bool:
    return bool(getattr(options, name) != _FIELDS[name].default)


def microseconds_of(duration: Duration, name: str = "duration") -> int:
    """Return a duration in microseconds.

    Args:
        duration: A text such as '10 minutes', '1 hour 30 min' or '90' (seconds), a timedelta, or a number of seconds.
        name: What to call it in messages.

    Raises:
        OptionError: It is no duration, or a negative one.
    """
    micros: float | None = None
    match duration:
        case timedelta():
            micros = duration // timedelta(microseconds=1)
        case bool():
            pass
        case int() | float():
            micros = duration * 1e6
        case str():
            micros = _parse_duration(duration)
    if micros is None or not 0 <= micros < 2**63:
        raise OptionError(f"{name} is {duration!r}: write a duration such as '10 minutes', or give a timedelta")
    return round(micros)


def _parse_duration(text: str) -> float | None:
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text):
        return float(text) * 1e6
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", text)
    rest = re.sub(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", "", text)
    if not parts or rest.strip() or any(unit.lower() not in UNITS for _, unit in parts):
        return None
    return sum(float(amount) * UNITS[unit.lower()] for amount, unit in parts)


_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def bytes_of(size: Size, name: str = "size") -> int:
    """Return a size in bytes.

    Args:
        size: A text such as '4GiB', '512 MB' (decimal) or '4g' (Spark's way to write GiB), or a number of bytes.
        name: What to call it in messages.

    Raises:
        OptionError: It is no size, or not positive.
    """
    found: int | None = None
    if isinstance(size, int) and not isinstance(size, bool):
        found = size
    elif isinstance(size, str) and (parts := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", size.lower())):
        amount, prefix, suffix = parts.groups()
        unit = _BYTES[prefix] if suffix != "b" else 1000 ** "kmgt".find(prefix) * 1000 if prefix else 1
        found = int(float(amount) * unit)
    if found is None or found < 1:
        raise OptionError(f"{name} is {size!r}: write a size such as '4GiB', or give a number of bytes")
    return found
