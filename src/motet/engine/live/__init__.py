"""A workload over an endless stream: state that is carried from one micro-batch to the next."""

from motet.engine.live.base import Fed, Live
from motet.engine.live.replan import Adapting, PlanChange
from motet.engine.live.running import Running
from motet.engine.live.saved import Saved
from motet.engine.live.state import changes, put_together, restore, save, unknown_queries
from motet.engine.live.stream import Stream, live_branch

__all__ = [
    "Adapting",
    "Fed",
    "Live",
    "PlanChange",
    "Running",
    "Saved",
    "Stream",
    "changes",
    "live_branch",
    "put_together",
    "restore",
    "save",
    "unknown_queries",
]
