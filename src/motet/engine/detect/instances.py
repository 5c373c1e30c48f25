"""Run the nodes of a plan over the events of a branch: most by one kernel, paths and what is made of them from here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from motet.engine.detect.bindings import BundleStore, check_overflow, concat_bindings, mask_bindings
from motet.engine.detect.code import build_tests
from motet.engine.detect.compiled_plan import CompiledPlan
from motet.engine.detect.match_limit import MatchLimit
from motet.engine.detect.tables import build_line_table, build_path_join_table, build_run_table, position_starts
from motet.engine.detect.values import CompiledExpressions
from motet.engine.detect.windows import compute_widest_starts
from motet.engine.encode import EncodedEvents, Ints
from motet.kernels.arrays import MAX_TIME
from motet.kernels.expressions import EventScope, new_stack
from motet.kernels.instances import Absences, Bundles, EvalContext, Instances, Tests
from motet.kernels.operators import (
    ARENA_FULL,
    ARENA_ROWS,
    AT_INNER,
    AT_MATCH,
    AT_OPERATOR,
    AT_OTHER,
    AT_OUTER,
    DONE,
    MATCHES,
    PREPARED,
    STATE_WIDTH,
    KeyedClasses,
    MatchOutput,
    OperatorRun,
    SinkBounds,
    Windows,
    allocate_arena,
    allocate_output,
    allocate_path_scratch,
    allocate_scratch,
    flatten_bindings,
    run_operators,
    take_output,
)
from motet.kernels.path_join import filter_paths, find_path_ends_for_rows
from motet.kernels.paths import (
    PathEnds,
    PathGraph,
    PathList,
    PathStarts,
    allocate_paths,
    find_path_ends,
    latest_starts,
    list_paths,
    new_cursor,
)
from motet.kernels.ragged import offsets_of, row_numbers
from motet.kernels.runs import RunEvents, list_runs, new_run_state
from motet.model.query import Policy
from motet.plans.detect.nodes import JoinNode, LeafNode, LoopNode, Node, UnionNode, column_items
from motet.template.symbols import Symbol

BLOCK_ROWS = 1 << 16
BLOCK_ENTRIES = 1 << 20
# Outer instances for which paths are listed at a time.
OUTER_ROWS = 1 << 12
# Fewer rows are searched as fast as they are as by an index.
MIN_ROWS_TO_INDEX = 64
UNLIMITED = 1 << 62
NO_BOUND = -(1 << 62)

T = TypeVar("T")


class MemoryLimitReached(Exception):
    """The memory budget of a run is used up by the instances of a node."""

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.node = node


@dataclass
class MemoryBudget:
    """The bytes of instances that may be kept, and those that are. With `truncate` a run goes on with what fits."""

    most: int
    truncate: bool
    used: dict[Node, int] = field(default_factory=dict)
    truncated: set[Node] = field(default_factory=set)  # nodes of which not all instances were kept

    def reserve(self, size: int, node: Node) -> bool:
        """Reserve bytes for the instances of a node; return whether they fit."""
        if not self.fits(size, node):
            return False
        self.used[node] = self.used.get(node, 0) + size
        return True

    def fits(self, size: int, node: Node) -> bool:
        """Return whether so many bytes may be kept beside those that are; a node for which they may not is truncated.

        Raises `MemoryLimitReached` where a run is not to be truncated.
        """
        if sum(self.used.values()) + size <= self.most:
            return True
        if not self.truncate:
            raise MemoryLimitReached(node)
        self.truncated.add(node)
        return False


class PreparedLoop(NamedTuple):
    """A loop with the tables that listing its paths needs."""

    line: PathGraph
    tests: Tests
    starts: PathStarts


class FoundInstances(NamedTuple):
    """Instances on their way into the arena: what each item is bound to, first and last time, and last event."""

    columns: Ints
    first: Ints
    last: Ints
    end: Ints


class PlanRunner:
    """Run of a compiled plan over the events of a branch; the instances of its nodes lie in one arena."""

    def __init__(
        self,
        plan: CompiledPlan,
        encoded: EncodedEvents,
        expressions: CompiledExpressions,
        bounds: SinkBounds,
        budget: MemoryBudget,
    ) -> None:
        self.plan, self.encoded, self.expressions = plan, encoded, expressions
        self.values, self.code = expressions.values, expressions.code
        self.budget = budget
        self.of_class = {
            symbol: np.array([symbol in found for found in encoded.classes], np.bool_)
            for symbol in {symbol for found in encoded.classes for symbol in found}
        }
        self.absent = plan.absent
        self.absences = self.absences_of(plan.absent)
        self.stack = new_stack()
        self.store = BundleStore(encoded.time)
        self.prepared: dict[Node, PreparedLoop] = {}
        self._oldest: dict[int, Ints] = {}
        self._listed: Counter[Node] = Counter()
        nodes = len(plan.nodes)
        state = np.zeros(STATE_WIDTH, np.int64)
        state[AT_INNER] = state[AT_MATCH] = state[PREPARED] = -1
        self.run = OperatorRun(
            plan.operators,
            self._make_windows(),
            KeyedClasses(encoded.offsets, encoded.time, encoded.klass, self._symbol_table(plan.symbols)),
            bounds,
            np.zeros(nodes, np.int64),
            np.full(nodes, -1, np.int64),
            np.zeros(nodes, np.int64),
            state,
            MIN_ROWS_TO_INDEX,
            allocate_path_scratch(plan.width, len(encoded.time) if plan.has_scans else 0),
        )
        self.arena = allocate_arena(plan.width, 3 * len(encoded.time) + BLOCK_ROWS)

    def _symbol_table(self, symbols: Sequence[Symbol]) -> NDArray[np.bool_]:
        none = np.zeros(len(self.encoded.classes), np.bool_)
        rows = [self.of_class.get(symbol, none) for symbol in symbols]
        return np.array(rows, np.bool_).reshape(len(rows), len(none))

    def _make_windows(self) -> Windows:
        """Return the windows of operators: by their length where that says it all."""
        lengths: list[int] = []
        rows: list[int] = []
        tables: list[Ints] = []
        for at, spans in enumerate(self.plan.windows):
            plain = all(not span.ranked and (not span.slide or span.within == 0) for span in spans)
            longest = max((span.within - 1 if span.within else int(MAX_TIME)) for span in spans)
            lengths.append(longest if plain else 0)
            rows.append(-1 if plain else len(tables))
            if not plain:
                tables.append(self.oldest_of(at))
        oldest = np.stack(tables) if tables else np.zeros((0, len(self.encoded.time)), np.int64)
        return Windows(np.array(lengths, np.int64), np.array(rows, np.int32), oldest)

    def oldest_of(self, window: int) -> Ints:
        """Return for each event the earliest first time of what may end with it in a window."""
        if window not in self._oldest:
            self._oldest[window] = compute_widest_starts(self.plan.windows[window], self.encoded)
        return self._oldest[window]

    def oldest(self, node: Node) -> Ints:
        """Return for each event the earliest first time of what a node may end with it."""
        return self.oldest_of(self.plan.window_of(node))

    @property
    def instance_counts(self) -> Counter[Node]:
        """The instances that each node has made so far."""
        made = Counter(dict(zip(self.plan.nodes, self.run.made.tolist(), strict=True)))
        return made + self._listed

    # Operators

    def run_all(self) -> Iterator[MatchOutput | int]:
        """Run all operators; yield matches in blocks, and the number of each operator whose matches are to be listed.

        A block is overwritten by the next, and an operator is listed before the next one runs.
        """
        state, width = self.run.state, self.plan.width
        output, scratch = allocate_output(width, max(BLOCK_ROWS, self.plan.most_sinks)), allocate_scratch(width, 0, 0)
        while True:
            context = self._context(Tests(self.plan.tests, self.code), width)
            if len(scratch.first) < len(self.arena.first):
                scratch = allocate_scratch(width, self.plan.most_comparisons, len(self.arena.first))
                state[PREPARED] = -1
            status = run_operators(self.run, self.arena, context, scratch, output)
            self._check()
            if status == ARENA_FULL:
                self._make_room(int(state[AT_OPERATOR]))
                continue
            if status == AT_OTHER:
                yield from self._run_from_outside(int(state[AT_OPERATOR]))
                state[AT_MATCH] = 0
                continue
            found, state[MATCHES] = int(state[MATCHES]), 0
            if found:
                yield take_output(output, slice(found))
            if status == DONE:
                return

    def _run_from_outside(self, operator: int) -> Iterator[int]:
        """Run an operator that the kernel does not; yield its number where its matches are to be listed."""
        plan = self.plan
        if plan.is_kept(operator):
            self._store(operator, self._run_other(plan.nodes[operator]))
        if plan.others.get(operator):
            yield operator

    def _make_room(self, operator: int) -> None:
        """Make room for more instances of an operator, or let it end with those it has where they may be no more."""
        run, plan = self.run, self.plan
        sizes = {at: int(run.rows[at]) * self._row_bytes(at) for at in self._list_live(operator)}
        counted = sum(size for at, size in sizes.items() if not isinstance(plan.nodes[at], LeafNode))
        if run.rows[operator] >= BLOCK_ROWS and not self.budget.fits(counted, plan.nodes[operator]):
            run.state[AT_OUTER], run.state[AT_INNER] = MAX_TIME, -1  # as if all outer rows had been joined
            return
        self._reserve_rows(operator, max(len(self.encoded.time), BLOCK_ROWS))

    def _list_live(self, operator: int) -> list[int]:
        """Return the operators up to one whose instances that or a later one reads, by their place in the arena."""
        run = self.run
        live = [at for at in range(operator + 1) if run.rows[at] >= 0 and self.plan.last_use[at] >= operator]
        return sorted(live, key=lambda at: int(run.start[at]))

    def _row_bytes(self, operator: int) -> int:
        return 8 * (3 + len(column_items(self.plan.nodes[operator])))

    def _reserve_rows(self, operator: int, more: int) -> None:
        """Move what is still needed together, into a larger arena if that leaves too little room. O(rows moved)."""
        run, arena = self.run, self.arena
        live = self._list_live(operator)
        needed = 2 * sum(int(run.rows[at]) for at in live) + more
        target = allocate_arena(self.plan.width, needed) if needed > len(arena.first) else arena
        to = 0
        for at in live:
            begin, rows, items = int(run.start[at]), int(run.rows[at]), len(column_items(self.plan.nodes[at]))
            target.columns[:items, to : to + rows] = arena.columns[:items, begin : begin + rows]
            for one, other in zip(target[1:], arena[1:], strict=True):
                one[to : to + rows] = other[begin : begin + rows]
            run.start[at] = to
            to += rows
        self.arena, run.state[ARENA_ROWS] = target, to

    def _store(self, operator: int, found: FoundInstances) -> None:
        """Put the instances of an operator into the arena, by key and last time."""
        run, rows = self.run, len(found.first)
        if run.state[ARENA_ROWS] + rows > len(self.arena.first):
            self._reserve_rows(operator, rows)
        order, start = np.argsort(found.end, kind="stable"), int(run.state[ARENA_ROWS])
        self.arena.columns[: len(found.columns), start : start + rows] = found.columns[:, order]
        for one, other in zip(self.arena[1:], found[1:], strict=True):
            one[start : start + rows] = other[order]
        run.start[operator], run.rows[operator] = start, rows
        run.state[ARENA_ROWS] += rows

    def instances(self, node: Node) -> Instances:
        """Return all instances of a node that was run."""
        at = self.plan.number[node]
        begin, end = int(self.run.start[at]), int(self.run.start[at] + self.run.rows[at])
        columns = np.ascontiguousarray(self.arena.columns[: len(column_items(node)), begin:end])
        first, last, ends = (part[begin:end] for part in self.arena[1:])
        return Instances(columns, first, last, ends, np.searchsorted(ends, self.encoded.offsets).astype(np.int64))

    # Events and bundles

    def events_of(self, symbol: Symbol) -> Ints:
        """Return the events of a symbol, in order."""
        mask = self.of_class.get(symbol)
        if mask is None:
            return np.zeros(0, np.int64)
        return np.flatnonzero(mask[self.encoded.klass]).astype(np.int64)

    def absences_of(self, symbols: tuple[Symbol, ...]) -> Absences:
        """Return the events of some symbols, by symbol and key."""
        events = [self.events_of(symbol) for symbol in symbols]
        starts = offsets_of(events)
        keys = len(self.encoded.offsets)
        offsets = np.zeros((max(len(events), 1), keys), np.int64)
        for at, own in enumerate(events):
            offsets[at] = starts[at] + np.searchsorted(own, self.encoded.offsets)
        event = np.concatenate([*events, np.zeros(0, np.int64)])
        return Absences(offsets, event, self.encoded.time[event])

    @property
    def bundles(self) -> Bundles:
        """All that items may be bound to: events and bundles."""
        return self.store.arrays

    def _as_bundles(self, paths: PathList) -> FoundInstances:
        """Keep paths as bundles; return them as instances of one item."""
        numbers = self.store.add(paths) + np.arange(len(paths.first))
        return FoundInstances(numbers[None, :], paths.first, paths.last, paths.end)

    # What is not run by the kernel

    def _run_other(self, node: Node) -> FoundInstances:
        match node:
            case JoinNode(inner=LoopNode() as loop):
                return _concat(self._collect(node, self._join_paths(node, loop), _bytes))
            case LoopNode():
                paths = self._collect(node, self.path_blocks(node), lambda block: _bytes(block[1:7]))
                return self._as_bundles(concat_bindings(paths))
            case UnionNode():
                return self._as_bundles(self._union(node))
        raise TypeError(f"the kernel runs {type(node).__name__}")

    def _collect(self, node: Node, blocks: Iterable[T], size: Callable[[T], int]) -> list[T]:
        """Collect the instances of a node as long as they fit in memory; one block always does."""
        kept = []
        for block in blocks:
            kept.append(block)
            if not self.budget.reserve(size(block), node):
                break
        return kept

    def expand_paths(
        self, node: JoinNode, loop: LoopNode, since: int = NO_BOUND, match_limit: MatchLimit | None = None
    ) -> Iterator[tuple[Instances, Ints, PathList]]:
        """Yield outer instances with the paths of a loop that fit them, and the outer instance of each path."""
        outer, prepared = self.instances(node.outer), self._prepare_loop(loop)
        table = build_path_join_table(node, self.absent, self.plan.program.definitions)
        prepared = prepared._replace(line=prepared.line._replace(oldest=self.oldest(node)))
        for start in range(0, max(len(outer.first), 1), OUTER_ROWS):
            stop = min(start + OUTER_ROWS, len(outer.first))
            owner, ends = find_path_ends_for_rows(
                outer, (start, stop), table, prepared.line, prepared.starts.latest, self.bundles, since
            )
            last = np.maximum(outer.last[owner], prepared.line.last[ends.row])
            for block in self._list_paths(prepared, ends, UNLIMITED, match_limit, last):
                owners = owner[block.origin]
                kept = filter_paths(outer.columns, owners, block, table, self.bundles, self.absences)
                self._listed[node] += int(kept.sum())
                yield outer, owners[kept], mask_bindings(block, kept)

    def _join_paths(self, node: JoinNode, loop: LoopNode) -> Iterator[FoundInstances]:
        """Yield the instances of a join with a loop in blocks; its paths are kept as bundles."""
        for outer, owners, paths in self.expand_paths(node, loop):
            base = self.store.add(paths)
            columns = np.empty((len(node.items), len(owners)), np.int64)
            columns[list(node.outer_items)] = outer.columns[:, owners]
            columns[list(node.inner_items)] = base + np.arange(len(owners))
            later = paths.last > outer.last[owners]
            yield FoundInstances(
                columns,
                np.minimum(outer.first[owners], paths.first),
                np.maximum(outer.last[owners], paths.last),
                np.where(later, paths.end, outer.end[owners]),
            )

    def path_blocks(
        self, node: LoopNode, most: int = UNLIMITED, since: int = NO_BOUND, match_limit: MatchLimit | None = None
    ) -> Iterator[PathList]:
        """Yield the paths of a loop in blocks, at most `most` for each end; positions count from the loop's first."""
        if node.policy is not Policy.SKIP_TILL_ANY:
            yield from self._run_blocks(node, since)
            return
        prepared = self._prepare_loop(node)
        ends = find_path_ends(prepared.line, prepared.starts.latest, since)
        for block in self._list_paths(prepared, ends, most, match_limit, prepared.line.last[ends.row]):
            self._listed[node] += len(block.first)
            yield block

    def _context(self, tests: Tests, slots: int) -> EvalContext:
        """Return what kernels need to run tests on combinations of so many items."""
        return EvalContext(tests, self.values, self.bundles, self.absences, _make_scope(slots), self.stack)

    def _prepare_loop(self, node: LoopNode) -> PreparedLoop:
        if node not in self.prepared:
            instances = [self.instances(item) for item in node.items]
            line = build_line_table(node, instances, self.absent, self.oldest(node))
            starts = latest_starts(line, self.absences)
            self.prepared[node] = PreparedLoop(line, build_tests(self.plan.loop_tests[node], self.code), starts)
        return self.prepared[node]

    def _run_blocks(self, node: LoopNode, since: int) -> Iterator[PathList]:
        """Yield the paths of a loop by its policy in blocks, those that end at `since` or later."""
        encoded = self.encoded
        table = build_run_table(node, self.absent, encoded.classes)
        events = RunEvents(encoded.offsets, encoded.time, encoded.klass, self.oldest(node), since)
        tests = build_tests(self.plan.loop_tests[node], self.code)
        state, context = new_run_state(table, events), self._context(tests, 2)
        for block in self._fill_blocks(lambda out: list_runs(table, events, state, context, out)):
            self._listed[node] += len(block.first)
            yield block

    def _list_paths(
        self, prepared: PreparedLoop, ends: PathEnds, most: int, match_limit: MatchLimit | None, last: Ints
    ) -> Iterator[PathList]:
        """Yield the paths to some ends in blocks; none to ends whose matches, at the time `last`, exceed the limit."""
        context = self._context(prepared.tests, 2)
        cursor = new_cursor(self._longest)
        for block in self._fill_blocks(
            lambda out: list_paths(prepared.line, prepared.starts, ends, cursor, context, out, most)
        ):
            yield block
            wanted = None if match_limit is None else match_limit.accepts(ends.key, last)
            if wanted is not None:
                ends.floor[~wanted] = MAX_TIME  # no path begins so late

    @property
    def _longest(self) -> int:
        """More than any path has steps."""
        return int(np.diff(self.encoded.offsets).max(initial=0)) + 2

    def _fill_blocks(self, fill: Callable[[PathList], tuple[int, bool]]) -> Iterator[PathList]:
        """Yield paths in blocks until all are listed."""
        done = False
        while not done:
            out = allocate_paths(BLOCK_ROWS, max(BLOCK_ENTRIES, 2 * self._longest))
            found, done = fill(out)
            self._check()
            entries = int(out.begin[found])
            yield PathList(
                out.begin[: found + 1].copy(),
                out.position[:entries].copy(),
                out.event[:entries].copy(),
                *(column[:found].copy() for column in out[3:]),
            )

    def _union(self, node: UnionNode) -> PathList:
        blocks = []
        for part, places in node.parts:
            found = self.instances(part)
            starts, positions = position_starts(column_items(part)), np.array(places, np.int32)
            begin, position, event = flatten_bindings(found.columns, starts, positions, self.bundles)
            key = row_numbers(found.offsets)
            blocks.append(PathList(begin, position, event, found.first, found.last, found.end, key, key))
            self._listed[node] += len(found.first)
        return concat_bindings(blocks)

    def _check(self) -> None:
        check_overflow(self.stack, "a whole number in a condition between two events")


def _make_scope(slots: int) -> EventScope:
    return EventScope(
        np.full(max(slots, 2), -1, np.int64),
        np.full(max(slots, 2), -1, np.int64),
        np.zeros(max(slots, 2) + 1, np.int64),
        np.zeros(1, np.int64),
    )


def _concat(blocks: Sequence[FoundInstances]) -> FoundInstances:
    """Concatenate blocks of instances, at least one."""
    return FoundInstances(*(np.concatenate(parts, axis=-1) for parts in zip(*blocks, strict=True)))


def _bytes(arrays: Iterable[NDArray[Any]]) -> int:
    return sum(array.nbytes for array in arrays)
