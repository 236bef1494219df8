"""The order of dense systems over ranks, and what a study reads of a job."""

import pytest

from ridgeline.bench.hpl.declaration import SystemOrder, figures
from ridgeline.bench.hpl.record import operations
from ridgeline.runtime.errors import ConfigError

LAW = SystemOrder()


def test_weak_scaling_keeps_the_memory_of_a_rank():
    grown = [LAW.weak({"n": "8000"}, 1, ranks).get("n") for ranks in (1, 2, 4, 16)]
    assert grown == [None, "11313", "16000", "32000"]
    assert LAW.weak({"n": "8000"}, 4, 1) == {"n": "4000"}


def test_strong_scaling_keeps_the_order():
    assert LAW.strong({"n": "8000"}, 1, 4) == {}


@pytest.mark.parametrize("n", ["auto", "0", "-3", "many"])
def test_a_study_needs_an_order(n):
    for scale in (LAW.weak, LAW.strong):
        with pytest.raises(ConfigError, match=f"not n = {n}"):
            scale({"n": n}, 1, 2)


def test_figures_count_operations():
    solve = {
        "n": 100,
        "seconds": 0.5,
        "flops_per_second": 2e6,
        "storage": "float16",
        "phases": {"factor": 0.4},
    }
    (found,) = figures({"extra": {"solves": [solve]}})
    assert found.points == operations(100)
    assert (found.seconds, found.flops, found.fraction) == (0.5, 2e6, None)
    assert (found.labels, found.phases) == ({"storage": "float16"}, {"factor": 0.4})
