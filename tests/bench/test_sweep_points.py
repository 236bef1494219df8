"""Which ranks of a job the points of a sweep take: packed and spread, on equal and on unequal nodes."""

import pytest

from ridgeline.bench.pairs.pairs_options import ManyPairsOptions
from ridgeline.bench.sweep_points import doubling, evenly, sweep_points
from ridgeline.parallel.layout import Layout
from ridgeline.runtime.errors import ConfigError


def layout(*sizes):
    """A job whose nodes have these numbers of ranks, in order."""
    nodes = [node for node, size in enumerate(sizes) for _ in range(size)]
    local = [place for size in sizes for place in range(size)]
    return Layout(tuple(nodes), tuple(local), tuple(f"n{i}" for i in range(len(sizes))))


def points(job, **given):
    options = ManyPairsOptions(sweep=True, **given)
    return {(p.nodes, p.ranks_per_node): list(p.ranks) for p in sweep_points(job, options)}


def test_all_points_that_the_job_permits():
    assert doubling(1) == [1]
    assert doubling(6) == [1, 2, 4, 6]
    found = points(layout(4, 4, 4))
    assert list(found) == [(1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (3, 4)]
    assert found[2, 2] == [0, 1, 4, 5]
    assert found[3, 1] == [0, 4, 8]
    assert found[3, 4] == list(range(12))


def test_spread_takes_nodes_and_ranks_at_equal_distances():
    assert [evenly(n, "abcdef") for n in (1, 2, 3, 6)] == [["a"], ["a", "d"], ["a", "c", "e"], list("abcdef")]
    found = points(layout(4, 4, 4, 4), placement="spread")
    assert found[2, 1] == [0, 8]
    assert found[2, 2] == [0, 2, 8, 10]
    assert found[4, 4] == list(range(16))


def test_only_nodes_with_so_many_ranks_count():
    found = points(layout(1, 3, 3))
    assert found[2, 3] == [1, 2, 3, 4, 5, 6]
    assert found[3, 1] == [0, 1, 4]
    assert (3, 2) not in found


def test_ranks_that_a_launcher_deals_out_in_turn():
    dealt = Layout((0, 1, 0, 1), (0, 0, 1, 1), ("a", "b"))
    assert points(dealt) == {(1, 2): [0, 2], (2, 1): [0, 1], (2, 2): [0, 1, 2, 3]}
    part = dealt.part([1, 2, 3])
    assert (part.node_of_rank, part.local_rank, part.hosts) == ((0, 1, 0), (0, 0, 1), ("b", "a"))


def test_named_numbers():
    job = layout(4, 4, 4)
    assert list(points(job, nodes=(3, 2), per_node=(3,))) == [(2, 3), (3, 3)]
    for given, words in (
        ({"nodes": (4,)}, "--nodes 4: the job has 3 nodes at most"),
        ({"per_node": (5,)}, "--per-node 5: the job has 4 ranks at most"),
        ({"nodes": (1,), "per_node": (1,)}, "--sweep has no point with two ranks"),
    ):
        with pytest.raises(ConfigError, match=words):
            points(job, **given)
    with pytest.raises(ConfigError, match="--nodes requires --sweep"):
        ManyPairsOptions(nodes=(2,))


def test_ten_thousand_nodes_are_planned_quickly():
    found = points(layout(*[8] * 10_000), placement="spread")
    assert len(found[10_000, 8]) == 80_000
    assert len(found) == 15 * 4 - 1
