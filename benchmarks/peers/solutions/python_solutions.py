"""Plain Python: A-Seq's counts in dicts, one for each window that is open, nothing else to install than a reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness import Answer, Question, Row, main

Event = tuple[int, str]


def count_by_window(events: Iterable[Event], pattern: list[str], slide: int, panes: int) -> Iterator[tuple[int, int]]:
    """Count matches of a sequence of different types by window, from the events of one key in time order."""
    places = {type: place for place, type in enumerate(pattern)}
    length = len(pattern)
    counts: dict[int, list[int]] = {}
    waiting: list[tuple[int, int, int]] = []  # what events of the present time add: they do not see each other
    now = None
    for time, type in events:
        place = places.get(type)
        if place is None:
            continue
        if time != now:
            for window, at, more in waiting:
                counts[window][at] += more
            waiting.clear()
            now = time
        pane = time // slide
        for window in range(pane - panes + 1, pane + 1):
            totals = counts.get(window)
            if totals is None:
                totals = counts[window] = [0] * length
            more = totals[place - 1] if place else 1
            if more:
                waiting.append((window, place, more))
    for window, at, more in waiting:
        counts[window][at] += more
    return ((window, totals[-1]) for window, totals in counts.items() if totals[-1])


def a_seq(question: Question) -> Answer:
    import pyarrow.parquet as pq

    def rows() -> Iterator[Row]:
        table = pq.read_table(question.parquet)
        by_key: dict[int, list[Event]] = {}
        for key, time, type in zip(*(table[name].to_pylist() for name in ("key", "time", "type")), strict=True):
            by_key.setdefault(key, []).append((time, type))
        for key, events in by_key.items():
            events.sort(key=lambda event: event[0])
            for number, pattern in enumerate(question.patterns):
                for window, count in count_by_window(events, pattern, question.slide, question.panes):
                    yield number, key, window, count

    return rows


if __name__ == "__main__":
    main({"a-seq": a_seq})
