"""The state of a live branch saved and restored: whole, or as what one micro-batch changed in it.

A log of one whole state and the changes since then stands for the last state. Applying changes needs no program: a
log written for other queries is first put together and then fitted to those of today.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from motet.engine.encode import times_of
from motet.engine.live.base import Live
from motet.engine.live.fit import fit_rows, fit_values, plain_values
from motet.engine.live.reunion import SavedUnit
from motet.engine.live.rows import still_needed
from motet.engine.live.runs import RUN_PARTS, Runs
from motet.engine.live.saved import Saved, table_bytes
from motet.engine.schema import EventSchema


def save(live: Live) -> Saved:
    """All of it."""
    sections = {"rows": table_bytes(live.rows), "keys": table_bytes(live.keys.values), **_values(live)}
    for place, slots in enumerate(live.slots):
        for level, runs in enumerate(slots.held):
            sections |= _run_sections(f"unit {place} {level}", runs)
    return Saved(_header(live), sections)


def changes(live: Live) -> Saved | None:
    """What the last micro-batch changed; None where only the whole state tells."""
    if live.rewritten:
        return None
    sections = {"rows": table_bytes(live.added), "keys": table_bytes(live.keys.added), **_values(live)}
    for place, slots in enumerate(live.slots):
        for level, (gone, runs) in enumerate(slots.changed):
            sections[f"unit {place} {level} gone"] = pa.py_buffer(gone)
            sections |= _run_sections(f"unit {place} {level}", runs)
    return Saved(_header(live), sections)


def restore(live: Live, saved: Saved) -> None:
    """Go on from a saved state. Queries that it does not know begin where it ends."""
    header = saved.header
    live.watermark = header["watermark"]
    live.newest = header["newest"]
    rows = saved.table("rows")
    begins = begin_after(saved)
    prints = live.program.fingerprints
    for compiled in live.branch.queries:
        name = prints[compiled.number]
        birth = header["queries"].get(name, begins)
        if birth is not None:
            live.births.setdefault(compiled.number, birth)
    for number in live.values:
        section = f"values {prints[number]}"
        if section in saved.sections:
            live.values[number] = fit_values(live.program, live.program.queries[number], saved.table(section))
    live.rows = fit_rows(rows, live.rows.schema)
    live.keys.restore(saved.table("keys"))
    units = [SavedUnit(each, partial(_runs, saved, f"unit {place}")) for place, each in enumerate(header["units"])]
    for slots in live.slots:
        slots.restore(units, header["queries"])
    live.rewritten = header != _header(live)


def unknown_queries(live: Live, saved: Saved) -> list[str]:
    """The names of queries that a state does not know, and of which nobody has said when they begin."""
    prints = live.program.fingerprints
    new = [c for c in live.branch.queries if prints[c.number] not in saved.header["queries"]]
    return [c.query.name for c in new if c.number not in live.births]


def begin_after(saved: Saved) -> int:
    """A time from which on every event is still to come."""
    return max(int(saved.header["newest"]) + 1, int(saved.header["watermark"]))


def put_together(log: Sequence[bytes]) -> Saved:
    """The state that a log of one whole state and later changes stands for."""
    saved, *later = [Saved.from_bytes(part) for part in log]
    return _applied(saved, later) if later else saved


def _applied(saved: Saved, later: Sequence[Saved]) -> Saved:
    rows, keys = saved.table("rows"), saved.table("keys")
    names = sorted({name.rpartition(" ")[0] for name in saved.sections if name.startswith("unit ")})
    runs = {name: _named_runs(saved, name) for name in names}
    for change in later:
        header = change.header
        keys = pa.concat_tables([keys, change.table("keys")])
        rows = pa.concat_tables([rows, change.table("rows")])
        times = times_of(rows, _schema_of(header, rows))
        kept = still_needed(rows, times, header["partition"], header["watermark"], header["horizon"], header["last"])
        rows = rows.filter(pa.array(kept))
        for name in names:
            gone = change.words(f"{name} gone")
            known = 1 + int(max(gone.max(initial=0), runs[name].ids.max(initial=0)))
            runs[name] = runs[name].without(runs[name].places(gone, known)).plus(_named_runs(change, name))
    last = later[-1]
    sections = {name: body for name, body in last.sections.items() if name.startswith("values ")}
    sections |= {"rows": table_bytes(rows), "keys": table_bytes(keys)}
    for name in names:
        sections |= _run_sections(name, runs[name])
    return Saved(last.header, sections)


def _header(live: Live) -> dict[str, Any]:
    schema = live.program.schema
    prints = live.program.fingerprints
    horizon, last = live.horizon(live.watermark)
    return {
        "watermark": live.watermark,
        "newest": live.newest,
        "queries": {prints[c.number]: live.births.get(c.number) for c in live.branch.queries},
        "units": [slots.description for slots in live.slots],
        "partition": list(live.branch.partition),
        "time": [schema.time, schema.type, schema.time_unit],
        "horizon": horizon,
        "last": last,
    }


def _schema_of(header: dict[str, Any], rows: pa.Table) -> EventSchema:
    return EventSchema(rows.schema, *header["time"])


def _values(live: Live) -> dict[str, Any]:
    """The values of partitions that continuous queries combine."""
    return {
        f"values {live.program.fingerprints[number]}": table_bytes(
            plain_values(live.program, live.program.queries[number], values)
        )
        for number, values in live.values.items()
    }


def _run_sections(name: str, runs: Runs) -> dict[str, Any]:
    return {f"{name} {part}": pa.py_buffer(np.ascontiguousarray(getattr(runs, part))) for part in RUN_PARTS}


def _runs(saved: Saved, unit: str, level: int) -> Runs:
    return _named_runs(saved, f"{unit} {level}")


def _named_runs(saved: Saved, name: str) -> Runs:
    return Runs(*(saved.words(f"{name} {part}") for part in RUN_PARTS))
