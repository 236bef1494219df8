"""Formulas and choices of the collective benchmarks: plain numbers, no communication."""

import pytest

from ridgeline.bench.collectives.collective_benchmark import (
    alltoall_bandwidth,
    bounded,
    network_bandwidth,
)
from ridgeline.bench.collectives.collective_calls import COLLECTIVES
from ridgeline.bench.sweep_points import choose_ranks
from ridgeline.parallel.layout import Layout


def test_bandwidth_of_an_all_to_all():
    assert alltoall_bandwidth(4, 1000, 1e-3) == 12e6  # 12 messages
    assert alltoall_bandwidth(2, 2**20, 2.0) == 2**20
    # Fig. 4 of MPI on Aurora: 9658 nodes, 16 processes each, 228.92 TB/s
    ranks = 9658 * 16
    seconds = ranks * (ranks - 1) * 65536 / 228.92e12
    assert alltoall_bandwidth(ranks, 65536, seconds) == pytest.approx(228.92e12)


def test_bandwidth_between_nodes_leaves_out_neighbours():
    assert network_bandwidth([4], 1000, 1.0) == 0
    assert network_bandwidth([1, 1, 1], 1000, 1.0) == alltoall_bandwidth(3, 1000, 1.0)
    assert network_bandwidth([2, 2], 1000, 2.0) == 8 * 1000 / 2  # 12 messages, 4 of them inside a node
    assert network_bandwidth([2, 1], 1.0, 1.0) == 4


def test_subsets_fill_nodes_or_spread_over_them():
    layout = Layout((0, 0, 0, 1, 1, 2), (0, 1, 2, 0, 1, 0), ("a", "b", "c"))
    assert [choose_ranks(layout, n, "packed") for n in (2, 4)] == [[0, 1], [0, 1, 2, 3]]
    assert [choose_ranks(layout, n, "spread") for n in (2, 3, 5)] == [[0, 3], [0, 3, 5], [0, 1, 3, 4, 5]]
    mixed = Layout((0, 1, 0, 1), (0, 0, 1, 1), ("a", "b"))
    assert choose_ranks(mixed, 2, "packed") == [0, 2]
    assert choose_ranks(mixed, 2, "spread") == [0, 1]


def test_iterations_that_fit_into_seconds():
    assert bounded(1000, 100, 1.0, 1e-4) == (1000, 100)
    assert bounded(1000, 100, 1.0, 0.01) == (100, 10)
    assert bounded(1000, 100, 1.0, 30.0) == (1, 0)
    assert bounded(1000, 100, 1.0, 0.0) == (1000, 100)


def test_buffers_of_a_rank():
    found = {
        name: (kind.bytes_per_rank(8, 100, False), kind.bytes_per_rank(8, 100, True))
        for name, kind in COLLECTIVES.items()
    }
    assert found == {
        "alltoall": (1600, 800),
        "allgather": (900, 800),
        "allreduce": (200, 100),
        "reduce": (200, 100),
        "bcast": (100, 100),
        "gather": (900, 800),
        "scatter": (900, 100),
        "neighbour-alltoall": (600, 300),
        "neighbour-allgather": (400, 300),
        "barrier": (0, 0),
    }
