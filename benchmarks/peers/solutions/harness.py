"""How every solution is run: `python SOLUTION.py NAME ANSWER REPEATS FOLDER...`, in the environment of its peer.

A FOLDER has `question.json` and `events.parquet` (and the same as `events.csv`): time in microseconds, type, key. A
solution answers with a row (query, key, window, count) for each query, key and window, by its number, that has a match.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Seconds of answering, where more than one answer is asked for.
LEAST = 0.5

Row = tuple[int, int, int, int]
Answer = Callable[[], Iterable[Sequence[Any]]]  # four values that int() reads, as a Row


@dataclass(frozen=True)
class Question:
    """Sequences of types per key; windows begin at every multiple of the slide, which divides their length."""

    text: str  # in the language of motet
    patterns: list[list[str]]
    within: int
    slide: int
    folder: Path
    limit: float
    keep_rows: bool

    @property
    def panes(self) -> int:
        return self.within // self.slide

    @property
    def parquet(self) -> str:
        return str(self.folder / "events.parquet")

    @property
    def csv(self) -> str:
        return str(self.folder / "events.csv")


def main(solutions: dict[str, Callable[[Question], Answer]]) -> None:
    """Start, answer one folder after another, and write what was found and how long it took.

    The last folder is answered as often as asked for and as time allows. A file after each answer tells the parent how
    far it is.
    """
    name, answer, repeats, *folders = sys.argv[1:]
    for place, folder in enumerate(map(Path, folders)):
        question = Question(**json.loads((folder / "question.json").read_text()), folder=folder)
        began = time.perf_counter()
        run = solutions[name](question)
        startup = time.perf_counter() - began
        # What was loaded stays: or else the rows of an answer make Python look through all of it again.
        gc.freeze()
        times = int(repeats) if place == len(folders) - 1 else 1
        found = {"startup": startup, **time_answers(question, run, times)}
        partial = Path(answer).with_suffix(".partial")
        partial.write_text(json.dumps(found))
        partial.rename(Path(answer).with_suffix(f".{place}"))


def time_answers(question: Question, run: Answer, repeats: int) -> dict[str, object]:
    """Return the rows, and the seconds of each time.

    Quick answers are asked for so often that the first few, for which memory is still made ready, do not decide.
    """
    seconds: list[float] = []
    rows: list[Row] = []
    while (len(seconds) < repeats or (repeats > 1 and sum(seconds) < LEAST)) and sum(seconds) < question.limit:
        began = time.perf_counter()
        rows = [(int(q), int(key), int(window), int(count)) for q, key, window, count in run()]
        seconds.append(time.perf_counter() - began)
    return {
        "seconds": seconds,
        "rows": len(rows),
        "total": sum(row[3] for row in rows),
        "answer": sorted(rows) if question.keep_rows else [],
        "ran": getattr(run, "ran", []),  # what motet executed
    }
