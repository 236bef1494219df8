"""Shortest paths of Graph500 on every grid of 1 to 4 ranks, against SciPy's; the same distances, bit for bit."""

from itertools import product

import numpy as np
import pytest
from mpi4py import MPI
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from graph500_trees import SmallGraph
from graph_tools import bytes_held
from ridgeline.bench.graph500 import graph500_run
from ridgeline.bench.graph500 import shortest_paths as module
from ridgeline.bench.graph500.generator import candidates, choose_roots
from ridgeline.bench.graph500.graph500_memory import path_bytes
from ridgeline.bench.graph500.graph500_options import SEEDS, Graph500Options
from ridgeline.bench.graph500.shortest_paths import PathGraph, PathSearch, shortest_paths
from ridgeline.bench.graph500.validation import validate_sssp
from ridgeline.runtime.console import silent

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
# Shares of the edges at which vertices begin to pull, and to push again.
SWITCHES = {"as it is": None, "only push": (2.0, 2.0), "only pull": (-1.0, 0.0), "often": (1e-3, 0.2)}


COLUMNS = [columns for columns in RANKS if MPI.COMM_WORLD.size % columns == 0]
GRAPHS = [(5, 2), (8, 16), (10, 4)]  # scale, edge factor
CASES = [(*graph, columns) for graph, columns in product(GRAPHS, COLUMNS)]


@pytest.fixture(
    scope="module", params=CASES, ids=lambda case: "scale {}, factor {}, columns {}".format(*case)
)
def case(comm, request):
    return SmallGraph(comm, *request.param)


def distances_of_scipy(case, root):
    """Float64 distances of all vertices: of duplicates the least weight counts."""
    order = np.argsort(-case.weight, kind="stable")
    n = case.blocks.total
    least = np.full((n, n), np.inf)
    for a, b in ((case.start, case.end), (case.end, case.start)):
        np.minimum.at(least, (a[order], b[order]), case.weight[order])
    i, j = np.nonzero(np.isfinite(least))
    # An edge of weight 0 would be none in a sparse matrix.
    graph = coo_array((np.maximum(least[i, j], 1e-30), (i, j)), shape=(n, n))
    return dijkstra(graph.tocsr(), indices=root)


@pytest.mark.parametrize("switch", SWITCHES)
def test_distances_are_those_of_scipy(case, monkeypatch, switch):
    if SWITCHES[switch] is not None:
        monkeypatch.setattr(module, "PULL_SHARE", SWITCHES[switch][0])
        monkeypatch.setattr(module, "PUSH_SHARE", SWITCHES[switch][1])
    search = PathSearch(PathGraph(case.graph))
    for root in choose_roots(case.comm, case.blocks, case.inputs.joined(), 3, SEEDS):
        parents, distances = shortest_paths(search, root)
        assert validate_sssp(case.inputs, root, parents, distances).failures == ()
        found, expected = case.whole(distances), distances_of_scipy(case, root)
        assert np.array_equal(np.isinf(found), np.isinf(expected))
        reached = np.isfinite(expected)
        assert np.allclose(found[reached], expected[reached], rtol=1e-6, atol=0)


def test_distances_do_not_depend_on_ranks(case):
    """One rank alone, with the whole edge list, finds the same bits."""
    alone = SmallGraph(MPI.COMM_SELF, case.edges.scale, case.edges.total >> case.edges.scale)
    _, together = shortest_paths(PathSearch(PathGraph(case.graph)), case.root)
    _, expected = shortest_paths(PathSearch(PathGraph(alone.graph)), case.root)
    assert np.array_equal(case.whole(together), expected)


def test_the_bytes_of_the_arrays_are_those_of_the_formula(case):
    graph = case.graph
    grid, owned = graph.grid, graph.vertices.count(case.comm.rank)
    unused = 28 * (graph.stride - graph.rows)  # lists and results of rows end with the last row
    counted = path_bytes(grid.rows, grid.columns, graph.stride, owned) - unused
    assert bytes_held(vars(PathSearch(PathGraph(graph))).values()) == pytest.approx(counted, abs=64)


def test_a_search_learns_nothing_from_the_one_before(case):
    search = PathSearch(PathGraph(case.graph))
    expected = [values.copy() for values in shortest_paths(search, case.root)]
    for distance, parent, mark in (search.state, search.row_state):
        distance.fill(0), parent.fill(1), mark.fill(7)
    for found, values in zip(shortest_paths(search, case.root), expected):
        np.testing.assert_array_equal(found, values)


def test_a_root_without_neighbours_reaches_itself_alone(case):
    isolated = np.flatnonzero(~np.isin(np.arange(case.blocks.total), [case.start, case.end]))
    if isolated.size:
        parents, _ = shortest_paths(PathSearch(PathGraph(case.graph)), int(isolated[0]))
        assert np.flatnonzero(case.whole(parents) >= 0).tolist() in ([], [isolated[0]])


def test_roots_have_neighbours_and_do_not_depend_on_ranks(case):
    joined = np.zeros(case.blocks.total, bool)
    apart = case.start != case.end
    joined[case.start[apart]] = joined[case.end[apart]] = True
    expected = list(dict.fromkeys(v for v in candidates(SEEDS, case.blocks.total) if joined[v]))
    roots = choose_roots(case.comm, case.blocks, case.inputs.joined(), 64, SEEDS)
    assert roots == expected[:64]


@pytest.mark.parametrize("columns", COLUMNS)
def test_both_kernels_of_a_run_search_on_one_grid(comm, monkeypatch, columns):
    monkeypatch.setattr(graph500_run, "choose_columns", lambda ranks: columns)
    whole = graph500_run.Graph500Run(comm, Graph500Options(scale=7, roots=2), silent())
    assert (whole.graph.grid.rows, whole.graph.grid.columns) == (comm.size // columns, columns)
    searches = whole.search_all()
    assert [one.kernel for one in searches] == ["bfs", "bfs", "sssp", "sssp"]
    assert [one.failures for one in searches] == [()] * 4
    assert [one.edges for one in searches[:2]] == [one.edges for one in searches[2:]]
