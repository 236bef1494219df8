"""HPL-MxP on every process grid of its ranks: the same matrix, the same solution to rounding."""

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.hpl.block_cyclic import Axis
from ridgeline.bench.hpl.factor_host import allocate_singles
from ridgeline.bench.hpl.hpl_solve import solve_mixed
from ridgeline.bench.hpl.matrix import MxpHostMatrix
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.team import TileTeam
from ridgeline.runtime.errors import DecompositionError

RANKS = (1, 2, 3, 4)
TIMEOUT = 120


def grids(comm):
    return [(p, comm.size // p) for p in range(1, comm.size + 1) if comm.size % p == 0]


def alone(comm, n, nb, storage="float32"):
    """The solution of one rank, on all."""
    return comm.bcast(solve_mixed(MPI.COMM_SELF, HplSettings(n, nb), storage).x if comm.rank == 0 else None)


# N a multiple of NB and not, NB > N, N = 1, fewer blocks than processes.
@pytest.mark.parametrize(("n", "nb"), [(96, 16), (101, 12), (7, 16), (1, 4), (60, 40), (500, 32)])
def test_grids_agree_with_one_rank(comm, n, nb):
    expected = alone(comm, n, nb)
    for p, q in grids(comm):
        for order in ("row", "column"):
            run = solve_mixed(comm, HplSettings(n, nb, p, q, order=order))
            assert run.passed
            np.testing.assert_allclose(run.x, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
            every = comm.allgather((run.x.tobytes(), run.iterations, run.scaled_residual))
            assert len(set(every)) == 1, "ranks have different solutions"


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_narrow_storage_on_grids(comm, storage):
    for p, q in grids(comm):
        run = solve_mixed(comm, HplSettings(300, 24, p, q, threads=2), storage)
        assert run.passed
        assert run.iterations <= 8


def test_the_matrix_is_the_same_on_every_grid(comm):
    n, nb = 75, 8
    parts = {}
    for p, q in [*grids(comm), (1, 1)]:
        row, column = divmod(comm.rank, q) if p * q > 1 else (0, 0)
        rows, columns = Axis(n, nb, p, row), Axis(n, nb, q, column)
        on = comm if p * q > 1 else MPI.COMM_SELF
        with TileTeam(1) as team:
            part = allocate_singles(rows.count(), columns.count())
            matrix = MxpHostMatrix(on, rows, columns, team)
            matrix.write(part)
        whole = np.zeros((n, n), np.float32)
        whole[np.ix_(rows.globals(), columns.globals())] = part[:, : rows.count()].T
        if on is comm:
            comm.Allreduce(MPI.IN_PLACE, whole)
        parts[p, q] = whole, matrix.norm
    for whole, norm in parts.values():
        np.testing.assert_array_equal(whole, parts[1, 1][0])
        assert norm == pytest.approx(parts[1, 1][1], rel=1e-14)


def test_a_matrix_that_elimination_fails_for_ends_on_all_ranks(comm):
    for p, q in grids(comm):
        for diagonal in (np.zeros(64), np.full(64, np.nan)):
            run = solve_mixed(comm, HplSettings(64, 8, p, q), "bfloat16", diagonal=diagonal)
            assert comm.allgather(run.passed) == comm.size * [run.passed]
        assert not run.passed


def test_another_number_of_ranks_is_refused(comm):
    with pytest.raises(DecompositionError, match="requires"):
        solve_mixed(comm, HplSettings(64, 8, comm.size + 1, 1))
