"""The executor of the Gloria paper, event by event: expressions over snapshots, and how often they are propagated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from motet.optimizer.gloria.graph import Path
from motet.optimizer.gloria.template import Template


@dataclass(eq=False)
class Seen:
    """An event at a state: by query a value, and by query and state of snapshots an expression over these."""

    state: int
    values: Counter[int] = field(default_factory=Counter)
    expressions: dict[tuple[int, int], Counter[Seen]] = field(default_factory=dict)

    def of(self, query: int) -> int:
        """How many trends of a query end with this event."""
        terms = (terms for (own, _), terms in self.expressions.items() if own == query)
        return self.values[query] + sum(times * sp.of(query) for each in terms for sp, times in each.items())


@dataclass
class Run:
    """Counts by query, propagations by type of the event that they lead to, and evaluations."""

    counts: Counter[int] = field(default_factory=Counter)
    propagations: Counter[str] = field(default_factory=Counter)
    evaluations: int = 0


def replay(template: Template, path: Path, stream: Iterable[str]) -> Run:
    """Run a plan over a stream of types, each event later than the one before, in one window."""
    run = Run()
    seen: list[Seen] = []
    types = [state.symbol.type for state in template.states]
    into = [
        [(pool, source) for pool in template.pools for source, target in pool.transitions if target == state]
        for state in range(len(types))
    ]
    for type in stream:
        incoming = []
        for state, own in enumerate(types):
            if own != type:
                continue
            event = Seen(state)
            for at, first in enumerate(template.start_states):
                event.values[at] += first == state
            for pool, source in into[state]:
                before = [other for other in seen if other.state == source]
                _propagate(run, event, before, pool.queries, path[pool.number], type)
            incoming.append(event)
            for at, line in enumerate(template.routes):
                if template.pools[line[-1]].exit == state and pool_has(template, line[-1], at):
                    run.counts[at] += event.of(at)
                    run.evaluations += any(own == at for own, _ in event.expressions)
        seen += incoming
    return run


def pool_has(template: Template, pool: int, query: int) -> bool:
    return bool(template.pools[pool].queries >> query & 1)


def _propagate(
    run: Run, event: Seen, before: list[Seen], queries: int, node: tuple[tuple[int, int], ...], type: str
) -> None:
    for members, snapshot in node:
        queries &= ~members
        own = [at for at in range(members.bit_length()) if members >> at & 1]
        if event.state == snapshot:
            # What leads to the snapshots of a repetition is computed for each query by itself.
            _values(run, event, before, own, type)
            continue
        run.propagations[type] += len(before)
        for other in before:
            for query in own:
                terms = event.expressions.setdefault((query, snapshot), Counter())
                if other.state == snapshot:
                    terms[other] += 1
                else:
                    terms.update(other.expressions.get((query, snapshot), Counter()))
                    event.values[query] += other.values[query]
    _values(run, event, before, [at for at in range(queries.bit_length()) if queries >> at & 1], type)


def _values(run: Run, event: Seen, before: list[Seen], queries: list[int], type: str) -> None:
    for query in queries:
        for other in before:
            run.propagations[type] += 1
            run.evaluations += any(own == query for own, _ in other.expressions)
            event.values[query] += other.of(query)
