"""Results for people: tables on a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.registry import Experiment
from benchmarks.run import Result

PIPED_WIDTH = 200  # where no terminal says how wide it is
STEADY = 0.05  # a spread that is not worth showing


def format_value(value: Any) -> str:
    """Format a value of a row: three digits that count, and the spread where there is one."""
    match value:
        case {"median": median, "low": low, "high": high}:
            wide = median and (high - low) / median > STEADY
            return (
                f"{format_number(median)} ({format_number(low)}-{format_number(high)})"
                if wide
                else format_number(median)
            )
        case float():
            return format_number(value)
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case None:
            return "-"
        case _:
            return str(value)


def format_number(value: float) -> str:
    """Format three digits that count, without powers of ten where people can read it."""
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e7:
        return f"{value / 1e6:,.0f} M" if size < 1e12 else f"{value:.2g}"
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"


def format_duration(seconds: float) -> str:
    """Format seconds, as minutes where there are several."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def format_title(result: Result | Experiment) -> str:
    return f"{result.name}: {result.measures} ({format_origin(result)})"


def format_origin(result: Result | Experiment) -> str:
    """Say where an experiment is from."""
    if not result.figure:
        return result.paper
    return f"{result.paper}, {'figure ' if result.figure[0].isdigit() else ''}{result.figure}"


def list_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return all columns of rows that need not have the same, in order."""
    return list(dict.fromkeys(name for row in rows for name in row))


def format_claim(stated: dict[str, str]) -> str:
    """Put a number beside that of the paper, in words."""
    paper = f"paper {stated['paper']}; here " if stated["paper"] else ""
    return f"{stated['what']}: {paper}{stated['ours']}"


def print_result(result: Result) -> None:
    """Print a result."""
    table = Table(title=format_title(result), title_justify="left")
    columns = list_columns(result.rows)
    for name in columns:
        is_text = isinstance(next((row[name] for row in result.rows if row.get(name) is not None), 0), str)
        table.add_column(name, justify="left" if is_text else "right")
    for row in result.rows:
        table.add_row(*(format_value(row.get(name)) for name in columns))
    console = Console()
    console = console if console.is_terminal else Console(width=PIPED_WIDTH)
    console.print(table)
    for one in result.stated:
        console.print(f"  {format_claim(one)}", highlight=False)
    for note in result.notes:
        console.print(f"  {note}", highlight=False)
    console.print(
        f"  {result.size} size, {result.repeats} repeats, {result.seconds:.0f} s in all, "
        f"{result.peak_mb:,.0f} MiB at the peak\n",
        highlight=False,
    )


def print_experiments(experiments: Sequence[Experiment]) -> None:
    """Print which experiments there are."""
    table = Table(title="motet bench NAME", title_justify="left")
    for name in ("name", "from", "measures"):
        table.add_column(name, no_wrap=name != "measures")
    for name in ("quick", "paper"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in experiments:
        quick = format_duration(one.seconds.quick) + (" (only by name)" if one.heavy else "")
        table.add_row(one.name, format_origin(one), one.measures, quick, format_duration(one.seconds.paper))
    console = Console()
    (console if console.is_terminal else Console(width=PIPED_WIDTH)).print(table)


def to_markdown(result: Result) -> str:
    """Format a result for a page."""
    columns = list_columns(result.rows)
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += [
        "| " + " | ".join(format_value(row.get(name)).replace("|", "\\|") for name in columns) + " |"
        for row in result.rows
    ]
    lines += ["", *(f"- {format_claim(one)}" for one in result.stated)]
    lines += ["", *(f"{note}  " for note in result.notes)]
    size = "" if result.size == "quick" else f" --size {result.size}"
    lines.append(
        f"`motet bench {result.name}{size}`, medians of {result.repeats} (in brackets the least and the most); "
        f"{result.seconds:.0f} s, {result.peak_mb:,.0f} MiB at the peak; {result.date[:10]}."
    )
    return "\n".join(lines)
