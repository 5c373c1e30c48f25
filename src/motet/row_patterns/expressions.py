"""Parse the expressions of DEFINE and MEASURES as far as row patterns need it: what rows they read, and how.

What an engine evaluates is passed on as it is written, so a tree here has a node for every navigation, column and
aggregate, and for the operators that conditions between several rows can have. All else is `other`, with its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from motet.errors import did_you_mean
from motet.model.window import UNITS
from motet.row_patterns.tokens import SqlText, TokenReader

NAVIGATIONS = ("FIRST", "LAST", "PREV", "NEXT")
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX")
AGGREGATES_HINT = (
    f"{', '.join(AGGREGATES[:-1])} and {AGGREGATES[-1]} are; for others ALL ROWS PER MATCH, and GROUP BY around it"
)
COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
# Functions that would make several rows of one.
_ROW_MAKERS = (
    "UNNEST", "EXPLODE", "EXPLODE_OUTER", "POSEXPLODE", "POSEXPLODE_OUTER", "INLINE", "INLINE_OUTER", "STACK",
)  # fmt: skip
# Known to engines, and a mistake here: one of them would take all matches together.
_OTHER_AGGREGATES = (
    "ANY_VALUE", "APPROX_COUNT_DISTINCT", "APPROX_DISTINCT", "APPROX_QUANTILE", "ARBITRARY", "ARG_MAX", "ARG_MIN",
    "ARRAY_AGG", "BIT_AND", "BIT_OR", "BIT_XOR", "BOOL_AND", "BOOL_OR", "COLLECT_LIST", "COLLECT_SET", "CORR",
    "COUNT_IF", "COUNTIF", "COVAR_POP", "COVAR_SAMP", "EVERY", "FSUM", "GROUP_CONCAT", "HISTOGRAM", "KURTOSIS",
    "LIST", "LISTAGG", "MAX_BY", "MEAN", "MEDIAN", "MIN_BY", "MODE", "PERCENTILE", "PERCENTILE_CONT",
    "PERCENTILE_DISC", "PRODUCT", "QUANTILE", "QUANTILE_CONT", "QUANTILE_DISC", "SKEWNESS", "SOME", "STDDEV",
    "STDDEV_POP", "STDDEV_SAMP", "STRING_AGG", "VAR_POP", "VAR_SAMP", "VARIANCE",
)  # fmt: skip
# What other engines have here, and the standard's word for it.
_ELSEWHERE = {
    "LAG": "PREV(x, n)",
    "LEAD": "NEXT(x, n)",
    "FIRST_VALUE": "FIRST(x)",
    "LAST_VALUE": "LAST(x)",
    "MATCH_ROWTIME": "LAST(at), where rows are ordered by at",
    "MATCH_SEQUENCE_NUMBER": "COUNT(*) with ALL ROWS PER MATCH",
}
_TYPE_WORDS = ("PRECISION", "VARYING", "WITH", "WITHOUT", "TIME", "ZONE")
# As far as to no row at all.
MAX_OFFSET = 1 << 40
# The value of a node whose tokens are not a text of its own.
DERIVED = "derived"
_LIKES = ("LIKE", "ILIKE", "RLIKE", "REGEXP", "GLOB")
_WORDS_FOR_VALUES = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "LOCALTIME")


@dataclass(frozen=True, slots=True)
class Node:
    """A piece of an expression: tokens `first` to `last`, its parts, and what is particular to its kind.

    `kind`: literal, interval, column, navigate, classifier, number, aggregate, an operator, call, case or other.
    """

    kind: str
    first: int
    last: int
    parts: tuple[Node, ...] = ()
    value: Any = None

    def leaves(self) -> Iterator[Node]:
        """Yield what reads rows: columns, navigations, classifiers, aggregates and match numbers, outermost only."""
        if self.kind in ("column", "navigate", "classifier", "number", "aggregate"):
            yield self
        else:
            for part in self.parts:
                yield from part.leaves()


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, perhaps of a variable."""

    variable: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Navigation:
    """FIRST, LAST, PREV or NEXT with its offset; `final` is None where neither RUNNING nor FINAL is written."""

    function: str
    offset: int
    final: bool | None = None


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate; `variable` is that of `COUNT(A.*)`, and there is no argument where rows are counted.

    Where it is `filtered`, the last part is the condition of its FILTER.
    """

    function: str
    variable: str | None = None
    final: bool | None = None
    filtered: bool = False


@dataclass(frozen=True)
class Names:
    """What names an expression may use: columns (by lower case), variables or subsets of them, and the name that the
    relation has (in lower case), whose columns are those of no variable.
    """

    columns: Mapping[str, str]
    variables: frozenset[str]
    relation: str | None = None


class _UnknownNameError(Exception):
    """A word that is no column, in the arguments of a function of the engine."""


class ExpressionParser(TokenReader):
    """Parses the expression between two tokens of a statement; `where` is the clause, as DEFINE."""

    def __init__(self, sql: SqlText, names: Names, first: int, last: int, where: str) -> None:
        super().__init__(sql, first, last)
        self.names = names
        self.where = where
        self.in_call = False  # where words that are no columns may stand

    def parse(self) -> Node:
        """Parse all of it."""
        if self.at >= self.last:
            raise self.sql.error_at(f"an expression is missing in {self.where}", self.at)
        return self.parse_level(self.last)

    def parse_level(self, end: int) -> Node:
        """Parse up to a token: by its operators, or as a whole where it has some that are not known here."""
        first, outer = self.at, self.last
        self.last = end
        try:
            try:
                node = self.parse_or()
            except _UnknownNameError:
                node = None
            if node is None or self.at < end:
                self.at = first
                node = self.scan(end)
        finally:
            self.last = outer
        return node

    def scan(self, end: int) -> Node:
        """Find what reads rows in an expression that only the engine understands."""
        first, braces = self.at, 0
        parts = []
        while self.at < end:
            braces += {"{": 1, "}": -1}.get(self.word, 0)
            if self.starts_key(braces > 0):
                self.at += 2
            elif self.word == "::":
                self.skip_type()
            elif self.word == "(":
                parts.append(self.parse_brackets())
            elif self.sql.word(self.at + 1) == "(" or self.starts_leaf() or self.starts_column():
                parts.append(self.parse_primary())
            else:
                self.check_word()
                self.at += 1
        return Node("other", first, end, tuple(parts))

    def starts_key(self, in_braces: bool) -> bool:
        """Whether a name stands here that is of a field or argument and no column: `x :=`, `x =>`, `{x:` or `AS x`."""
        following = self.sql.word(self.at + 1)
        is_name = self.sql.tokens[self.at].identifier is not None
        is_key = following == "=>" or (following == ":" and (in_braces or self.sql.word(self.at + 2) == "="))
        return self.word == "AS" or (is_name and is_key)

    def check_word(self) -> None:
        if self.word == "#" or (self.word == "COLUMNS" and self.sql.word(self.at + 1) == "("):
            raise self.sql.error_at(f"{self.word} cannot stand in {self.where}", self.at, hint="name a column")
        if self.word == "OVER":
            raise self.sql.error_at(f"a window function cannot stand in {self.where}", self.at)
        if self.word == "COLLATE" and not self.starts_column():
            raise self.sql.error_at(f"COLLATE is not supported in {self.where}", self.at, hint="as in LOWER(x)")

    def starts_subquery(self, at: int) -> bool:
        """Whether a bracket holds a query, which is the engine's."""
        if self.sql.word(at) != "(" or self.sql.word(at + 1) not in ("SELECT", "WITH", "FROM", "VALUES"):
            return False
        for place in range(at, self.sql.find_closing(at)):
            if self.sql.word(place) == "MATCH_RECOGNIZE":
                raise self.sql.error_at(f"MATCH_RECOGNIZE cannot stand in {self.where}", place, hint="join it instead")
        return True

    def starts_leaf(self) -> bool:
        following = self.sql.word(self.at + 1)
        if self.word in ("RUNNING", "FINAL"):
            return self.sql.word(self.at + 2) == "("
        return following == "(" and self.word in (*NAVIGATIONS, *AGGREGATES, "CLASSIFIER", "MATCH_NUMBER")

    def starts_column(self) -> bool:
        token = self.sql.tokens[self.at]
        if token.kind not in ("name", "quoted") or self.sql.word(self.at - 1) == ".":
            return False
        qualifies = self.sql.word(self.at + 1) == "." and self.is_qualifier(self.at)
        return qualifies or (token.identifier or "").lower() in self.names.columns

    def is_qualifier(self, at: int) -> bool:
        """Whether a name before a dot is that of a variable or of the relation, rather than a column with fields."""
        token, following = self.sql.tokens[at], self.sql.tokens[at + 2]
        name, inner = ((each.identifier or "").lower() for each in (token, following))
        is_relation = name == self.names.relation and (name not in self.names.columns or inner in self.names.columns)
        return token.variable in self.names.variables or is_relation

    def parse_or(self) -> Node:
        return self.parse_binary(("OR",), self.parse_and)

    def parse_and(self) -> Node:
        return self.parse_binary(("AND",), self.parse_not)

    def parse_binary(self, words: tuple[str, ...], parse_part: Any) -> Node:
        node = parse_part()
        while self.word in words:
            kind = self.word.lower()
            self.at += 1
            other = parse_part()
            node = Node(kind, node.first, other.last, (node, other))
        return node  # type: ignore[no-any-return]

    def parse_not(self) -> Node:
        first = self.at
        if not self.accept("NOT"):
            return self.parse_predicate()
        part = self.parse_not()
        return Node("not", first, part.last, (part,))

    def parse_predicate(self) -> Node:
        node = self.parse_sum()
        while (larger := self.parse_comparison(node)) is not None:
            node = larger
        return node

    def parse_comparison(self, node: Node) -> Node | None:
        """Parse what makes a predicate of an expression before it, if there is something."""
        first = self.at
        if self.word in COMPARISONS:
            kind = {"==": "=", "!=": "<>"}.get(self.word, self.word)
            self.at += 1
            other = self.parse_sum()
            return Node(kind, node.first, other.last, (node, other))
        negated = self.accept("NOT")
        found = None
        if self.accept("IS"):
            found = None if negated else self.parse_is(node)
        elif self.word in _LIKES:
            self.at += 1
            other = self.parse_sum()
            self.at += 2 if self.word == "ESCAPE" else 0
            found = Node("other", node.first, self.at, (node, other))
        elif self.accept("BETWEEN"):
            found = self.parse_between(node, negated)
        elif self.word == "IN" and self.sql.word(self.at + 1) == "(":
            found = self.parse_in(node, negated)
        if found is None:
            self.at = first
        return found

    def parse_is(self, node: Node) -> Node | None:
        negated = self.accept("NOT")
        if self.accept("NULL"):
            return self.negate(Node("is null", node.first, self.at, (node,)), negated)
        if self.word in ("TRUE", "FALSE", "UNKNOWN"):
            self.at += 1
            return Node("is truth", node.first, self.at, (node,), (self.sql.word(self.at - 1), negated))
        if self.accept("DISTINCT") and self.accept("FROM"):
            other = self.parse_sum()
            return Node("distinct", node.first, other.last, (node, other), negated)
        return None

    def parse_between(self, node: Node, negated: bool) -> Node | None:
        low = self.parse_sum()
        if not self.accept("AND"):
            return None
        high = self.parse_sum()
        ends = (
            Node(">=", node.first, low.last, (node, low), DERIVED),
            Node("<=", node.first, high.last, (node, high), DERIVED),
        )
        return self.negate(Node("and", node.first, high.last, ends), negated)

    def parse_in(self, node: Node, negated: bool) -> Node:
        opening, closing = self.at + 1, self.sql.find_closing(self.at + 1)
        if self.starts_subquery(opening):
            self.at = closing + 1
            return Node("other", node.first, self.at, (node,))
        self.at = opening + 1
        options = self.parse_arguments(closing)
        self.at = closing + 1
        return self.negate(Node("in", node.first, self.at, (node, *options)), negated)

    def negate(self, node: Node, negated: bool) -> Node:
        """Return the negation of a predicate in whose middle NOT is written."""
        return Node("not", node.first, node.last, (replace(node, value=DERIVED),)) if negated else node

    def parse_sum(self) -> Node:
        return self.parse_binary(("+", "-", "||"), self.parse_product)

    def parse_product(self) -> Node:
        return self.parse_binary(("*", "/", "%", "//", "DIV"), self.parse_sign)

    def parse_sign(self) -> Node:
        if self.word not in ("-", "+"):
            return self.parse_postfix()
        first, sign = self.at, self.word
        self.at += 1
        part = self.parse_sign()
        return Node("negative" if sign == "-" else "positive", first, part.last, (part,))

    def parse_postfix(self) -> Node:
        node = self.parse_primary()
        while self.word in ("::", ".", "["):
            if self.word == "::":
                self.skip_type()
                node = Node("other", node.first, self.at, (node,))
            elif self.word == ".":
                self.at += 2
                node = Node("other", node.first, self.at, (node,))
            else:
                return node  # an index: the whole level is the engine's
        return node

    def skip_type(self) -> None:
        """Pass over `:: TYPE`."""
        self.at += 2
        while self.word in _TYPE_WORDS:
            self.at += 1
        if self.word == "(":
            self.at = self.sql.find_closing(self.at) + 1
        while self.word == "[" and self.sql.word(self.at + 1) == "]":
            self.at += 2

    def parse_primary(self) -> Node:
        if self.at >= self.last:
            raise self.sql.error_at(f"an expression in {self.where} breaks off here", self.at - 1)
        first, token = self.at, self.sql.tokens[self.at]
        self.check_word()
        if token.kind == "number":
            self.at += 1
            return Node("literal", first, self.at, value=_read_number(token.text))
        if token.kind == "text":
            self.at += 1
            plain = token.text.startswith("'") and "\\" not in token.text
            return Node(
                "literal", first, self.at, value=token.text[1:-1].replace("''", "'") if plain else NotImplemented
            )
        if self.word == "(":
            return self.parse_brackets()
        if self.word in ("TRUE", "FALSE", "NULL") and not self.starts_column():
            self.at += 1
            return Node("literal", first, self.at, value={"TRUE": True, "FALSE": False, "NULL": None}[token.word])
        if self.word in ("DATE", "TIME", "TIMESTAMP") and self.sql.tokens[self.at + 1].kind == "text":
            self.at += 2
            return Node("other", first, self.at)
        if self.word == "INTERVAL" and self.sql.tokens[self.at + 1].kind in ("text", "number"):
            return self.parse_interval()
        if self.word in _WORDS_FOR_VALUES and not self.starts_column():
            self.at += 1
            return Node("other", first, self.at)
        if self.word == "CASE":
            return self.parse_case()
        if self.word == "*" and self.sql.word(first - 1) != "*":
            raise self.sql.error_at(f"* cannot stand in {self.where}", first, hint="name a column")
        if self.word in ("ARRAY", "MAP") and self.sql.word(self.at + 1) in ("[", "{"):
            return self.scan_rest()
        if self.starts_leaf() and token.kind == "name":
            return self.parse_leaf()
        if token.kind == "name" and self.sql.word(self.at + 1) == "(":
            return self.parse_call()
        if token.kind in ("name", "quoted"):
            return self.parse_column()
        return self.scan_rest()

    def scan_rest(self) -> Node:
        """Leave the rest of the level to the engine, where something begins that is not known here."""
        self.at += 1
        return Node("other", self.at - 1, self.at)

    def parse_brackets(self) -> Node:
        first, closing = self.at, self.sql.find_closing(self.at)
        self.at += 1
        parts = [] if self.starts_subquery(first) else self.parse_arguments(closing)
        self.at = closing + 1
        if len(parts) == 1:
            return Node("brackets", first, self.at, tuple(parts))
        return Node("other", first, self.at, tuple(parts))

    def parse_arguments(self, closing: int) -> list[Node]:
        """Parse expressions between commas up to a closing bracket."""
        outer, self.last = self.last, closing
        parts = []
        for start, end in self.sql.split_at_commas(self.at, closing) if self.at < closing else ():
            self.at = start
            if start == end:
                raise self.sql.error_at("an expression is missing here", start)
            parts.append(self.parse_level(end))
        self.last = outer
        return parts

    def parse_interval(self) -> Node:
        first = self.at
        amount = self.sql.tokens[self.at + 1]
        words = [amount.text[1:-1] if amount.kind == "text" else amount.text]
        self.at += 2
        units = {unit + plural for unit in _UNITS for plural in ("", "S")} | {"MONTH", "YEAR", "MONTHS", "YEARS"}
        if self.word in units:
            words.append(self.word)
            self.at += 1
            if self.word == "TO":
                words.append("TO")
                self.at += 2
        return Node("interval", first, self.at, value=_read_interval(" ".join(words)))

    def parse_case(self) -> Node:
        first, depth = self.at, 0
        end = self.at
        while True:
            if end >= self.last:
                raise self.sql.error_at("this CASE has no END", first)
            depth += {"CASE": 1, "END": -1}.get(self.sql.word(end), 0)
            if depth == 0:
                break
            end += 1
        bounds = [self.at, *self._find_case_words(end), end]
        parts, words = [], []
        for start, stop in pairwise(bounds):
            if start + 1 < stop:
                self.at = start + 1
                parts.append(self.parse_level(stop))
                words.append(self.sql.word(start))
        self.at = end + 1
        return Node("case", first, self.at, tuple(parts), tuple(words))

    def _find_case_words(self, end: int) -> list[int]:
        found, depth = [], 0
        for at in range(self.at + 1, end):
            word = self.sql.word(at)
            if word in ("WHEN", "THEN", "ELSE") and depth == 0:
                found.append(at)
            depth += {"(": 1, ")": -1, "CASE": 1, "END": -1}.get(word, 0)
        return found

    def parse_call(self) -> Node:
        first, name = self.at, self.word
        if name in _ROW_MAKERS:
            raise self.sql.error_at(f"{name} makes several rows of one: it cannot stand in {self.where}", first)
        self.refuse_unknown()
        closing = self.sql.find_closing(self.at + 1)
        self.at += 2
        if self.starts_subquery(first + 1):
            parts = []
        elif name in ("CAST", "TRY_CAST"):
            parts = [self.parse_cast(closing)]
        elif name == "EXTRACT" and self.sql.word(self.at + 1) == "FROM":
            self.at += 2
            parts = self.parse_arguments(closing)
        else:
            outer, self.in_call = self.in_call, True
            parts = self.parse_arguments(closing)
            self.in_call = outer
        self.at = closing + 1
        if self.word == "OVER":
            self.check_word()
        return Node("call", first, self.at, tuple(parts), name)

    def refuse_unknown(self) -> None:
        if self.word in _OTHER_AGGREGATES:
            message = f"the aggregate {self.word} is not supported in {self.where}"
            raise self.sql.error_at(message, self.at, hint=AGGREGATES_HINT)
        if self.word in _ELSEWHERE:
            hint = f"write {_ELSEWHERE[self.word]}"
            raise self.sql.error_at(f"{self.word} is not part of SQL's MATCH_RECOGNIZE", self.at, hint=hint)

    def parse_cast(self, closing: int) -> Node:
        for at in range(closing - 1, self.at, -1):
            if self.sql.word(at) == "AS":
                return self.parse_level(at)
        raise self.sql.error_at("CAST needs AS and a type", self.at, closing)

    def parse_column(self) -> Node:
        first, token = self.at, self.sql.tokens[self.at]
        qualified = self.sql.word(self.at + 1) == "." and self.at + 2 < self.last
        if qualified and self.is_qualifier(first):
            self.at += 3
            variable = token.variable if token.variable in self.names.variables else None
            return Node("column", first, self.at, value=ColumnRef(variable, self.resolve(first + 2)))
        self.at += 1
        return Node("column", first, self.at, value=ColumnRef(None, self.resolve(first)))

    def resolve(self, at: int) -> str:
        name = self.sql.tokens[at].identifier
        if name is None:
            raise self.sql.error_at("a column is expected here", at)
        found = self.names.columns.get(name.lower())
        if found is None:
            if self.sql.word(at + 1) == ".":
                hint = did_you_mean(name, self.names.variables)
                raise self.sql.error_at(f"{name!r} is no variable of PATTERN and no column", at, hint=hint)
            if self.in_call:
                raise _UnknownNameError
            raise self.sql.error_at(
                f"there is no column {name!r}", at, hint=did_you_mean(name, self.names.columns.values())
            )
        return found

    def parse_leaf(self) -> Node:
        first, final = self.at, None
        if self.word in ("RUNNING", "FINAL"):
            final = self.word == "FINAL"
            self.at += 1
            self.refuse_unknown()
            if self.word not in (*NAVIGATIONS, *AGGREGATES, "CLASSIFIER"):
                raise self.sql.error_at(f"{self.sql.word(first)} stands before FIRST, LAST or an aggregate only", first)
            if self.word in ("PREV", "NEXT"):
                hint = f"as in {self.word}({self.sql.word(first)} LAST(x))"
                raise self.sql.error_at(f"{self.sql.word(first)} cannot stand before {self.word}", first, hint=hint)
        function = self.word
        opening = self.at + 1
        closing = self.sql.find_closing(opening)
        is_filtered = function in AGGREGATES and self.sql.word(closing + 1) == "FILTER"
        end = self.sql.find_closing(closing + 2) + 1 if is_filtered else closing + 1
        if self.sql.word(end) in ("OVER", "FILTER", "WITHIN", "IGNORE", "RESPECT"):
            raise self.sql.error_at(f"{self.sql.word(end)} is not supported here", end)
        self.at = opening + 1
        match function:
            case "MATCH_NUMBER":
                if closing != opening + 1:
                    raise self.sql.error_at("MATCH_NUMBER takes no argument", first, closing + 1)
                node = Node("number", first, closing + 1)
            case "CLASSIFIER":
                node = self.parse_classifier(first, closing, final)
            case name if name in AGGREGATES:
                node = self.parse_aggregate(first, closing, AggregateCall(name, None, final))
            case _:
                node = self.parse_navigation(first, closing, function, final)
        self.at = end
        return self.parse_filter(node, closing + 2, end) if is_filtered else node

    def parse_filter(self, node: Node, opening: int, end: int) -> Node:
        """Parse the condition of a FILTER behind an aggregate."""
        if self.sql.word(opening) != "(" or self.sql.word(opening + 1) != "WHERE" or opening + 3 == end:
            raise self.sql.error_at("FILTER needs a condition", opening - 1, hint="as in FILTER (WHERE x > 1)")
        outer, self.at, self.last = self.last, opening + 2, end - 1
        condition = self.parse_level(end - 1)
        self.at, self.last = end, outer
        return Node("aggregate", node.first, end, (*node.parts, condition), replace(node.value, filtered=True))

    def parse_classifier(self, first: int, closing: int, final: bool | None) -> Node:
        variable = None
        if self.at < closing:
            variable = self.sql.tokens[self.at].variable
            if self.at + 1 != closing or variable not in self.names.variables:
                hint = did_you_mean(variable or "", self.names.variables)
                raise self.sql.error_at("CLASSIFIER takes a variable of PATTERN", self.at, closing, hint)
        return Node("classifier", first, closing + 1, value=(variable, final))

    def parse_aggregate(self, first: int, closing: int, call: AggregateCall) -> Node:
        if self.word in ("DISTINCT", "ALL"):
            raise self.sql.error_at(f"{call.function}({self.word} ...) is not supported in {self.where}", self.at)
        if self.at == closing:
            if call.function == "COUNT":
                return Node("aggregate", first, closing + 1, value=call)
            raise self.sql.error_at(f"{call.function} needs an argument", first, closing + 1)
        if self.sql.word(closing - 1) == "*" and call.function == "COUNT":
            if self.at == closing - 1:
                return Node("aggregate", first, closing + 1, value=call)
            variable = self.sql.tokens[self.at].variable
            if self.at + 3 == closing and self.sql.word(self.at + 1) == "." and variable in self.names.variables:
                return Node("aggregate", first, closing + 1, value=AggregateCall("COUNT", variable, call.final))
        parts = self.parse_arguments(closing)
        if len(parts) != 1:
            raise self.sql.error_at(f"{call.function} takes one argument", first, closing + 1)
        return Node("aggregate", first, closing + 1, tuple(parts), call)

    def parse_navigation(self, first: int, closing: int, function: str, final: bool | None) -> Node:
        if self.at == closing:
            raise self.sql.error_at(f"{function} needs an argument", first, closing + 1)
        parts = self.parse_arguments(closing)
        offset = 0 if function in ("FIRST", "LAST") else 1
        if len(parts) > 2:
            raise self.sql.error_at(f"{function} takes an expression and an offset", first, closing + 1)
        if len(parts) == 2:
            given = parts[1].value
            if parts[1].kind != "literal" or not isinstance(given, int) or isinstance(given, bool):
                hint = "a whole number, not negative"
                raise self.sql.error_at(
                    f"the offset of {function} must be written out", parts[1].first, parts[1].last, hint
                )
            offset = min(given, MAX_OFFSET)
        return Node("navigate", first, closing + 1, (parts[0],), Navigation(function, offset, final))


@dataclass(frozen=True, slots=True)
class DecimalLiteral:
    """A number with a decimal point: digits as a whole number, and how many of them are behind the point."""

    digits: int
    scale: int


def _read_number(text: str) -> Any:
    if text.isdigit():
        return int(text)
    whole, point, behind = text.partition(".")
    if point and (whole + behind).isdigit():
        return DecimalLiteral(int(whole + behind), len(behind))
    try:
        return NotImplemented if "_" in text else float(text)
    except ValueError:
        return NotImplemented  # the engine knows


_UNITS = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")


def _read_interval(text: str) -> int | None:
    """Return the microseconds of an interval of one unit shorter than a month; None for others."""
    amount, _, unit = text.strip().upper().partition(" ")
    unit = unit.strip().removesuffix("S")
    if unit not in _UNITS or not amount.removeprefix("-").isdigit():
        return None
    return int(amount) * UNITS[unit.lower()]
