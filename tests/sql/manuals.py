"""Statements as manuals of other engines have them, over prices of stocks, with the rows that they give.

The rows were worked out by hand from the standard's rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

# One price a day, day 1 first.
PRICES = {
    "ACME": [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22],
    "OAK": [12, 17, 13, 16, 25, 2, 4, 10, 15, 25, 25, 30],
}
TICKER = pa.Table.from_pylist(
    [
        {"symbol": symbol, "day": day, "price": price}
        for symbol, prices in PRICES.items()
        for day, price in enumerate(prices, 1)
    ]
)
FIRMS = pa.table({"symbol": ["ACME", "OAK"], "firm": ["Acme Inc", "Oak & Sons"]})
V = "DEFINE down AS down.price < PREV(down.price), up AS up.price > PREV(up.price)"


class Statement(NamedTuple):
    """A statement, and the rows that it gives."""

    text: str
    rows: list[tuple[Any, ...]]


STATEMENTS = {
    "a V": Statement(
        f"""SELECT * FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES strt.day AS started, LAST(down.day) AS bottom, LAST(up.day) AS ended
            ONE ROW PER MATCH AFTER MATCH SKIP TO LAST up
            PATTERN (strt down+ up+) {V}) MR ORDER BY MR.symbol, MR.started""",
        [("ACME", 5, 6, 10), ("ACME", 10, 12, 13), ("ACME", 14, 16, 18), ("OAK", 2, 3, 5), ("OAK", 5, 6, 10)],
    ),
    "a V in all of its rows": Statement(
        f"""SELECT day, bottom, n, label, running_n, final_ups, price - first_price AS difference
            FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES FINAL LAST(down.day) AS bottom, MATCH_NUMBER() AS n, CLASSIFIER() AS label,
              RUNNING COUNT(day) AS running_n, FINAL COUNT(up.*) AS final_ups, strt.price AS first_price
            ALL ROWS PER MATCH AFTER MATCH SKIP TO LAST up
            PATTERN (strt down+ up+) {V}) AS m WHERE symbol = 'OAK' ORDER BY n, day""",
        [
            (2, 3, 1, "STRT", 1, 2, 0),
            (3, 3, 1, "DOWN", 2, 2, -4),
            (4, 3, 1, "UP", 3, 2, -1),
            (5, 3, 1, "UP", 4, 2, 8),
            (5, 6, 2, "STRT", 1, 4, 0),
            (6, 6, 2, "DOWN", 2, 4, -23),
            (7, 6, 2, "UP", 3, 4, -21),
            (8, 6, 2, "UP", 4, 4, -15),
            (9, 6, 2, "UP", 5, 4, -10),
            (10, 6, 2, "UP", 6, 4, 0),
        ],
    ),
    "a W": Statement(
        f"""SELECT symbol, started, ended, days FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES strt.day AS started, up.day AS ended, COUNT(*) AS days
            PATTERN (strt down+ up+ down+ up+) {V})""",
        [("ACME", 5, 13, 9), ("OAK", 2, 10, 9)],
    ),
    "a mean that stays below": Statement(
        """SELECT symbol, since, until, mean, after FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES FIRST(a.day) AS since, LAST(a.day) AS until, AVG(a.price) AS mean, b.price AS after
            PATTERN (a+ b) DEFINE a AS AVG(a.price) < 15) WHERE symbol = 'OAK'""",
        [("OAK", 1, 4, 14.5, 25), ("OAK", 6, 11, 13.5, 30)],
    ),
    "a fall, and the way back up": Statement(
        """SELECT symbol, started, fell_to, days, ended FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES a.day AS started, b.price AS fell_to, COUNT(c.*) + 1 AS days, d.day AS ended
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (a b c* d)
            DEFINE b AS (b.price - a.price) / a.price < -0.08, c AS c.price < a.price, d AS d.price >= a.price)""",
        [("ACME", 5, 12, 4, 10), ("ACME", 11, 15, 1, 13), ("ACME", 15, 12, 1, 17), ("OAK", 2, 13, 2, 5)],
    ),
    "a mean over a subset": Statement(
        """SELECT symbol, since, mean, low FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES FIRST(fell.day) AS since, AVG(fell.price) AS mean, MIN(price) AS low
            PATTERN (r f+ s) SUBSET fell = (r, f)
            DEFINE f AS price < PREV(price), s AS s.price > AVG(fell.price))""",
        [("ACME", 10, 59 / 3, 15), ("ACME", 15, 13.0, 12), ("OAK", 2, 15.0, 13)],
    ),
    "rows of no match": Statement(
        f"""SELECT day, price, n, label FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS label
            ALL ROWS PER MATCH WITH UNMATCHED ROWS
            PATTERN (down up) {V}) WHERE symbol = 'OAK' AND day BETWEEN 2 AND 8 ORDER BY day""",
        [
            (2, 17, None, None),
            (3, 13, 1, "DOWN"),
            (4, 16, 1, "UP"),
            (5, 25, None, None),
            (6, 2, 2, "DOWN"),
            (7, 4, 2, "UP"),
            (8, 10, None, None),
        ],
    ),
    "rows that are left out": Statement(
        f"""SELECT day, label, sum_so_far FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day MEASURES CLASSIFIER() AS label, SUM(price) AS sum_so_far
            ALL ROWS PER MATCH PATTERN (strt {{- down+ -}} up) {V}) WHERE symbol = 'OAK' ORDER BY day""",
        [(2, "STRT", 17), (4, "UP", 46), (5, "STRT", 25), (7, "UP", 31)],
    ),
    "empty matches": Statement(
        """SELECT day, n, label, ups FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day
            MEASURES MATCH_NUMBER() AS n, CLASSIFIER() AS label, COUNT(up.*) AS ups
            ALL ROWS PER MATCH SHOW EMPTY MATCHES PATTERN (up*) DEFINE up AS price > PREV(price) + 5)
            WHERE symbol = 'OAK' AND day > 7 ORDER BY day""",
        [(8, 8, "UP", 1), (9, 9, None, 0), (10, 10, "UP", 1), (11, 11, None, 0), (12, 12, None, 0)],
    ),
    "the fewest rows": Statement(
        """SELECT symbol, since, until FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day MEASURES FIRST(a.day) AS since, b.day AS until
            PATTERN (a{2,}? b) DEFINE b AS b.price >= 24)""",
        [("ACME", 1, 5), ("ACME", 6, 9), ("ACME", 10, 13), ("ACME", 14, 18), ("OAK", 1, 5), ("OAK", 6, 10)],
    ),
    "any order": Statement(
        """SELECT day, label FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day MEASURES CLASSIFIER() AS label
            ALL ROWS PER MATCH PATTERN (PERMUTE(low, high))
            DEFINE low AS price < 5, high AS price > 20) WHERE symbol = 'OAK' ORDER BY day""",
        [(5, "HIGH"), (6, "LOW")],
    ),
    "the first and the last rows": Statement(
        """SELECT m.symbol, m.first_price, n.last_price FROM ticker MATCH_RECOGNIZE (
              PARTITION BY symbol ORDER BY day MEASURES price AS first_price PATTERN (^ a)) AS m
            JOIN ticker MATCH_RECOGNIZE (
              PARTITION BY symbol ORDER BY day MEASURES price AS last_price PATTERN (a $)) AS n
            ON m.symbol = n.symbol ORDER BY m.symbol""",
        [("ACME", 12, 22), ("OAK", 12, 30)],
    ),
    "rows around and far behind": Statement(
        """SELECT day, x FROM ticker AS t MATCH_RECOGNIZE (
            PARTITION BY t.symbol ORDER BY t.day
            MEASURES b.day AS day,
              PREV(FIRST(a.price, 1), 2) * 1000000 + NEXT(LAST(a.price)) * 1000 + LAST(a.price, 1) AS x
            PATTERN (a{3} b) DEFINE a AS price < 20, b AS b.price > 20) WHERE symbol = 'OAK'""",
        [(5, 12025013), (10, 2025010)],
    ),
    "sessions": Statement(
        """WITH late AS (SELECT symbol AS who, day AS at FROM ticker WHERE price > 20)
            SELECT firm, n, since, until FROM late MATCH_RECOGNIZE (
              PARTITION BY who ORDER BY at
              MEASURES MATCH_NUMBER() AS n, FIRST(at) AS since, LAST(at) AS until
              PATTERN (a b*) DEFINE b AS at - PREV(at) <= 2) AS m
            JOIN firms ON firms.symbol = m.who ORDER BY firm, n""",
        [
            ("Acme Inc", 1, 4, 5),
            ("Acme Inc", 2, 9, 10),
            ("Acme Inc", 3, 13, 14),
            ("Acme Inc", 4, 18, 20),
            ("Oak & Sons", 1, 5, 5),
            ("Oak & Sons", 2, 10, 12),
        ],
    ),
    "matches that overlap": Statement(
        """SELECT symbol, COUNT(*) AS n, MAX(len) AS longest FROM ticker MATCH_RECOGNIZE (
            PARTITION BY symbol ORDER BY day MEASURES COUNT(*) AS len
            AFTER MATCH SKIP TO NEXT ROW PATTERN (a (b | c)+) DEFINE b AS price > PREV(price), c AS price = PREV(price))
            GROUP BY symbol ORDER BY symbol""",
        [("ACME", 12, 5), ("OAK", 9, 7)],
    ),
    "names in quotes": Statement(
        """SELECT `The End`, "label" FROM "ticker" MATCH_RECOGNIZE (
            PARTITION BY `symbol` ORDER BY "day" DESC
            MEASURES "b".`day` AS "The End", CLASSIFIER() AS "label"
            PATTERN (b "b") DEFINE B AS price = 25, "b" AS "b".price < B.price - 9) WHERE symbol = 'ACME'""",
        [(12, "b")],
    ),
}
