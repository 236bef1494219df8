"""Kernel 1 of Graph500 against SciPy's matrix of the same edges, and kernel 2 against SciPy's depths."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse
from mpi4py import MPI
from scipy.sparse.csgraph import shortest_path

from graph_tools import NAMES, bytes_held, depths, edge_list, gathered, matrix
from ridgeline.bench.graph500 import construct_kernels, generator, search, search_kernels, validation
from ridgeline.bench.graph500.construct import construct
from ridgeline.bench.graph500.graph500_memory import search_bytes
from ridgeline.bench.graph500.input_edges import InputEdges
from ridgeline.bench.graph500.reference import breadth_first_reference
from ridgeline.bench.graph500.search import SearchWorkspace, breadth_first
from ridgeline.bench.graph500.validation import validate_bfs
from ridgeline.jit.kernel import compile_kernels
from ridgeline.parallel.communicator import compile_on_nodes

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
COLUMNS = [columns for columns in RANKS if MPI.COMM_WORLD.size % columns == 0]
FEW = ("star", "path", "two components", "no edges", "Kronecker 7")  # on more columns than one
CASES = [(name, columns) for name, columns in product(NAMES, COLUMNS) if columns == 1 or name in FEW]


@pytest.fixture(scope="module", autouse=True)
def compiled(comm):
    """No two ranks compile at once."""
    parts = generator, construct_kernels, search_kernels, validation
    wanted = [one for part in parts for one in part.kernels()]
    compile_on_nodes(comm, lambda: compile_kernels(wanted))


@pytest.fixture(scope="module", params=CASES, ids=lambda param: f"{param[0]}, {param[1]}")
def case(comm, request):
    """A list's graph on a grid of so many columns and its matrix, the same on all ranks."""
    name, columns = request.param
    edges = edge_list(comm, name)
    return construct(comm, edges, columns), matrix(comm, edges)


def vertices_of(graph, comm):
    """The vertices of all rows of a process row, or of a process column."""
    numbers = np.full(graph.stride, -1)
    numbers[: graph.rows] = graph.vertex_of_row
    return gathered(comm, numbers)


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
    start = np.repeat(vertices_of(graph, graph.grid.row_comm), np.diff(graph.offsets))
    end = vertices_of(graph, graph.grid.column_comm)[graph.neighbours]
    start, end = gathered(comm, start), gathered(comm, end)
    weight = gathered(comm, graph.weights).astype(float) + 1
    found = scipy.sparse.coo_array((weight, (start, end)), wanted.shape)
    assert found.nnz == wanted.nnz, "an edge is there twice"
    assert abs(found.tocsr() - wanted).sum() == 0
    degree = np.diff(wanted.indptr)[graph.vertex_of_row]
    np.testing.assert_array_equal(np.diff(graph.own_offsets)[: graph.rows], degree)


def test_rows_and_neighbours_are_in_the_order_of_degrees(comm, case):
    graph, _ = case
    place = graph.neighbours % graph.stride * graph.grid.rows + graph.neighbours // graph.stride
    inside = np.ones(place.size, bool)
    lengths = np.diff(graph.offsets)
    begins = graph.offsets[:-1][lengths > 0]
    inside[begins] = False
    assert (np.diff(place.astype(int), prepend=0)[inside] > 0).all()
    np.testing.assert_array_equal(graph.heads[lengths > 0], graph.neighbours[begins])
    assert (graph.heads[lengths == 0] == graph.stride - 1).all()
    assert graph.rows < graph.stride, "that id would be a vertex"
    np.testing.assert_array_equal(
        graph.row_of_vertex[graph.vertex_of_row - graph.vertices.first(comm.rank)], np.arange(graph.rows)
    )
    assert (graph.row_of_vertex >= 0).sum() == graph.rows
    if graph.grid.columns == 1:
        np.testing.assert_array_equal(graph.row_vertices[: graph.rows], graph.vertex_of_row)


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
        found, expected = breadth_first(graph, root, workspace), breadth_first_reference(graph, root)
        if (
            graph.grid.columns > 1
        ):  # ranks of a process row look for parents in turns: other trees, of these depths
            found, expected = (depths(gathered(comm, parents), root) for parents in (found, expected))
        np.testing.assert_array_equal(found, expected)


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
        used.row_parents.fill(7)
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


@pytest.mark.parametrize("columns", COLUMNS)
def test_the_bytes_of_the_arrays_are_those_of_the_formula(comm, columns):
    graph = construct(comm, edge_list(comm, "Kronecker 11"), columns)
    held = {**vars(graph), **vars(SearchWorkspace(graph))}
    for name in ("neighbours", "weights", "counts", "totals"):  # not of vertices
        del held[name]
    counted = search_bytes(comm.size // columns, columns, graph.stride, graph.vertices.count(comm.rank))
    unused = 4 * (graph.stride - graph.rows)  # the list of rows ends with the last row
    assert bytes_held(held.values()) == pytest.approx(counted - unused, abs=64)


@pytest.mark.parametrize("columns", COLUMNS)
def test_searches_on_any_grid_are_valid(comm, columns):
    edges = edge_list(comm, "Kronecker 11")
    graph, inputs = construct(comm, edges, columns), InputEdges(comm, edges)
    workspace = SearchWorkspace(graph)
    root = comm.bcast(int(graph.vertex_of_row[0]))
    for _ in range(2):
        verdict = validate_bfs(inputs, root, breadth_first(graph, root, workspace))
        assert verdict.failures == ()
        assert verdict.edges > edges.total / 2


def test_columns_that_do_not_divide_the_ranks_are_refused(comm):
    with pytest.raises(ValueError, match="do not divide"):
        construct(comm, edge_list(comm, "star"), comm.size + 1)
