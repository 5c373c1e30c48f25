"""A plan as one page: its data, and the file that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from motet.engine import Program
from motet.explain.actual import Analysis, expected_events
from motet.explain.describe import describe
from motet.explain.page.document import document
from motet.explain.page.drawing import columns, drawing
from motet.explain.page.graph import Facts
from motet.explain.page.joins import join_graph
from motet.explain.page.optimizers import candidate_graph, gloria_graph, q_sets
from motet.explain.page.template import EventFacts, template_graph
from motet.explain.text import PLANS, plan_lines, unit_words
from motet.explain.words import count, number, words_above
from motet.language.printer import to_text
from motet.statistics.symbols import symbol_text
from motet.template.symbols import Symbol

# What plain plans of joins do.
JOIN_PLANS = {
    "none": "joined as written, nothing shared",
    "share": "joined as written, equal joins once",
    "reorder": "each query by its own cost, equal joins once",
}


def plan_html(
    program: Program, counts: Mapping[str, int] | None = None, title: str = "", analysis: Analysis | None = None
) -> str:
    """The plan as a page that needs nothing but itself, with what a run of it found."""
    return document("plan", page_data(program, describe(program, counts, analysis), counts, title))


def page_data(
    program: Program, plan: dict[str, Any], counts: Mapping[str, int] | None = None, title: str = ""
) -> dict[str, Any]:
    """All that the page shows."""
    workload = program.workload
    numbers = {query.name: at for at, query in enumerate(workload.queries)}
    return {
        "title": title or workload.origin.strip("<>"),
        "optimizer": program.options.optimizer,
        "queries": _queries(program, plan),
        "tiles": list(_tiles(plan)),
        "graphs": list(_graphs(program, plan, numbers, event_facts(program, counts))),
        "costs": list(_costs(plan)),
        "sets": _sets(plan, numbers),
        "tables": [*_found(plan), _reads(plan)],
        "text": "\n".join(plan_lines(plan)),
    }


def _queries(program: Program, plan: dict[str, Any]) -> list[dict[str, Any]]:
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
            "words": words_above(query, workload),
            **where[query.name],
            **({"results": results[query.name]} if results else {}),
        }
        for query in workload.queries
    ]


def _tiles(plan: dict[str, Any]) -> Iterator[dict[str, str]]:
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


def event_facts(program: Program, counts: Mapping[str, int] | None) -> EventFacts:
    """How many events of a symbol there are, and how often they come, where that is known."""
    known = program.options.statistics

    def facts(symbol: Symbol) -> Facts:
        name = symbol_text(symbol)
        expected = expected_events(symbol, counts, known)
        found: Facts = () if expected is None else ((f"events of {name}", number(round(expected))),)
        rate = None if known is None else known.rates.get(name, known.rates.get(symbol.type))
        return found if rate is None else (*found, (f"rate of {name}", f"{number(rate)} per second"))

    return facts


def _graphs(
    program: Program, plan: dict[str, Any], numbers: dict[str, int], events: EventFacts
) -> Iterator[dict[str, Any]]:
    for at, branch in enumerate(program.branches, 1):
        told = plan["branches"][at - 1]
        words = f"{count(len(branch.queries), 'query')} over {_agree(told)}; {count(len(branch.units), 'unit')}"
        graph = template_graph(branch, at, program, events)
        made = drawing(f"branch-{at}", f"Branch {at}: template", words, "template", graph)
        yield made | {"units": [f"unit {at}.{n}: {unit_words(unit)}" for n, unit in enumerate(told["units"], 1)]}
    for at, told in enumerate(plan["detect"], len(plan["branches"]) + 1):
        words = f"{count(len(told['queries']), 'query')} over {_agree(told)}; matches are found by joins"
        yield drawing(f"branch-{at}", f"Branch {at}: joins", words, "joins", join_graph(told, numbers))
    sharing = plan["sharing"]
    if sharing is None:
        return
    if "templates" in sharing:
        sets = q_sets(sharing)
        several = len(sharing["templates"]) > 1
        for at, template in enumerate(sharing["templates"], 1):
            words = f"{count(len(template['queries']), 'query')}; an arrow's label is the Q-set that shares it"
            graph = gloria_graph(template, sets, numbers)
            title = f"Gloria: Q-sets{f' {at}' if several else ''}"
            yield drawing(f"gloria-{at}", title, words, "gloria", graph)
    else:
        graph, hidden = candidate_graph(sharing, numbers)
        if graph.vertices:
            conflicts = count(len(sharing["conflicts"]), "conflict")
            words = f"{count(len(sharing['candidates']), 'candidate')}, {conflicts}; lines are conflicts"
            words += f"; {hidden:,} of least benefit are not drawn" if hidden else ""
            yield columns(graph, "sharon", "Sharon: candidates", words)


def _agree(branch: Mapping[str, Any]) -> str:
    return f"events that agree on {', '.join(branch['partition'])}" if branch["partition"] else "all events together"


def _costs(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What this plan costs, and what others would: bars with numbers."""
    for at, branch in enumerate(plan["branches"], 1):
        bars = [_bar(PLANS.get(name, name), cost, name == branch["plan"]) for name, cost in branch["estimates"].items()]
        yield {"title": f"Branch {at}", "words": "estimated cost of one event of every symbol", "bars": bars}
    for at, branch in enumerate(plan["detect"], len(plan["branches"]) + 1):
        if branch.get("estimates"):
            plans = branch["estimates"].items()
            bars = [_bar(JOIN_PLANS.get(name, name), cost, name == branch["plan"]) for name, cost in plans]
            yield {"title": f"Branch {at}", "words": "estimated microseconds of all joins and loops", "bars": bars}
    sharing = plan["sharing"]
    if sharing is None:
        return
    if "templates" in sharing:
        bars = [_bar("this plan", sharing["cost"], True)]
        bars += [_bar(name, cost, False) for name, cost in sharing["alternatives"].items()]
        words = f"cost by the {sharing['costs']} equations"
        yield {"title": "Gloria", "words": words, "bars": bars, "notes": _proof(sharing, "no plan costs less")}
    else:
        bars = [_bar("this plan", sharing["score"], True), _bar("at most possible", sharing["bound"], False)]
        bars.append(_bar("GWMIN is sure of", sharing["guaranteed"], False))
        yield {
            "title": "Sharon",
            "words": "score: what sharing saves, the more the better",
            "bars": bars,
            "notes": _proof(sharing, "no plan scores more"),
        }


