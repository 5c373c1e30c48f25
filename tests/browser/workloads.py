"""Workloads of many sizes over the events of a shop, some alike, some not, some with long names."""

from __future__ import annotations

from random import Random

import pyarrow as pa

TYPES = (
    "search", "view_item", "add_to_basket", "remove_from_basket", "apply_coupon", "begin_checkout", "enter_address",
    "choose_delivery", "payment_failed", "payment_accepted", "order_shipped", "order_delivered", "return_requested",
    "refund_paid", "write_review", "contact_support", "password_reset", "login_failed", "login_succeeded", "sign_out",
)  # fmt: skip
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us")),
        ("type", pa.string()),
        ("user", pa.string()),
        ("country", pa.string()),
        ("amount", pa.float64()),
    ]
)
WINDOWS = ("30 min SLIDE 10 min", "1 h SLIDE 10 min", "1 day SLIDE 1 day", "7 days SLIDE 1 day")


def write_shop_queries(number: int) -> str:
    """Write queries: nine in ten are aggregated, the others return their matches."""
    random = Random(7)
    return "\n".join(_write_query(at, random) for at in range(number))


def _write_query(at: int, random: Random) -> str:
    begin = min(int(random.expovariate(0.3)), len(TYPES) - 6)
    steps = list(TYPES[begin : begin + random.randint(2, 5)])
    if random.random() < 0.3:
        steps.insert(1, random.choice(TYPES))
    name = f"{steps[0]}_to_{steps[-1]}_{at}"
    window = random.choice(WINDOWS)
    shape = at % 10
    if shape == 9:
        named = ", ".join(f"{step} e{n}" for n, step in enumerate(steps, 1))
        pattern = f"AND({named})" if at % 20 == 9 else f"SEQ({named})"
        return f"QUERY {name} RETURN * PATTERN {pattern} WHERE [user] AND e1.amount < e2.amount WITHIN 1 h"
    if shape == 7:
        steps[0] = f"AND({steps[0]}, {random.choice([each for each in TYPES if each not in steps])})"
    elif shape == 5:
        steps[-1] = f"{steps[-1]}+"
    elif shape == 3:
        steps.insert(1, f"NOT {random.choice([each for each in TYPES if each not in steps])}")
    where = "[user]" if shape != 2 else f"[user] AND {steps[0]}.amount > {random.choice((100, 250))}"
    group = " GROUP BY country" if shape == 4 else ""
    return f"QUERY {name} RETURN COUNT(*) PATTERN SEQ({', '.join(steps)}) WHERE {where}{group} WITHIN {window}"


def make_shop_events(number: int) -> pa.Table:
    """Make events of some users, one every few seconds."""
    random = Random(11)
    times, moment = [], 1_700_000_000_000_000
    for _ in range(number):
        moment += random.randrange(1, 8_000_000)
        times.append(moment)
    columns = {
        "time": times,
        "type": random.choices(TYPES, weights=range(len(TYPES) + 4, 4, -1), k=number),
        "user": [f"u{random.randrange(200)}" for _ in range(number)],
        "country": random.choices(("de", "fr", "nl", "pl"), k=number),
        "amount": [round(random.expovariate(0.01), 2) for _ in range(number)],
    }
    return pa.table(columns, SCHEMA)
