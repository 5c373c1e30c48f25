"""Run a workload over an endless stream, with state carried from one micro-batch to the next."""

from motet.engine.live.base import BranchOperator, MicroBatchResult
from motet.engine.live.costs import count_bytes
from motet.engine.live.saved import SavedState
from motet.engine.live.state import (
    can_extend_log,
    find_unknown_queries,
    repeat_feed,
    restore,
    restore_log,
    save,
    save_feed,
)
from motet.engine.live.stream import Stream, create_operator
from motet.engine.live.workload import LiveWorkload

__all__ = [
    "BranchOperator",
    "LiveWorkload",
    "MicroBatchResult",
    "SavedState",
    "Stream",
    "can_extend_log",
    "count_bytes",
    "create_operator",
    "find_unknown_queries",
    "repeat_feed",
    "restore",
    "restore_log",
    "save",
    "save_feed",
]
