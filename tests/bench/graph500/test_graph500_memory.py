"""What Graph500 refuses, and how it grows in studies."""

from itertools import pairwise

import pytest
from mpi4py import MPI

from ridgeline.bench.graph500.graph import choose_columns
from ridgeline.bench.graph500.graph500_memory import (
    bytes_per_rank,
    path_bytes,
    path_message_bytes,
    require_scale,
    search_bytes,
)
from ridgeline.bench.graph500.graph500_options import Graph500Options, VerticesPerRank, scaling_figures
from ridgeline.runtime.errors import ConfigError

LAW = VerticesPerRank("scale")


def test_a_scale_that_does_not_fit_is_refused_with_its_bytes_and_what_fits(monkeypatch):
    fits = bytes_per_rank(20, 1, 16, True)
    monkeypatch.setattr("ridgeline.bench.node_memory.memory_available", lambda: fits)
    require_scale(MPI.COMM_SELF, Graph500Options(scale=20))
    with pytest.raises(ConfigError) as refused:
        require_scale(MPI.COMM_SELF, Graph500Options(scale=21))
    words = str(refused.value)
    assert f"{bytes_per_rank(21, 1, 16, True) / 2**30:.1f} GiB" in words
    assert "33554432 edges" in words
    assert "Use --scale 20, which fits" in words


@pytest.mark.parametrize("ranks", [1, 2, 64])
def test_bytes_grow_with_scale_and_weights(ranks):
    found = [bytes_per_rank(scale, ranks, 16, True) for scale in range(16, 31)]
    assert all(1.5 < b / a <= 2.01 for a, b in pairwise(found))
    assert bytes_per_rank(20, ranks, 16, False) < bytes_per_rank(20, ranks, 16, True)


@pytest.mark.parametrize(
    "wrong", [{"scale": 0}, {"scale": 32}, {"edge_factor": 0}, {"roots": 0}, {"seeds": (-1, 3)}]
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong)).replace("_", "-")):
        Graph500Options(**wrong)


def test_weak_scaling_adds_log2_of_the_growth():
    assert LAW.weak({"scale": 20}, 1, 1) == {}
    assert LAW.weak({"scale": 20}, 1, 8) == {"scale": 23}
    assert LAW.weak({"scale": 20}, 3, 12) == {"scale": 22}
    assert LAW.weak({"scale": 20}, 4, 2) == {"scale": 19}
    assert LAW.strong({"scale": 20}, 1, 8) == {}


@pytest.mark.parametrize(("first", "ranks"), [(1, 3), (2, 3), (2, 5), (1, 6)])
def test_weak_scaling_refuses_other_growth(first, ranks):
    with pytest.raises(ConfigError, match="power of two"):
        LAW.weak({"scale": 20}, first, ranks)


def test_figures_are_those_of_a_mean_search():
    summary = {"time": {"mean": 0.5}, "edges": {"mean": 100.0}}
    (found,) = scaling_figures({"extra": {"summaries": {"bfs": summary}}})
    assert (found.seconds, found.points, found.labels) == (0.5, 100.0, {"kernel": "bfs"})


@pytest.mark.parametrize(
    ("ranks", "columns"), [(1, 1), (4, 1), (32, 1), (37, 1), (48, 3), (64, 4), (1000, 10), (1024, 16)]
)
def test_columns_divide_the_ranks(ranks, columns):
    assert choose_columns(ranks) == columns


def test_bytes_of_1024_ranks_grow_as_the_root_of_the_ranks():
    """At scale 31 a rank owns 2^21 vertices: those of a process row are 16 times as many, of a column 64 times."""
    owned = 1 << 21
    row, column, own = 16 * owned, 64 * owned, owned
    counted = (8 + 4 + 4 + 4 + 4 + 3 / 8) * row + (4 + 4 + 4 / 8) * column + (8 + 8 + 1 / 2 + 16) * own
    assert search_bytes(64, 16, owned, owned) == counted
    assert search_bytes(1024, 1, owned, owned) > 7 * counted
    paths = 9 * (row + column) + 4 * column + (28 + 16) * own
    assert path_bytes(64, 16, owned, owned) == paths
    assert path_bytes(1024, 1, owned, owned) > 8 * paths
    # Of 4 times the ranks with as many vertices each.
    assert search_bytes(128, 32, owned, owned) < 2.05 * counted
    assert path_bytes(128, 32, owned, owned) < 2 * paths
    assert bytes_per_rank(33, 4096, 16, True) < 2 * bytes_per_rank(31, 1024, 16, True)


def test_bytes_of_messages_of_paths():
    assert path_message_bytes(1, 1, 1 << 20) == 0
    assert path_message_bytes(4, 1, 1 << 20) == 8 * 4 << 20
    assert path_message_bytes(1, 4, 1 << 20) == 2 * 12 * 3 << 20
    assert path_message_bytes(64, 16, 1 << 21) == 8 * 64 << 21
