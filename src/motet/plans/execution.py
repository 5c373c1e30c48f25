"""What was executed for some queries: how, and what they computed once. Runs write it down where they call a kernel."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from motet.plans.compiled import CompiledQuery
from motet.plans.machine import MergedAutomaton
from motet.plans.pairs import Pairs
from motet.statistics.model import format_symbol


@dataclass(frozen=True)
class SharedPart:
    """A part of patterns that some queries computed once, as text: `A, B`."""

    part: str
    queries: tuple[str, ...]


@dataclass(frozen=True)
class ExecutionRecord:
    """What was executed for some queries, as plain data: it can come from another process."""

    strategy: str
    queries: tuple[str, ...]
    shared: tuple[SharedPart, ...]
    signature: str

    def describe(self) -> dict[str, object]:
        """Describe it as plain data."""
        return {
            "strategy": self.strategy,
            "queries": list(self.queries),
            "shared": [{"part": each.part, "queries": list(each.queries)} for each in self.shared],
            "signature": self.signature,
        }


def read_record(described: Mapping[str, Any]) -> ExecutionRecord:
    """Return what `ExecutionRecord.describe` described."""
    shared = tuple(SharedPart(each["part"], tuple(each["queries"])) for each in described["shared"])
    return ExecutionRecord(described["strategy"], tuple(described["queries"]), shared, described["signature"])


class Structure(Protocol):
    """Tables that a kernel ran by: what they say in full, and the parts that several queries share."""

    def content(self) -> object:
        """Return all that decides what is computed, with an exact `repr`."""

    def find_shared(self) -> Iterable[SharedPart]:
        """Find what is computed once for several queries."""


@dataclass(frozen=True)
class Execution:
    """Queries that were executed together: by which strategy, and by which tables.

    Equal signatures mean that the same was computed in the same way.
    """

    strategy: str
    queries: tuple[str, ...]
    structure: Structure

    @cached_property
    def signature(self) -> str:
        text = repr((self.strategy, self.queries, self.structure.content()))
        return f"{self.strategy}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @cached_property
    def shared(self) -> tuple[SharedPart, ...]:
        return tuple(self.structure.find_shared()) if len(self.queries) > 1 else ()

    @property
    def record(self) -> ExecutionRecord:
        """The same as plain data."""
        return ExecutionRecord(self.strategy, self.queries, self.shared, self.signature)

    def describe(self) -> dict[str, object]:
        """Describe it as plain data."""
        return self.record.describe()


# By branch and unit, both by number: detection has one unit.
Executions = dict[tuple[int, int], Execution]


@dataclass(frozen=True)
class MachineStructure:
    """A machine that several queries run on: they share beginnings of their patterns."""

    merged: MergedAutomaton
    width: int

    def content(self) -> object:
        merged = self.merged
        return self.width, merged.edges, merged.shifts, merged.fold, sorted(merged.starts), merged.accepting

    def find_shared(self) -> Iterable[SharedPart]:
        """Find the longest beginnings that each set of queries has in common. O(edges + nodes * queries)."""
        merged = self.merged
        paths = _find_paths(merged)
        readers: dict[int, list[str]] = {}
        for compiled, nodes in zip(merged.queries, merged.nodes, strict=True):
            for node in dict.fromkeys(nodes):
                readers.setdefault(node, []).extend(_name_queries([compiled]))
        longest: dict[tuple[str, ...], tuple[str, ...]] = {}
        for node, names in readers.items():
            if len(names) > 1 and len(paths.get(node, ())) > len(longest.get(tuple(names), ())):
                longest[tuple(names)] = paths[node]
        return [SharedPart(", ".join(path), names) for names, path in longest.items()]


@dataclass(frozen=True)
class PairsStructure:
    """Totals between pairs of nodes, over panes: queries share any part of their patterns."""

    pairs: Pairs
    names: tuple[tuple[str, ...], ...]  # of the queries that each member stands for

    def content(self) -> object:
        pairs = self.pairs
        tables = (pairs.starts.tolist(), pairs.steps.tolist(), pairs.moves.tolist())
        return pairs.pane, pairs.symbols, pairs.weights, tables, pairs.joins, pairs.begin, pairs.accept

    def find_shared(self) -> Iterable[SharedPart]:
        """Find the parts that each set of queries has in common, none inside another. O(pairs * queries)."""
        pairs = self.pairs
        owners: dict[int, list[int]] = {}
        for query, members in enumerate(pairs.members):
            for pair in members.tolist():
                owners.setdefault(pair, []).append(query)
        parts: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for pair, queries in owners.items():
            path = pairs.path_symbols[pairs.path_offsets[pair] : pairs.path_offsets[pair + 1]].tolist()
            if path and sum(len(self.names[query]) for query in queries) > 1:
                parts.setdefault(tuple(queries), set()).add(tuple(path))
        for sharing, paths in sorted(parts.items()):
            inside = {
                path[at : at + size] for path in paths for size in range(1, len(path)) for at in (0, len(path) - size)
            }
            for path in sorted(paths - inside):
                part = ", ".join(format_symbol(pairs.symbols[symbol]) for symbol in path)
                yield SharedPart(part, tuple(name for query in sharing for name in self.names[query]))


def _find_paths(merged: MergedAutomaton) -> dict[int, tuple[str, ...]]:
    """Find for each node the symbols on a shortest way to it."""
    onward: dict[int, list[tuple[int, str]]] = {}
    for edge in merged.edges:
        onward.setdefault(edge.source, []).append((merged.fold[edge.target], format_symbol(edge.symbol)))
    paths: dict[int, tuple[str, ...]] = dict.fromkeys(merged.starts, ())
    waiting = deque(merged.starts)
    while waiting:
        node = waiting.popleft()
        for target, symbol in onward.get(node, ()):
            if target not in paths:
                paths[target] = (*paths[node], symbol)
                waiting.append(target)
    return paths


def describe_machine_run(strategy: str, merged: MergedAutomaton, width: int) -> Execution:
    """Describe a run of a merged machine."""
    return Execution(str(strategy), _name_queries(merged.queries), MachineStructure(merged, width))


def describe_pairs_run(queries: Sequence[CompiledQuery], pairs: Pairs) -> Execution:
    """Describe a run by pairs."""
    names = tuple(_name_queries([compiled]) for compiled in queries)
    return Execution("pairs", _name_queries(queries), PairsStructure(pairs, names))


def _name_queries(queries: Sequence[CompiledQuery]) -> tuple[str, ...]:
    return tuple(member.query.name for compiled in queries for member in compiled.reported)
