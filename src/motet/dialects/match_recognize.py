"""Translates SQL's MATCH_RECOGNIZE, where it means the same as a CONTIGUOUS query.

The standard looks at neighbouring rows and keeps one match for each row that may begin one: the first by the
preference of its quantifiers; AFTER MATCH SKIP then says where to go on. Motet gives every match. So the two agree
where a row can begin only one match and the rows that are skipped could not have begun any: this is what is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from motet.dialects.row_pattern import (
    RowAdjacency,
    find_adjacency,
    find_group_loops,
    is_always_before,
    is_ambiguous,
    is_certain,
    is_fixed,
    parse_row_pattern,
)
from motet.dialects.sql import (
    find_offsets,
    iterate_conjuncts,
    parse_sql,
    refuse_other_arguments,
    refuse_other_clauses,
    translate_expression,
)
from motet.dialects.translation import SourceText, Translation, define_type, extract_type
from motet.language.parser import parse
from motet.model.expression import Arithmetic, At, Attribute, Expression, KleeneAggregate, variables
from motet.model.names import rename_variables
from motet.model.pattern import Event, Pattern, events, map_events
from motet.model.query import AllVariables, Computed, Policy, Query
from motet.model.shape import repeated_names
from motet.model.window import Window
from motet.row_patterns.tokens import SqlText

_WITHIN = re.compile(r"\bWITHIN\s+(INTERVAL\s*'[^']*'\s*\w+)", re.IGNORECASE)

# Comments become blanks, so that places stay what they are; texts and names in quotes stay.
_COMMENT = re.compile(r"""('(?:[^']|'')*'|"[^"]*")|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_BACKSLASH = re.compile(r"'[^'\\]*\\[^']*'")
_KNOWN_CLAUSES = frozenset({"expressions", "from_", "match"})
_KNOWN_PARTS = frozenset({"partition_by", "order", "measures", "rows", "after", "pattern", "define"})
PAST_LAST = "AFTER MATCH SKIP PAST LAST ROW"
NEXT_ROW = "AFTER MATCH SKIP TO NEXT ROW"

NOTES = (
    "the same as MATCH_RECOGNIZE where no two rows of a partition share a time (SQL then picks an order of its own)",
    "and no row has a null time, type or partition column: motet sets such rows aside, SQL does not",
    "and no number that is read or computed is NaN, which motet takes for null",
)
DECIMALS = (
    "and what is computed with numbers with a point is of DOUBLE columns: motet computes doubles, SQL exact decimals"
)


def translate_source(source: SourceText) -> Translation:
    """Translate a SELECT * FROM t MATCH_RECOGNIZE (...)."""
    source = replace(source, text=_COMMENT.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), source.text))
    for found in _BACKSLASH.finditer(source.text):
        message = "a backslash in a text stands for itself in some systems and begins an escape in others"
        raise source.error_at(message, found.start(), found.end(), "compare with a column that holds the text")
    window, text = _extract_window(source)
    tree = parse_sql(source, text, "snowflake")
    clause = tree.find(exp.MatchRecognize)
    sql = SqlText(source.text, source.origin, "duckdb")
    opening = next(
        (at + 1 for at in range(len(sql.tokens)) if (sql.word(at), sql.word(at + 1)) == ("PATTERN", "(")), None
    )
    if clause is None or opening is None:
        raise source.error_at(
            "there is no MATCH_RECOGNIZE with a PATTERN here", 0, hint="as in SELECT * FROM t MATCH_RECOGNIZE (...)"
        )
    _refuse_selection(tree, source)
    refuse_other_arguments(clause, source, _KNOWN_PARTS)
    for division in clause.find_all(exp.Div):
        message = "a division gives whole numbers in some systems and fractions in others; in motet it gives fractions"
        raise source.error_at(message, *find_offsets(division), "multiply instead: a > b / 2 is 2 * a > b")
    rows = parse_row_pattern(sql, opening + 1, sql.find_closing(opening))
    return _ClauseTranslator(source, clause, rows).translate(window)


def _extract_window(source: SourceText) -> tuple[Window | None, str]:
    """Return Flink's WITHIN, which standard SQL does not have, and the text with blanks in its place."""
    found = _WITHIN.search(source.text)
    if found is None:
        return None, source.text
    window = parse(f"QUERY q PATTERN A WITHIN {found[1]}").queries[0].window
    return window, source.text[: found.start()] + " " * len(found[0]) + source.text[found.end() :]


def _refuse_selection(tree: Any, source: SourceText) -> None:
    if not isinstance(tree, exp.Select) or not all(isinstance(item, exp.Star) for item in tree.expressions):
        hint = "translate SELECT * FROM t MATCH_RECOGNIZE (...) and choose columns of the results after"
        raise source.error_at("only the MATCH_RECOGNIZE clause itself is translated", *find_offsets(tree), hint)
    refuse_other_clauses(tree, source, _KNOWN_CLAUSES)


