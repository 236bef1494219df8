"""The coarse problem set up on its ranks: its matrix, the hierarchy of one rank, what each rank holds and sends."""

import numpy as np
import pytest
from mpi4py import MPI

from multigrid_cases import annulus, box, random_field, wavy
from ridgeline.elements.coarse import algebraic, hierarchy
from ridgeline.elements.coarse.algebraic import AlgebraicCoarse
from ridgeline.elements.coarse.algebraic_cost import count_ranks
from ridgeline.elements.coarse.hierarchy import build_hierarchy
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.multigrid.level import PolynomialLevel, galerkin_matrices

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
CASES = {
    "box": (box((5, 6, 7)), ()),
    "outflow": (box((5, 6, 7), (1.0, 2.0, 9.0)), ("x_max",)),
    "periodic": (box((2, 1, 5), periodic=(True, True, True)), ()),
    "wavy": (wavy(5), ("z_min",)),
    "annulus": (annulus(3), ()),
    "few elements": (box((1, 1, 4)), ()),
}
pytestmark = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch):
    """Levels by rows, also of small problems."""
    monkeypatch.setattr("ridgeline.elements.coarse.hierarchy.WHOLE", 12)
    monkeypatch.setattr("ridgeline.elements.coarse.algebraic_cost.WHOLE", 12)
    monkeypatch.setattr("ridgeline.elements.coarse.hierarchy.COARSEST", 4)


def levels_of(comm, name):
    mesh, sides = CASES[name]
    positions = ElementGrid(mesh, 3, comm.size, comm.rank).positions
    return [PolynomialLevel(mesh, positions, (order,) * 3, sides) for order in (3, 1)]


def dense(level):
    """Return a level's matrix [n, n] on every rank, rows and columns by ascending names, and these."""
    rows = level.matrix.rows
    whole = level.matrix.joined().local if rows.comm.size > 1 else level.matrix.local
    names = np.concatenate(rows.comm.allgather(level.names))
    order = np.argsort(names)
    return whole.toarray()[np.ix_(order, order)], names[order]


def test_rows_are_assembled_by_their_owners(comm, name):
    """The finest matrix is the dense sum of the element matrices, less the Dirichlet sides."""
    fine, coarse = levels_of(MPI.COMM_SELF, name)
    expected = np.zeros((coarse.n_unique, coarse.n_unique))
    ids = coarse.ids.reshape(coarse.shape[0], -1)
    np.add.at(expected, (ids[:, :, None], ids[:, None, :]), galerkin_matrices(fine, coarse))
    kept = np.unique(coarse.ids[~coarse.constrained])
    found, names = dense(build_hierarchy(comm, *levels_of(comm, name)).levels[0])
    assert np.array_equal(names, kept)
    np.testing.assert_allclose(found, expected[np.ix_(kept, kept)], atol=1e-13 * abs(expected).max())


def test_the_hierarchy_does_not_depend_on_the_ranks(comm, name):
    many, one = (build_hierarchy(c, *levels_of(c, name)) for c in (comm, MPI.COMM_SELF))
    assert len(many.levels) == len(one.levels)
    scale = abs(
        one.levels[0].matrix.local.data
    ).max()  # the last level may be a free constant, 0 up to rounding
    for ours, theirs in zip(many.levels, one.levels):
        (found, names), (expected, expected_names) = dense(ours), dense(theirs)
        assert np.array_equal(names, expected_names)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)
        assert ours.spectral_radius == pytest.approx(theirs.spectral_radius, rel=1e-10)


def test_no_rank_holds_more_than_its_rows_above_the_bound(comm, name):
    levels = build_hierarchy(comm, *levels_of(comm, name)).levels
    for level in levels:
        rows = level.matrix.rows
        everywhere = rows.total <= hierarchy.WHOLE or level is levels[-1]
        assert rows.count == (rows.total if everywhere else level.matrix.local.shape[0])
        assert (rows.comm.size == 1) == (everywhere or comm.size == 1)
        if not everywhere:
            assert comm.allreduce(rows.count) == rows.total


def test_one_cycle_does_what_that_of_one_rank_does(comm, name):
    sides = CASES[name][1]
    parts = []
    for c in (comm, MPI.COMM_SELF):
        fine, coarse = levels_of(c, name)
        solver = AlgebraicCoarse(c, fine, coarse, "float64")
        residual = np.where(coarse.constrained, 0.0, random_field(coarse.ids)).reshape(-1)
        correction = np.empty(residual.size)
        solver.solve(residual, correction)
        parts.append(np.concatenate(comm.allgather(correction)) if c is comm else correction)
    found, expected = parts if sides else (part - part.mean() for part in parts)
    np.testing.assert_allclose(found, expected, atol=1e-9 * abs(expected).max())


def test_what_is_counted_for_so_many_ranks_is_what_they_have(comm, name):
    solver = AlgebraicCoarse(comm, *levels_of(comm, name), "float32")
    counted = count_ranks(
        build_hierarchy(MPI.COMM_SELF, *levels_of(MPI.COMM_SELF, name)), comm.size, "float32"
    )
    assert comm.allgather(solver.cost()) == counted


def test_exchanges_are_those_of_a_cycle(comm, name, monkeypatch):
    """`cost` counts messages by EXCHANGES: a cycle makes as many."""
    calls = []
    exchange = algebraic.halo.HaloVector.exchange
    monkeypatch.setattr(
        algebraic.halo.HaloVector, "exchange", lambda self: (calls.append(self), exchange(self))
    )
    fine, coarse = levels_of(comm, name)
    solver = AlgebraicCoarse(comm, fine, coarse, "float32")
    calls.clear()
    solver.solve(np.zeros(coarse.ids.size, np.float32), np.zeros(coarse.ids.size, np.float32))
    levels = len(solver.describe().split("->")) - 1
    assert len(calls) == levels * sum(algebraic.EXCHANGES)
