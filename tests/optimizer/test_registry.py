"""The registry of optimizers: names, kinds, and that an optimizer which is registered can be used by its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, cast, get_args
from unittest.mock import patch

import pyarrow as pa
import pytest

from motet.compile import compile_workload
from motet.errors import OptionError
from motet.language import parse
from motet.optimizer.builtin import EachPattern
from motet.optimizer.registry import get_join_optimizer, get_optimizer, optimizer_names, register
from motet.options import OptimizerName, Options
from motet.plans.detect.build import JoinSpec, PlanTree, pattern_order
from motet.plans.detect.cost import Rates
from motet.schema import EventSchema
from motet.statistics.model import Statistics

SCHEMA = EventSchema(pa.schema({"time": pa.int64(), "type": pa.string(), "x": pa.int64()}))
JOINED = "RETURN * PATTERN SEQ(A a, B b) WHERE a.x < b.x WITHIN 10 s"


def test_options_list_the_optimizers_that_come_with_motet() -> None:
    # In a process of its own: baselines may be registered in this one.
    listing = "from motet.optimizer.registry import optimizer_names; print(*optimizer_names())"
    found = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(found) == sorted(get_args(OptimizerName))


def test_every_optimizer_is_described_in_a_line_and_plans_something() -> None:
    for name in optimizer_names():
        entry = get_optimizer(name)
        assert entry.name == name
        assert 10 < len(entry.description) < 100
        assert "\n" not in entry.description
        assert entry.sharing or entry.joins or name == "prefix"


def test_an_unknown_optimizer_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(OptionError, match="optimizer is 'best': use one of auto, prefix, none, sharon"):
        compile_workload(parse(JOINED), SCHEMA, Options(optimizer=cast(Any, "best")))


def test_optimizers_of_aggregate_queries_leave_joins_to_auto() -> None:
    for name in ("sharon", "gloria", "prefix"):
        assert get_join_optimizer(name) is get_join_optimizer("auto")


def in_pattern_order(specs: Sequence[JoinSpec], rates: Rates) -> dict[JoinSpec, PlanTree]:
    return {spec: pattern_order(spec) for spec in specs}


def test_a_registered_optimizer_is_used_by_its_name() -> None:
    statistics = Statistics({"A": 10, "B": 10}, first=0, last=1_000_000)
    with patch.dict("motet.optimizer.registry._OPTIMIZERS"):
        register("own", "joins in the order of the pattern", joins=EachPattern("own", in_pattern_order))
        program = compile_workload(parse(JOINED), SCHEMA, Options(optimizer=cast(Any, "own"), statistics=statistics))
    (branch,) = program.detect
    assert branch.trees is not None
    assert branch.trees.method == "own"
