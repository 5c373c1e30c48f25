"""Run a MATCH_RECOGNIZE over rows: order them, evaluate conditions, match, and give what measures read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from motet.errors import RunError
from motet.kernels import row_conditions as rc
from motet.kernels import row_patterns as rp
from motet.row_patterns.conditions import find_kind
from motet.row_patterns.encoding import Words, as_array, decode_whole, encode_floats, encode_whole, order_rows
from motet.row_patterns.program import MatchProgram, OutputColumn

OUTPUT_ROWS = 1 << 18
STACK_ENTRIES = 1 << 16
MAX_STACK_ENTRIES = 1 << 27
MEMO_BYTES = 1 << 29  # beyond it failures are not remembered
MIN_ROWS_PER_THREAD = 1 << 16


def match_rows(
    program: MatchProgram, table: pa.Table, absent: pa.Table | None, step_limit: int, threads: int = 1
) -> Iterator[pa.Table]:
    """Match the rows of whole partitions, and yield what the relation is made of, some rows at a time.

    Args:
        program: The compiled MATCH_RECOGNIZE.
        table: Its input columns.
        absent: The input columns of a row of nulls; None where none of them needs it.
        step_limit: The most steps that the search may take in a partition.
        threads: Among how many threads the partitions are split: kernels release the GIL.

    Raises:
        RunError: The search takes too many steps, or a condition or skip fails.
    """
    if len(table):
        yield from _Matching(program, table, absent, step_limit).run(threads)


class _Matching:
    def __init__(self, program: MatchProgram, table: pa.Table, absent: pa.Table | None, step_limit: int) -> None:
        self.program = program
        self.step_limit = step_limit
        self.columns = [as_array(column) for column in table.columns]
        self.absent = None if absent is None else [as_array(column) for column in absent.columns]
        self.order, self.offsets = order_rows(program, self.columns)
        self.words = self._collect_words()
        self.places = int(np.diff(self.offsets).max()) + 1
        self.values = self._encode_values()
        self.code = self._make_code()

    def _collect_words(self) -> Words | None:
        program = self.program
        inputs = [at for at, form in program.whole if form == "value"]
        columns = [self.columns[at] for at in inputs if _is_text(self.columns[at])]
        if columns and self.absent is not None:
            columns += [self.absent[at] for at in inputs if _is_text(self.absent[at])]
        texts = [text for _, text in program.code.texts]
        has_labels = (program.code.words[:, 0] == rc.LOAD_LABEL).any()
        if not columns and not texts and not has_labels:
            return None
        return Words.of(columns, [*texts, *program.variables])

    def _encode_values(self) -> rc.RowValues:
        program, size = self.program, len(self.columns[0])
        ints = np.zeros((len(program.whole), size + 1), np.int64)
        int_state = np.zeros((len(program.whole), size + 1), np.uint8)
        for row, (at, form) in enumerate(program.whole):
            name = program.inputs[at].text
            if form == "presence":
                valid = self.columns[at].is_valid().to_numpy(zero_copy_only=False)
                self._fill_row(int_state[row], np.where(valid, rc.KNOWN, rc.NULL).astype(np.uint8))
                int_state[row, size] = rc.NULL
                continue
            whole, state = encode_whole(self.columns[at], self.words, name)
            self._fill_row(ints[row], whole)
            self._fill_row(int_state[row], state)
            ints[row, size], int_state[row, size] = self._read_absent(
                at, lambda a, n=name: encode_whole(a, self.words, n)
            )
        floats = np.zeros((len(program.floating), size + 1), np.float64)
        float_state = np.zeros((len(program.floating), size + 1), np.uint8)
        for row, at in enumerate(program.floating):
            values, state = encode_floats(self.columns[at])
            self._fill_row(floats[row], values)
            self._fill_row(float_state[row], state)
            floats[row, size], float_state[row, size] = self._read_absent(at, encode_floats)
        codes = [self.words.find(name) if self.words else 0 for name in program.variables]
        return rc.RowValues(ints, int_state, floats, float_state, np.array([*codes, 0], np.int64))

    def _fill_row(self, target: Any, values: Any) -> None:
        """Fill in the values of all rows, in their order; where all are 0, as states mostly are, they are there."""
        if self.order is None:
            target[:-1] = values
        elif values.dtype == np.uint8 and not values.any():
            return
        else:
            np.take(values, self.order, out=target[:-1])

    def _read_absent(self, at: int, encode: Any) -> tuple[Any, int]:
        """Return what an input is of a row that is not there."""
        if self.absent is None or not self.program.inputs[at].on_nulls:
            return 0, rc.NULL
        values, state = encode(self.absent[at].cast(self.columns[at].type))
        return values[0], int(state[0])

    def _make_code(self) -> rc.Code:
        code = self.program.code
        ints = code.ints.copy()
        for at, text in code.texts:
            assert self.words is not None
            ints[at] = self.words.find(text)
        return rc.Code(code.words.copy(), code.begin.copy(), ints, code.floats.copy())

    def run(self, threads: int) -> Iterator[pa.Table]:
        """Yield what comes out, partition by partition, whatever the number of threads."""
        shares = max(1, min(threads, len(self.columns[0]) // MIN_ROWS_PER_THREAD))
        cuts: Any = np.searchsorted(self.offsets, np.linspace(0, self.offsets[-1], shares + 1))
        bounds = [(int(low), int(high)) for low, high in pairwise(cuts) if low < high]
        numbers, pattern = self._make_pattern()
        masks = np.zeros((len(numbers), len(self.columns[0])), np.uint8)
        offsets = [self.offsets[low : high + 1] for low, high in bounds]
        if len(bounds) == 1:
            yield from self._match_partitions(offsets[0], numbers, pattern, masks)
            return
        with ThreadPoolExecutor(len(bounds)) as pool:
            tables = pool.map(lambda own: list(self._match_partitions(own, numbers, pattern, masks)), offsets)
            for found in tables:
                yield from found

    def _match_partitions(self, offsets: Any, numbers: Any, pattern: rp.PatternCode, masks: Any) -> Iterator[pa.Table]:
        """Match some partitions, whose rows of `masks` are filled in first."""
        program = self.program
        stack = rc.new_stack()
        tracker, measured = (
            rc.new_tracker(spec.member, spec.targets, spec.aggregates, self.places)
            for spec in (program.tracked, program.measured)
        )
        no_labels = np.zeros(1, np.int32)
        rp.compute_masks(self.code, numbers, self.values, tracker, offsets, stack, no_labels, masks)
        slots = int(pattern.memo.max(initial=-1)) + 1
        rules = rp.OutputRules(
            program.all_rows,
            program.show_empty,
            program.show_unmatched,
            program.skip,
            program.skip_to.copy(),
            self.step_limit,
        )
        leaves = rp.Leaves(*(array.copy() for array in vars(program.leaves).values()))
        output = self._make_output()
        state = np.array([0, -1, 0, 0, 0, 0, 0], np.int64)
        failed = np.zeros((slots, self.places + 1), np.bool_)
        labels, excluded = np.zeros(self.places, np.int32), np.zeros(self.places, np.bool_)
        entries = STACK_ENTRIES
        while True:
            scratch = rp.Scratch(
                np.empty((entries, 3), np.int64), np.empty((entries, 2), np.int64), failed, labels, excluded
            )
            rp.match_partitions(
                rp.RowSearch(pattern, masks, self.code, self.values, tracker, offsets),
                rules,
                leaves,
                measured,
                output,
                scratch,
                stack,
                state,
            )
            status = int(state[rp.STATUS])
            if status == rp.STACK_FULL and entries < MAX_STACK_ENTRIES:
                entries *= 4
                continue
            if status not in (rp.DONE, rp.OUTPUT_FULL):
                raise self._explain(status, state, offsets)
            if state[rp.WRITTEN]:
                yield self._build(output, int(state[rp.WRITTEN]))
            if status == rp.DONE:
                return
            state[rp.WRITTEN] = 0
            output = self._make_output()  # what was built may be views of it

    def _make_pattern(self) -> tuple[Any, rp.PatternCode]:
        """Return the conditions that are masks, and the pattern with their places."""
        program, compiled = self.program, self.program.pattern
        numbers = np.ascontiguousarray(np.unique(program.masks[program.masks >= 0]), np.int32)
        where = np.where(program.masks >= 0, np.searchsorted(numbers, program.masks), -1).astype(np.int32)
        slots = int(compiled.memo.max(initial=-1)) + 1
        return numbers, rp.PatternCode(
            compiled.words.copy(),
            np.full_like(compiled.memo, -1) if slots * self.places > MEMO_BYTES else compiled.memo.copy(),
            compiled.excluded.copy(),
            np.append(where, np.int32(-1)),
            np.append(program.conditions, np.int32(-1)),
        )

    def _make_output(self) -> rp.Output:
        leaves = self.program.leaves
        rows = max(OUTPUT_ROWS, self.places) if self.program.all_rows else min(OUTPUT_ROWS, len(self.columns[0]) + 1)
        totals = len(leaves.totals_final)
        return rp.Output(
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.uint8),
            np.empty((len(leaves.rows), rows), np.int64),
            np.empty((len(leaves.labels), rows), np.int32),
            np.empty((totals, rows), np.int64),
            np.empty((totals, rows), np.float64),
            np.empty((totals, rows), np.int64),
            np.empty((totals, rows), np.uint8),
        )

    def _build(self, output: rp.Output, size: int) -> pa.Table:
        program = self.program
        arrays = [self._build_column(column, output, size).cast(column.type) for column in program.outputs]
        return pa.table(arrays, schema=program.output_schema)

    def _build_column(self, column: OutputColumn, output: rp.Output, size: int) -> pa.Array:
        match column.source:
            case "number":
                return pa.array(output.number[:size], mask=output.kind[:size] == rp.UNMATCHED)
            case "input":
                return self._take(column.column, output.row[:size])
            case "row":
                return self._take(column.column, output.rows[column.leaf, :size])
            case "label":
                labels = output.labels[column.leaf, :size]
                names = pa.array(self.program.variables, pa.string())
                return names.take(pa.array(np.maximum(labels, 0), mask=labels < 0))
        return self._build_total(column, output, size)

    def _take(self, at: int, rows: Any) -> pa.Array:
        missing = rows < 0
        found = rows if self.order is None else self.order[rows]
        return self.columns[at].take(pa.array(found, mask=missing if missing.any() else None))

    def _build_total(self, column: OutputColumn, output: rp.Output, size: int) -> pa.Array:
        state = output.state[column.leaf, :size]
        if (state > rc.NULL).any():
            raise RunError(f"{self.program.place}: a {column.function} in MEASURES does not fit into 64 bits")
        missing = state == rc.NULL
        ints, floats = output.ints[column.leaf, :size], output.floats[column.leaf, :size]
        if column.function == "COUNT":
            return pa.array(ints, mask=missing)
        kind = find_kind(self.program.schema.field(column.column).type)
        if column.function == "AVG":
            counts = np.maximum(output.counts[column.leaf, :size], 1)
            sums = floats if kind.is_float else ints / 10.0**column.scale
            return pa.array(sums / counts, mask=missing)
        if kind.is_float:
            return pa.array(floats, mask=missing)
        return decode_whole(ints.copy(), missing, column.type, self.words)

    def _explain(self, status: int, state: Any, offsets: Any) -> RunError:
        program = self.program
        low = int(offsets[state[rp.PARTITION]])
        row = low if self.order is None else int(self.order[low])
        key = ", ".join(f"{program.inputs[at].name} = {self.columns[at][row].as_py()!r}" for at in program.partition)
        where = f"{program.place}: MATCH_RECOGNIZE" + (f", partition {key}" if key else "")
        number = int(state[rp.NEXT_ROW]) - low + 1
        skip_to = " or ".join(name for name, wanted in zip(program.variables, program.skip_to, strict=False) if wanted)
        match status:
            case rp.STEP_LIMIT:
                return RunError(
                    f"{where}: the search takes more than {self.step_limit:,} steps (option step_limit); "
                    f"it was at row {number:,}; make conditions stricter, or raise the limit"
                )
            case rp.STACK_FULL:
                return RunError(f"{where}: a match from row {number:,} on is too long to be searched")
            case rp.SKIP_TO_ABSENT:
                return RunError(
                    f"{where}: AFTER MATCH SKIP goes to {skip_to}, which has no row in the match from row {number:,} on"
                )
            case rp.SKIP_TO_SAME:
                return RunError(
                    f"{where}: AFTER MATCH SKIP goes to {skip_to}, which has the first row of the match, row "
                    f"{number:,}: again without end"
                )
            case rp.FAILED_DIVISION:
                return RunError(f"{where}: a condition divides by zero near row {number:,}")
        return RunError(f"{where}: a number in a condition does not fit into 64 bits near row {number:,}")


def _is_text(column: pa.Array) -> bool:
    return find_kind(column.type).name == "text"
