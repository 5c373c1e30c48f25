"""Make hostile inputs at random: tables of any Arrow types with extreme values, and queries from the grammar, some of
them broken. The same number gives the same input.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

EDGES = [0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, 0.5, -2.25, 1e308, 5e-324, float("inf"), float("-inf"), float("nan"), 2.0**53]
TEXTS = ["", "a", "A", "b", "é", "\U0001f600", "a\nb", "%", "_", "'", '"', "\x00", "a" * 300, "1", "null"]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
UNITS = ("s", "ms", "us", "ns")


def _small(rng: random.Random) -> int:
    return rng.randint(0, 5)


def _make_integers(rng: random.Random) -> tuple[pa.DataType, Callable[[], Any]]:
    kind = rng.choice(INTEGERS)
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if str(kind).startswith("int") else (0, 2**bits - 1)
    odd = rng.random() < 0.3
    return kind, lambda: min(max(rng.choice([*EDGES, 2**64 - 1]), low), high) if odd else _small(rng)


def _make_texts(rng: random.Random) -> tuple[pa.DataType, Callable[[], Any]]:
    return rng.choice([pa.string(), pa.large_string(), pa.string_view()]), lambda: rng.choice(TEXTS)


def _make_other(rng: random.Random) -> tuple[pa.DataType, Callable[[], Any]]:
    """A type that events seldom have, and a function that makes its values."""
    moment = dt.datetime(2024, 1, 1)
    kinds: Sequence[tuple[pa.DataType, Callable[[], Any]]] = [
        (pa.bool_(), lambda: rng.random() < 0.5),
        (pa.null(), lambda: None),
        (pa.binary(), lambda: rng.choice(TEXTS).encode()),
        (pa.large_binary(), lambda: rng.choice(TEXTS).encode()),
        (pa.binary(2), lambda: rng.choice([b"ab", b"cd"])),
        (pa.date32(), lambda: dt.date(2024, 1, 1 + _small(rng))),
        (pa.date64(), lambda: dt.date(2024, 1, 1 + _small(rng))),
        (pa.time32("s"), lambda: dt.time(0, 0, _small(rng))),
        (pa.time64("us"), lambda: dt.time(0, 0, _small(rng))),
        (pa.duration(rng.choice(UNITS)), lambda: dt.timedelta(seconds=_small(rng))),
        (pa.timestamp(rng.choice(UNITS)), lambda: moment + dt.timedelta(seconds=_small(rng))),
        (pa.timestamp("us", "Europe/Berlin"), lambda: moment + dt.timedelta(seconds=_small(rng))),
        (pa.decimal128(20, 3), lambda: Decimal(_small(rng)) / 4),
        (pa.decimal256(60, 0), lambda: Decimal(rng.choice([*range(6)] * 4 + [2**53 + 1, 10**40]))),
        (pa.list_(pa.int64()), lambda: [_small(rng)]),
        (pa.struct({"f": pa.int64(), "g": pa.string()}), lambda: {"f": _small(rng), "g": "a"}),
        (pa.map_(pa.string(), pa.int64()), lambda: [("a", _small(rng))]),
        (pa.dictionary(pa.int8(), pa.string()), lambda: rng.choice("ab")),
        (pa.float16(), lambda: float(_small(rng))),
        (pa.float32(), lambda: rng.choice([0.5, 1.5, float("nan"), float("inf")])),
        (pa.month_day_nano_interval(), lambda: pa.MonthDayNano([1, _small(rng), 0])),
        (pa.decimal32(5, 1), lambda: Decimal(_small(rng)) / 2),
        (pa.decimal64(15, 2), lambda: Decimal(_small(rng)) / 4),
        (pa.binary_view(), lambda: rng.choice(TEXTS).encode()),
        (pa.list_view(pa.int64()), lambda: [_small(rng)] * _small(rng)),
        (pa.large_list_view(pa.string_view()), lambda: [rng.choice(TEXTS)]),
        (pa.list_(pa.float16(), 2), lambda: [0.5, float(_small(rng))]),
        (pa.struct({"f": pa.list_view(pa.uint8()), "g": pa.float16()}), lambda: {"f": [_small(rng)], "g": 0.5}),
        (pa.run_end_encoded(pa.int32(), pa.string()), lambda: rng.choice(["a", "b", "a", None])),
        (pa.uuid(), lambda: rng.choice([b"0123456789abcdef", b"fedcba9876543210"])),
        (pa.json_(), lambda: rng.choice(["{}", "[1]", "null"])),
    ]
    return rng.choice(kinds)


def _make_floats(rng: random.Random) -> tuple[pa.DataType, Callable[[], Any]]:
    odd = rng.random() < 0.5
    return pa.float64(), lambda: rng.choice(FLOATS) if odd else _small(rng) / 4


def _make_column(rng: random.Random, size: int, *makers: Callable[[random.Random], Any]) -> pa.Array:
    kind, make = rng.choice(makers)(rng)
    nulls = rng.choice([0.0, 0.0, 0.2, 1.0 if rng.random() < 0.1 else 0.0])
    return pa.array([None if rng.random() < nulls else make() for _ in range(size)], kind)


def _make_times(rng: random.Random, size: int) -> pa.Array:
    """Times that are in order or not, of any type that can be one, and now and then of one that cannot."""
    seconds = [rng.randint(0, 20) for _ in range(size)]
    seconds = sorted(seconds) if rng.random() < 0.7 else seconds
    kind = rng.choice(["int64"] * 4 + ["int32", "uint64", "timestamp", "zone", "date", "edges", "float", "other"])
    match kind:
        case "int64" | "int32" | "uint64":
            return pa.array(seconds, getattr(pa, kind)())
        case "timestamp" | "zone":
            at = pa.array(seconds).cast(pa.timestamp("s")).cast(pa.timestamp(rng.choice(UNITS)))
            return at if kind == "timestamp" else at.cast(pa.timestamp(at.type.unit, "UTC"))
        case "date":
            return pa.array(seconds, pa.int32()).cast(pa.date32())
        case "edges":
            return pa.array([rng.choice(EDGES) if rng.random() < 0.3 else each for each in seconds], pa.int64())
        case "float":
            return pa.array([float(each) if rng.random() < 0.9 else rng.choice(FLOATS) for each in seconds])
    return _make_column(rng, size, _make_other, _make_texts)


def make_table(rng: random.Random, rows: int = 14) -> pa.Table:
    """Make events with a time, a type, and the columns k, x and s, of types that suit them or not."""
    size = rng.choice([0, 1, rows // 2, rows, rows])
    types = [rng.choice("AABBC") for _ in range(size)]
    columns = {
        "time": _make_times(rng, size),
        "type": pa.array(types)
        if rng.random() < 0.8
        else rng.choice(
            [
                pa.array(types).dictionary_encode(),
                pa.array([None if rng.random() < 0.3 else each for each in types], pa.string()),
                pa.array(types, pa.large_string()),
                pa.array(types, pa.string_view()),
                _make_column(rng, size, _make_integers, _make_other),
            ]
        ),
        "k": _make_column(rng, size, *[_make_integers] * 5, _make_texts, _make_floats, _make_other),
        "x": _make_column(rng, size, *[_make_integers] * 4, *[_make_floats] * 3, _make_other),
        "s": _make_column(rng, size, _make_texts, _make_texts, _make_other),
    }
    table = pa.table(columns)
    if rng.random() < 0.2 and size > 1:  # chunks, one of them empty
        table = pa.concat_tables([table.slice(0, 1), table.slice(0, 0), table.slice(1)])
    return table


class QueryMaker:
    """Makes the text of a query from the grammar. `oddity` is how often it takes what most likely is refused."""

    def __init__(self, rng: random.Random, oddity: float) -> None:
        self.rng = rng
        self.oddity = oddity
        self.variables: dict[str, bool] = {}  # whether it is repeated
        self.types: list[str] = []
        self.absent: list[str] = []  # variables of NOT

    def is_odd(self) -> bool:
        return self.rng.random() < self.oddity

    def make(self, name: str) -> str:
        self.variables, self.types, self.absent = {}, [], []
        pattern = self.pattern(self.rng.choice([1, 1, 2, 2, 3]))
        returns = self.returns()
        clauses = [f"QUERY {name}", f"RETURN {returns}", f"PATTERN {pattern}"]
        conditions = [self.condition(self.rng.choice([0, 0, 1])) for _ in range(self.rng.choice([0, 1, 1, 2]))]
        conditions += [self.absence(name) for name in self.absent if self.rng.random() < 0.7]
        conditions += ["[k]"] * (self.rng.random() < 0.25)
        clauses += [f"WHERE {' AND '.join(conditions)}"] * bool(conditions)
        if self.rng.random() < 0.4:
            clauses.append(
                f"GROUP BY {self.rng.choice(['s', 'x', 'k, s', 'absent', 'time']) if self.is_odd() else 'k'}"
            )
        clauses.append(self.window())
        clauses += [self.rng.choice(["SKIP TILL NEXT", "CONTIGUOUS", "SKIP TILL ANY"])] * (self.rng.random() < 0.15)
        # Of matches at the same times it is not specified which one is taken: how many there are is.
        if returns == "COUNT(*)" and self.rng.random() < 0.2:
            clauses.append(f"AFTER MATCH SKIP {self.rng.choice(['PAST LAST EVENT', 'TO NEXT EVENT'])}")
        if returns.startswith("COUNT(*)") and self.rng.random() < 0.15:
            clauses.append(f"HAVING {self.rng.choice(['COUNT(*) > 2', 'COUNT(*) % 2 = 0', 'COUNT(*) + 1 < 9'])}")
        return " ".join(clauses)

    def window(self) -> str:
        if self.is_odd():
            return self.rng.choice(
                ["", "WITHIN 0 s", "WITHIN 1 us", "WITHIN 2305843009213 s", "WITHIN 1 s SLIDE 7 days"]
            )
        length = self.rng.choice(["3 s", "5 s", "10 s", "20 s"])
        slide = self.rng.choice(["1 s", "2 s", "5 s", "10 s"])
        events = f"WITHIN {self.rng.choice([1, 2, 3, 10])} EVENTS"
        forms = [f"WITHIN {length}", f"WITHIN {length} SLIDE {slide}", events]
        return self.rng.choice([*forms * 3, ""])

    def pattern(self, depth: int, repeated: bool = False) -> str:
        pick = self.rng.random()
        if depth == 0 or pick < 0.1:
            return self.event(repeated)
        if pick < 0.65:
            parts = [self.pattern(depth - 1, repeated) for _ in range(self.rng.randint(1, 3))]
            if len(parts) > 1 and self.rng.random() < 0.2:
                parts.insert(self.rng.randint(0, len(parts)), self.negation())
            return f"SEQ({', '.join(parts)})"
        if pick < 0.8:
            marks = ["{0}", "{3,1}", "{1,40}"] if self.is_odd() else ["+", "*", "?", "{2}", "{2,}", "{1,3}"]
            return f"SEQ({self.event(repeated)}, ({self.pattern(depth - 1, True)}){self.rng.choice(marks)})"
        if self.is_odd():
            return f"NEG({self.pattern(depth - 1, repeated)})"
        parts = [self.pattern(depth - 1, repeated) for _ in range(2)]
        return f"{self.rng.choice(['AND', 'OR'])}({', '.join(parts)})"

    def negation(self) -> str:
        kind = self.rng.choice("ABC")
        if self.rng.random() < 0.5:
            return f"NOT {kind}"
        self.absent.append(f"n{len(self.absent)}")
        return f"NOT {kind} {self.absent[-1]}"

    def absence(self, name: str) -> str:
        """Make a condition of an event that must not be there, alone or with one that is bound."""
        other = self.rng.choice(["1", "2", self.attribute()])
        return f"{name}.x {self.rng.choice(['<', '=', '>'])} {other}"

    def event(self, repeated: bool) -> str:
        kind = self.rng.choice("AABBC")
        if self.rng.random() < 0.05:
            kind = f"OR({kind}, {self.rng.choice('ABC')})"
        repeat = self.rng.choice(["", "", "", "+", "?"])
        if self.rng.random() < 0.2 and len(kind) == 1:
            self.types.append(kind)
            return kind + repeat
        name = self.rng.choice(["time", "start", "end", "query", "k"]) if self.is_odd() else "v"
        name = f"{name}{len(self.variables)}" if name in self.variables or name == "v" else name
        self.variables[name] = repeated or repeat == "+"
        return f"{kind} {name}{repeat}"

    def variable(self, once: bool = False) -> str:
        if self.is_odd():
            return self.rng.choice(["nobody", "A", "C"])
        names = [name for name, repeated in self.variables.items() if not (once and repeated)]
        return self.rng.choice(names or [*self.variables, *self.types])

    def attribute(self, once: bool = True) -> str:
        names = ["s", "time", "x.f", "absent", "x.f.g"] if self.is_odd() else ["x", "x", "k"]
        return f"{self.variable(once)}.{self.rng.choice(names)}"

    def value(self, depth: int) -> str:
        pick = self.rng.random()
        if self.is_odd():
            calls = ["ABS", "LOWER", "COUNT", "AVG", "FIRST", "LENGTH", "SUM", "nonsense"]
            call = f"{self.rng.choice(calls)}({self.attribute()})"
            return self.rng.choice([call, str(2**63), str(-(2**63)), "1e400", "NULL", "TRUE", "'a'", "5 s"])
        if depth == 0 or pick < 0.6:
            return self.attribute() if self.rng.random() < 0.7 else self.rng.choice(["0", "1", "2", "2.5"])
        if pick < 0.9:
            return f"({self.value(depth - 1)} {self.rng.choice('+-*/%')} {self.value(depth - 1)})"
        call = self.rng.choice(["ABS", "ABS", "FLOOR", "CEIL", "SQRT"])
        one = f"{call}({self.value(depth - 1)})"
        return one if self.rng.random() < 0.8 else f"COALESCE({one}, {self.value(depth - 1)})"

    def condition(self, depth: int) -> str:
        one = self.attribute() if depth == 0 else f"({self.attribute()} + {self.value(depth - 1)})"
        repeated = [name for name, often in self.variables.items() if often]
        match self.rng.randint(0, 11):
            case 10:
                return self.duration()
            case 11 if repeated:
                name, at = self.rng.choice(repeated), self.rng.choice(["FIRST", "LAST"])
                return f"{at}({name}).x {self.rng.choice(['<', '>='])} {self.value(0)}"
            case 0:
                return f"{one} IS {self.rng.choice(['NULL', 'NOT NULL'])}"
            case 1:
                return f"{one} IN ({self.rng.choice(['1, 2, 3', 'NULL', '1.5, 2'])})"
            case 2 if self.oddity:
                return f"{one} LIKE '{self.rng.choice(['%', 'a%', '_', '', '%%%%a'])}'"
            case 3:
                return f"{one} BETWEEN {self.value(0)} AND {self.value(0)}"
            case 4 if depth:
                joined = self.rng.choice([" OR ", " AND "]).join((self.condition(depth - 1), self.condition(depth - 1)))
                return f"NOT ({joined})"
            case 5 | 6 if repeated:
                name = self.rng.choice(repeated)
                ahead = f"{name}.x {self.rng.choice('<>')} NEXT({name}).x"
                return self.rng.choice([ahead, ahead, f"COUNT({name}) < 3", f"AVG({name}.x) >= 1"])
        return f"{one} {self.rng.choice(['<', '<=', '=', '!=', '>', '>='])} {self.value(depth)}"

    def duration(self) -> str:
        """Make a condition of the time between two events."""
        one, other = (f"{self.variable(once=True)}.time" for _ in range(2))
        if self.rng.random() < 0.5:
            return f"{one} - {other} {self.rng.choice(['<', '>=', '='])} {self.rng.choice(['3 s', '0 s', '1 min'])}"
        return f"{one} + INTERVAL '2' SECOND {self.rng.choice(['<', '>'])} {other}"

    def returns(self) -> str:
        def aggregate() -> str:
            function = self.rng.choice(["SUM", "AVG", "MIN", "MAX", "STDDEV", "VAR", "COUNT"])
            return f"{function}({self.variable() if function == 'COUNT' else self.attribute(once=False)})"

        pick = self.rng.random()
        if pick < 0.2:
            return self.rng.choice(["*", "*", self.variable()])
        if pick < 0.35:
            return f"{self.value(1)} AS result, {self.attribute()} AS other"
        items = ["COUNT(*)", *(aggregate() for _ in range(self.rng.choice([0, 0, 1, 2])))]
        if self.rng.random() < 0.1:
            items.append(f"COUNT(DISTINCT {self.attribute(once=False)})")
        items += ["COUNT(DISTINCT k)"] * self.is_odd()
        return ", ".join(items)


MARKS = [
    "(",
    ")",
    ",",
    "'",
    '"',
    "[",
    "]",
    "{",
    "}",
    "+",
    ";",
    "--",
    "/*",
    "\x00",
    "é",
    "NOT",
    "SEQ",
    "WITHIN",
    "9" * 400,
]


DEFINED = ["x > 1", "type = 'A' AND k < 3", "k IS NULL OR x = 0"]


def damage(text: str, rng: random.Random) -> str:
    """Remove, double or replace a few places of a text."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.randint(0, 8))
        text = text[:at] + rng.choice(["", text[at:end] * 2, rng.choice(MARKS)]) + text[end:]
    return text


def make_queries(rng: random.Random) -> str:
    """Make one to three queries; some texts are damaged."""
    maker = QueryMaker(rng, rng.choice([0.0, 0.0, 0.0, 0.05, 0.2]))
    text = "\n".join(maker.make(f"q{number}") for number in range(rng.choice([1, 1, 1, 2, 3])))
    if rng.random() < 0.1:  # a type that is made by a condition
        text = f"EVENT C AS {rng.choice(DEFINED)}\n{text}"
    return damage(text, rng) if rng.random() < 0.1 else text
