"""What the optimizers of aggregation decided, as graphs: Gloria's templates with their Q-sets, Sharon's candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motet.explain.formatting import format_count, format_number
from motet.explain.page.graph import Graph, GraphEdge, GraphNode, union_queries

TONES = 8  # colours that Q-sets take in turn; their labels tell them apart
MOST_CANDIDATES = 120
MOST_CONFLICTS = 60  # beyond, they are drawn only with a candidate that is chosen

# What became of a candidate, and the column it is drawn in.
COLUMNS = {
    "shared": "shared",
    "left out": "left out",
    "pruned": "pruned: conflict-ridden",
    "not beneficial": "not beneficial",
}


def collect_q_sets(sharing: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every Q-set with the state of its snapshots, once, with a label and the number of its colour."""
    found: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}
    for template in sharing["templates"]:
        for pool in template["pools"]:
            for each in pool["q_sets"]:
                key = (tuple(each["queries"]), each["snapshots"])
                label = f"S{len(found) + 1}"
                known = found.setdefault(key, {"label": label, "tone": len(found) % TONES, **each, "transitions": 0})
                known["transitions"] += len(pool["transitions"])
    return list(found.values())


def build_gloria_graph(
    template: Mapping[str, Any], sets: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]
) -> Graph:
    """A template: states, and transitions with the Q-sets that share them; those that nobody shares once for all."""
    by_set = {(tuple(each["queries"]), each["snapshots"]): each for each in sets}
    members: dict[int, list[tuple[int, ...]]] = {}
    snapshots: dict[int, list[str]] = {}
    arcs: list[GraphEdge] = []
    for pool in template["pools"]:
        alone = tuple(sorted(numbers[name] for name in pool["alone"]))
        for source, target in pool["states"]:
            kind = "loop" if source == target else "step"
            ways = [(by_set[tuple(e["queries"]), e["snapshots"]], e) for e in pool["q_sets"]]
            for known, each in ways:
                queries = tuple(sorted(numbers[name] for name in each["queries"]))
                facts = (("Q-set", known["label"]), ("snapshots of", each["snapshots"]))
                arcs.append(GraphEdge(str(source), str(target), kind, queries, known["label"], known["tone"], facts))
                at = template["states"].index(each["snapshots"])
                if known["label"] not in snapshots.setdefault(at, []):
                    snapshots[at].append(known["label"])
            if alone:
                facts = (("shared", "by nobody"), ("queries", format_count(len(alone), "query")))
                arcs.append(GraphEdge(str(source), str(target), kind, alone, facts=facts))
            every = union_queries([alone, *(tuple(numbers[n] for n in each["queries"]) for _, each in ways)])
            for state in (source, target):
                members.setdefault(state, []).append(every)
    vertices = tuple(
        GraphNode(
            str(at),
            symbol,
            "snapshot" if at in snapshots else "state",
            union_queries(members.get(at, ())),
            f"◆ snapshots for {', '.join(snapshots[at])}" if at in snapshots else "",
            (("snapshots for", ", ".join(snapshots[at])),) if at in snapshots else (),
        )
        for at, symbol in enumerate(template["states"])
        if at in members
    )
    return Graph(vertices, tuple(arcs))


def build_candidate_graph(sharing: Mapping[str, Any], numbers: Mapping[str, int]) -> tuple[Graph, int]:
    """Sharon's candidates in a lane for what became of each, with their conflicts; and how many are left out."""
    ranked = sorted(sharing["candidates"], key=lambda each: (not each["shared_by"], -each["benefit"]))
    shown = ranked[:MOST_CANDIDATES]
    names = {each["name"] for each in shown}
    conflicts = [each for each in sharing["conflicts"] if set(each["between"]) <= names]
    against: dict[str, list[str]] = {}
    for each in conflicts:
        one, other = each["between"]
        against.setdefault(one, []).append(other)
        against.setdefault(other, []).append(one)
    vertices = tuple(
        GraphNode(
            each["name"],
            f"{each['name']}: {', '.join(each['symbols'])}",
            _candidate_outcome(each),
            tuple(sorted(numbers[name] for name in each["shared_by"] or each["queries"])),
            f"benefit {format_number(each['benefit'])}, {format_count(len(each['queries']), 'query')}",
            (
                ("became", COLUMNS[_candidate_outcome(each)]),
                ("benefit", format_number(each["benefit"])),
                ("in", ", ".join(each["queries"])),
                *((("shared by", ", ".join(each["shared_by"])),) if each["shared_by"] else ()),
                *((("if all its queries shared it", each["reduction"]),) if each["reduction"] else ()),
                *((("conflicts with", ", ".join(against[each["name"]])),) if each["name"] in against else ()),
            ),
            _candidate_outcome(each),
        )
        for each in shown
    )
    arcs = tuple(
        GraphEdge(
            each["between"][0],
            each["between"][1],
            "conflict",
            tuple(sorted(numbers[name] for name in each["queries"])),
            facts=(("conflict in", ", ".join(each["queries"])),),
            weak=len(conflicts) > MOST_CONFLICTS,
        )
        for each in conflicts
    )
    fates = {vertex.kind for vertex in vertices}
    lanes = tuple((fate, words) for fate, words in COLUMNS.items() if fate in fates)
    return Graph(vertices, arcs, lanes), len(ranked) - len(shown)


def _candidate_outcome(candidate: Mapping[str, Any]) -> str:
    conflict_ridden = candidate["reduction"].startswith("conflict-ridden")
    return "pruned" if conflict_ridden and candidate["status"] == "left out" else str(candidate["status"])
