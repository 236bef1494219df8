"""Kernel 1 of Graph500 against SciPy's matrix of the same edges, and kernel 2 against SciPy's depths."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import shortest_path

from graph_tools import NAMES, depths, edge_list, gathered, matrix
from ridgeline.bench.graph500 import construct_kernels, generator_kernels, search, search_kernels
from ridgeline.bench.graph500.construct import construct
from ridgeline.bench.graph500.reference import breadth_first_reference
from ridgeline.bench.graph500.search import SearchWorkspace, breadth_first
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import in_turn_per_node

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (2, 3)


@pytest.fixture(scope="module", autouse=True)
def compiled(comm):
    """No two ranks compile at once."""
    wanted = [*generator_kernels.kernels(), *construct_kernels.kernels(), *search_kernels.kernels()]
    in_turn_per_node(comm, lambda: compile_kernels(wanted))


@pytest.fixture(scope="module", params=NAMES)
def case(comm, request):
    """A list's graph and its matrix, the same on all ranks."""
    edges = edge_list(comm, request.param)
    return construct(comm, edges), matrix(comm, edges)


def roots(wanted):
    """A few vertices with neighbours, that with the most among them, and an isolated one if there is one."""
    degree = np.diff(wanted.indptr)
    return {
        int(root)
        for root in (degree.argmax(), degree.argmin(), *np.flatnonzero(degree)[:: wanted.shape[0] // 4 + 1])
    }


def true_depths(wanted, root):
    depth = shortest_path(wanted, unweighted=True, indices=root)
    return np.where(np.isinf(depth), -1, depth)


def test_rows_are_those_of_the_matrix(comm, case):
    graph, wanted = case
    row = np.repeat(np.arange(graph.rows), np.diff(graph.offsets))
    start = gathered(comm, graph.vertex_of_row[row])
    end = gathered(comm, graph.vertex_of_id[graph.neighbours])
    weight = gathered(comm, graph.weights).astype(float) + 1
    found = scipy.sparse.coo_array((weight, (start, end)), wanted.shape)
    assert found.nnz == wanted.nnz, "an edge is there twice"
    assert abs(found.tocsr() - wanted).sum() == 0


def test_rows_and_neighbours_are_in_the_order_of_degrees(comm, case):
    graph, _ = case
    place = graph.neighbours % graph.stride * comm.size + graph.neighbours // graph.stride
    inside = np.ones(place.size, bool)
    inside[graph.offsets[:-1]] = False
    assert (np.diff(place.astype(int), prepend=0)[inside] > 0).all()
    np.testing.assert_array_equal(graph.heads[: graph.rows], graph.neighbours[graph.offsets[:-1]])
    np.testing.assert_array_equal(
        graph.row_of_vertex[graph.vertex_of_row - graph.vertices.first(comm.rank)], np.arange(graph.rows)
    )
    assert (graph.row_of_vertex >= 0).sum() == graph.rows
    np.testing.assert_array_equal(graph.vertex_of_id[graph.first_id :][: graph.rows], graph.vertex_of_row)


# The thresholds decide between directions: never bottom-up, always, and as measured.
@pytest.mark.parametrize(("alpha", "beta"), [(0, 1), (10**9, 10**9), (search.ALPHA, search.BETA), (10**9, 1)])
def test_depths_are_scipys(comm, case, monkeypatch, alpha, beta):
    graph, wanted = case
    monkeypatch.setattr(search, "ALPHA", alpha)
    monkeypatch.setattr(search, "BETA", beta)
    workspace = SearchWorkspace(graph)
    for root in roots(wanted):
        parents = gathered(comm, breadth_first(graph, root, workspace))
        np.testing.assert_array_equal(depths(parents, root), true_depths(wanted, root))
        children = np.flatnonzero((parents >= 0) & (np.arange(parents.size) != root))
        assert parents[root] == root
        assert all(wanted[[child], [parents[child]]] for child in children), "a parent is no neighbour"


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("alpha", [0, 2, 15, 10**9])
def test_directions_and_threads_give_the_tree_of_the_plain_search(comm, case, monkeypatch, alpha, threads):
    graph, wanted = case
    monkeypatch.setattr(search, "ALPHA", alpha)
    workspace = SearchWorkspace(graph)
    workspace.counts = np.empty((threads, 8), np.int64)  # so many parts, whatever threads there are
    for root in roots(wanted):
        expected = breadth_first_reference(graph, root)
        np.testing.assert_array_equal(breadth_first(graph, root, workspace), expected)


def test_the_plain_search_has_scipys_depths(comm, case):
    graph, wanted = case
    for root in roots(wanted):
        parents = gathered(comm, breadth_first_reference(graph, root))
        np.testing.assert_array_equal(depths(parents, root), true_depths(wanted, root))


def test_a_search_learns_nothing_from_the_one_before(comm, case):
    graph, wanted = case
    used = SearchWorkspace(graph)
    for root in roots(wanted):
        again = breadth_first(graph, root, used).copy()
        used.frontier.fill(2**64 - 1), used.seen.fill(2**64 - 1), used.parents.fill(7), used.rows.fill(3)
        np.testing.assert_array_equal(again, breadth_first(graph, root, SearchWorkspace(graph)))


def test_levels_cover_what_the_search_reaches(comm, case):
    graph, wanted = case
    workspace = SearchWorkspace(graph)
    for root in roots(wanted):
        depth = true_depths(wanted, root)
        breadth_first(graph, root, workspace)
        sizes = [level.frontier for level in workspace.levels]
        expected = (
            [] if np.diff(wanted.indptr)[root] == 0 else list(np.bincount(depth[depth >= 0].astype(int)))
        )
        assert sizes == expected
