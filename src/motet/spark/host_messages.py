"""What Spark's workers and the hosts of operators tell each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

# What the body of an output row holds.
RESULTS, PARTIALS, CONTRIBUTIONS, LATE = 0, 1, 2, 3
# What a host may lack: the pickled program, or the parts of the log.
PROGRAM, LOG = "program", "log"
Ask = Callable[[str], Any]  # returns what a host lacks


class FeedRequest(NamedTuple):
    """The rows of a micro-batch for a bucket, as Arrow IPC streams, and what is stored of it.

    `program` is the name of its pickle, `token` that of the stored state (empty: there is none), `whole` and `changes`
    are the bytes of the whole state and of the changes in the log. `watermark` is in milliseconds.
    """

    program: str
    branch: int
    bucket: str
    start_times: dict[int, int]
    token: str
    whole: int
    changes: int
    watermark: int
    blobs: list[bytes]


class FeedReply(NamedTuple):
    """What comes of a micro-batch: bodies of output rows by kind and place, and a `part` of the log.

    If `is_whole`, the part replaces the log. `units` has the cost of each unit as JSON: see `motet.spark.unit_costs`.
    """

    bodies: list[tuple[int, int, bytes]]
    late: int
    invalid_rows: int
    truncated: tuple[str, ...]
    wake: int | None
    waiting: int
    part: bytes
    is_whole: bool
    token: str
    units: str
