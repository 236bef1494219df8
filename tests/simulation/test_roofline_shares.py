"""The arithmetic of the roofline on typed numbers, and the words of reports about limits."""

import math

import pytest

from ridgeline.models.contract import StepTimes, Work
from ridgeline.simulation.print_report import limit_rows, limit_text
from ridgeline.simulation.roofline import Ceilings, RooflineWork, compare_with_limit, exchange_share

LIMITS = {
    "best": 50e9,
    "peak": {"float64": 200e9, "float32": 400e9},
    "caches": [
        {"level": 2, "capacity": 2e6, "rate": 400e9},
        {"level": 3, "capacity": 32e6, "rate": 100e9},
    ],
    "network": {"message": 65536, "rate": 10e9},
    "ages": {"peak": 0.0, "caches": 5400.0, "network": 20.0},
    "others_share": {"peak": 0.0, "caches": 0.25, "network": 0.01},
}
CEILINGS = Ceilings.of(LIMITS)
MESSAGES = Work(1, 1.0, 1.0, bytes_exchanged=2e9, messages=100.0)


@pytest.mark.parametrize(
    ("work", "seconds", "limit"),
    [
        (RooflineWork(100e9, 100e9), 2.0, "memory"),  # 1 FLOP a byte: left of the ridge at 4
        (RooflineWork(800e9, 100e9), 4.0, "peak"),  # 8 FLOP a byte: right of it
        (
            RooflineWork(800e9, 100e9, dtype="float32"),
            2.0,
            "memory",
        ),  # the ridge is at 8 there: both bound it
        (RooflineWork(0.0, 100e9), 2.0, "memory"),
        (RooflineWork(100e9, 0.0), 0.5, "peak"),
        (RooflineWork(10e9, 100e9, working_set=32e6), 1.0, "L3 cache"),
        (RooflineWork(10e9, 100e9, working_set=32e6 + 1), 2.0, "memory"),
        (RooflineWork(10e9, 100e9, working_set=1e6), 0.25, "L2 cache"),
        (RooflineWork(100e9, 100e9, working_set=1e6), 0.5, "peak"),
    ],
)
def test_the_least_seconds_of_some_work(work, seconds, limit):
    found = CEILINGS.least_seconds(work)
    assert found is not None
    assert (found[0], found[1] if work.dtype == "float64" else limit) == (pytest.approx(seconds), limit)


def test_no_work_has_no_limit_and_unknown_limits_give_none():
    assert CEILINGS.least_seconds(RooflineWork(0.0, 0.0)) is None
    assert Ceilings({"float64": 1e9}, 0.0).least_seconds(RooflineWork(1.0, 1.0)) is None
    assert compare_with_limit(1.0, None) == {"least_seconds": None, "limit": "", "share_of_limit": None}
    assert compare_with_limit(0.0, (0.5, "peak"))["share_of_limit"] is None


def test_a_cache_that_is_slower_than_memory_is_no_limit():
    assert Ceilings({}, 50e9, (("L3 cache", 1e9, 40e9),)).bandwidth(1.0) == (50e9, "memory")


def test_limits_of_older_reports_know_memory_alone():
    assert Ceilings.of({"best": 50e9, "best_name": "triad"}) == Ceilings({}, 50e9)
    assert Ceilings.of({"best": 50e9}).least_seconds(RooflineWork(1e30, 50e9, 1.0)) == (1.0, "memory")
    assert Ceilings.of({}).memory == 0.0


def test_the_share_of_the_network():
    step = StepTimes(3.0, {"row": 0.3, "column": 0.2, "fft": 2.5})
    found = exchange_share(MESSAGES, step, ("row", "column"), LIMITS)
    assert found == {"seconds": 0.5, "least_seconds": pytest.approx(0.2), "share": pytest.approx(0.4)}


@pytest.mark.parametrize(
    ("step", "limits"),
    [
        (None, LIMITS),
        (StepTimes(1.0, {"fft": 1.0}), LIMITS),
        (StepTimes(1.0, {"row": 1.0}), {"best": 50e9}),
        (StepTimes(1.0, {"row": 1.0}), {"best": 50e9, "network": {"message": 8, "rate": 0.0}}),
    ],
)
def test_no_share_of_the_network_without_time_or_rate(step, limits):
    assert exchange_share(MESSAGES, step, ("row", "column"), limits)["share"] is None


def test_the_report_names_the_limits_and_their_ages():
    report = {"limits": LIMITS, "share_of_limit": 0.25, "limit": "peak", "exchange": {"share": 0.5}}
    assert limit_rows(report) == [
        ("limit (peak, float64)", "200 GFLOP/s"),
        ("limit (peak, float32)", "400 GFLOP/s"),
        ("limit (L2 cache), 1 h 30 min old, other processes used 25% of the node", "400 GB/s"),
        ("limit (L3 cache), 1 h 30 min old, other processes used 25% of the node", "100 GB/s"),
        ("limit (network, 65.54 kB messages), 0 h 0 min old", "10 GB/s"),
        ("fraction of a step's limit (peak)", "0.250"),
        ("exchange, fraction of the network bandwidth", "0.500"),
    ]
    assert limit_text(report) == "0.250 of the limit, the peak"
    assert limit_rows({"limits": {"best": 1e9}}) == []
    assert limit_text({"limit": ""}) == "no limit is known"


def test_infinite_working_sets_are_of_memory():
    assert CEILINGS.bandwidth(math.inf) == (50e9, "memory")
