"""Save and restore the state of an operator: whole, or as the changes of one micro-batch.

A log of one whole state and the changes since then stands for the last state. Replaying it needs no program: a log
written for other queries is first replayed and then fitted to the present ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from motet.engine.encode import read_times
from motet.engine.live.base import BranchOperator
from motet.engine.live.key_states import STATE_ARRAYS, KeyStates
from motet.engine.live.rows import retention_mask
from motet.engine.live.saved import SavedState, table_to_bytes
from motet.engine.live.schema_evolution import fit_rows_to_schema, from_saved_values, to_saved_values
from motet.engine.live.state_migration import SavedUnit
from motet.engine.schema import EventSchema


def save(live: BranchOperator) -> SavedState:
    """Save the whole state."""
    sections = {"rows": table_to_bytes(live.rows), "keys": table_to_bytes(live.keys.values), **_value_sections(live)}
    for place, slots in enumerate(live.slots):
        for level, states in enumerate(slots.states):
            sections |= _state_sections(f"unit {place} {level}", states)
    return SavedState(_header(live), sections)


def save_changes(live: BranchOperator) -> SavedState | None:
    """Save what the last micro-batch changed; None if only the whole state can be saved."""
    if live.needs_full_save:
        return None
    sections = {"rows": table_to_bytes(live.added), "keys": table_to_bytes(live.keys.added), **_value_sections(live)}
    for place, slots in enumerate(live.slots):
        for level, (dropped, states) in enumerate(slots.changed_states):
            sections[f"unit {place} {level} gone"] = pa.py_buffer(dropped)
            sections |= _state_sections(f"unit {place} {level}", states)
    return SavedState(_header(live), sections)


def restore(live: BranchOperator, saved: SavedState) -> None:
    """Continue from a saved state. Queries that it does not know begin where it ends."""
    header = saved.header
    live.watermark = header["watermark"]
    live.newest = header["newest"]
    rows = saved.table("rows")
    begins = first_unseen_time(saved)
    fingerprints = live.program.fingerprints
    for compiled in live.branch.queries:
        name = fingerprints[compiled.number]
        birth = header["queries"].get(name, begins)
        if birth is not None:
            live.start_times.setdefault(compiled.number, birth)
    for number in live.values:
        section = f"values {fingerprints[number]}"
        if section in saved.sections:
            live.values[number] = from_saved_values(live.program, live.program.queries[number], saved.table(section))
    live.rows = fit_rows_to_schema(rows, live.rows.schema)
    live.keys.restore(saved.table("keys"))
    units = [
        SavedUnit(each, partial(_load_states, saved, f"unit {place}")) for place, each in enumerate(header["units"])
    ]
    for slots in live.slots:
        slots.restore(units, header["queries"])
    live.needs_full_save = header != _header(live)


def find_unknown_queries(live: BranchOperator, saved: SavedState) -> list[str]:
    """Return the names of queries that a state does not know and that have no start time yet."""
    fingerprints = live.program.fingerprints
    new = [c for c in live.branch.queries if fingerprints[c.number] not in saved.header["queries"]]
    return [c.query.name for c in new if c.number not in live.start_times]


def first_unseen_time(saved: SavedState) -> int:
    """Return a time from which on every event is still to come."""
    return max(int(saved.header["newest"]) + 1, int(saved.header["watermark"]))


def replay_log(log: Sequence[bytes]) -> SavedState:
    """Return the state that a log of one whole state and later changes stands for."""
    saved, *later = [SavedState.from_bytes(part) for part in log]
    return _apply_changes(saved, later) if later else saved


def _apply_changes(saved: SavedState, later: Sequence[SavedState]) -> SavedState:
    rows, keys = saved.table("rows"), saved.table("keys")
    names = sorted({name.rpartition(" ")[0] for name in saved.sections if name.startswith("unit ")})
    states = {name: _read_states(saved, name) for name in names}
    for change in later:
        header = change.header
        keys = pa.concat_tables([keys, change.table("keys")])
        rows = pa.concat_tables([rows, change.table("rows")])
        times = read_times(rows, _read_schema(header, rows))
        kept = retention_mask(rows, times, header["partition"], header["watermark"], header["horizon"], header["last"])
        rows = rows.filter(pa.array(kept))
        for name in names:
            dropped = change.words(f"{name} gone")
            known = 1 + int(max(dropped.max(initial=0), states[name].ids.max(initial=0)))
            states[name] = states[name].drop(states[name].find(dropped, known)).concat(_read_states(change, name))
    last = later[-1]
    sections = {name: body for name, body in last.sections.items() if name.startswith("values ")}
    sections |= {"rows": table_to_bytes(rows), "keys": table_to_bytes(keys)}
    for name in names:
        sections |= _state_sections(name, states[name])
    return SavedState(last.header, sections)


def _header(live: BranchOperator) -> dict[str, Any]:
    schema = live.program.schema
    fingerprints = live.program.fingerprints
    retention, last = live.retention(live.watermark)
    return {
        "watermark": live.watermark,
        "newest": live.newest,
        "queries": {fingerprints[c.number]: live.start_times.get(c.number) for c in live.branch.queries},
        "units": [slots.description for slots in live.slots],
        "partition": list(live.branch.partition),
        "time": [schema.time, schema.type, schema.time_unit],
        "horizon": retention,
        "last": last,
    }


def _read_schema(header: dict[str, Any], rows: pa.Table) -> EventSchema:
    return EventSchema(rows.schema, *header["time"])


def _value_sections(live: BranchOperator) -> dict[str, Any]:
    """Save the partition values that continuous queries combine."""
    return {
        f"values {live.program.fingerprints[number]}": table_to_bytes(
            to_saved_values(live.program, live.program.queries[number], values)
        )
        for number, values in live.values.items()
    }


def _state_sections(name: str, states: KeyStates) -> dict[str, Any]:
    return {f"{name} {part}": pa.py_buffer(np.ascontiguousarray(getattr(states, part))) for part in STATE_ARRAYS}


def _load_states(saved: SavedState, unit: str, level: int) -> KeyStates:
    return _read_states(saved, f"{unit} {level}")


def _read_states(saved: SavedState, name: str) -> KeyStates:
    return KeyStates(*(saved.words(f"{name} {part}") for part in STATE_ARRAYS))
