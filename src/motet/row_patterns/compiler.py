"""Compile a MATCH_RECOGNIZE for the columns of its relation: what the engine evaluates, what is read while matching."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import numpy as np
import pyarrow as pa

from motet.kernels import row_conditions as rc
from motet.kernels import row_patterns as rp
from motet.row_patterns.clauses import MatchClause, Named
from motet.row_patterns.conditions import ConditionCompiler, ConditionPart, Kind, choose_total, find_kind
from motet.row_patterns.expressions import DERIVED, AggregateCall, ExpressionParser, Names, Navigation, Node
from motet.row_patterns.patterns import compile_pattern
from motet.row_patterns.program import Form, InputColumn, LeafSpec, MatchProgram, OrderKey, OutputColumn, TrackerSpec
from motet.row_patterns.tokens import quote, quote_text

_SKIPS = {
    "past last": rp.SKIP_PAST_LAST,
    "to next": rp.SKIP_TO_NEXT,
    "to first": rp.SKIP_TO_FIRST_OF,
    "to last": rp.SKIP_TO_LAST_OF,
}
_OPERATORS = ("and", "or", "not", "is null", "in", "+", "-", "*", "/", "%", "negative", "positive", "brackets")
# Functions that are comparisons and choices between their arguments, by how many they take (0: any number).
_CHOICES = {"IFNULL": 2, "NULLIF": 2, "IF": 3, "MOD": 2, "GREATEST": 0, "LEAST": 0}
# Functions of two times, in several engines.
_DIFFERENCES = (
    "DATEDIFF", "DATE_DIFF", "DATESUB", "DATE_SUB", "TIMEDIFF", "TIMESTAMPDIFF", "AGE", "EXTRACT", "DATE_PART",
)  # fmt: skip
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_SEARCHED = ("WHEN", "THEN", "ELSE")  # the words of a CASE
# Columns that matching gives are named as no column is, so that a subquery of MEASURES cannot read them by mistake.
HIDDEN = "motet_hidden_"
MATCH_NUMBER = f"{HIDDEN}n"


@dataclass(frozen=True, slots=True)
class Target:
    """A row that is read: the first or last of a set (None: of all rows) with an offset, then so far behind it.

    `final` is whether the whole match counts. In DEFINE, the row itself is `which` CURRENT.
    """

    which: int
    variables: str | None
    offset: int = 0
    shift: int = 0
    final: bool = False


@dataclass(frozen=True, slots=True)
class Total:
    """An aggregate over the rows of a set: of an input column, or of rows where there is none."""

    function: str
    variables: str | None
    column: int | None
    final: bool


@dataclass
class Tracked:
    """The sets, targets and aggregates that a tracker follows, numbered as they are met."""

    sets: dict[str, int] = field(default_factory=dict)
    targets: dict[Target, int] = field(default_factory=dict)
    totals: dict[Total, int] = field(default_factory=dict)

    def add_target(self, target: Target) -> int:
        """Return the number of a target."""
        if target.variables is not None and target.which != rc.CURRENT:
            self.sets.setdefault(target.variables, len(self.sets))
        return self.targets.setdefault(target, len(self.targets))

    def add_total(self, total: Total) -> int:
        """Return the number of an aggregate."""
        if total.variables is not None:
            self.sets.setdefault(total.variables, len(self.sets))
        return self.totals.setdefault(total, len(self.totals))


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a variable: parts that speak of a row and its neighbours, and parts that speak of the match."""

    variable: str
    near: tuple[ConditionPart, ...]
    dependent: tuple[ConditionPart, ...]


