"""What a MATCH_RECOGNIZE compiles to: a plain value that any process can run over rows of its relation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from motet.row_patterns.patterns import CompiledPattern

Form = Literal["value", "presence"]


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column that is read of each row: an expression of the engine's, and its name where it is just a column.

    A row that is not there has what the expression is on a row of nulls where `on_nulls`, else null.
    """

    text: str
    name: str | None
    on_nulls: bool


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column that rows are ordered by."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TrackerSpec:
    """What a tracker follows: sets of variables, targets among their rows, aggregates over them."""

    member: NDArray[np.bool_]
    targets: NDArray[np.int64]
    aggregates: NDArray[np.int64]


@dataclass(frozen=True)
class ConditionCode:
    """The conditions of variables as code; `texts` are constants (by place among `ints`) that are texts."""

    words: NDArray[np.int32]
    begin: NDArray[np.int64]
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    texts: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that matching gives: of which leaf, and for an input column which.

    `source`: input (of the output row), row (of a leaf), label, total (what `function` makes of it) or number.
    """

    name: str
    type: pa.DataType
    source: Literal["input", "row", "label", "total", "number"]
    leaf: int = 0
    column: int = 0
    function: str = ""
    scale: int = 0


@dataclass(frozen=True)
class LeafSpec:
    """What is read of each match: targets of rows and labels, aggregates, and whether of the whole match."""

    rows: NDArray[np.int64]
    rows_final: NDArray[np.bool_]
    labels: NDArray[np.int64]
    labels_final: NDArray[np.bool_]
    totals_final: NDArray[np.bool_]


@dataclass(frozen=True)
class MatchProgram:
    """A compiled MATCH_RECOGNIZE.

    `whole` and `floating` are the inputs that conditions and aggregates read, by number and form. Condition numbers of
    each variable: `masks` for what speaks of a row and its neighbours, `conditions` for what speaks of the match so far
    (-1: none).
    """

    place: str
    inputs: tuple[InputColumn, ...]
    schema: pa.Schema
    partition: tuple[int, ...]
    order: tuple[OrderKey, ...]
    variables: tuple[str, ...]
    pattern: CompiledPattern
    code: ConditionCode
    masks: NDArray[np.int32]
    conditions: NDArray[np.int32]
    whole: tuple[tuple[int, Form], ...]
    floating: tuple[int, ...]
    tracked: TrackerSpec
    measured: TrackerSpec
    leaves: LeafSpec
    outputs: tuple[OutputColumn, ...]
    all_rows: bool
    show_empty: bool
    show_unmatched: bool
    skip: int
    skip_to: NDArray[np.bool_]

    @property
    def output_schema(self) -> pa.Schema:
        """The columns that matching gives."""
        return pa.schema([(column.name, column.type) for column in self.outputs])
