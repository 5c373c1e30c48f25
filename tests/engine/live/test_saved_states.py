"""States that earlier versions wrote are read by this one: `states/` holds one of each version of the format.

After a change of the format, raise `VERSION`, run `python -m tests.engine.live.test_saved_states` for the new files,
and keep the old ones.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pytest

from motet.compile import compile_workload
from motet.engine.live import SavedState, Stream
from motet.engine.live.saved import MAGIC, VERSION
from motet.engine.local import run_table
from motet.errors import RunError
from motet.language import parse
from motet.options import Options
from motet.schema import EventSchema
from tests.comparison import assert_same_results

FOLDER = Path(__file__).with_name("states")
SECOND = 1_000_000
COLUMNS = pa.schema([("time", pa.int64()), ("type", pa.string()), ("k", pa.string()), ("x", pa.float64())])
# Every way to keep state: panes, windows, starts, extended totals, rows, values of partitions, a NEG, a count window.
WORKLOAD = """
QUERY panes RETURN COUNT(*), SUM(A.x), MAX(B.x) PATTERN SEQ(A+, B) GROUP BY k WITHIN 20 s SLIDE 10 s
QUERY shared RETURN COUNT(*) PATTERN SEQ(A, B, C) GROUP BY k WITHIN 20 s SLIDE 10 s
QUERY windows RETURN COUNT(*) PATTERN SEQ(NOT C, A, B) GROUP BY k WITHIN 20 s SLIDE 10 s
QUERY starts RETURN COUNT(*) PATTERN SEQ(A, NOT C) GROUP BY k WITHIN 12 s
QUERY never RETURN COUNT(*) PATTERN SEQ(A, NEG(C)) GROUP BY k WITHIN 20 s SLIDE 20 s
QUERY huge RETURN COUNT(*), SUM(A.x) PATTERN A+ GROUP BY k WITHIN 500 s SLIDE 500 s
QUERY moving RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 9 s
QUERY rising RETURN COUNT(*) PATTERN A a+ WHERE a.x < NEXT(a).x GROUP BY k WITHIN 15 s
QUERY words RETURN MIN(A.k) PATTERN SEQ(A, B) WITHIN 20 s SLIDE 10 s
QUERY counted RETURN COUNT(*) PATTERN SEQ(A, B) GROUP BY k WITHIN 4 EVENTS
"""
# Matches, aggregates over them, partitions that are combined at every moment, a count window.
DETECTION = """
QUERY rising RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 10 s
QUERY unanswered RETURN * PATTERN SEQ(A a, NOT C c) WHERE [k] AND a.x < c.x WITHIN 12 s
QUERY detected RETURN COUNT(*) PATTERN SEQ(A a, C, B b) WHERE [k] AND a.x < b.x WITHIN 20 s SLIDE 10 s
QUERY moving RETURN COUNT(*) PATTERN SEQ(A a, C, B b) WHERE [k] AND a.x < b.x WITHIN 9 s
QUERY counted RETURN a, b PATTERN SEQ(A a, B b) WHERE [k] AND a.x < b.x WITHIN 4 EVENTS
"""
WORKLOADS = {"version": WORKLOAD, "detection": DETECTION}


def events() -> pa.Table:
    """Events of four keys; the counts of one outgrow 64 bits before the state is saved."""
    rows = [(second, "A", "many", 1.0) for second in range(85)]
    rows += [(second, "ABCA"[second % 4], "busy", float(second % 5)) for second in range(160)]
    rows += [(second, "AAB"[second % 3], "calm", float(second % 7)) for second in range(3, 150, 7)]
    rows += [(second, "ABC"[second % 3], "late", 1.0) for second in range(88, 99)]
    return pa.table(list(zip(*sorted(rows), strict=True)), schema=COLUMNS)


def stream(workload: str) -> Stream:
    return Stream(compile_workload(parse(workload), EventSchema(COLUMNS), Options(mode="append")))


def first_half(live: Stream) -> pa.Table:
    """Up to a watermark of 90 seconds, with rows up to 100 waiting."""
    table = events()
    early = table.filter(pa.array([time < 100 for time in table["time"].to_pylist()]))
    live.feed(early, -SECOND)
    return live.feed(early.slice(0, 0), 90 * SECOND).results


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # counts wrap, and numpy says so
@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_a_state_of_every_version_goes_on_as_if_it_had_never_been_saved(file: Path) -> None:
    saved = {name: base64.b64decode(text) for name, text in json.loads(file.read_text()).items()}
    workload = WORKLOADS[file.stem.partition("-")[0]]
    before = first_half(stream(workload))
    restored = stream(workload)
    restored.restore(saved)
    table = events()
    rest = table.filter(pa.array([time >= 100 for time in table["time"].to_pylist()]))
    found = [before, restored.feed(rest, 90 * SECOND).results, restored.finish().results]
    expected = run_table(compile_workload(parse(workload), EventSchema(COLUMNS)), table).table
    assert_same_results(pa.concat_tables(found), expected)


def test_there_is_a_state_of_this_version() -> None:
    assert all((FOLDER / f"{kind}-{VERSION}.json").exists() for kind in WORKLOADS)


def test_the_state_of_a_later_version_is_refused() -> None:
    state = SavedState({}, {}).to_bytes()
    later = MAGIC + (VERSION + 1).to_bytes(2, "little") + state[len(MAGIC) + 2 :]
    with pytest.raises(RunError, match="newer motet"):
        SavedState.from_bytes(later)
    with pytest.raises(RunError, match="not the state of a motet stream"):
        SavedState.from_bytes(b"something else")


if __name__ == "__main__":
    for kind, workload in WORKLOADS.items():
        live = stream(workload)
        first_half(live)
        states = {name: SavedState.from_bytes(state).to_bytes(compressed=True) for name, state in live.save().items()}
        texts = {name: base64.b64encode(state).decode() for name, state in states.items()}
        FOLDER.joinpath(f"{kind}-{VERSION}.json").write_text(json.dumps(texts, indent=1) + "\n")