@dataclass
class ClauseDraft:
    """A MATCH_RECOGNIZE whose expressions are understood; what its input columns are is still to be asked."""

    clause: MatchClause
    schema: pa.Schema
    inputs: dict[InputColumn, int] = field(default_factory=dict)
    partition: list[int] = field(default_factory=list)  # input columns
    order: list[int] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    tracked: Tracked = field(default_factory=Tracked)
    measured: Tracked = field(default_factory=Tracked)
    leaves: dict[tuple[object, ...], int] = field(default_factory=dict)
    passed: list[int] = field(default_factory=list)
    select: list[tuple[str, str]] = field(default_factory=list)  # what the relation has: text and name
    # The tokens of what the engine evaluates, by its text.
    input_places: dict[str, tuple[int, int]] = field(default_factory=dict)
    measure_places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def select_inputs(self, relation: str) -> str:
        """Return the query that reads the input columns."""
        shown = (f"{column.text} AS {HIDDEN}c{at}" for column, at in self.inputs.items())
        return f"SELECT {', '.join(shown)} FROM {relation}"

    def select_absent(self, relation: str) -> str:
        """Return the query that reads what input columns are of a row that is not there."""
        nothing = f"(SELECT 1 AS one) AS ones LEFT JOIN (SELECT * FROM {relation} LIMIT 0) AS none ON true"
        shown = (f"{column.text if column.on_nulls else 'NULL'} AS {HIDDEN}c{at}" for column, at in self.inputs.items())
        return f"SELECT {', '.join(shown)} FROM {nothing}"

    def select_measures(self, matched: str) -> str:
        """Return the query that makes the relation of what matching gives."""
        dialect = self.clause.sql.dialect
        inner = ", ".join(f"{text} AS {HIDDEN}o{at}" for at, (text, _) in enumerate(self.select))
        outer = ", ".join(f"{HIDDEN}o{at} AS {quote(name, dialect)}" for at, (_, name) in enumerate(self.select))
        # The column beside them makes an aggregate of the engine's an error: it would take all matches together.
        return f"SELECT {outer} FROM (SELECT {inner}, {MATCH_NUMBER} AS {HIDDEN}number FROM {matched}) AS measures"


def draft_clause(clause: MatchClause, schema: pa.Schema) -> ClauseDraft:
    """Understand the expressions of a MATCH_RECOGNIZE over a relation with these columns."""
    return _Drafter(clause, schema).draft


