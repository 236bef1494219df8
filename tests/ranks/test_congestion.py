"""Congestion on few ranks: every pattern moves what it says, tests and background traffic begin and end together."""

import numpy as np
import pytest
from mpi4py import MPI

from bench_tools import measure
from congestion_patterns import check_pattern, check_rings_and_sums
from ridgeline.bench.congestion import network_tests
from ridgeline.bench.congestion.background import (
    PATTERNS,
    send_until_over,
)
from ridgeline.bench.congestion.congestion_figures import summarise
from ridgeline.bench.congestion.congestion_options import DEFAULT_KINDS
from ridgeline.bench.congestion.network_tests import TESTS
from ridgeline.parallel.communicator import wait_asleep
from ridgeline.runtime.errors import ConfigError, VerificationError

FEW = {"seconds": 0.2, "rings": 2, "iterations": 3}


@pytest.mark.parametrize("kind", PATTERNS)
def test_patterns_verify_what_they_move(comm, kind):
    check_pattern(comm, kind, "host")


def test_background_traffic_stops_when_the_tests_end(comm):
    """Rank 0 tests; the others send background traffic, and all of them do as many steps."""
    lane = comm.Split(int(comm.rank > 0))
    if comm.rank == 0:
        for _ in range(2 * len(PATTERNS)):
            wait_asleep(comm.Ibarrier())
    else:
        for kind in PATTERNS:
            pattern = PATTERNS[kind](lane, range(1, comm.size))
            traffic = send_until_over(comm, lane, pattern)
            pattern.verify()
            pattern.free()
            assert traffic.steps >= 1
            assert lane.allreduce(traffic.steps, MPI.MIN) == lane.allreduce(traffic.steps, MPI.MAX)
            assert traffic.bytes == traffic.steps * pattern.bytes
            assert traffic.seconds > 0
    lane.Free()


def test_rings_and_sums_verify(comm):
    check_rings_and_sums(comm, "host")


def test_summary_of_all_ranks(comm):
    test = TESTS[2]
    rounds = [np.array([1.0, 3.0]) + comm.rank, np.array([4.0]) + comm.rank]
    found = summarise(comm, test, rounds)
    assert found.mean == pytest.approx(3.0 + (comm.size - 1) / 2)  # rings of mean 2 and 4
    assert (found.least, found.largest) == (1.0, 3.0 + comm.size)
    assert (found.samples, found.rings) == (3 * comm.size, 2)
    bandwidth = summarise(comm, TESTS[1], [np.array([1.0, 3.0] * 50)])
    assert bandwidth.mean == 2 * 8 * 131072 / 2.0  # of the mean time
    assert bandwidth.percentile == pytest.approx(2 * 8 * 131072 / 3.0)


def test_measurement(comm):
    if comm.size < 3:
        with pytest.raises(ConfigError, match=f"requires at least 3 ranks, .* {comm.size}. Start more"):
            measure("congestion", comm, **FEW)
        return
    result = measure("congestion", comm, **FEW)
    rows = result.rows
    assert [row["block"] for row in rows] == ["isolated"] * 3 + ["congested"] * 3 + ["impact"] * 3
    for row in rows[:6]:
        assert 0 < row["least"] <= row["mean"] <= row["largest"]
        assert row["rings"] in (1, 2)
        assert row["samples"] <= 2 * 3 * 2
    assert all(row["mean"] > 0 for row in rows[6:])
    assert comm.bcast(rows) == rows
    kinds = list(result.extra["background_nodes"])
    assert kinds == ["all-to-all"]
    assert all(rate > 0 for rate in result.extra["traffic"]["all-to-all"].values())
    notes = " ".join(result.notes)
    assert "every rank counts as a node" in notes
    assert "too few nodes for background traffic of the kinds incast, put-incast, get-incast" in notes
    assert ("exchanges with itself" in notes) == (comm.size == 3)
    if comm.size == 4:
        result = measure("congestion", comm, **FEW, natural_ring=True)
        names = [row["test"] for row in result.rows if row["block"] == "impact"]
        assert names == [
            "ring-latency", "ring-bandwidth", "allreduce", "natural-ring-latency", "natural-ring-bandwidth",
        ]  # fmt: skip
        assert result.rows[3]["title"] == "NR two-sided lat (8 B)"
        assert all(row["mean"] > 0 for row in result.rows)
        for kind in (*DEFAULT_KINDS[1:], "broadcast"):
            result = measure("congestion", comm, **FEW, kinds=[kind], seed=3, ranks_per_node=1)
            assert all(rate > 0 for rate in result.extra["traffic"][kind].values())


def test_wrong_data_on_one_rank_is_an_error_on_all(comm, monkeypatch):
    if comm.size < 3:
        return

    def check(arrived, source, target, sequence):
        raise VerificationError(f"rank {target} has wrong data")

    # Seed 0: one of the testers alone finds something wrong.
    tester = measure("congestion", comm, **FEW).extra["test_ranks"][0][1]
    if comm.rank == tester:
        monkeypatch.setattr(network_tests, "check", check)
    with pytest.raises(VerificationError, match=f"rank {tester} has wrong data"):
        measure("congestion", comm, **FEW)


@pytest.mark.parametrize("option", [{"seconds": 0.0}, {"rings": 0}, {"iterations": 0}, {"ranks_per_node": 0}])
def test_options_out_of_range(comm, option):
    with pytest.raises(ConfigError):
        measure("congestion", comm, **option)
