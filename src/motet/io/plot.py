"""Draw charts of results with altair: values over time or by group, matches by start and duration."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import MotetError, did_you_mean
from motet.io.query_columns import QueryColumns
from motet.io.text_tables import is_number
from motet.model.query import Query
from motet.model.window import TimeWindow

MAX_GROUPS = 10
MAX_POINTS = 5000  # what altair takes
MAX_CHARTS = 12
WIDTH = 560


def draw_chart(answers: Sequence[tuple[QueryColumns, pa.Table]], y: str | None) -> Any:
    """Draw one chart for each query that has rows, one below the other."""
    try:
        import altair as alt
    except ImportError as error:
        raise MotetError("plots need altair: pip install 'motet[plot]'") from error
    made = [_draw_query(alt, rows, found, y) for rows, found in answers if len(found)]
    if not made:
        raise MotetError("there is nothing to plot: no query has a result")
    chart = made[0]
    if len(made) > 1:
        together = alt.vconcat(*made[:MAX_CHARTS])
        chart = together.resolve_scale(color="independent", x="independent", y="independent")
    kind: Any = type(chart)
    object.__setattr__(chart, "__class__", _make_offline(kind))  # altair takes attributes for its own
    return chart


@cache
def _make_offline(kind: Any) -> Any:
    """Return a kind of chart that loads nothing from any network, neither in a notebook nor from a file."""
    import altair as alt

    class OfflineChart(kind):  # type: ignore[misc]
        def _repr_mimebundle_(self, *args: Any, **keywords: Any) -> Any:
            if alt.renderers.active != "default":  # chosen by the user
                return super()._repr_mimebundle_(*args, **keywords)
            drawn = io.StringIO()
            self.save(drawn, format="svg")
            drawable = f"application/vnd.vegalite.{alt.SCHEMA_VERSION.partition('.')[0]}+json"
            return {drawable: self.to_dict(), "image/svg+xml": drawn.getvalue(), "text/plain": "a chart"}

        def save(self, fp: Any, format: str | None = None, **keywords: Any) -> None:
            kind = format or (None if hasattr(fp, "write") else str(fp).rpartition(".")[2])
            # Altair warns where nothing could be put into a file: into an image.
            super().save(fp, format, **({"inline": True} if kind == "html" else {}) | keywords)

    return OfflineChart


def _draw_query(alt: Any, rows: QueryColumns, found: pa.Table, y: str | None) -> Any:
    if not rows.query.is_aggregate:
        return _draw_matches(alt, rows, found)
    value = _choose_value(rows, found.schema, y)
    groups = rows.query.group_by
    # Names of columns may hold signs that altair reads as its own: they are told by plain names and titles.
    table = pa.table({"value": found[value], "time": found[rows.times[0]], "group": _join_groups(found, groups)})
    left_out = ""
    if groups:
        most = _find_largest_groups(table)
        every = len(pc.unique(table["group"]))
        table = table.filter(pc.is_in(table["group"], value_set=pa.array(most)))
        left_out = f", {len(most)} of {every:,} groups" if every > len(most) else ""
    if len(table) > MAX_POINTS:
        left_out += f", the first {MAX_POINTS:,} of {len(table):,} rows"
        table = table.slice(0, MAX_POINTS)
    if rows.query.window is None:
        return _draw_bars(alt, rows.query, table, value, left_out)
    return _draw_line(alt, rows, table, value, left_out, _measure_slide(rows, found))


def _choose_value(rows: QueryColumns, schema: pa.Schema, y: str | None) -> str:
    """Return the column to show."""
    if y is not None and y not in rows.labels:
        hint = did_you_mean(y, rows.labels)
        raise MotetError(f"query {rows.query.name} returns no {y!r}" + (f"; {hint}" if hint else ""))
    numbers = [label for label in rows.labels if is_number(schema.field(label).type)]
    if y is None and not numbers:
        raise MotetError(f"query {rows.query.name} returns no number to plot")
    return y or numbers[0]


def _join_groups(found: pa.Table, groups: Sequence[str]) -> pa.Array | pa.ChunkedArray:
    if not groups:
        return pa.nulls(len(found), pa.string())
    texts = [pc.fill_null(pc.cast(found[name], pa.string()), "null") for name in groups]
    return pc.binary_join_element_wise(*texts, " · ") if len(texts) > 1 else texts[0]


def _find_largest_groups(table: pa.Table) -> list[str]:
    """Return the groups with the largest sums."""
    sums = table.append_column("number", pc.cast(table["value"], pa.float64(), safe=False)).group_by("group")
    found = sums.aggregate([("number", "sum")]).sort_by([("number_sum", "descending")])
    return list(found["group"].to_pylist()[:MAX_GROUPS])


def _measure_slide(rows: QueryColumns, found: pa.Table) -> Any:
    """Return how far apart two windows begin, as a difference of times; None where a value is of no window."""
    window = rows.query.window
    if not isinstance(window, TimeWindow) or window.slide is None:
        return None
    start, end = (found[name][0].as_py() for name in rows.times)
    size = end - start
    # A difference of times multiplied by microseconds would exceed what Python holds in one.
    return size * window.slide // window.size if isinstance(size, int) else size * (window.slide / window.size)


def _draw_line(alt: Any, rows: QueryColumns, table: pa.Table, value: str, left_out: str, slide: Any) -> Any:
    kind = _choose_axis_type(table.schema.field("time").type)
    # A continuous value holds until the next; a window's is one point, and a window without a match has none.
    holds = slide is None
    step: dict[str, Any] = {"interpolate": "step-after"} if holds else {"point": {"size": 12}, "strokeWidth": 1}
    points = _to_points(alt, table if holds else _break_lines(table, slide))
    encoding: dict[str, Any] = {
        "x": alt.X("time", type=kind, title=rows.times[0].replace("_", " ")),
        "y": alt.Y("value", type="quantitative", title=value, axis=_choose_ticks(alt, table)),
        "tooltip": [alt.Tooltip("time", type=kind), alt.Tooltip("value", type="quantitative", title=value)],
    }
    if rows.query.group_by:
        name = ", ".join(rows.query.group_by)
        encoding["color"] = alt.Color("group", type="nominal", title=name)
        encoding["tooltip"].append(alt.Tooltip("group", type="nominal", title=name))
    made = alt.Chart(points, title=f"{rows.query.name}{left_out}", width=WIDTH)
    return made.mark_line(**step).encode(**encoding)


def _break_lines(table: pa.Table, slide: Any) -> pa.Table:
    """Add a row without a value wherever windows without a match lie between two of a group, so that no line does."""
    ordered = table.sort_by([("group", "ascending"), ("time", "ascending")])
    rows = ordered.select(["group", "time"]).to_pylist()
    gaps = [
        {"value": None, "time": one["time"] + slide, "group": one["group"]}
        for one, other in pairwise(rows)
        if one["group"] == other["group"] and other["time"] - one["time"] > slide
    ]
    return pa.concat_tables([ordered, pa.Table.from_pylist(gaps, table.schema)])


def _choose_ticks(alt: Any, table: pa.Table) -> Any:
    """Return an axis that has whole numbers only where values are."""
    return alt.Axis(tickMinStep=1) if pa.types.is_integer(table.schema.field("value").type) else alt.Axis()


def _draw_bars(alt: Any, query: Query, table: pa.Table, value: str, left_out: str) -> Any:
    name = ", ".join(query.group_by) or "all events"
    made = alt.Chart(_to_points(alt, table), title=f"{query.name}{left_out}", width=WIDTH).mark_bar()
    tips = [alt.Tooltip("group", type="nominal", title=name), alt.Tooltip("value", type="quantitative", title=value)]
    return made.encode(
        x=alt.X("value", type="quantitative", title=value, axis=_choose_ticks(alt, table)),
        y=alt.Y("group", type="nominal", title=name, sort="-x"),
        tooltip=tips,
    )


def _draw_matches(alt: Any, rows: QueryColumns, found: pa.Table) -> Any:
    """Draw each match by its start and its duration."""
    left_out = f", the first {MAX_POINTS:,} of {len(found):,} matches" if len(found) > MAX_POINTS else ""
    found = found.slice(0, MAX_POINTS)
    took = pc.subtract(found["end"], found["start"])
    unit = ""
    if pa.types.is_duration(took.type):
        took = pc.divide(pc.cast(pc.cast(took, pa.duration("us")), pa.int64()), 1e6)
        unit = " (s)"
    table = pa.table({"start": found["start"], "end": found["end"], "took": took})
    kind = _choose_axis_type(table.schema.field("start").type)
    made = alt.Chart(_to_points(alt, table), title=f"{rows.query.name}{left_out}", width=WIDTH)
    return made.mark_circle(size=40, opacity=0.6).encode(
        x=alt.X("start", type=kind, title="start"),
        y=alt.Y("took", type="quantitative", title=f"from first to last event{unit}"),
        tooltip=[alt.Tooltip(name, type=kind) for name in ("start", "end")],
    )


def _choose_axis_type(type: pa.DataType) -> Literal["temporal", "quantitative"]:
    """Return how altair reads a time column: whole numbers are times too."""
    return "temporal" if pa.types.is_temporal(type) else "quantitative"


def _to_points(alt: Any, table: pa.Table) -> Any:
    """Return the points as altair takes them without pandas."""
    rows = table.to_pylist()
    for row in rows:
        for name, value in row.items():
            if hasattr(value, "isoformat"):
                row[name] = value.isoformat()
    return alt.Data(values=rows)
