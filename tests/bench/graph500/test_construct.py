"""Kernel 1 of Graph500 on one rank: what it refuses, and the memory that it takes. tests/ranks has the graphs."""

import tracemalloc

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.graph500 import construct as construct_module
from ridgeline.bench.graph500.construct import construct, memory_needed
from ridgeline.bench.graph500.generator import EdgeList, generate
from ridgeline.runtime.errors import ConfigError


@pytest.mark.parametrize("weights", [pytest.param(True, marks=pytest.mark.full), False])
def test_memory_needed_is_what_is_allocated(weights):
    construct(MPI.COMM_SELF, generate(MPI.COMM_SELF, 1, weights=weights))  # compiles
    tracemalloc.start()
    construct(MPI.COMM_SELF, generate(MPI.COMM_SELF, 15, weights=weights))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.9 * memory_needed(15, 1, weights=weights) < peak < memory_needed(15, 1, weights=weights)


def test_memory_needed_of_a_rank_falls_until_its_numbers_of_all_vertices_outweigh_the_edges():
    needed = [memory_needed(26, ranks) for ranks in (2, 4, 8, 1024)]
    assert needed == sorted(needed, reverse=True)
    assert needed[-1] > 8 << 26


def test_a_scale_beyond_numbers_of_32_bits_is_refused():
    nothing = np.empty(0, np.int64)
    with pytest.raises(ConfigError, match=r"^scale = 32: .* at most 31, .* Use a smaller scale\.$"):
        construct(MPI.COMM_SELF, EdgeList(32, 0, 0, nothing, nothing))


def test_a_list_without_weights_makes_the_same_rows():
    bare, full = (
        construct(MPI.COMM_SELF, generate(MPI.COMM_SELF, 8, weights=weights)) for weights in (False, True)
    )
    assert bare.weights is None
    np.testing.assert_array_equal(bare.neighbours, full.neighbours)


def test_buckets_sorted_in_parts_make_the_same_rows(monkeypatch):
    edges = generate(MPI.COMM_SELF, 9, weights=True)
    whole = construct(MPI.COMM_SELF, edges)
    monkeypatch.setattr(construct_module, "_PART", 64)
    monkeypatch.setattr(construct_module, "_BUCKETS", 2)
    parts = construct(MPI.COMM_SELF, edges)
    np.testing.assert_array_equal(parts.offsets, whole.offsets)
    np.testing.assert_array_equal(parts.neighbours, whole.neighbours)
    np.testing.assert_array_equal(parts.weights, whole.weights)
