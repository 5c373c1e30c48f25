"""A workload over an endless stream: state that is carried from one micro-batch to the next."""

from motet.engine.live.branch import Fed, LiveBranch
from motet.engine.live.replan import Adapting, PlanChange
from motet.engine.live.running import Running
from motet.engine.live.saved import Saved
from motet.engine.live.state import changes, put_together, restore, save
from motet.engine.live.stream import Stream

__all__ = [
    "Adapting",
    "Fed",
    "LiveBranch",
    "PlanChange",
    "Running",
    "Saved",
    "Stream",
    "changes",
    "put_together",
    "restore",
    "save",
]
