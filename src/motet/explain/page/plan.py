"""Renders a plan as one self-contained page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from motet.compile import Program
from motet.explain.analysis import Analysis, estimate_events
from motet.explain.branches import MOST_SHARED, PLANS, format_partition, format_rows, format_strategy
from motet.explain.formatting import (
    EQUAL_RATES,
    find_leading_comment,
    format_count,
    format_names,
    format_number,
    format_time,
)
from motet.explain.gloria import collect_q_sets
from motet.explain.page.branches import SymbolDetails, build_join_graph, build_template_graph
from motet.explain.page.document import build_document
from motet.explain.page.drawing import draw_graph
from motet.explain.page.graph import Details
from motet.explain.text import describe_plan, find_renderer, format_plan
from motet.language.printer import to_text
from motet.statistics.model import format_symbol
from motet.template.symbols import Symbol

# What plain plans of joins do.
JOIN_PLANS = {
    "none": "joined as written, nothing shared",
    "share": "joined as written, equal joins once",
    "reorder": "each query by its own cost, equal joins once",
}


def render_plan_html(
    program: Program, counts: Mapping[str, int] | None = None, title: str = "", analysis: Analysis | None = None
) -> str:
    """Render the plan as a page that needs nothing but itself, with what a run of it found."""
    plan = describe_plan(program, counts, analysis)
    numbers = {query.name: at for at, query in enumerate(program.workload.queries)}
    data = {
        "title": title or _name_workload(program),
        "optimizer": program.options.optimizer,
        "queries": _list_queries(program, plan),
        "tiles": list(_list_tiles(plan)),
        "graphs": list(_draw_graphs(program, plan, numbers, _find_symbol_details(program, counts))),
        "costs": list(_chart_costs(plan)),
        "sets": _list_q_sets(plan, numbers),
        "tables": [*_list_run_tables(plan), *_list_units(plan), _list_inputs(plan)],
        "text": "\n".join(format_plan(plan)),
    }
    return build_document("plan", data)


def _name_workload(program: Program) -> str:
    """Return the name of the file that the queries came from, else how many there are."""
    origin = program.workload.origin
    return format_count(len(program.workload.queries), "query") if origin.startswith("<") else Path(origin).name


def _number_detect(plan: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the branches that detect with their numbers, which follow those of the others."""
    return enumerate(plan["detect"], len(plan["branches"]) + 1)