class _Drafter:
    def __init__(self, clause: MatchClause, schema: pa.Schema) -> None:
        self.clause = clause
        self.sql = clause.sql
        self.draft = ClauseDraft(clause, schema)
        self.variables = clause.variables
        self.names = Names(
            {name.lower(): name for name in schema.names},
            frozenset((*clause.variables, *clause.subsets)),
            clause.relation_name,
        )
        self.draft.partition = [self.add_key(first, last, "PARTITION BY") for first, last in clause.partition]
        self.draft.order = [self.add_key(key.first, key.last, "ORDER BY") for key in clause.order]
        for condition in clause.conditions:
            self.draft.conditions.append(self.read_condition(condition))
        self.read_outputs()
        if all(column.name is None for column in self.draft.inputs):
            # Rows are counted by some column. Beside expressions, it makes an aggregate of the engine's an error: that
            # would take all rows together.
            self.add_column(schema.names[0])

    # ----- input columns

    def add_key(self, first: int, last: int, where: str) -> int:
        """Return the number of the input column that an expression of PARTITION BY or ORDER BY is."""
        node = ExpressionParser(self.sql, replace(self.names, variables=frozenset()), first, last, where).parse()
        leaves = list(node.leaves())
        if any(leaf.kind != "column" for leaf in leaves):
            raise self.error_at_node(node, f"{where} takes columns and what is computed of one row")
        if not leaves:
            raise self.error_at_node(node, f"{where} needs a column here", "positions of columns have no meaning")
        return self.add_expression(node, False)

    def add_column(self, name: str) -> int:
        column = InputColumn(quote(name, self.sql.dialect), name, False)
        return self.draft.inputs.setdefault(column, len(self.draft.inputs))

    def add_expression(self, node: Node, on_nulls: bool) -> int:
        """Return the number of the input column that an expression on one row is."""
        inner = _find_innermost(node)
        if inner.kind == "column":
            return self.add_column(inner.value.name)
        return self.add_text(self.render_row(node), node, on_nulls)

    def add_text(self, text: str, node: Node, on_nulls: bool = False) -> int:
        """Return the number of the input column that a text of the engine's is, which stands for a node."""
        column = InputColumn(f"({text})", None, on_nulls)
        self.draft.input_places.setdefault(column.text, (node.first, node.last))
        return self.draft.inputs.setdefault(column, len(self.draft.inputs))

    def render_argument(self, node: Node, label: str | None = None) -> str:
        """Return what an aggregate takes of a row of the variable `label`: null where its FILTER does not hold."""
        parts = [self.render_row(part, label) for part in node.parts]
        if not node.value.filtered:
            return parts[0]
        *argument, condition = parts
        return f"CASE WHEN {condition} THEN {argument[0] if argument else '1'} END"

    def render_row(self, node: Node, label: str | None = None) -> str:
        """Return an expression on one row: columns without variables, navigations as what they read, and the name of
        its variable as a text.
        """
        replaced = {}
        for leaf in node.leaves():
            if leaf.kind == "column":
                text = quote(leaf.value.name, self.sql.dialect)
            elif leaf.kind == "classifier":
                text = quote_text(label or "", self.sql.dialect)
            else:
                text = f"({self.render_row(leaf.parts[0])})"
            replaced[leaf.first] = (leaf.last, text)
        return self.sql.render(node.first, node.last, replaced)

    # ----- rows that are read

    def parse(self, named: Named, where: str) -> Node:
        return ExpressionParser(self.sql, self.names, named.first, named.last, where).parse()

    def error_at_node(self, node: Node, message: str, hint: str | None = None) -> Exception:
        return self.sql.error_at(message, node.first, node.last, hint)

    def find_target(self, node: Node, variable: str | None) -> Target:
        """Return the row that a column or navigation reads; `variable` is the one that is being defined."""
        if node.kind == "column":
            return self.make_target(rc.LAST, node.value.variable, 0, None, variable, node)
        if node.kind == "classifier":
            owner, final = node.value
            return self.make_target(rc.LAST, owner, 0, final, variable, node)
        navigation: Navigation = node.value
        inner = _unwrap(node.parts[0])
        if navigation.function in ("PREV", "NEXT"):
            shift = navigation.offset if navigation.function == "NEXT" else -navigation.offset
            if inner.kind == "navigate":
                if inner.value.function in ("PREV", "NEXT"):
                    raise self.error_at_node(node, "PREV and NEXT do not stand in each other", "add up the offsets")
                base = self.find_target(inner, variable)
            else:
                base = self.make_target(rc.LAST, self.find_owner(node), 0, None, variable, node)
            return Target(base.which, base.variables, base.offset, shift, base.final)
        if any(leaf.kind == "navigate" for leaf in inner.leaves()):
            raise self.error_at_node(
                node, f"{navigation.function} takes columns, no other navigation", "as in PREV(LAST(A.x, 1), 2)"
            )
        which = rc.FIRST if navigation.function == "FIRST" else rc.LAST
        return self.make_target(which, self.find_owner(node), navigation.offset, navigation.final, variable, node)

    def make_target(
        self, which: int, owner: str | None, offset: int, final: bool | None, variable: str | None, node: Node
    ) -> Target:
        if variable is None:  # in MEASURES
            return Target(which, owner, offset, 0, bool(final) or not self.clause.all_rows)
        if final:
            raise self.error_at_node(node, "FINAL has no meaning in DEFINE: the match is not complete", "leave it out")
        if which == rc.LAST and offset == 0 and (owner is None or variable in self.members(owner)):
            return Target(rc.CURRENT, None)
        return Target(which, owner, offset)

    def members(self, name: str) -> list[str]:
        return self.clause.subsets.get(name, [name])

    def find_owner(self, node: Node) -> str | None:
        """Return the variable whose columns an argument has: one and the same, or none."""
        owners = set()
        if node.kind == "aggregate" and (node.value.variable or len(node.parts) == node.value.filtered):
            owners.add(node.value.variable)  # COUNT(A.*) or COUNT(*)
        for leaf in (leaf for part in node.parts for leaf in part.leaves()):
            if leaf.kind == "column":
                owners.add(leaf.value.variable)
            elif leaf.kind == "classifier" and (node.kind == "aggregate" or leaf is _unwrap(node.parts[0])):
                owners.add(leaf.value[0])
            else:
                raise self.error_at_node(leaf, "this cannot stand in the argument of a navigation or an aggregate")
        if len(owners) > 1:
            raise self.error_at_node(node, "all columns of an argument must be of one variable")
        if not owners and node.kind == "navigate":
            raise self.error_at_node(node, f"{node.value.function} needs a column")
        return owners.pop() if owners else None

    def find_total(self, node: Node) -> Total:
        call: AggregateCall = node.value
        final = bool(call.final) or not self.clause.all_rows
        if not node.parts:
            return Total("COUNT", call.variable, None, final)
        owner = self.find_owner(node)
        if _counts_labels(node):
            return Total("COUNT", owner, None, final)
        if _reads_labels(node):
            raise self.error_at_node(
                node, "CLASSIFIER in the argument of an aggregate is evaluated in MEASURES only", "name the variable"
            )
        if call.filtered:
            return Total(call.function, owner, self.add_text(self.render_argument(node), node), final)
        return Total(call.function, owner, self.add_expression(node.parts[0], False), final)

    def add_totals_by_variable(self, node: Node) -> str:
        """Return an aggregate whose argument asks for the variable of a row: put together from one for each variable,
        in whose argument the name of the variable stands.
        """
        call: AggregateCall = node.value
        owner, final = self.find_owner(node), bool(call.final) or not self.clause.all_rows

        def add(function: str) -> list[str]:
            found = []
            for name in self.variables if owner is None else self.members(owner):
                column = self.add_text(self.render_argument(node, name), node)
                found.append(self.add_total(Total(function, name, column, final)))
            return found

        if call.function in ("MIN", "MAX"):
            parts = add(call.function)
            function = "LEAST" if call.function == "MIN" else "GREATEST"
            return parts[0] if len(parts) == 1 else f"{function}({', '.join(parts)})"
        counts = f"({' + '.join(add('COUNT'))})"
        if call.function == "COUNT":
            return counts
        parts = add("SUM")
        total = " + ".join(f"COALESCE({part}, 0)" for part in parts)
        if call.function == "AVG":
            return f"(CASE WHEN {counts} > 0 THEN CAST({total} AS DOUBLE) / {counts} END)"
        return f"(CASE WHEN {counts} > 0 THEN {total} END)"

    # ----- conditions

    def read_condition(self, named: Named) -> Condition:
        conjuncts = list(_split_conjuncts(self.parse(named, "DEFINE")))
        own = [each for each in conjuncts if self.reads_own_row(each, named.name)]
        parts = []
        if len(own) > 1:
            parts.append(self.read_own_row(own))
            conjuncts = [each for each in conjuncts if each not in own]
        parts += [self.read_part(each, named.name) for each in conjuncts]
        near = tuple(part for part in parts if self.is_near(part))
        return Condition(named.name, near, tuple(part for part in parts if part not in near))

    def reads_own_row(self, node: Node, variable: str) -> bool:
        """Return whether a condition speaks of the row that it is tested on alone."""
        row, inner = self.find_row(node, variable), _unwrap(node)
        if inner.kind == "column" and not pa.types.is_boolean(self.draft.schema.field(inner.value.name).type):
            return False
        return row is not None and row[0] == Target(rc.CURRENT, None)

    def read_own_row(self, conjuncts: Sequence[Node]) -> ConditionPart:
        """Return conditions on the row itself as one, in which each is evaluated only where those before it hold: it
        may fail elsewhere, as CAST does on texts that are no numbers.
        """
        texts = [f"({self.render_row(each)})" for each in conjuncts]
        for text, each in zip(texts, conjuncts, strict=True):
            self.draft.input_places.setdefault(text, (each.first, each.last))
        found = texts.pop()
        for guard in reversed(texts):
            found = f"CASE WHEN {guard} THEN {found} END"
        node = Node("and", conjuncts[0].first, conjuncts[-1].last, tuple(conjuncts))
        target = self.draft.tracked.add_target(Target(rc.CURRENT, None))
        return ConditionPart("load", node, target=target, column=self.add_text(found, node))

    def is_near(self, part: ConditionPart) -> bool:
        """Return whether a part speaks of a row and its neighbours alone."""
        if part.op in ("label", "number", "total"):
            return False
        targets = list(self.draft.tracked.targets)
        return (part.op != "load" or targets[part.target].which == rc.CURRENT) and all(map(self.is_near, part.parts))

    def find_row(self, node: Node, variable: str) -> tuple[Target | None, bool] | None:
        """Return the one row that an expression reads (None: no row at all), and whether it is null where that row is
        not there and all of its columns are taken as null; None where it reads several rows.
        """
        if node.kind == "column":
            return self.find_target(node, variable), True
        if node.kind == "navigate":
            target, inner = self.find_target(node, variable), _find_innermost(node)
            return None if inner.kind == "classifier" else (target, inner.kind == "column")
        if node.kind in ("classifier", "number", "aggregate") or node.value == DERIVED:
            return None
        found = [self.find_row(part, variable) for part in node.parts]
        if None in found:
            return None
        rows = [each for each in found if each is not None and each[0] is not None]
        if not rows:
            return None, True
        if all(each == rows[0] for each in rows) and (rows[0][1] or rows[0][0] == Target(rc.CURRENT, None)):
            return rows[0]
        return rows[0] if len(node.parts) == 1 and node.kind == "brackets" else None

    def read_part(self, node: Node, variable: str) -> ConditionPart:
        """Return what a condition is: what reads one row is an input column."""
        row = self.find_row(node, variable)
        if row is not None and not (row[0] is None and node.kind in ("literal", "interval", "brackets", "negative")):
            target = row[0] or Target(rc.CURRENT, None)
            column = self.add_expression(node, row[1] and target != Target(rc.CURRENT, None))
            return ConditionPart("load", node, target=self.draft.tracked.add_target(target), column=column)
        return self.read_operator(node, variable)

    def read_operator(self, node: Node, variable: str) -> ConditionPart:
        tracked = self.draft.tracked
        parts = node.parts
        match node.kind:
            case "literal" if node.value is NotImplemented:
                target = tracked.add_target(Target(rc.CURRENT, None))
                return ConditionPart("load", node, target=target, column=self.add_expression(node, False))
            case "literal":
                return ConditionPart("constant", node, value=node.value)
            case "interval":
                return ConditionPart("interval", node, value=node.value)
            case "number":
                return ConditionPart("number", node)
            case "classifier" | "navigate":
                return self.read_label(node, variable)
            case "aggregate":
                if node.value.final:
                    raise self.error_at_node(
                        node, "FINAL has no meaning in DEFINE: the match is not complete", "leave it out"
                    )
                total = self.find_total(node)
                return ConditionPart(
                    "total", node, target=tracked.add_total(Total(total.function, total.variables, total.column, False))
                )
            case "distinct" | "is truth":
                return self.read_part(_expand(node), variable)
            case "call" if _CHOICES.get(node.value, -1) in (0, len(parts)):
                return self.read_part(_expand_call(node), variable)
            case "case":
                parts = self.make_searched(node)
            case "call" if node.value in ("COALESCE", "ABS"):
                pass
            case kind if kind not in _OPERATORS and kind not in _COMPARISONS:
                shown = f"{node.value}(...)" if kind == "call" else "this expression"
                hint = "between rows there are + - * / %, comparisons, AND, OR, NOT, IN, BETWEEN, CASE, COALESCE, "
                hint += "NULLIF, GREATEST, LEAST and ABS"
                if node.value in _DIFFERENCES:
                    hint = "subtract the times, as in B.at - A.at <= INTERVAL '5' MINUTE"
                message = f"{shown} takes values of several rows, which cannot be evaluated while matching"
                raise self.error_at_node(node, message, hint)
        op = node.value.lower() if node.kind == "call" else node.kind
        return ConditionPart(op, node, tuple(self.read_part(part, variable) for part in parts))

    def read_label(self, node: Node, variable: str) -> ConditionPart:
        target = self.find_target(node, variable)
        if target == Target(rc.CURRENT, None):
            return ConditionPart("constant", node, value=variable)
        return ConditionPart("label", node, target=self.draft.tracked.add_target(target))

    def make_searched(self, node: Node) -> tuple[Node, ...]:
        """Return the conditions and values of a CASE, one after another; its operand becomes comparisons."""
        words, parts = list(node.value), list(node.parts)
        if words[0] != "CASE":
            return tuple(parts)
        operand = parts.pop(0)
        return tuple(
            Node("=", part.first, part.last, (operand, part), DERIVED) if word == "WHEN" else part
            for word, part in zip(words[1:], parts, strict=True)
        )

    # ----- outputs

    def read_outputs(self) -> None:
        """Note what the relation has: partition columns (and all others where all rows are given) and measures."""
        clause, draft, select = self.clause, self.draft, self.draft.select
        columns = [column.name for column in draft.inputs]
        keys = [columns[at] for at in (draft.partition + draft.order if clause.all_rows else draft.partition)]
        before = list(dict.fromkeys(name for name in keys if name is not None))
        measures = [(self.read_measure(named), named.name) for named in clause.measures]
        after = [name for name in self.draft.schema.names if name not in before] if clause.all_rows else []
        select.extend((self.pass_column(name), name) for name in before)
        select.extend(measures)
        select.extend((self.pass_column(name), name) for name in after)
        if not select:
            at = clause.relation_end
            raise self.sql.error_at("this MATCH_RECOGNIZE has no columns", at, hint="add MEASURES or PARTITION BY")
        seen: set[str] = set()
        for _, name in select:
            if name.lower() in seen:
                token = next(
                    (each.token for each in clause.measures if each.name.lower() == name.lower()), clause.relation_end
                )
                raise self.sql.error_at(f"there are two columns {name!r}", token, hint="give the measure another name")
            seen.add(name.lower())

    def pass_column(self, name: str) -> str:
        column = self.add_column(name)
        if column not in self.draft.passed:
            self.draft.passed.append(column)
        return f"{HIDDEN}p{self.draft.passed.index(column)}"

    def read_measure(self, named: Named) -> str:
        node = self.parse(named, "MEASURES")
        replaced = {}
        for leaf in node.leaves():
            replaced[leaf.first] = (leaf.last, self.add_leaf(leaf))
        text = f"({self.sql.render(node.first, node.last, replaced)})"
        # Of a row of no match every measure is null, even one that reads no row; such a row has no number.
        if self.clause.empty == "unmatched":
            text = f"CASE WHEN {MATCH_NUMBER} IS NOT NULL THEN {text} END"
        self.draft.measure_places[text] = (named.first, named.last)
        return text

    def add_leaf(self, node: Node) -> str:
        """Return the name of the column that a leaf of measures becomes."""
        measured = self.draft.measured
        match node.kind:
            case "number":
                return MATCH_NUMBER
            case "aggregate" if _reads_labels(node):
                return self.add_totals_by_variable(node)
            case "aggregate":
                return self.add_total(self.find_total(node))
            case "column":
                target = measured.add_target(self.find_target(node, None))
                return self.name_leaf(("row", target, self.add_column(node.value.name)))
            case _:
                target = measured.add_target(self.find_target(node, None))
                if _find_innermost(node).kind == "classifier":
                    return self.name_leaf(("label", target))
                return self.name_leaf(("row", target, self.add_expression(node, False)))

    def add_total(self, total: Total) -> str:
        """Return the name of the column that an aggregate of measures becomes."""
        return self.name_leaf(("total", self.draft.measured.add_total(total)))

    def name_leaf(self, key: tuple[object, ...]) -> str:
        return f"{HIDDEN}m{self.draft.leaves.setdefault(key, len(self.draft.leaves))}"


