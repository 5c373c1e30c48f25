"""A plan as one page: its data, and the file that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from motet.compile import Program
from motet.explain.analysis import Analysis, estimate_events
from motet.explain.describe import describe
from motet.explain.formatting import find_leading_comment, format_count, format_number
from motet.explain.page.document import build_document
from motet.explain.page.drawing import draw_columns, draw_graph
from motet.explain.page.graph import Details
from motet.explain.page.joins import build_join_graph
from motet.explain.page.optimizers import build_candidate_graph, build_gloria_graph, collect_q_sets
from motet.explain.page.template import SymbolDetails, build_template_graph
from motet.explain.text import PLANS, format_plan, format_strategy
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
    """The plan as a page that needs nothing but itself, with what a run of it found."""
    return build_document("plan", build_page_data(program, describe(program, counts, analysis), counts, title))


def build_page_data(
    program: Program, plan: dict[str, Any], counts: Mapping[str, int] | None = None, title: str = ""
) -> dict[str, Any]:
    """All that the page shows."""
    workload = program.workload
    numbers = {query.name: at for at, query in enumerate(workload.queries)}
    return {
        "title": title or workload.origin.strip("<>"),
        "optimizer": program.options.optimizer,
        "queries": _build_queries(program, plan),
        "tiles": list(_build_tiles(plan)),
        "graphs": list(_build_graphs(program, plan, numbers, make_symbol_details(program, counts))),
        "costs": list(_build_costs(plan)),
        "sets": _build_q_set_legend(plan, numbers),
        "tables": [*_build_run_tables(plan), _build_input_table(plan)],
        "text": "\n".join(format_plan(plan)),
    }


def _build_queries(program: Program, plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Each query with its text and where it runs."""
    where: dict[str, dict[str, Any]] = {}
    for at, branch in enumerate(plan["branches"], 1):
        for unit_at, unit in enumerate(branch["units"], 1):
            for query in unit["queries"]:
                place = f"unit {at}.{unit_at}"
                where[query["name"]] = {"graph": f"branch-{at}", "place": place, "way": unit["strategy"]}
    for at, branch in enumerate(plan["detect"], len(plan["branches"]) + 1):
        for query in branch["queries"]:
            where[query["name"]] = {"graph": f"branch-{at}", "place": f"branch {at}", "way": query["way"]}
    workload = program.workload
    results = plan["actual"]["results"] if "actual" in plan else {}
    return [
        {
            "name": query.name,
            "text": to_text(query).rstrip("\n"),
            "words": find_leading_comment(query, workload),
            **where[query.name],
            **({"results": results[query.name]} if results else {}),
        }
        for query in workload.queries
    ]


