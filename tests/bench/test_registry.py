"""Which experiments there are, and how they are chosen."""

from __future__ import annotations

import pytest

from benchmarks.registry import load_experiments, select_experiments
from motet.errors import MotetError


def test_every_experiment_says_what_it_measures_and_how_long_it_takes() -> None:
    for name, experiment in load_experiments().items():
        assert name == experiment.name
        assert experiment.paper
        assert experiment.measures
        assert experiment.seconds.quick > 0
        assert experiment.seconds.paper > 0


@pytest.mark.parametrize(
    "name",
    [
        "a-seq-12",
        "sharon-12b",
        "sharon-13",
        "gloria-11",
        "gloria-16",
        "spark-batch",
        "streaming",
        "growth-queries",
        "sql-v-shape",
        "sql-spark",
    ],
)
def test_the_figures_of_the_papers_and_ours_are_there(name: str) -> None:
    assert name in load_experiments()


def test_the_peers_are_there_in_a_checkout() -> None:
    assert {"peers-s1", "peers-s2", "peers-s3", "peers-s4"} <= set(load_experiments())


def test_the_quick_sizes_of_all_are_stated_to_take_a_quarter_of_an_hour_at_most() -> None:
    assert sum(experiment.seconds.quick for experiment in select_experiments(["all"])) <= 900


def test_experiments_are_chosen_by_name_by_beginning_or_all() -> None:
    assert [one.name for one in select_experiments(["sharon-13"])] == ["sharon-13"]
    assert {one.name for one in select_experiments(["a-seq"])} == {
        name for name in load_experiments() if name.startswith("a-seq-")
    }
    assert "soak" not in {one.name for one in select_experiments(["all"])}, "what takes long runs only by its name"
    assert [one.name for one in select_experiments(["soak", "soak"])] == ["soak"]


def test_a_misspelt_name_is_told_with_the_nearest() -> None:
    with pytest.raises(MotetError, match=r"no experiment 'sharon-12x'; did you mean 'sharon-12"):
        select_experiments(["sharon-12x"])