def _reads_labels(node: Node) -> bool:
    """Whether what an aggregate takes of a row depends on the row's variable: COUNT(CLASSIFIER()) counts rows alone."""
    return not _counts_labels(node) and any(leaf.kind == "classifier" for part in node.parts for leaf in part.leaves())


def _counts_labels(node: Node) -> bool:
    call: AggregateCall = node.value
    return call.function == "COUNT" and len(node.parts) == 1 and _unwrap(node.parts[0]).kind == "classifier"


def _derive(node: Node, kind: str, *parts: Node, value: object = DERIVED) -> Node:
    """Return a node that stands where another is written."""
    return Node(kind, node.first, node.last, parts, value)


def _expand(node: Node) -> Node:
    """Return IS DISTINCT FROM, IS TRUE and the like in terms of comparisons, which rows of a match can be given to."""
    make = partial(_derive, node)
    if node.kind == "distinct":
        one, other = node.parts
        both = make("and", make("is null", one), make("is null", other))
        found, negated = make("call", make("=", one, other), both, value="COALESCE"), not node.value
    else:
        word, negated = node.value
        part = make("not", *node.parts) if word == "FALSE" else node.parts[0]
        found = make("call", part, make("literal", value=False), value="COALESCE")
        if word == "UNKNOWN":
            found = make("is null", part)
    return make("not", found) if negated else found


