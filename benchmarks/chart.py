"""Results as a chart: html, svg, png, or the Vega-Lite specification itself (json)."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

from benchmarks.registry import Axes, load_experiments
from benchmarks.run import Result, get_median
from benchmarks.show import format_claim, format_title
from motet.errors import MotetError

# Around a chart: where the font that it was measured with is missing, letters are wider.
PADDING = {"left": 60, "right": 40, "top": 5, "bottom": 5}
SUFFIXES = (".html", ".svg", ".png", ".json")


def check_chart(target: Path) -> None:
    """Raise unless a chart can be written there, before anything is measured."""
    if target.suffix not in SUFFIXES:
        raise MotetError(f"a chart is {', '.join(SUFFIXES)}, not {target.suffix or target.name!r}")
    try:
        import altair  # noqa: F401
    except ImportError as error:
        raise MotetError("charts need altair: pip install 'motet[plot]'") from error


def write_chart(result: Result, target: Path) -> bool:
    """Write the chart of a result; nothing for what is a table by nature."""
    axes = load_experiments()[result.name].axes
    if axes is None:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    offline = {"inline": True} if target.suffix == ".html" else {}  # a page that loads nothing
    build_chart(result, axes).save(str(target), **offline)
    return True


def build_chart(result: Result, axes: Axes) -> Any:
    """Return lines with points, and a bar from the least to the most of each point."""
    import altair as alt

    values = to_long_form(result, axes)
    of_numbers = all(isinstance(value["x"], int | float) for value in values)
    x = alt.X(
        "x:Q" if of_numbers else "x:O",
        title=axes.x,
        axis=alt.Axis(labelLimit=0, labelOverlap="greedy"),
        scale=alt.Scale(type="log") if axes.log_x else alt.Undefined,
        sort=None,
    )
    y_scale = alt.Scale(type="log") if axes.log_y else alt.Scale(zero=True)
    color = alt.Color(
        "case:N",
        title=None,
        sort=alt.Undefined if axes.by else list(axes.series),
        legend=alt.Legend(labelLimit=0, symbolLimit=0, symbolOpacity=1),
    )
    base = alt.Chart(alt.InlineData(values=values))
    lines = base.mark_line(point=True).encode(x=x, y=alt.Y("y:Q", title=axes.unit, scale=y_scale), color=color)
    spread = base.mark_rule(opacity=0.5).encode(x=x, y=alt.Y("low:Q", scale=y_scale), y2="high:Q", color=color)
    title = alt.Title(wrap(format_title(result), 80), subtitle=[format_claim(one) for one in result.stated])
    return (spread + lines).properties(title=title, width=560, height=320, padding=PADDING)


def to_long_form(result: Result, axes: Axes) -> list[dict[str, Any]]:
    """Return a value for each row and series that has one."""
    values = []
    for row in result.rows:
        for name in axes.series:
            value = row.get(name)
            if isinstance(get_median(value), int | float):
                low, high = (value["low"], value["high"]) if isinstance(value, dict) else (value, value)
                case = f"{row[axes.by]}: {name}" if axes.by else name
                values.append(
                    {"x": get_median(row[axes.x]), "case": case, "y": get_median(value), "low": low, "high": high}
                )
    return values