@dataclass(frozen=True, slots=True)
class _Define:
    """What a variable's row must be: the type it is known by, if any, and its other conditions."""

    type: str | None
    local: tuple[Expression, ...]
    between: tuple[Expression, ...]


class _ClauseTranslator:
    """One MATCH_RECOGNIZE clause."""

    def __init__(self, source: SourceText, clause: Any, rows: Pattern) -> None:
        self.source = source
        self.clause = clause
        names = [event.type for event in events(rows)]
        self.names = {name.lower(): name.lower() for name in names}
        for name in names:
            if [each.lower() for each in names].count(name.lower()) > 1:
                hint = "give each of its places a variable of its own, defined alike"
                raise self.error_at_word(name, f"the variable {name} stands in PATTERN more than once", hint)
        self.rows = map_events(rows, lambda event: Event(event.type.lower()))  # SQL's names are the same in any case
        self.adjacency: RowAdjacency = find_adjacency(self.rows)
        self.loops = repeated_names(self.rows)
        self.notes = list(NOTES)

    def error_at_word(self, word: str, message: str, hint: str | None = None) -> Exception:
        """Return the error at a word of the source."""
        found = re.search(rf"\b{re.escape(word)}\b", self.source.text, re.IGNORECASE)
        start, end = found.span() if found else (0, 1)
        return self.source.error_at(message, start, end, hint)

    def translate(self, window: Window | None) -> Translation:
        self.check_order()
        defined = set()
        for each in self.clause.args.get("define") or ():
            if each.alias.lower() not in self.names:
                raise self.source.error_at(f"PATTERN has no variable {each.alias}", *find_offsets(each))
            if each.alias.lower() in defined:
                raise self.source.error_at(f"{each.alias} is defined twice", *find_offsets(each), "join them by AND")
            defined.add(each.alias.lower())
        defines = {alias: self.parse_define(alias) for alias in self.names}
        self.check_ambiguity(defines)
        computed = self.clause.find_all(exp.Add, exp.Sub, exp.Mul)
        if any("." in number.this and number.is_number for node in computed for number in node.find_all(exp.Literal)):
            self.notes.append(DECIMALS)
        definitions = []
        types = {}
        conditions: list[Expression] = []
        for alias, define in defines.items():
            if define.type is not None:
                types[alias] = define.type
                conditions += define.local
            else:
                types[alias] = f"{alias}_row"
                definitions.append(define_type(types[alias], define.local, self.source.type))
            conditions += define.between
        # A variable of ours must not be the type of another event.
        called = {
            alias: f"{alias}_" if any(kind == alias for other, kind in types.items() if other != alias) else alias
            for alias in types
        }
        query = Query(
            self.source.name,
            map_events(self.rows, lambda event: Event(types[event.type], called[event.type])),
            tuple(
                replace(each, expression=rename_variables(each.expression, called))
                for each in self.translate_measures()
            )
            or (AllVariables(),),
            tuple(rename_variables(condition, called) for condition in conditions),
            (),
            self.read_partition(),
            window,
            Policy.CONTIGUOUS,
        )
        return self.source.finish(query, definitions, self.notes, *find_offsets(self.clause))

    # Order, rows and skipping

    def read_partition(self) -> tuple[str, ...]:
        columns = self.clause.args.get("partition_by") or ()
        for column in columns:
            if not isinstance(column, exp.Column) or column.table:
                raise self.source.error_at("PARTITION BY must name columns", *find_offsets(column))
        return tuple(column.name for column in columns)

    def check_order(self) -> None:
        order = self.clause.args.get("order")
        columns = order.expressions if order is not None else []
        if len(columns) != 1 or columns[0].args.get("desc") or not isinstance(columns[0].this, exp.Column):
            at = find_offsets(order) if order is not None else find_offsets(self.clause)
            raise self.source.error_at("ORDER BY must name one column, ascending: the time of events", *at)
        if columns[0].this.name.lower() != self.source.time.lower():
            self.notes.append(f"the time of events is {columns[0].this.name}: run with --time {columns[0].this.name}")
        rows = self.clause.args.get("rows")
        if rows is not None and rows.name.upper() != "ONE ROW PER MATCH":
            hint = "write ONE ROW PER MATCH; RETURN * then gives the rows of each match in it"
            raise self.error_at_word("ALL ROWS", f"{rows.name} gives a row for each row of a match", hint)

    def check_ambiguity(self, defines: dict[str, _Define]) -> None:
        """Check that motet's matches are those that the standard keeps."""
        if self.adjacency.nullable:
            message = "this PATTERN may match no row at all; a match of motet binds an event"
            raise self.error_at_word("PATTERN", message, "let one of its variables be there always")
        constants = [define.type for define in defines.values()]
        are_distinct = None not in constants and len(set(constants)) == len(constants)
        if not is_fixed(self.rows):
            hint = f"say in DEFINE which {self.source.type} each variable has, as in A AS {self.source.type} = 'a'"
            if not are_distinct:
                message = "a row may take different variables here, and MATCH_RECOGNIZE keeps one way; motet keeps all"
                raise self.error_at_word("PATTERN", message, hint)
            if is_ambiguous(self.rows):
                message = "rows may match here in several ways: MATCH_RECOGNIZE keeps one, motet every one"
                hint = "write one quantifier in the place of two, as B{2,} for (B+){2,}"
                raise self.error_at_word("PATTERN", message, hint)
            endings = [name for name in sorted(self.adjacency.last) if self.adjacency.follow[name]]
            if endings:
                message = (
                    f"a match may end at {endings[0]} or go on: MATCH_RECOGNIZE keeps the longest, motet every one"
                )
                raise self.error_at_word("PATTERN", message, "end PATTERN with a variable that is not repeated")
        after = self.clause.args.get("after")
        skip = PAST_LAST if after is None else after.name.upper()
        if skip == NEXT_ROW:
            return
        if skip != PAST_LAST:
            raise self.error_at_word("AFTER", f"{skip} has no equal", f"write {NEXT_ROW}")
        inside = set().union(*self.adjacency.follow.values())
        single = isinstance(self.rows, Event)
        if not single and (not are_distinct or self.adjacency.first & inside):
            said = "the default" if after is None else "this"
            raise self.error_at_word(
                "AFTER" if after is not None else "PATTERN",
                f"{PAST_LAST} ({said}) drops matches that overlap, and these may; motet gives all of them",
                f"write {NEXT_ROW}, which gives all of them too",
            )

    # DEFINE

    def parse_define(self, alias: str) -> _Define:
        found = [each for each in self.clause.args.get("define") or () if each.alias.lower() == alias]
        local: list[Expression] = []
        between: list[Expression] = []
        for part in [part for each in found for part in iterate_conjuncts(each.this)]:
            if self.find_neighbour_calls(part):
                between += self.translate_previous(part, alias)
            else:
                spoken = self.find_variables(part, alias)
                condition = translate_expression(part, lambda node: self.resolve_in_define(node, alias), self.source)
                if alias not in variables(condition) and not is_certain(self.rows, alias):
                    message = (
                        f"a match may leave out {alias.upper()}, and this condition would hold for it all the same"
                    )
                    raise self.source.error_at(message, *find_offsets(part), f"name a column of {alias.upper()} in it")
                (between if spoken - {alias} else local).append(condition)
        type, others = extract_type(local, alias, self.source.type)
        return _Define(type, tuple(others), tuple(between))

    def find_neighbour_calls(self, part: Any) -> list[Any]:
        """Return the calls of PREV and NEXT in a condition."""
        return [
            node
            for node in part.walk()
            if isinstance(node, exp.Anonymous) and str(node.this).upper() in ("PREV", "NEXT")
        ]

    def find_variables(self, part: Any, alias: str) -> set[str]:
        return {(column.table or alias).lower() for column in part.find_all(exp.Column)}

    def translate_previous(self, part: Any, alias: str) -> Iterator[Expression]:
        """Translate a condition on a row and the one before it to conditions on the variables that may stand there."""
        calls = self.find_neighbour_calls(part)
        for call in calls:
            if str(call.this).upper() == "NEXT" or len(call.expressions) != 1:
                message = "of the rows around the current one, only PREV(column) has an equal here"
                raise self.source.error_at(message, *find_offsets(call))
        if self.find_variables(part, alias) - {alias}:
            raise self.source.error_at("PREV beside other variables has no equal here", *find_offsets(part))
        if alias in self.adjacency.first:
            message = f"{alias.upper()} may begin a match, and PREV would then read a row outside it"
            raise self.source.error_at(message, *find_offsets(part), "begin PATTERN with a variable for the row before")
        before = self.adjacency.before(alias)
        others = before - {alias}
        if len(others) != 1 or (before | {alias}) & find_group_loops(self.rows):
            names = ", ".join(sorted(name.upper() for name in before))
            message = f"PREV of {alias.upper()} may be a row of {names}, or of another round: that has no equal here"
            raise self.source.error_at(message, *find_offsets(part))
        inside = [column for call in calls for column in call.find_all(exp.Column)]
        if len(inside) == len(list(part.find_all(exp.Column))) and (
            alias in before or not is_certain(self.rows, alias)
        ):
            message = (
                f"{alias.upper()} may be left out or repeated, and this condition names no row of it but the one before"
            )
            hint = f"compare it with a column of {alias.upper()}"
            raise self.source.error_at(message, *find_offsets(part), hint)
        other = next(iter(others))
        if alias in before:
            yield self.translate_pair(part, Attribute(alias, "", At.NEXT), Attribute(alias, ""))
        yield self.translate_pair(part, self.end_of(alias, At.FIRST), self.end_of(other, At.LAST))

    def translate_pair(self, part: Any, own: Attribute, earlier: Attribute) -> Expression:
        def resolve(node: Any) -> Expression | None:
            match node:
                case exp.Column():
                    return replace(own, name=node.name)
                case exp.Anonymous(expressions=[exp.Column() as column]):
                    return replace(earlier, name=column.name)
            return None

        return translate_expression(part, resolve, self.source)

    def end_of(self, alias: str, at: At) -> Attribute:
        return Attribute(alias, "", at if alias in self.loops else At.EACH)

    def resolve_in_define(self, node: Any, alias: str) -> Expression | None:
        """Resolve a column, or an aggregate of an earlier variable, in a condition on `alias`."""
        match node:
            case exp.Column():
                owner = (node.table or alias).lower()
                if owner == alias:
                    return Attribute(alias, node.name)
                self.require_before(owner, alias, node)
                return replace(self.end_of(owner, At.LAST), name=node.name)
            case exp.AggFunc() | exp.First() | exp.Last():
                columns = list(node.find_all(exp.Column))
                owners = {(column.table or alias).lower() for column in columns}
                if len(owners) != 1 or alias in owners or not isinstance(node.this, exp.Column):
                    hint = "only an aggregate of an earlier variable is settled when this row comes"
                    raise self.source.error_at("a running aggregate has no equal here", *find_offsets(node), hint)
                owner = next(iter(owners))
                self.require_before(owner, alias, node)
                return self.translate_aggregate(node, owner)
        return None

    def require_before(self, owner: str, alias: str, node: Any) -> None:
        if owner not in self.names:
            raise self.source.error_at(f"PATTERN has no variable {owner.upper()}", *find_offsets(node))
        if not is_always_before(self.rows, owner, alias):
            message = f"{owner.upper()} need not be complete when {alias.upper()} comes: this condition has no equal"
            raise self.source.error_at(message, *find_offsets(node))

    def translate_aggregate(self, node: Any, owner: str) -> Expression:
        """Translate FIRST, LAST or an aggregate of the rows of one variable."""
        refuse_other_arguments(node, self.source, frozenset({"this", "big_int"}))
        name = node.this.name
        if isinstance(node, exp.Count) and isinstance(node.this.this, exp.Star):
            return KleeneAggregate("COUNT", owner, None)
        if isinstance(node, exp.First | exp.Last):
            return replace(self.end_of(owner, At.FIRST if isinstance(node, exp.First) else At.LAST), name=name)
        function = node.key.upper()
        if function not in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
            raise self.source.error_at(f"{function} has no equal here", *find_offsets(node))
        return KleeneAggregate(function, owner, name)

    # MEASURES

    def translate_measures(self) -> Iterator[Computed]:
        for measure in self.clause.args.get("measures") or ():
            frame = measure.args.get("window_frame")
            alias = measure.this
            if frame == "RUNNING":
                raise self.source.error_at("a RUNNING measure has no equal: RETURN is final", *find_offsets(alias))
            value = alias.this if isinstance(alias, exp.Alias) else alias
            yield Computed(
                translate_expression(value, self.resolve_in_measure, self.source), alias.alias or value.sql()
            )

    def resolve_in_measure(self, node: Any) -> Expression | None:
        """Resolve a column, an aggregate or a count in MEASURES, where all of a match is known."""
        match node:
            case exp.Count(this=exp.Star()):
                return self.count_all_rows()
            case exp.Column():
                return replace(self.end_of(self.find_owner(node), At.LAST), name=node.name)
            case exp.AggFunc() | exp.First() | exp.Last() if isinstance(node.this, exp.Column):
                return self.translate_aggregate(node, self.find_owner(node.this))
            case exp.Anonymous() | exp.AggFunc():
                raise self.source.error_at(f"'{node.sql()}' has no equal in RETURN", *find_offsets(node))
        return None

    def find_owner(self, column: Any) -> str:
        if isinstance(column.this, exp.Star) and not isinstance(column.parent, exp.Count):
            raise self.source.error_at(f"'{column.sql()}' has no equal in RETURN", *find_offsets(column))
        owner = str(column.table).lower()
        if owner not in self.names:
            hint = "say of which variable, as in " + f"{next(iter(self.names)).upper()}.{column.name}"
            raise self.source.error_at("a measure must name a variable of PATTERN", *find_offsets(column), hint)
        return owner

    def count_all_rows(self) -> Expression:
        counts: list[Expression] = [KleeneAggregate("COUNT", name, None) for name in self.names]
        total = counts[0]
        for each in counts[1:]:
            total = Arithmetic("+", total, each)
        return total