def _expand_call(node: Node) -> Node:
    """Return a call of one of `_CHOICES` in terms of comparisons, CASE and COALESCE."""
    make, parts = partial(_derive, node), node.parts
    match node.value:
        case "IFNULL":
            return make("call", *parts, value="COALESCE")
        case "MOD":
            return make("%", *parts)
        case "IF":
            return make("case", *parts, value=_SEARCHED)
        case "NULLIF":
            return make("case", make("=", *parts), make("literal", value=None), parts[0], value=_SEARCHED)
    # GREATEST and LEAST pass over nulls. Each half stands in several places, so that arguments are halved rather than
    # taken one by one: one by one, the whole would double with each.
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    one, other = (_expand_call(make("call", *half, value=node.value)) for half in (parts[:middle], parts[middle:]))
    is_first = make("or", make(">=" if node.value == "GREATEST" else "<=", one, other), make("is null", other))
    return make("case", is_first, one, other, value=_SEARCHED)


def _unwrap(node: Node) -> Node:
    while node.kind == "brackets":
        node = node.parts[0]
    return node


def _find_innermost(node: Node) -> Node:
    """Return what navigations and brackets are around."""
    while node.kind in ("brackets", "navigate"):
        node = node.parts[0]
    return node


def _split_conjuncts(node: Node) -> Iterator[Node]:
    inner = _unwrap(node)
    if inner.kind == "and" and inner.value is None and all(part.value != DERIVED for part in inner.parts):
        for part in inner.parts:
            yield from _split_conjuncts(part)
    else:
        yield node