def _list_queries(program: Program, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """List each query with its text and where it runs."""
    where: dict[str, dict[str, Any]] = {}
    for at, branch in enumerate(plan["branches"], 1):
        for unit_at, unit in enumerate(branch["units"], 1):
            place = {"graph": f"branch-{at}", "place": f"unit {at}.{unit_at}", "way": unit["strategy"]}
            where |= {query["name"]: place for query in unit["queries"]}
    for at, branch in _number_detect(plan):
        for query in branch["queries"]:
            where[query["name"]] = {"graph": f"branch-{at}", "place": f"branch {at}", "way": query["way"]}
    workload = program.workload
    found = [
        {
            "name": query.name,
            "text": to_text(query).rstrip("\n"),
            "words": find_leading_comment(query, workload),
            **where[query.name],
        }
        for query in workload.queries
    ]
    if "actual" in plan:
        _add_run_facts(found, plan["actual"])
    return found


def _add_run_facts(queries: Sequence[dict[str, Any]], actual: dict[str, Any]) -> None:
    """Add the results of each query, and the time of what it runs in."""
    times = {where.lower(): (seconds, share) for where, seconds, share, _ in _list_times(actual)}
    sizes = Counter(query["place"] for query in queries)
    for query in queries:
        place = query["place"]
        seconds, share = times.get(place) or times[f"branch {place.removeprefix('unit ').split('.')[0]}"]
        others = f", with {format_count(sizes[place] - 1, 'other query')}" if sizes[place] > 1 else ""
        query["results"] = actual["results"][query["name"]]
        query["facts"] = [["took", f"{seconds} s, {share} of the run{others}"]]


def _list_tiles(plan: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the few figures that a page shows first."""

    def tile(name: str, value: str, note: str = "") -> dict[str, str]:
        return {"name": name, "value": value} | ({"note": note} if note else {})

    def make_state_tile(name: str, units: Sequence[dict[str, Any]], key: str) -> dict[str, str]:
        kept, apart = (sum(unit[each] for unit in units) for each in (key, f"{key}_apart"))
        return tile(name, f"{kept:,}", f"{apart:,} with every query alone")

    yield tile("queries", f"{plan['queries']:,}")
    yield tile("branches", f"{len(plan['branches']) + len(plan['detect']):,}")
    units = [unit for branch in plan["branches"] for unit in branch["units"]]
    if units:
        yield tile("units", f"{len(units):,}")
        yield make_state_tile("totals kept", units, "totals")
    pairs = [unit for unit in units if unit["pairs"]]
    if pairs:
        yield make_state_tile("pairs of steps", pairs, "pairs")
    nodes = [node for branch in plan["detect"] for node in branch["nodes"] if node["kind"] != "leaf"]
    if nodes:
        shared = sum(len(node["queries"]) > 1 for node in nodes)
        yield tile("joins and loops", f"{len(nodes):,}", f"{shared:,} shared among queries")
    if actual := plan.get("actual"):
        rate = actual["rows"] / max(actual["seconds"], 1e-9)
        yield tile("rows of data", f"{actual['rows']:,}")
        yield tile("ran in", f"{actual['seconds']:,.2f} s", f"{rate:,.0f} rows/s")
        yield tile("results", f"{sum(actual['results'].values()):,}")
    elif plan["rows"]:
        yield tile("rows of data", format_rows(plan["rows"], plan["rows_estimated"]))


def _find_symbol_details(program: Program, counts: Mapping[str, int] | None) -> SymbolDetails:
    """Return a function that says how many events of a symbol there are, and how often they come, where known."""
    known = program.options.statistics

    def find_details(symbol: Symbol) -> Details:
        name = format_symbol(symbol)
        expected = estimate_events(symbol, counts, known)
        found: Details = () if expected is None else ((f"events of {name}", format_number(round(expected))),)
        rate = None if known is None else known.rates.get(name, known.rates.get(symbol.type))
        return found if rate is None else (*found, (f"rate of {name}", f"{format_number(rate)} per second"))

    return find_details


def _draw_graphs(
    program: Program, plan: dict[str, Any], numbers: dict[str, int], details: SymbolDetails
) -> Iterator[dict[str, Any]]:
    for at, (branch, described) in enumerate(zip(program.branches, plan["branches"], strict=True), 1):
        units = format_count(len(branch.units), "unit")
        words = f"{format_count(len(branch.queries), 'query')} over {format_partition(described)}; {units}"
        graph = build_template_graph(branch, at, program, details)
        units_text = [f"unit {at}.{n}: {format_strategy(unit)}" for n, unit in enumerate(described["units"], 1)]
        yield draw_graph(f"branch-{at}", f"Branch {at}: template", words, "template", graph) | {"units": units_text}
    for at, described in _number_detect(plan):
        queries = format_count(len(described["queries"]), "query")
        words = f"{queries} over {format_partition(described)}; matches are found by joins"
        yield draw_graph(f"branch-{at}", f"Branch {at}: joins", words, "joins", build_join_graph(described, numbers))
    if plan["sharing"] is not None:
        yield from find_renderer(plan["sharing"]["optimizer"]).draw_page(plan["sharing"], numbers)


def _chart_costs(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what this plan costs, and what others would, as bars. Of others that cost the same one is enough."""
    for at, branch in enumerate(plan["branches"], 1):
        bars = _make_bars(_drop_equal(branch["estimates"], branch["plan"]), branch["plan"], PLANS, format_time)
        yield {"title": f"Branch {at}", "words": "estimated time per event", "bars": bars}
    for at, branch in _number_detect(plan):
        if branch.get("estimates"):
            rows = branch["rows"]
            costs = {name: cost * 1000 / (rows or 1) for name, cost in branch["estimates"].items()}
            bars = _make_bars(_drop_equal(costs, branch["plan"]), branch["plan"], JOIN_PLANS, format_time)
            yield {
                "title": f"Branch {at}",
                "words": f"estimated time {'per event' if rows else 'in all'}",
                "bars": bars,
            }
    sharing = plan["sharing"]
    if sharing is not None:
        chart = find_renderer(sharing["optimizer"]).chart(sharing)
        proof = chart.pop("proof")
        notes = [proof if sharing["optimal"] else "a better plan is not ruled out"]
        notes += [EQUAL_RATES] if sharing["rates"] == "equal" else []
        notes += [f"{each['query']} takes no part: {each['why']}" for each in sharing["excluded"][:20]]
        yield chart | {"bars": _make_bars(chart["bars"], "this plan", {}, format_number), "notes": notes}


def _drop_equal(costs: Mapping[str, float], chosen: str) -> dict[str, float]:
    """Return the costs of plans without those that cost the same as the chosen one, or as one before."""
    kept = {costs[chosen]: chosen} if chosen in costs else {}
    for name, cost in costs.items():
        kept.setdefault(cost, name)
    return {name: cost for cost, name in kept.items()}


def _make_bars(
    costs: Mapping[str, float], chosen: str, names: Mapping[str, str], show: Callable[[float], str]
) -> list[dict[str, Any]]:
    return [
        {"name": names.get(name, name), "value": cost, "shown": show(cost), "chosen": name == chosen}
        for name, cost in costs.items()
    ]


def _list_q_sets(plan: dict[str, Any], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """List Gloria's Q-sets for the legend."""
    sharing = plan["sharing"]
    if sharing is None or "templates" not in sharing:
        return []
    return [each | {"queries": [numbers[name] for name in each["queries"]]} for each in collect_q_sets(sharing)]


def _make_table(
    title: str, head: Sequence[str], rows: Iterable[Sequence[str]], words: str = "", wide: bool = False
) -> dict[str, Any]:
    return {"title": title, "words": words, "wide": wide, "head": list(head), "rows": [list(row) for row in rows]}


def _list_inputs(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the table of what each branch reads; of how many rows, where there is data."""
    rows = [
        (
            f"Branch {at}",
            ", ".join(branch["partition"]) or "all together",
            ", ".join(branch["columns"]),
            "any" if branch["types"] is None else ", ".join(branch["types"]),
            "" if branch["rows"] is None else format_rows(branch["rows"], plan["rows_estimated"]),
        )
        for at, branch in enumerate((*plan["branches"], *plan["detect"]), 1)
    ]
    head = ("branch", "key", "columns", "types", "#rows")
    shown = len(head) if any(row[-1] for row in rows) else len(head) - 1
    return _make_table("What is read", head[:shown], (row[:shown] for row in rows), wide=True)


def _list_units(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tables of what runs together, and of what was proposed and does not run."""
    executed = {each["signature"] for each in plan.get("executed", ())}
    rows = [
        (
            f"unit {at}.{unit_at}",
            unit["strategy"],
            format_names([query["name"] for query in unit["queries"]]),
            "; ".join(each["part"] for each in unit["shared"][:MOST_SHARED]) or "nothing",
            unit["signature"],
            *(("as planned" if unit["signature"] in executed else "no events",) if executed else ()),
        )
        for at, branch in enumerate(plan["branches"], 1)
        for unit_at, unit in enumerate(branch["units"], 1)
    ]
    if rows:
        head = ("unit", "strategy", "queries", "computed once", "signature", *(("executed",) if executed else ()))
        yield _make_table("What runs", head, rows, wide=True)
    declined = [
        (f"Branch {at}", format_names(each["queries"]), each["reason"])
        for at, branch in enumerate(plan["branches"], 1)
        for each in branch["declined"]
    ]
    if declined:
        yield _make_table("Proposed, not run", ("branch", "queries", "why"), declined)


def _list_run_tables(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the tables of what a run found, beside what was estimated where that was counted in other rows."""
    if "actual" not in plan:
        return
    actual = plan["actual"]
    yield _make_table("Time", ("where", "#seconds", "#of the run", "#per event"), _list_times(actual))
    symbols: dict[tuple[str, float | None, int], list[str]] = {}  # the branches that found so many of them
    for at, branch in enumerate(actual["branches"], 1):
        for each in branch["symbols"]:
            symbols.setdefault((each["symbol"], each["expected"], each["events"]), []).append(str(at))
    estimated = any(expected is not None for _, expected, _ in symbols)
    events = (
        (symbol, ", ".join(branches), *((_format_expected(expected),) if estimated else ()), f"{found:,}")
        for (symbol, expected, found), branches in sorted(symbols.items(), key=lambda each: (each[0][0], each[1]))
    )
    title, columns = ("Events: estimated and found", ("#estimated",)) if estimated else ("Events", ())
    words = "estimated by statistics of other rows, or of a sample" if estimated else ""
    yield _make_table(title, ("events of", "branches", *columns, "#found"), events, words)
    nodes = [
        (
            f"Branch {at}",
            f"{node['kind']} {node['node']}",
            node["finds"],
            _format_expected(node.get("estimate")),
            f"{node['actual']:,}",
        )
        for at, branch in _number_detect(plan)
        for node in branch["nodes"]
        if node["kind"] != "leaf"
    ]
    if nodes:
        head = ("branch", "node", "finds", "#estimated", "#found")
        yield _make_table("Instances: estimated and found", head, nodes)


def _list_times(actual: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    whole = max(actual["seconds"], 1e-9)

    def row(where: str, seconds: float, rows: int) -> tuple[str, str, str, str]:
        return where, f"{seconds:.3f}", f"{seconds / whole:.0%}", format_time(seconds * 1e9 / rows) if rows else ""

    for at, branch in enumerate(actual["branches"], 1):
        yield row(f"Branch {at}", branch["seconds"], branch["rows"])
        if len(branch["units"]) > 1:
            units = enumerate(branch["units"], 1)
            yield from (row(f"\u2003unit {at}.{unit}", seconds, branch["rows"]) for unit, seconds in units)
    rest = whole - sum(branch["seconds"] for branch in actual["branches"])
    yield row("reading, and putting results together", max(rest, 0.0), actual["rows"])


def _format_expected(value: float | None) -> str:
    return "not known" if value is None else format_number(round(value) if value >= 1 else value)
