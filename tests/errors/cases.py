"""Mistakes of all kinds, each with what it takes to make it: the messages that users meet."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import motet
from motet import datasets
from motet.language.builder import event, next_, query, seq
from motet.model.pattern import And, Event, Or, Pattern, Repeat, Seq
from motet.model.query import Aggregate, Query, Workload
from motet.model.validate import find_problems
from motet.schema import EventSchema

EVENTS = pa.table({"time": [1, 2], "type": ["A", "B"], "x": [1, 2], "k": ["u", "u"], "s": ["p", "q"]})

# Texts that are wrong by themselves.
TEXTS = {
    "nothing": "",
    "no name": "QUERY\nRETURN COUNT(*)\nPATTERN A",
    "no pattern": "QUERY q\nRETURN COUNT(*)",
    "empty clause": "QUERY q\nRETURN COUNT(*)\nPATTERN\nWITHIN 5 s",
    "two of a clause": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WITHIN 5 s WITHIN 6 s",
    "AGG and RETURN": "QUERY q RETURN COUNT(*) AGG COUNT PATTERN A WITHIN 5 s",
    "AGG of a variable": "QUERY q AGG a PATTERN A a WITHIN 5 s",
    "definition without AS": "EVENT big type = 'A'\nQUERY q PATTERN big WITHIN 5 s",
    "definition with variables": "EVENT big AS NEXT(a).x > 1\nQUERY q PATTERN big WITHIN 5 s",
    "definition with an aggregate": "EVENT big AS SUM(x) > 1\nQUERY q PATTERN big WITHIN 5 s",
    "definition not used": "EVENT big AS x > 1\nQUERY q PATTERN A WITHIN 5 s",
    "header alone": "Query: PATTERN P WITHIN 5 s",
    "same name twice": "QUERY q PATTERN A WITHIN 5 s\nQUERY q PATTERN B WITHIN 5 s",
    "broken and the same name": "QUERY q PATTERN SEQ(A, WITHIN 5 s\nQUERY q PATTERN A WITHIN 5 s",
    "same event twice": "EVENT e AS x > 1\nEVENT e AS x > 2\nQUERY q PATTERN e WITHIN 5 s",
    "misspelt clause": "QUERY q RETURN COUNT(*) PATERN SEQ(A, B) WITHIN 5 s",
    "misspelt GROUP BY": "QUERY q RETURN COUNT(*) PATTERN A GRUOP BY k WITHIN 5 s",
    "GROUP without BY": "QUERY q RETURN COUNT(*) PATTERN A GROUP k WITHIN 5 s",
    "distinct of nothing": "QUERY q RETURN COUNT(DISTINCT k) PATTERN A a WITHIN 5 s",
    "sum of distinct": "QUERY q RETURN SUM(DISTINCT a.k) PATTERN A a WITHIN 5 s",
    "distinct in a condition": "QUERY q PATTERN A a WHERE COUNT(DISTINCT a.x) > 1 WITHIN 5 s",
    "having of another column": "QUERY q RETURN COUNT(*) AS n PATTERN A a HAVING m > 1 WITHIN 5 s",
    "having of another aggregate": "QUERY q RETURN COUNT(*) AS n PATTERN A a HAVING SUM(a.x) > 1 WITHIN 5 s",
    "having of matches": "QUERY q RETURN a PATTERN A a HAVING a > 1 WITHIN 5 s",
    "a duration of events": "QUERY q PATTERN SEQ(A a, B b) WHERE b.time - a.time < INTERVAL '3' EVENTS WITHIN 5 s",
    "a long duration": "QUERY q PATTERN SEQ(A a, B b) WHERE b.time - a.time < 999999999999 days WITHIN 5 s",
    "a duration and a number": "QUERY q PATTERN SEQ(A a, B b) WHERE 5 min < 3 AND a.x < 5 min + 3 WITHIN 5 s",
    "a bare event": "QUERY q PATTERN SEQ(A a, B b) WHERE a.x = b WITHIN 5 s",
    "sorted results": "QUERY q RETURN COUNT(*) AS n PATTERN A GROUP BY k WITHIN 5 s HAVING n > 1 ORDER BY n LIMIT 3",
    "group with AS": "QUERY q RETURN k AS key, COUNT(*) PATTERN A GROUP BY k WITHIN 5 s",
    "bracket left open": "QUERY q PATTERN SEQ(A, B WITHIN 5 s",
    "name left open": 'QUERY q PATTERN SEQ("A, B) WITHIN 5 s',
    "empty name": 'QUERY q PATTERN SEQ("", B) WITHIN 5 s',
    "strange letter": "QUERY q PATTERN SEQ(A; ~ B) WITHIN 5 s",
    "ends too early": "QUERY q PATTERN SEQ(A a, B) WHERE a.x > WITHIN 5 s",
    "wrong word in WHERE": "QUERY q PATTERN SEQ(A a, B b) WHERE a.x > 1 & b.x > 1 WITHIN 5 s",
    "unknown operator": "QUERY q PATTERN SQE(A, B) WITHIN 5 s",
    "mixed separators": "QUERY q PATTERN CONJ(A | B) WITHIN 5 s",
    "variable of a group": "QUERY q PATTERN SEQ(A, B) x WITHIN 5 s",
    "two variables": "QUERY q PATTERN SEQ(A a b, B) WITHIN 5 s",
    "repetition of a half": "QUERY q PATTERN A{1.5} WITHIN 5 s",
    "repetition turned": "QUERY q PATTERN A{5,2} WITHIN 5 s",
    "repetition of nothing": "QUERY q PATTERN A{0,0} WITHIN 5 s",
    "NOT of a group": "QUERY q PATTERN SEQ(A, NOT SEQ(B, C), D) WITHIN 5 s",
    "NOT in AND": "QUERY q PATTERN AND(A, NOT B) WITHIN 5 s",
    "NOT at the edge in AND": "QUERY q PATTERN AND(SEQ(NOT N, A), B) WITHIN 5 s",
    "NEG in OR": "QUERY q PATTERN OR(A, NEG(B)) WITHIN 5 s",
    "NEG repeated": "QUERY q PATTERN SEQ(A, SEQ(B, NEG(C))+) WITHIN 5 s",
    "NOT alone": "QUERY q PATTERN SEQ(NOT A) WITHIN 5 s",
    "group of NOT": "QUERY q PATTERN SEQ(A, SEQ(NOT B), C) WITHIN 5 s",
    "two events of a name": "QUERY q PATTERN SEQ(A x, B x) WITHIN 5 s",
    "variable and type": "QUERY q PATTERN SEQ(A B, B) WITHIN 5 s",
    "unknown event": "QUERY q PATTERN SEQ(A a, B) WHERE aa.x > 1 WITHIN 5 s",
    "which event": "QUERY q PATTERN SEQ(A, NOT A, B) WHERE A.x > 1 WITHIN 5 s",
    "bare column": "QUERY q PATTERN SEQ(A a, B) WHERE x > 1 WITHIN 5 s",
    "about nothing": "QUERY q PATTERN SEQ(A a, B) WHERE 1 < 2 WITHIN 5 s",
    "no condition": "QUERY q PATTERN SEQ(A a, B) WHERE a.x + 1 WITHIN 5 s",
    "number and text": "QUERY q PATTERN SEQ(A a, B) WHERE a.x > 'p' + 1 WITHIN 5 s",
    "chain with !=": "QUERY q PATTERN SEQ(A a, B b) WHERE a.x != b.x = 1 WITHIN 5 s",
    "NEXT of one": "QUERY q PATTERN SEQ(A a, B) WHERE a.x < NEXT(a).x WITHIN 5 s",
    "NEXT of two": "QUERY q PATTERN SEQ(A+ a, B+ b) WHERE NEXT(a).x < NEXT(b).x WITHIN 5 s",
    "NEXT in RETURN": "QUERY q RETURN NEXT(a).x AS y PATTERN A+ a WITHIN 5 s",
    "aggregate under NOT": "QUERY q PATTERN SEQ(A, NOT B b, C) WHERE COUNT(b) > 1 WITHIN 5 s",
    "return under NOT": "QUERY q RETURN b PATTERN SEQ(A, NOT B b, C) WITHIN 5 s",
    "compute under NOT": "QUERY q RETURN b.x AS y PATTERN SEQ(A, NOT B b, C) WITHIN 5 s",
    "which of many": "QUERY q RETURN a.x AS y PATTERN A+ a WITHIN 5 s",
    "both kinds of RETURN": "QUERY q RETURN a.x AS y, COUNT(a) AS n PATTERN A+ a WITHIN 5 s",
    "return of nothing": "QUERY q RETURN k PATTERN A GROUP BY k WITHIN 5 s",
    "unknown in RETURN": "QUERY q RETURN c PATTERN SEQ(A a, B) WITHIN 5 s",
    "two results of a name": "QUERY q RETURN COUNT(*) AS n, SUM(A.x) AS n PATTERN A WITHIN 5 s",
    "a name of results": "QUERY q RETURN COUNT(*) AS time PATTERN A WITHIN 5 s",
    "a group of that name": "QUERY q RETURN COUNT(*) PATTERN A GROUP BY time WITHIN 5 s",
    "a result like a group": "QUERY q RETURN COUNT(*) AS k PATTERN A GROUP BY k WITHIN 5 s",
    "unknown aggregate": "QUERY q RETURN TOTAL(a.x) PATTERN A a WITHIN 5 s",
    "aggregate of a variable": "QUERY q RETURN SUM(a) PATTERN A a WITHIN 5 s",
    "SUM of all": "QUERY q RETURN SUM(*) PATTERN A a WITHIN 5 s",
    "COUNT(*) inside": "QUERY q RETURN COUNT(*) + 1 AS n PATTERN A a WITHIN 5 s",
    "aggregate of two": "QUERY q PATTERN A+ a WHERE SUM(a.x, a.y) > 1 WITHIN 5 s",
    "attribute of an aggregate": "QUERY q PATTERN A+ a WHERE AVG(a.x).y > 1 WITHIN 5 s",
    "FIRST without attribute": "QUERY q PATTERN A+ a WHERE FIRST(a) > 1 WITHIN 5 s",
    "VAR in WHERE": "QUERY q PATTERN A+ a WHERE VAR(a.x) > 1 WITHIN 5 s",
    "unknown function": "QUERY q PATTERN A a WHERE LOG(a.x) > 1 WITHIN 5 s",
    "attribute in brackets with others": "QUERY q PATTERN A a WHERE [k] OR a.x > 1 WITHIN 5 s",
    "no timestamp": "QUERY q PATTERN A a WHERE a.t > TIMESTAMP 'noon' WITHIN 5 s",
    "text after text": "QUERY q PATTERN A a WHERE a.s = X'ab' WITHIN 5 s",
    "unknown unit": "QUERY q PATTERN A WITHIN 10 parsecs",
    "interval without unit": "QUERY q PATTERN A WITHIN INTERVAL '10'",
    "interval of a word": "QUERY q PATTERN A WITHIN INTERVAL 'ten' MINUTE",
    "half an event": "QUERY q PATTERN A WITHIN 1.5 EVENTS",
    "far too long": "QUERY q PATTERN A WITHIN 1e30 s",
    "too long": "QUERY q PATTERN A WITHIN 10000000000000 weeks",
    "no time": "QUERY q PATTERN A WITHIN 0 s",
    "SLIDE alone": "QUERY q RETURN COUNT(*) PATTERN A SLIDE 5 s",
    "SLIDE of EVENTS": "QUERY q RETURN COUNT(*) PATTERN A WITHIN 5 s SLIDE 2 EVENTS",
    "EVENTS with SLIDE": "QUERY q RETURN COUNT(*) PATTERN A WITHIN 5 EVENTS SLIDE 2 s",
    "one unit only": "QUERY q RETURN COUNT(*) PATTERN A WITHIN 5 s SLIDE 2",
    "SLIDE too long": "QUERY q RETURN COUNT(*) PATTERN A WITHIN 5 s SLIDE 6 s",
    "no window": "QUERY q RETURN COUNT(*) PATTERN A",
    "SKIP TILL nothing": "QUERY q PATTERN A WITHIN 5 s SKIP TILL FRIDAY",
    "AFTER MATCH SKIP elsewhere": "QUERY q PATTERN SEQ(A, B b) AFTER MATCH SKIP TO FIRST b WITHIN 5 s",
    "AFTER MATCH SKIP nothing": "QUERY q PATTERN SEQ(A, B) WITHIN 5 s AFTER MATCH SKIP",
    "words after a policy": "QUERY q PATTERN A WITHIN 5 s CONTIGUOUS please",
    "too deep": "QUERY q PATTERN " + "SEQ(" * 200 + "A" + ")" * 200 + " WITHIN 5 s",
}

# Texts that are right by themselves, but not over EVENTS.
OVER_DATA = {
    "unknown column": "QUERY q PATTERN SEQ(A a, B) WHERE a.xx > 1 WITHIN 5",
    "unknown key": "QUERY q RETURN COUNT(*) PATTERN SEQ(A a, B)\nWHERE [kk]\nWITHIN 5",
    "unknown group": "QUERY q RETURN COUNT(*) PATTERN SEQ(A a, B)\nGROUP BY kk, k\nWITHIN 5",
    "unknown type": "QUERY q RETURN COUNT(*) PATTERN SEQ(A, BB) WITHIN 5",
    "sum of text": "QUERY q RETURN SUM(A.s) PATTERN A WITHIN 5",
    "text against number": "QUERY q PATTERN SEQ(A a, B) WHERE a.s > 1 WITHIN 5",
    "overflow in a condition": "QUERY q PATTERN SEQ(A a, B b) WHERE a.x * 9223372036854775807 + a.x > 0 WITHIN 5",
    "overflow in RETURN": "QUERY q RETURN a.x * 9223372036854775807 + a.x AS y PATTERN SEQ(A a, B b) WITHIN 5",
    "overflow between two": "QUERY q PATTERN SEQ(A a, B b) WHERE b.x * 9223372036854775807 > a.x WITHIN 5",
    "overflow over a match": "QUERY q PATTERN SEQ(A+ a, B b) WHERE b.x * 9223372036854775807 > SUM(a.x) WITHIN 5",
}


def from_model(pattern: Pattern) -> str:
    """What is said of a query that only Python can make."""
    workload = Workload((Query("q", pattern, (Aggregate("COUNT"),)),))
    return "\n".join(found.render("", "<text>") for found in find_problems(workload) if not found.warning)


def raised(action: Callable[[], object]) -> str:
    try:
        action()
    except (motet.MotetError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def in_python() -> dict[str, str]:
    """Messages of the Python interface."""
    text = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 5"
    seconds = pa.table({"time": pa.array([0], pa.timestamp("s")), "type": ["A"]})
    actions: dict[str, Callable[[], object]] = {
        "engine": lambda: motet.run(EVENTS, text, engine="warp"),
        "counts": lambda: motet.run(EVENTS, text, counts="roughly"),
        "events of a list": lambda: motet.run([1, 2], text),
        "time column": lambda: motet.run(EVENTS, text, time="tim"),
        "time unit": lambda: motet.run(EVENTS, text, time_unit="hour"),
        "no type column": lambda: motet.run(EVENTS, text, type="typ"),
        "no type and other columns": lambda: motet.run(EVENTS, text.replace("[k]", "[kk]"), type="typ"),
        "events after queries": lambda: motet.run(text, EVENTS),
        "an option that there is not": lambda: motet.run(EVENTS, text, tiem="time"),
        "no such answer": lambda: motet.ask(EVENTS, text)["p"],
        "stream without an end": lambda: motet.live(EVENTS, text.replace(" WITHIN 5", "")),
        "skip while a NOT is open": lambda: motet.live(
            EVENTS, "QUERY q PATTERN SEQ(A, NOT B) WITHIN 5 EVENTS AFTER MATCH SKIP PAST LAST EVENT"
        ),
        "types of floats": lambda: motet.run(EVENTS.set_column(1, "type", pa.array([1.5, 2.5])), text),
        "time of text": lambda: motet.run(EVENTS.set_column(0, "time", pa.array(["a", "b"])), text),
        "condition on lists": lambda: motet.run(
            EVENTS.set_column(3, "k", pa.array([[1], [2]])), text.replace("[k]", "A.k IS NOT NULL")
        ),
        "condition on structs": lambda: motet.run(
            EVENTS.set_column(3, "k", pa.array([{"id": 1}] * 2)), text.replace("[k]", "A.k = B.k")
        ),
        "window of nanoseconds": lambda: motet.run(EVENTS, text.replace("WITHIN 5", "WITHIN 1500"), time_unit="ns"),
        "key of lists": lambda: motet.run(EVENTS.set_column(3, "k", pa.array([[1], [2]])), text),
        "key of structs": lambda: motet.run(
            EVENTS.set_column(3, "k", pa.array([{"on": {"id": 1}}, {"on": {"id": 1}}])), text
        ),
        "lazy frame": lambda: motet.run(pl.LazyFrame({"time": [1], "type": ["A"]}), text),
        "no paths": lambda: motet.run([], text),
        "large whole numbers": lambda: motet.run(
            EVENTS.append_column("u", pa.array([2**64 - 1, 1], pa.uint64())),
            "RETURN MAX(A.u) PATTERN SEQ(A, B) WITHIN 5",
        ),
        "the oracle after the year 9999": lambda: motet.run(
            pa.table({"time": pa.array([2**60], pa.timestamp("us")), "type": ["A"]}),
            "RETURN COUNT(*) PATTERN A",
            engine="oracle",
        ),
        "watermark out of range": lambda: motet.live(EVENTS, text).feed(EVENTS, watermark=2**62),
        "window without unit": lambda: motet.run(seconds, "QUERY q RETURN COUNT(*) PATTERN A WITHIN 5"),
        "profile column": lambda: motet.profile(EVENTS, keys=["kk"]),
        "profile time": lambda: motet.profile(EVENTS, time="s"),
        "profile of queries": lambda: motet.profile(EVENTS, text.replace("[k]", "[kk]")),
        "data set": lambda: datasets.load("nyc_flight"),
        "query file": lambda: motet.read("nowhere.motet"),
        "match limit": lambda: motet.run(
            pa.table({"time": list(range(40)), "type": ["A"] * 40}),
            "QUERY q RETURN * PATTERN A+ a WITHIN 100",
            match_limit=10,
        ),
        "sql engine": lambda: motet.sql("SELECT 1", engine="oracle"),
        "sql table without a name": lambda: motet.sql("SELECT 1", {"": EVENTS}),
        "sql table of a list": lambda: motet.sql("SELECT 1", {"t": [1]}),
        "sql option": lambda: motet.sql("SELECT 1", step_limit=0),
        "sql option of a run": lambda: motet.sql("SELECT 1", time="at"),
        "schema": lambda: EventSchema(EVENTS.schema, "time", "type", "hour"),
        "explain a key": lambda: motet.explain_match(EVENTS, text, key={"x": 1}),
        "explain no key": lambda: motet.explain_match(EVENTS, text.replace("WHERE [k]", ""), key={"x": 1}),
        "explain a value": lambda: motet.explain_match(EVENTS, text.replace("[k]", "[x]"), key={"x": "u"}),
        "explain a query": lambda: motet.explain_match(EVENTS, text, query="p"),
        "explain one of two": lambda: motet.explain_match(EVENTS, f"{text}\n{text.replace('QUERY q', 'QUERY r')}"),
        "explain a time": lambda: motet.explain_match(EVENTS, text, start="noon"),
        "explain a timestamp": lambda: motet.explain_match(seconds_with_key(), text.replace("5", "5 s"), start="noon"),
        "translate": lambda: motet.translate("", "esper"),
        "no pattern": lambda: query("q").build(),
        "no length": lambda: query("q").pattern(event("A")).within("soon").build(),
        "truth of a condition": lambda: bool(event("A", "a").x > 1),
        "next of one": lambda: query("q").pattern(seq(event("A", "a"))).where(next_("a").x > 1).build(),
    }
    found = {name: raised(action) for name, action in actions.items()}
    models: dict[str, Pattern] = {
        "operator without parts": Seq((Event("A"), Or(()))),
        "repetition below zero": Repeat(Event("A"), -1, 2),
        "empty type": And((Event("A"), Event(""))),
    }
    return found | {name: from_model(pattern) for name, pattern in models.items()}


def seconds_with_key() -> pa.Table:
    return pa.table({"time": pa.array([0], pa.timestamp("s")), "type": ["A"], "k": ["u"]})


RIGHT = "QUERY q RETURN COUNT(*) PATTERN SEQ(A, B) WHERE [k] WITHIN 5\n"
CSV = "time,type,k,x\n1,A,u,1\n2,B,u,2\n"
SQL = """SELECT n FROM events MATCH_RECOGNIZE (
  ORDER BY time MEASURES COUNT(*) AS n PATTERN (A B) DEFINE B AS x > A.x
)
"""
FILES = {
    "right.motet": RIGHT,
    "right.sql": SQL,
    "wrong.sql": SQL.replace("A.x", "A.y"),
    "two.motet": RIGHT + RIGHT.replace("QUERY q", "QUERY r"),
    "drawn.motet": RIGHT.replace("WITHIN 5", "WITHIN 5 s"),
    "right.csv": CSV,
    "no_time.csv": CSV.replace("time", "tim"),
    "flags.csv": "time,type,k,x\ntrue,A,u,1\n",
    "millis.csv": CSV.replace("\n1,", "\n1700000000000,").replace("\n2,", "\n1700000001000,"),
    "digits.csv": 'time,type,k,x\n"1700000000",A,u,1\n',
    "semicolons.csv": CSV.replace(",", ";"),
    "tabs.csv": CSV.replace(",", "\t"),
    "nameless.csv": "1,A,u,1\n2,B,u,2\n",
    "varying.jsonl": '{"time": 1, "type": "A", "k": "u"}\n{"time": 2, "type": "B", "k": 5}\n',
    "fields.jsonl": '{"time": 1, "type": "A", "k": {"id": 7}}\n{"time": 2, "type": "B", "k": {"id": "u"}}\n',
    "values.json": '[{"time": 1, "type": "A", "k": "u"}, 5]',
    "cut.json": '[{"time": 1,',
    "many.motet": "QUERY q RETURN a PATTERN A+ a WITHIN 100",
    "cases.motet": RIGHT + RIGHT.replace("QUERY q", "QUERY Q"),
    "many.csv": "time,type\n" + "".join(f"{at},A\n" for at in range(40)),
    "words.csv": CSV.replace("\n1,", "\nsoon,"),
    "log.csv": CSV.replace("\n1,", "\n01/Mar/2024:10:00:00 +0000,").replace("\n2,", "\n01/Mar/2024:10:00:01 +0000,"),
    "days.csv": CSV.replace("time,", "Event Time,").replace("\n1,", "\n01/03/2024 10:00,").replace("\n2,", "\n,"),
    "decimals.csv": "time;type;k;x\n1;A;u;0,5\n2;B;u;1,5\n",
    "sums.motet": RIGHT.replace("COUNT(*)", "SUM(B.x)"),
    "twice.csv": "time,type,k,k\n1,A,u,1\n",
    "cut.csv": CSV + "3,A\n",
    "events.txt": CSV,
    "broken.parquet": "no parquet",
    "statistics.json": "{}",
    "mixed/a.csv": CSV,
    "mixed/b.jsonl": "{}",
    "differ/a.jsonl": '{"time": 1, "type": "A", "k": "u"}',
    "differ/b.jsonl": '{"time": 1, "type": "A", "k": [1]}',
    "empty/readme.md": "",
    "void/.hidden": "",
    "some.sql": "SELECT 1",
    # As many a system writes them: semicolons, milliseconds since 1970, and types that are numbers.
    "raw.csv": "id;customer;status;code;at\n"
    + "".join(f"{at};c{at};{('ok', 'failed')[at % 2]};{4624 + at % 3};{1704110400123 + at}\n" for at in range(9)),
    "codes.motet": 'QUERY q RETURN COUNT(*) PATTERN SEQ("4625", "4624") WITHIN 5 s\n',
    "orders.motet": "QUERY q RETURN COUNT(*) PATTERN SEQ(ok, failed) WITHIN 5 s\n",
    "slash.motet": 'QUERY "a/b" RETURN COUNT(*) PATTERN A WITHIN 5\n',
}
NOT_TEXT = ("latin.motet", b"QUERY q RETURN COUNT(*) PATTERN \xe9 WITHIN 5")

COMMANDS = [
    "sql nowhere.sql --events right.csv",
    "sql latin.motet --events right.csv",
    "sql right.sql --events nowhere.csv",
    "sql right.sql --events right.csv --events other.csv",
    "sql wrong.sql --events right.csv",
    "sql right.sql --events right.csv --step-limit 1",
    "sql right.sql --events right.csv --format parquet",
    "run nowhere.motet --events right.csv",
    "run latin.motet --events right.csv",
    "run right.motet --events nowhere.csv",
    "run right.motet --events no_time.csv",
    "run right.motet --events flags.csv",
    "run right.motet --events millis.csv",
    "run right.motet --events digits.csv --column-type time=text",
    "run right.motet --events semicolons.csv",
    "run right.motet --events tabs.csv",
    "run right.motet --events nameless.csv",
    "run codes.motet --events raw.csv",
    "run codes.motet --events raw.csv --delimiter ';'",
    "run codes.motet --events raw.csv --delimiter ';' --time at",
    "run orders.motet --events raw.csv --delimiter ';' --time at",
    "run codes.motet --events raw.csv --delimiter ';' --time at --type code",
    "profile --events raw.csv --delimiter ';' --time at --time-unit ms",
    "run right.motet --events varying.jsonl",
    "run right.motet --events varying.jsonl --column-type k=number",
    "run right.motet --events fields.jsonl",
    "run right.motet --events values.json",
    "run right.motet --events cut.json",
    "run right.motet --events right.csv --column-type y=number",
    "run right.motet --events right.csv --column-type x",
    "run right.motet --events right.csv --column-type x=float",
    "run right.motet --events right.csv --delimiter ;;",
    "run right.motet --events broken.parquet --header a,b",
    "run right.motet --events broken.parquet --column-type a=text",
    "run right.motet --events 'nowhere/*.csv'",
    "run right.motet --events right.csv --events mixed/b.jsonl",
    "run right.motet --events right.csv --events -",
    "run right.motet --events right.csv --select 'x AS tim'",
    "run right.motet --events right.csv --select 'y AS time'",
    "run right.motet --events right.csv --select 'x AS' --select y",
    "run right.motet --events right.csv --select '*' --select 'k AS x'",
    'run right.motet --events right.csv --select "* REPLACE (CAST(k AS INT) AS k)"',
    "run many.motet --events many.csv --match-limit 5",
    "run many.motet --events many.csv --memory-limit 1mib",
    "run right.motet --events right.csv --output results",
    "run right.motet --events right.csv --output results.xlsx",
    "run right.motet --events right.csv --output right.csv/",
    "run right.motet --events right.csv --output results/ --format duckdb",
    "run right.motet --events right.csv --output - --format delta",
    "run right.motet --events right.csv --output results.delta",
    "run right.motet --events right.csv --output results.iceberg",
    "run right.motet --events right.csv --output - --format duckdb",
    "run right.motet --events right.csv --output /dev/null --format duckdb",
    "run right.motet --events right.csv --output right.csv --format duckdb",
    "run cases.motet --events right.csv --output results.duckdb",
    "run right.motet --events words.csv",
    "run sums.motet --events decimals.csv --delimiter ';'",
    "run sums.motet --events decimals.csv --delimiter ';' --column-type x=number",
    "run right.motet --events log.csv",
    "run right.motet --events days.csv",
    "run right.motet --events days.csv --time 'Event Time'",
    "run right.motet --events twice.csv",
    "run right.motet --events cut.csv",
    "run right.motet --events events.txt",
    "run right.motet --events broken.parquet",
    "run right.motet --events mixed",
    "run right.motet --events differ",
    "run right.motet --events empty",
    "run right.motet --events void",
    "run right.motet",
    "run right.motet --table events",
    "run slash.motet --events right.csv --output results/",
    "sql right.sql --events right.csv --output results.duckdb",
    "plan right.motet --analyze",
    "plan drawn.motet --output mixed",
    "run right.motet --events right.csv --format parquet",
    "run right.motet --events right.csv --output nowhere/out.csv",
    "run right.motet --events right.csv --engine warp",
    "run right.motet --events right.csv --type typ",
    "plan right.motet --statistics nowhere.json",
    "plan right.motet --statistics statistics.json",
    "plan drawn.motet --format mermaid",
    "profile --events right.csv --key kk",
    "explain-match right.motet --events right.csv --key k",
    "explain-match two.motet --events right.csv",
    "stream right.motet --option path",
    "stream right.motet --output results",
    "translate --from sase nowhere.sase",
    "translate --from sase latin.motet",
    "translate --from clickhouse some.sql",
    "translate --from match-recognize some.sql",
    "fly",
]


def write_files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    (folder / NOT_TEXT[0]).write_bytes(NOT_TEXT[1])


def over_data(text: str) -> str:
    """What a run over EVENTS says."""
    warnings: list[Any] = []
    try:
        workload = motet.parse(text, "file.motet")
        found = find_problems(workload, EventSchema(EVENTS.schema).kinds(), {"A", "B"})
        warnings = [problem.render(workload.text, workload.origin) for problem in found]
        motet.run(EVENTS, workload)
    except motet.MotetError as error:
        return f"{type(error).__name__}: {error}"
    return os.linesep.join(warnings)
