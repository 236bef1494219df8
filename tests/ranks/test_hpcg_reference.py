"""HPCG's reference path on some ranks: dense oracles, one rank, and the numbers of the official C++ code."""

import numpy as np
import pytest

from hpcg_ranks import check_against_dense, check_against_one_rank
from hpcg_spectral import iterations
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.problem import generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.runtime.errors import ConfigError

RANKS = (1, 2, 4)  # others: test_hpcg_eight_ranks
TIMEOUT = 180
SLOW_RANKS = (1, 2)

# The official code, version 3.1 in C++ with MPI: local size, ranks -> scaled residual after 50 iterations.
# Below 1e-16 the right side is already solved and rounding decides: the order of magnitude counts.
AFTER_FIFTY = {
    (16, 1): 3.73e-41,
    (16, 2): 7.45e-32,
    (32, 1): 1.04e-20,
    (32, 2): 1.27e-16,
    (32, 4): 2.87748e-13,
    (64, 1): 1.13589e-11,
    (64, 2): 7.76155e-09,
}
# The problem with nine distinct rows: scaled residual without multigrid after 11 iterations.
SPECTRAL = {
    (16, 1): 2.39877e-14,
    (16, 2): 2.67949e-14,
    (32, 1): 1.16215e-13,
    (32, 2): 5.63103e-14,
    (32, 4): 3.17133e-14,
    (64, 1): 6.11415e-13,
    (64, 2): 3.80733e-13,
}


def make(comm, nx, ny, nz):
    level, b, _ = generate_problem(comm, make_geometry(comm.size, comm.rank, nx, ny, nz))
    return level, b, ReferenceImplementation(comm, level)


def check_official_numbers(comm, n):
    """Hold the history and the spectral problem to the official ones; without such, to any rank's experience."""
    level, b, path = make(comm, n, n, n)
    x = path.vector()
    result = path.cg(path.vector(b), x, 50, 0.0)
    official = AFTER_FIFTY.get((n, comm.size))
    if official is not None:
        within = {"rel": 3e-6} if official > 1e-14 else {"rel": 0.1}
        assert result.scaled_residual == pytest.approx(official, **within)
    assert result.iterations == 50
    assert result.scaled_residual < 1e-6
    error = comm.allreduce(np.abs(x.owned - 1).max())
    assert error < comm.size * max(1e-14, 100 * result.scaled_residual)
    plain, multigrid = (iterations(path, level, b, preconditioned) for preconditioned in (False, True))
    assert (plain.iterations, multigrid.iterations) == (11, min(comm.size, 2))
    assert multigrid.scaled_residual < 5e-15
    official = SPECTRAL.get((n, comm.size))
    if official is not None:
        # Eleven steps cancel twelve digits: what is left of 2e-14 differs by the order of the sums.
        assert plain.scaled_residual == pytest.approx(official, rel=1e-15 / official)


def test_official_numbers(comm):
    check_official_numbers(comm, 16)
    if (32, comm.size) in AFTER_FIFTY:
        check_official_numbers(comm, 32)


@pytest.mark.slow
def test_official_numbers_of_large_boxes(comm):
    check_official_numbers(comm, 64)


def test_against_dense(comm):
    check_against_dense(comm)


def test_against_one_rank(comm):
    check_against_one_rank(comm)


def test_unequal_sizes(comm):
    """Also that the cycle is a symmetric operator, as conjugate gradients need it."""
    _, b, path = make(comm, 32, 16, 24)
    result = path.cg(path.vector(b), path.vector(), 8, 0.0)
    assert np.all(np.diff(result.history) < 0)
    assert result.scaled_residual < 1e-2
    rng = np.random.default_rng(comm.rank)
    u, v, z = path.vector(rng.random(b.size)), path.vector(rng.random(b.size)), path.vector()
    sides = []
    for left, right in ((u, v), (v, u)):
        path.precondition(right, z)
        sides.append(path.dot(left, z))
    assert sides[0] == pytest.approx(sides[1], rel=1e-12)


def test_wrong_sizes_are_refused_on_all_ranks(comm):
    with pytest.raises(ConfigError, match="nz = 12"):
        make(comm, 16, 16, 12)
    with pytest.raises(ConfigError, match=f"must be the number of ranks, {comm.size}"):
        make_geometry(comm.size, comm.rank, 16, 16, 16, npx=5)
    assert comm.allreduce(1) == comm.size