def _build_tiles(plan: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What there is to know at a glance."""
    yield {"name": "queries", "value": f"{plan['queries']:,}"}
    yield {"name": "branches", "value": f"{len(plan['branches']) + len(plan['detect']):,}"}
    units = [unit for branch in plan["branches"] for unit in branch["units"]]
    if units:
        yield {"name": "units", "value": f"{len(units):,}"}
        kept, apart = (sum(unit[name] for unit in units) for name in ("totals", "totals_apart"))
        yield {"name": "totals kept", "value": f"{kept:,}", "note": f"{apart:,} with every query alone"}
        pairs = [unit for unit in units if unit["pairs"]]
        if pairs:
            kept, apart = (sum(unit[name] for unit in pairs) for name in ("pairs", "pairs_apart"))
            yield {"name": "pairs of steps", "value": f"{kept:,}", "note": f"{apart:,} with every query alone"}
    nodes = [node for branch in plan["detect"] for node in branch["nodes"] if node["kind"] != "leaf"]
    if nodes:
        shared = sum(len(node["queries"]) > 1 for node in nodes)
        yield {"name": "joins and loops", "value": f"{len(nodes):,}", "note": f"{shared:,} shared among queries"}
    if plan["rows"]:
        yield {"name": "rows of data", "value": f"{plan['rows']:,}"}
    if "actual" in plan:
        actual = plan["actual"]
        rate = actual["rows"] / max(actual["seconds"], 1e-9)
        yield {"name": "ran in", "value": f"{actual['seconds']:,.2f} s", "note": f"{rate:,.0f} rows/s"}
        yield {"name": "results", "value": f"{sum(actual['results'].values()):,}"}


def make_symbol_details(program: Program, counts: Mapping[str, int] | None) -> SymbolDetails:
    """How many events of a symbol there are, and how often they come, where that is known."""
    known = program.options.statistics

    def facts(symbol: Symbol) -> Details:
        name = format_symbol(symbol)
        expected = estimate_events(symbol, counts, known)
        found: Details = () if expected is None else ((f"events of {name}", format_number(round(expected))),)
        rate = None if known is None else known.rates.get(name, known.rates.get(symbol.type))
        return found if rate is None else (*found, (f"rate of {name}", f"{format_number(rate)} per second"))

    return facts


def _build_graphs(
    program: Program, plan: dict[str, Any], numbers: dict[str, int], events: SymbolDetails
) -> Iterator[dict[str, Any]]:
    for at, branch in enumerate(program.branches, 1):
        described = plan["branches"][at - 1]
        units = format_count(len(branch.units), "unit")
        words = f"{format_count(len(branch.queries), 'query')} over {_format_partition(described)}; {units}"
        graph = build_template_graph(branch, at, program, events)
        made = draw_graph(f"branch-{at}", f"Branch {at}: template", words, "template", graph)
        yield made | {
            "units": [f"unit {at}.{n}: {format_strategy(unit)}" for n, unit in enumerate(described["units"], 1)]
        }
    for at, described in enumerate(plan["detect"], len(plan["branches"]) + 1):
        queries = format_count(len(described["queries"]), "query")
        words = f"{queries} over {_format_partition(described)}; matches are found by joins"
        yield draw_graph(f"branch-{at}", f"Branch {at}: joins", words, "joins", build_join_graph(described, numbers))
    sharing = plan["sharing"]
    if sharing is None:
        return
    if "templates" in sharing:
        sets = collect_q_sets(sharing)
        several = len(sharing["templates"]) > 1
        for at, template in enumerate(sharing["templates"], 1):
            words = f"{format_count(len(template['queries']), 'query')}; an arrow's label is the Q-set that shares it"
            graph = build_gloria_graph(template, sets, numbers)
            title = f"Gloria: Q-sets{f' {at}' if several else ''}"
            yield draw_graph(f"gloria-{at}", title, words, "gloria", graph)
    else:
        graph, hidden = build_candidate_graph(sharing, numbers)
        if graph.vertices:
            conflicts = format_count(len(sharing["conflicts"]), "conflict")
            words = f"{format_count(len(sharing['candidates']), 'candidate')}, {conflicts}; lines are conflicts"
            words += f"; {hidden:,} of least benefit are not drawn" if hidden else ""
            yield draw_columns(graph, "sharon", "Sharon: candidates", words)


def _format_partition(branch: Mapping[str, Any]) -> str:
    return f"events that agree on {', '.join(branch['partition'])}" if branch["partition"] else "all events together"


def _build_costs(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What this plan costs, and what others would: bars with numbers."""
    for at, branch in enumerate(plan["branches"], 1):
        bars = [
            _cost_bar(PLANS.get(name, name), cost, name == branch["plan"]) for name, cost in branch["estimates"].items()
        ]
        yield {"title": f"Branch {at}", "words": "estimated cost of one event of every symbol", "bars": bars}
    for at, branch in enumerate(plan["detect"], len(plan["branches"]) + 1):
        if branch.get("estimates"):
            plans = branch["estimates"].items()
            bars = [_cost_bar(JOIN_PLANS.get(name, name), cost, name == branch["plan"]) for name, cost in plans]
            yield {"title": f"Branch {at}", "words": "estimated microseconds of all joins and loops", "bars": bars}
    sharing = plan["sharing"]
    if sharing is None:
        return
    if "templates" in sharing:
        bars = [_cost_bar("this plan", sharing["cost"], True)]
        bars += [_cost_bar(name, cost, False) for name, cost in sharing["alternatives"].items()]
        words = f"cost by the {sharing['costs']} equations"
        yield {
            "title": "Gloria",
            "words": words,
            "bars": bars,
            "notes": _optimality_notes(sharing, "no plan costs less"),
        }
    else:
        bars = [_cost_bar("this plan", sharing["score"], True), _cost_bar("at most possible", sharing["bound"], False)]
        bars.append(_cost_bar("GWMIN is sure of", sharing["guaranteed"], False))
        yield {
            "title": "Sharon",
            "words": "score: what sharing saves, the more the better",
            "bars": bars,
            "notes": _optimality_notes(sharing, "no plan scores more"),
        }


def _cost_bar(name: str, value: float, chosen: bool) -> dict[str, Any]:
    return {"name": name, "value": value, "shown": format_number(value), "chosen": chosen}


def _optimality_notes(sharing: Mapping[str, Any], proof: str) -> list[str]:
    notes = [proof if sharing["optimal"] else "a better plan is not ruled out"]
    if sharing["rates"] == "equal":
        notes.append("no statistics given: as many events of every symbol assumed")
    notes += [f"{each['query']} takes no part: {each['why']}" for each in sharing["excluded"][:20]]
    return notes


def _build_q_set_legend(plan: dict[str, Any], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Gloria's Q-sets for the legend."""
    sharing = plan["sharing"]
    if sharing is None or "templates" not in sharing:
        return []
    return [each | {"queries": [numbers[name] for name in each["queries"]]} for each in collect_q_sets(sharing)]


def _build_input_table(plan: dict[str, Any]) -> dict[str, Any]:
    """What each branch reads."""
    rows = [
        [
            f"Branch {at}",
            ", ".join(branch["partition"]) or "all together",
            ", ".join(branch["columns"]),
            "any" if branch["types"] is None else ", ".join(branch["types"]),
            "" if branch["rows"] is None else f"{branch['rows']:,}",
        ]
        for at, branch in enumerate((*plan["branches"], *plan["detect"]), 1)
    ]
    return {"title": "What is read", "head": ["branch", "key", "columns", "types", "#rows"], "rows": rows}


def _build_run_tables(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a run found, beside what was expected."""
    if "actual" not in plan:
        return
    actual = plan["actual"]
    yield {
        "title": "Events: expected and found",
        "words": "by the counts of types, and a guess for each condition where nothing was counted",
        "head": ["branch", "events of", "#expected", "#found"],
        "rows": [
            [f"Branch {at}", each["symbol"], _round(each["expected"]), f"{each['events']:,}"]
            for at, branch in enumerate(actual["branches"], 1)
            for each in branch["symbols"]
        ],
    }
    nodes = [
        [
            f"Branch {at}",
            f"{node['kind']} {node['node']}",
            node["finds"],
            _round(node.get("estimate")),
            f"{node['actual']:,}",
        ]
        for at, branch in enumerate(plan["detect"], len(plan["branches"]) + 1)
        for node in branch["nodes"]
        if node["kind"] != "leaf"
    ]
    if nodes:
        head = ["branch", "node", "finds", "#expected", "#found"]
        yield {"title": "Instances: expected and found", "head": head, "rows": nodes}
    yield {
        "title": "Time",
        "head": ["where", "#seconds", "#share"],
        "rows": list(_build_time_rows(actual)),
    }


def _build_time_rows(actual: dict[str, Any]) -> Iterator[list[str]]:
    whole = max(actual["seconds"], 1e-9)
    for at, branch in enumerate(actual["branches"], 1):
        yield [f"Branch {at}", f"{branch['seconds']:.3f}", f"{branch['seconds'] / whole:.0%}"]
        if len(branch["units"]) > 1:
            for unit, seconds in enumerate(branch["units"], 1):
                yield [f"unit {at}.{unit}", f"{seconds:.3f}", f"{seconds / whole:.0%}"]
    rest = whole - sum(branch["seconds"] for branch in actual["branches"])
    yield ["reading, and putting results together", f"{max(rest, 0):.3f}", f"{max(rest, 0) / whole:.0%}"]


def _round(value: float | None) -> str:
    return "not known" if value is None else format_number(round(value) if value >= 1 else value)
