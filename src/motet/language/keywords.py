"""The words of the language."""

from __future__ import annotations

# Words that open a clause -> the clause.
CLAUSES = {word: word.upper() for word in ("return", "pattern", "where", "within", "slide", "having", "agg")}
CLAUSES["window"] = "WITHIN"
CLAUSE_TYPES = frozenset({*CLAUSES.values(), "GROUP_BY", "POLICY", "SKIP_TILL", "AFTER_MATCH", "AFTER_SKIP"})
OPERATORS = frozenset({"and", "or", "not", "as", "is", "null", "in", "like", "between", "true", "false"})
PATTERN_OPERATORS = ("SEQ", "AND", "OR", "NEG", "NOT", "CONJ", "DISJ", "KL")

# Every word that may mean something to the language; a name like one of them is printed in quotes.
RESERVED = frozenset(
    {*CLAUSES, *OPERATORS, *(word.lower() for word in PATTERN_OPERATORS)}
    | {"query", "event", "events", "group", "by", "group_by", "groupby", "skip", "till", "contiguous"}
    | {"timestamp", "date", "interval", "semantics", "distinct"}
)
