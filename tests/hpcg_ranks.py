"""What HPCG's reference path must do on any number of ranks: dense oracles, and one rank with the whole box."""

import numpy as np
from mpi4py import MPI

import hpcg_dense
from ridgeline.bench.hpcg.geometry import place, process_grid
from ridgeline.bench.hpcg.problem import generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation


def gathered(comm, rows_global, values):
    """All ranks' values in global order, on all ranks."""
    numbers = np.concatenate(comm.allgather(rows_global))
    result = np.empty(numbers.size)
    result[numbers] = np.concatenate(comm.allgather(values))
    return result


def check_against_dense(comm, local=(4, 8, 4), levels=3):
    """Product, multigrid cycle and matrix entries of every rank against dense ones of the whole box."""
    geometry = place(comm.size, comm.rank, local, process_grid(comm.size))
    level, _, _ = generate_problem(comm, geometry, levels)
    path = ReferenceImplementation(comm, level)
    rows = level.matrix.rows_global
    dense = hpcg_dense.levels(geometry, levels)
    np.testing.assert_array_equal(rows, hpcg_dense.numbers(geometry))
    assert level.matrix.total_nonzeros == np.count_nonzero(dense[0].a)
    noise = np.random.default_rng(4).standard_normal(geometry.total_rows)
    r, z = path.vector(noise[rows]), path.vector()
    path.precondition(r, z)
    np.testing.assert_allclose(z.owned, hpcg_dense.cycle(dense, noise)[rows], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(r.owned, noise[rows])
    path.spmv(r, z)
    np.testing.assert_allclose(z.owned, (dense[0].a @ noise)[rows], rtol=0, atol=1e-13)
    dots = comm.allgather(path.dot(r, z))
    np.testing.assert_allclose(dots, noise @ dense[0].a @ noise, rtol=1e-12)
    assert len(set(dots)) == 1


def check_against_one_rank(comm, local=(6, 4, 8)):
    """The product to the last bit, conjugate gradients without multigrid to rounding."""
    geometry = place(comm.size, comm.rank, local, process_grid(comm.size))
    level, b, _ = generate_problem(comm, geometry, 1)
    whole_level, whole_b, _ = generate_problem(MPI.COMM_SELF, place(1, 0, geometry.whole, (1, 1, 1)), 1)
    path, alone = ReferenceImplementation(comm, level), ReferenceImplementation(MPI.COMM_SELF, whole_level)
    rows = level.matrix.rows_global
    np.testing.assert_array_equal(b, whole_b[rows])
    noise = np.random.default_rng(6).standard_normal(geometry.total_rows)
    y, whole_y = path.vector(), alone.vector()
    path.spmv(path.vector(noise[rows]), y)
    alone.spmv(alone.vector(noise), whole_y)
    np.testing.assert_array_equal(gathered(comm, rows, y.owned), whole_y.owned)
    x, whole_x = path.vector(), alone.vector()
    ours = path.cg(path.vector(b), x, 6, 0.0, preconditioned=False)
    theirs = alone.cg(alone.vector(whole_b), whole_x, 6, 0.0, preconditioned=False)
    np.testing.assert_allclose(ours.history, theirs.history, rtol=1e-9, atol=1e-16)
    np.testing.assert_allclose(x.owned, whole_x.owned[rows], rtol=0, atol=1e-12)
    assert len(set(comm.allgather(tuple(ours.history)))) == 1
