"""Draw the charts of conclusions from the tables that the documentation shows, so that both say the same.

python -m benchmarks.figures    # into docs/images
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.chart import PADDING

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = re.compile(r"-?[\d,]*\.?\d+")
PURE = ("none", "prefix", "pairs", "stacks", "auto")
WIDTH = 560
LONG_RUN = "<!-- bench scale -->"
PEERS = "`sequenceCount` and MATCH_RECOGNIZE answer another question"


def read_table(page: str, start: str) -> list[dict[str, str]]:
    """Return the rows of the first Markdown table after some text, by the names of their columns."""
    lines = page[page.index(start) + len(start) :].splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))])
    head, _, *body = rows
    return [dict(zip(head, row, strict=True)) for row in body]


def read_number(cell: str) -> float | None:
    """Return the number that a cell begins with; None where it has none."""
    found = NUMBER.match(cell)
    return None if found is None else float(found[0].replace(",", ""))


def list_growth(tables: str) -> Iterator[dict[str, Any]]:
    """Yield the time to list all matches, and to count them, by their number."""
    for row in read_table(tables, "<!-- bench growth-matches -->"):
        for name, case in (("found", "listed"), ("counted", "counted")):
            yield {"x": read_number(row["matches"]), "y": read_number(row[name]), "case": case}


def list_gains(tables: str) -> Iterator[dict[str, Any]]:
    """Yield how many times as fast queries are as planned than each alone, by their number."""
    for name, case in (("sharon-12b-legs", "consist of common parts"), ("sharon-12b", "have parts in common")):
        for row in read_table(tables, f"<!-- bench {name} -->"):
            if row["executor"] == "motet":
                yield {"x": read_number(row["queries"]), "y": read_number(row["auto gains"]), "case": case}


def list_plans(tables: str) -> Iterator[dict[str, Any]]:
    """Yield how many times as long as the best each pure form takes, and `auto`, in every setting."""
    for row in read_table(tables, "<!-- bench plans -->"):
        times = {name: read_number(row[name]) for name in row if name in {*PURE, "greedy", "sharon", "gloria"}}
        best = min(time for time in times.values() if time)
        for name in PURE:
            if time := times[name]:
                yield {"setting": row["setting"], "plan": name, "times": round(time / best, 2)}


def list_pipelines(tables: str) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each pipeline on Spark."""
    for row in read_table(tables, "<!-- bench spark-batch -->"):
        yield {"pipeline": row["pipeline"], "seconds": read_number(row["wall s"])}


def list_long_run(tables: str) -> Iterator[dict[str, Any]]:
    """Yield the speed and the memory of one long batch, by its minutes."""
    for row in read_table(tables, LONG_RUN):
        for name, case in (("M rows/s", "million rows a second"), ("memory GB", "memory, GB")):
            yield {"x": read_number(row["minute"]), "y": read_number(row[name]), "case": case}


def list_peers(conclusions: str) -> Iterator[dict[str, Any]]:
    """Yield how many times as long as motet in process each way takes for `s2`, where it gives an answer."""
    yield {"way": "motet, in process", "times": 1.0}
    own, *others = read_table(conclusions, PEERS)
    speed = read_number(own["s2"])
    for row in others:
        number = read_number(row["s2"])
        if number is None or speed is None:
            continue
        yield {"way": row["way"], "times": round(speed / number) if row["way"].startswith("motet") else number}


def draw_lines(rows: list[dict[str, Any]], x: str, y: str, log: bool = False) -> Any:
    """Return a line with points for each case."""
    import altair as alt

    scale = alt.Scale(type="log") if log else alt.Scale(zero=True)
    powers = {"values": [10.0**power for power in range(-3, 10)], "format": ",~r"} if log else {"tickCount": 6}
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", title=x, scale=scale, axis=alt.Axis(**powers)),
            y=alt.Y("y:Q", title=y, scale=scale, axis=alt.Axis(**powers)),
            color=alt.Color("case:N", title=None, sort=None, legend=alt.Legend(labelLimit=0)),
        )
        .properties(width=WIDTH - 160, height=240)
    )


def draw_bars(rows: list[dict[str, Any]], name: str, value: str, title: str, log: bool = False) -> Any:
    """Return horizontal bars with their values beside them; those of motet in a colour of their own."""
    import altair as alt

    scale = (
        alt.Scale(type="log", domain=[0.5, 2 * max(row[value] for row in rows)], nice=False)
        if log
        else alt.Scale(zero=True)
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(f"{name}:N", sort=None, title=None, axis=alt.Axis(labelLimit=0)),
        x=alt.X(f"{value}:Q", title=title, scale=scale),
    )
    own = f"test(/motet|queries/, datum.{name}) && !test(/identity/, datum.{name})"
    bars = base.mark_bar().encode(
        x2=alt.datum(0.5) if log else alt.Undefined,
        color=alt.condition(own, alt.value("#00796b"), alt.value("#b0b8bd")),
    )
    return (bars + base.mark_text(align="left", dx=4).encode(text=alt.Text(f"{value}:Q", format=",~r"))).properties(
        width=WIDTH - 160
    )


def draw_plans(rows: list[dict[str, Any]]) -> Any:
    """Return a point for each setting and plan."""
    import altair as alt

    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(filled=True, size=60, opacity=0.8)
        .encode(
            y=alt.Y("setting:N", sort=None, title=None, axis=alt.Axis(labelLimit=0, grid=True)),
            x=alt.X(
                "times:Q",
                title="times as long as the best plan of the setting",
                scale=alt.Scale(type="log", nice=False),
            ),
            color=alt.Color("plan:N", title=None, scale=alt.Scale(domain=PURE)),
            shape=alt.Shape("plan:N", title=None, scale=alt.Scale(domain=PURE)),
        )
        .properties(width=WIDTH - 160)
    )


def draw_conclusions(folder: Path = DOCS) -> Iterator[Path]:
    """Draw all charts of conclusions beside the pages of a folder, and yield their files."""
    tables, conclusions = ((folder / name).read_text() for name in ("benchmark-tables.md", "benchmarks.md"))
    charts = {
        "growth-matches": draw_lines(list(list_growth(tables)), "matches", "CPU seconds", log=True),
        "sharon-12b": draw_lines(list(list_gains(tables)), "queries", "times as fast as each query alone"),
        "plans": draw_plans(list(list_plans(tables))),
        "spark-batch": draw_bars(list(list_pipelines(tables)), "pipeline", "seconds", "seconds for 5 million rows"),
        "peers": draw_bars(
            list(list_peers(conclusions)), "way", "times", "times as long as motet in process", log=True
        ),
    }
    if f"{LONG_RUN}\n|" in tables:  # it runs only by its own name
        charts["scale"] = draw_lines(list(list_long_run(tables)), "minutes", "million rows a second, GB")
    for name, chart in charts.items():
        file = folder / "images" / f"{name}.svg"
        chart.properties(padding=PADDING).save(str(file))
        yield file


if __name__ == "__main__":
    for drawn in draw_conclusions():
        print(drawn.relative_to(DOCS.parent))