def _bar(name: str, value: float, chosen: bool) -> dict[str, Any]:
    return {"name": name, "value": value, "shown": number(value), "chosen": chosen}


def _proof(sharing: Mapping[str, Any], proof: str) -> list[str]:
    notes = [proof if sharing["optimal"] else "a better plan is not ruled out"]
    if sharing["rates"] == "equal":
        notes.append("no statistics given: as many events of every symbol assumed")
    notes += [f"{each['query']} takes no part: {each['why']}" for each in sharing["excluded"][:20]]
    return notes


def _sets(plan: dict[str, Any], numbers: Mapping[str, int]) -> list[dict[str, Any]]:
    """Gloria's Q-sets for the legend."""
    sharing = plan["sharing"]
    if sharing is None or "templates" not in sharing:
        return []
    return [each | {"queries": [numbers[name] for name in each["queries"]]} for each in q_sets(sharing)]


def _reads(plan: dict[str, Any]) -> dict[str, Any]:
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


def _found(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a run found, beside what was expected."""
    if "actual" not in plan:
        return
    actual = plan["actual"]
    yield {
        "title": "Events: expected and found",
        "words": "by the counts of types, and a guess for each condition where nothing was counted",
        "head": ["branch", "events of", "#expected", "#found"],
        "rows": [
            [f"Branch {at}", each["symbol"], _rounded(each["expected"]), f"{each['events']:,}"]
            for at, branch in enumerate(actual["branches"], 1)
            for each in branch["symbols"]
        ],
    }
    nodes = [
        [
            f"Branch {at}",
            f"{node['kind']} {node['node']}",
            node["finds"],
            _rounded(node.get("estimate")),
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
        "rows": list(_times(actual)),
    }


def _times(actual: dict[str, Any]) -> Iterator[list[str]]:
    whole = max(actual["seconds"], 1e-9)
    for at, branch in enumerate(actual["branches"], 1):
        yield [f"Branch {at}", f"{branch['seconds']:.3f}", f"{branch['seconds'] / whole:.0%}"]
        if len(branch["units"]) > 1:
            for unit, seconds in enumerate(branch["units"], 1):
                yield [f"unit {at}.{unit}", f"{seconds:.3f}", f"{seconds / whole:.0%}"]
    rest = whole - sum(branch["seconds"] for branch in actual["branches"])
    yield ["reading, and putting results together", f"{max(rest, 0):.3f}", f"{max(rest, 0) / whole:.0%}"]


def _rounded(value: float | None) -> str:
    return "not known" if value is None else number(round(value) if value >= 1 else value)
