"""Limits of benchmarks of the whole system: which figure each binds, and that those beyond it are blamed."""

import numpy as np
import pytest

from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.system_screening import system_figures
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity

RATES = {"size": "B", "bandwidth": "MB/s", "message_rate": "messages/s"}
RESULTS = [
    {
        "benchmark": "alltoall",
        "columns": {"ranks": "ranks", "size": "B", "seconds": "mean us", "bandwidth": "all MB/s"},
        "rows": [
            {"ranks": 8, "size": 1, "seconds": 5e-6, "bandwidth": 1e7},
            {"ranks": 8, "size": 65536, "seconds": 4e-4, "bandwidth": 9e9},
        ],
    },
    {
        "benchmark": "multi-bandwidth",
        "columns": RATES,
        "rows": [
            {"size": 8, "bandwidth": 1.6e7, "message_rate": 2e6},
            {"size": 2**20, "bandwidth": 2e10, "message_rate": 2e4},
        ],
    },
    {
        "benchmark": "multi-latency",
        "columns": {"size": "B", "seconds": "us"},
        "rows": [{"size": 8, "seconds": 3e-6}, {"size": 1024, "seconds": 5e-6}],
    },
    {
        "benchmark": "congestion",
        "columns": {"block": "tests", "title": "name", "mean": "avg", "percentile": "99%", "unit": "units"},
        "rows": [
            {"block": "isolated", "test": "latency", "mean": 2e-6, "percentile": 4e-6},
            {"block": "congested", "test": "latency", "mean": 6e-6, "percentile": 4e-5},
            {"block": "impact", "test": "latency", "mean": 3.0, "percentile": 10.0},
            {"block": "impact", "test": "bandwidth", "mean": 1.2, "percentile": None},
        ],
    },
]
FIGURES = {
    "alltoall seconds": ("s", 5e-6),
    "alltoall bandwidth": ("B/s", 9e9),
    "multi-bandwidth bandwidth": ("B/s", 2e10),
    "multi-bandwidth message_rate": ("messages/s", 2e6),
    "multi-latency seconds": ("s", 3e-6),
    "congestion impact": ("1", 3.0),
    "congestion impact percentile": ("1", 10.0),
}


def system() -> Measurements:
    measurements = Measurements(["a", "b"], node_of_rank=[0, 1], system=RESULTS)
    measurements.node_quantities = [NodeQuantity("stream", "B/s", True, np.full((2, 3), 1e10))]
    return measurements


def test_figures_of_every_benchmark():
    assert {f.name: (f.unit, f.value) for f in system_figures(RESULTS)} == FIGURES


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_beyond_its_limit_is_blamed_on_the_system_and_one_within_is_not(name):
    unit, value = FIGURES[name]
    worse, better = (1.25, 0.8) if unit in ("B/s", "messages/s") else (0.8, 1.25)
    within = screen(system(), Thresholds(limits={name: better * value}))
    assert (within.suspects, within.notes, within.exit_code) == ([], [], 0)
    beyond = screen(system(), Thresholds(limits={name: worse * value}))
    (suspect,) = beyond.suspects
    assert (suspect.kind, suspect.quantities, beyond.exit_code) == ("system", [name], 1)
    assert suspect.slowdown == pytest.approx(0.25)
    assert suspect.reasons[0].startswith(f"{name}: ")
    assert beyond.good_nodes() == ["a", "b"]  # no node of them is known to be at fault


def test_a_limit_without_a_figure_is_said_with_the_names_there_are():
    verdict = screen(system(), Thresholds(limits={"alltoall bandwith": 1.0}))
    assert len(verdict.notes) == 1
    assert all(name in verdict.notes[0] for name in ("'alltoall bandwith'", "stream", *FIGURES))


def test_a_validation_of_the_system_alone_has_measured_something():
    verdict = screen(Measurements(["a", "b"], node_of_rank=[0, 1], system=RESULTS))
    assert verdict.unmeasured == []
