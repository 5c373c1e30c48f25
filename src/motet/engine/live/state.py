"""Save and restore the state of an operator: whole, or as the rows that a micro-batch brought.

A log of one whole state and the rows of later micro-batches stands for the last state: an operator that is restored
from it is fed these rows again. That may be an operator of another plan or of other queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from motet.compile import Program
from motet.engine.encode import read_times
from motet.engine.live.base import BranchOperator
from motet.engine.live.key_states import read_states, state_names, state_sections
from motet.engine.live.rows import retention_mask
from motet.engine.live.saved import SavedState, table_to_bytes
from motet.errors import RunError
from motet.kernels.totals import NO_MINIMUM
from motet.plans.compiled import CompiledQuery
from motet.schema import EventSchema


def save(live: BranchOperator, token: str = "") -> SavedState:
    """Save the whole state; whoever stores it may give it a token."""
    sections = {"rows": table_to_bytes(live.rows), **live.save_sections()}
    return SavedState({**_header(live), "token": token}, sections)


def save_feed(live: BranchOperator, token: str = "") -> SavedState:
    """Save the rows that the last micro-batch brought, and how far the watermark moved."""
    header = {"watermark": live.watermark, "newest": live.newest, "token": token}
    return SavedState(header, {"rows": table_to_bytes(live.added)})


def restore(live: BranchOperator, saved: SavedState) -> None:
    """Continue from a whole state. Queries that it does not know begin where it ends."""
    header = saved.header
    live.watermark = header["watermark"]
    live.newest = header["newest"]
    for compiled in live.branch.queries:
        start = header["queries"].get(live.program.fingerprints[compiled.number], first_unseen_time(saved))
        if start is not None:
            live.start_times.setdefault(compiled.number, start)
    live.set_rows(fit_rows_to_schema(saved.table("rows"), live.schema))
    live.restore_sections(saved)


def restore_log(live: BranchOperator, log: Sequence[SavedState]) -> None:
    """Continue from a log of one whole state and the rows of later micro-batches, which are fed again."""
    if _has_changed_states(log):
        restore(live, merge_changed_states(log))
        return
    restore(live, log[0])
    for change in log[1:]:
        repeat_feed(live, change)


def repeat_feed(live: BranchOperator, change: SavedState) -> None:
    """Feed the rows of a micro-batch again; its results were given before."""
    live.feed(fit_rows_to_schema(change.table("rows"), live.schema), change.header["watermark"])
    live.newest = max(live.newest, change.header["newest"])


def can_extend_log(live: BranchOperator, log: Sequence[SavedState]) -> bool:
    """Return whether rows can be appended to a log: it has the format, the queries and the plan of this operator."""
    written, own = log[0].header, _header(live)
    return "token" in written and all(written[name] == own[name] for name in ("queries", "units", "partition", "time"))


def find_unknown_queries(live: BranchOperator, saved: SavedState) -> list[str]:
    """Return the names of queries that a state does not know and that have no start time yet."""
    fingerprints, known = live.program.fingerprints, saved.header["queries"]
    new = [c for c in live.branch.queries if fingerprints[c.number] not in known]
    return [c.query.name for c in new if c.number not in live.start_times]


def first_unseen_time(saved: SavedState) -> int:
    """Return a time from which on every event is still to come."""
    return max(int(saved.header["newest"]) + 1, int(saved.header["watermark"]))


def _has_changed_states(log: Sequence[SavedState]) -> bool:
    """Return whether a log was written before format 3, with the states that micro-batches changed."""
    return any("queries" in change.header for change in log[1:])


def merge_changed_states(log: Sequence[SavedState]) -> SavedState:
    """Return the state that a log of before format 3 stands for: later states of a key replace earlier ones."""
    saved, *later = log
    rows, keys = saved.table("rows"), saved.table("keys")
    names = state_names(saved, "unit ")
    states = {name: read_states(saved, name) for name in names}
    for change in later:
        header = change.header
        keys = pa.concat_tables([keys, change.table("keys")])
        rows = pa.concat_tables([rows, change.table("rows")])
        times = read_times(rows, EventSchema(rows.schema, *header["time"]))
        kept = retention_mask(rows, times, header["partition"], header["watermark"], header["horizon"], header["last"])
        rows = rows.filter(pa.array(kept))
        for name in names:
            dropped = change.words(f"{name} gone")
            known = 1 + int(max(dropped.max(initial=0), states[name].ids.max(initial=0)))
            states[name] = states[name].drop(states[name].find(dropped, known)).concat(read_states(change, name))
    last = later[-1]
    sections = {name: body for name, body in last.sections.items() if name.startswith("values ")}
    sections |= {"rows": table_to_bytes(rows), "keys": table_to_bytes(keys)}
    for name in names:
        sections |= state_sections(name, states[name])
    return SavedState(last.header, sections)


def _header(live: BranchOperator) -> dict[str, Any]:
    schema = live.program.schema
    retention, last = live.retention(live.watermark)
    return {
        "watermark": live.watermark,
        "newest": live.newest,
        "queries": {live.program.fingerprints[c.number]: live.start_times.get(c.number) for c in live.branch.queries},
        "units": live.unit_descriptions,
        "partition": list(live.branch.partition),
        "time": [schema.time, schema.type, schema.time_unit],
        "horizon": retention,
        "last": last,
    }


def fit_rows_to_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Drop columns that nobody reads any more, and add those that were not read before as nulls."""
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        column = rows[field.name]
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as problem:
            raise RunError(
                f"the column {field.name!r} was {column.type} when the stream was last run and is {field.type} now: "
                f"start with a new checkpoint ({problem})"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def to_saved_values(program: Program, compiled: CompiledQuery, partials: pa.Table) -> pa.Table:
    """Return the totals of one query with its own columns only, keys by name."""
    keys = {f"k{at}": name for at, name in enumerate(program.partition)}
    own = [name for name in partials.column_names if name not in keys or keys[name] in compiled.partition]
    table = partials.select([name for name in own if name != "query"])
    return table.rename_columns([f"key {keys[name]}" if name in keys else name for name in table.column_names])


def from_saved_values(program: Program, compiled: CompiledQuery, values: pa.Table) -> pa.Table:
    """Turn the result of `to_saved_values` into partial results; channels that the query lacks are empty."""
    size = len(values)
    names = {f"k{at}": f"key {name}" for at, name in enumerate(program.partition)}
    columns = []
    for field in program.partial_schema:
        name = names.get(field.name, field.name)
        if name == "query":
            columns.append(pa.array(np.full(size, compiled.number, np.int32)))
        elif name in values.column_names:
            columns.append(values[name].cast(field.type))
        elif field.name.startswith(("k", "s")):
            columns.append(pa.nulls(size, field.type))
        else:
            empty = NO_MINIMUM if field.name.startswith("m") else 0
            columns.append(pa.array(np.full(size, empty)).cast(field.type))
    return pa.Table.from_arrays(columns, schema=program.partial_schema)