def finish_program(draft: ClauseDraft, types: Sequence[pa.DataType], *, utc: bool = True) -> MatchProgram:
    """Return the program of a draft, given the types of its input columns.

    Args:
        draft: The draft.
        types: The types of what `ClauseDraft.select_inputs` reads.
        utc: Whether days have 24 hours in the session's time zone.
    """
    return _Finisher(draft, types, utc).finish()


class _Finisher:
    def __init__(self, draft: ClauseDraft, types: Sequence[pa.DataType], utc: bool) -> None:
        self.draft = draft
        self.clause = draft.clause
        self.types = list(types)
        self.kinds = [find_kind(type) for type in types]
        self.utc = utc
        self.numbers = {name: number for number, name in enumerate(self.clause.variables)}
        self.whole: dict[tuple[int, Form], int] = {}
        self.floating: dict[int, int] = {}

    def encode(self, column: int, form: Form = "value") -> int:
        """Return the row of an input column among the whole or floating values."""
        if form == "value" and self.kinds[column].is_float:
            return self.floating.setdefault(column, len(self.floating))
        return self.whole.setdefault((column, form), len(self.whole))

    def finish(self) -> MatchProgram:
        clause, draft, sql = self.clause, self.draft, self.clause.sql
        size = len(self.numbers)
        totals = list(draft.tracked.totals)
        compiler = ConditionCompiler(
            sql=sql,
            dialect=sql.dialect,
            kinds=self.kinds,
            encode=self.encode,
            total_kinds=[Kind("int") if each.column is None else self.check_total(each) for each in totals],
            total_functions=[each.function for each in totals],
            utc=self.utc,
        )
        masks, conditions = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
        for condition in draft.conditions:
            variable = self.numbers[condition.variable]
            for parts, numbers in ((condition.near, masks), (condition.dependent, conditions)):
                if parts:
                    numbers[variable] = compiler.compile(reduce(_conjoin, parts))
        dependent = frozenset(np.flatnonzero(conditions >= 0).tolist())
        too_large = sql.error_at(
            "PATTERN has too many steps", *clause.pattern_at, hint="smaller numbers in { }, or fewer parts of PERMUTE"
        )
        skip_to = np.zeros(max(size, 1), np.bool_)
        if clause.skip_to is not None:
            skip_to[[self.numbers[name] for name in clause.subsets.get(clause.skip_to, [clause.skip_to])]] = True
        line = sql.text.count("\n", 0, sql.tokens[clause.relation_end].start) + 1
        tracked, measured = self.make_tracker(draft.tracked), self.make_tracker(draft.measured)
        if not dependent:
            tracked = TrackerSpec(tracked.member[:0], tracked.targets, tracked.aggregates[:0])
        outputs, leaves = self.make_outputs()
        return MatchProgram(
            place=f"{sql.origin}:{line}",
            inputs=tuple(draft.inputs),
            schema=pa.schema([(f"c{at}", type) for at, type in enumerate(self.types)]),
            partition=tuple(draft.partition),
            order=tuple(
                OrderKey(column, key.descending, key.nulls_first)
                for key, column in zip(clause.order, draft.order, strict=True)
            ),
            variables=tuple(self.numbers),
            pattern=compile_pattern(clause.pattern, self.numbers, dependent, too_large),
            code=compiler.finish(),
            masks=masks,
            conditions=conditions,
            whole=tuple(self.whole),
            floating=tuple(self.floating),
            tracked=tracked,
            measured=measured,
            leaves=leaves,
            outputs=outputs,
            all_rows=clause.all_rows,
            show_empty=not clause.all_rows or clause.empty != "omit",
            show_unmatched=clause.all_rows and clause.empty == "unmatched",
            skip=_SKIPS[clause.skip],
            skip_to=skip_to,
        )

    def check_total(self, total: Total) -> Kind:
        """Return what an aggregate is taken of, unless it cannot be taken of that."""
        assert total.column is not None
        kind = self.kinds[total.column]
        if total.function == "COUNT" or kind.is_number or kind.name == "null":
            return kind
        if total.function in ("MIN", "MAX") and kind.name != "other":
            return kind
        inputs = list(self.draft.inputs)
        raise self.clause.sql.error_at(
            f"{total.function} of {inputs[total.column].text}, which is {self.types[total.column]}, is not supported",
            self.clause.relation_end,
        )

    def make_tracker(self, tracked: Tracked) -> TrackerSpec:
        size = max(len(self.numbers), 1)
        member = np.zeros((len(tracked.sets), size), np.bool_)
        for name, at in tracked.sets.items():
            member[at, [self.numbers[each] for each in self.clause.subsets.get(name, [name])]] = True

        def number(name: str | None) -> int:
            return rc.ALL_ROWS if name is None else tracked.sets[name]

        targets = [
            (each.which, rc.ALL_ROWS if each.which == rc.CURRENT else number(each.variables), each.offset, each.shift)
            for each in tracked.targets
        ]
        aggregates = []
        for total in tracked.totals:
            if total.column is None:
                aggregates.append((rc.COUNT_ROWS, number(total.variables), 0))
                continue
            kind = self.check_total(total)
            form: Form = "presence" if total.function == "COUNT" else "value"
            aggregates.append(
                (choose_total(total.function, kind), number(total.variables), self.encode(total.column, form))
            )
        return TrackerSpec(
            member, np.array(targets, np.int64).reshape(-1, 4), np.array(aggregates, np.int64).reshape(-1, 3)
        )

    def make_outputs(self) -> tuple[tuple[OutputColumn, ...], LeafSpec]:
        draft = self.draft
        targets, totals = list(draft.measured.targets), list(draft.measured.totals)
        outputs = [OutputColumn(MATCH_NUMBER, pa.int64(), "number")]
        outputs += [
            OutputColumn(f"{HIDDEN}p{at}", self.types[column], "input", column=column)
            for at, column in enumerate(draft.passed)
        ]
        rows: list[int] = []
        labels: list[int] = []
        for key, at in draft.leaves.items():
            match key:
                case ("row", int(target), int(column)):
                    if target not in rows:
                        rows.append(target)
                    leaf = rows.index(target)
                    outputs.append(OutputColumn(f"{HIDDEN}m{at}", self.types[column], "row", leaf, column))
                case ("label", int(target)):
                    labels.append(target)
                    outputs.append(OutputColumn(f"{HIDDEN}m{at}", pa.string(), "label", len(labels) - 1))
                case ("total", int(number)):
                    outputs.append(self.make_total(f"{HIDDEN}m{at}", number, totals[number]))
        return tuple(outputs), LeafSpec(
            np.array(rows, np.int64),
            np.array([targets[each].final for each in rows], np.bool_),
            np.array(labels, np.int64),
            np.array([targets[each].final for each in labels], np.bool_),
            np.array([each.final for each in totals], np.bool_),
        )

    def make_total(self, name: str, leaf: int, total: Total) -> OutputColumn:
        if total.column is None or total.function == "COUNT":
            return OutputColumn(name, pa.int64(), "total", leaf, function="COUNT")
        kind, type = self.check_total(total), self.types[total.column]
        if total.function == "AVG" or (total.function == "SUM" and kind.is_float):
            type = pa.float64()
        elif total.function == "SUM":
            type = pa.decimal128(38, kind.scale) if kind.name == "decimal" else pa.int64()
        elif pa.types.is_dictionary(type):
            type = type.value_type
        return OutputColumn(name, type, "total", leaf, total.column, total.function, kind.scale)


def _conjoin(one: ConditionPart, other: ConditionPart) -> ConditionPart:
    return ConditionPart("and", one.node, (one, other))
