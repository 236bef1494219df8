"""HPCG's optimised path against the plain one on several ranks: the halo in a new order, and sums over ranks."""

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.implementation import Implementation
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.problem import HpcgLevel, generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation

QUICK_RANKS = (3,)


@pytest.fixture(scope="module")
def level(comm: MPI.Intracomm) -> HpcgLevel:
    """A matrix of random values on HPCG's pattern: an entry or a message in a wrong place shows."""
    finest = generate_problem(comm, make_geometry(comm.size, comm.rank, 16, 24, 16), levels=3)[0]
    rng = np.random.default_rng(comm.rank)
    level: HpcgLevel | None = finest
    while level is not None:
        level.matrix.values *= rng.uniform(0.9, 1.1, level.matrix.values.size)
        level = level.coarse
    return finest


def numbers(path: Implementation, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng((path.comm.rank, seed)).uniform(-1, 1, path.n_rows)


def test_products_and_cycles(comm: MPI.Intracomm, level: HpcgLevel) -> None:
    results = []
    for path in (ReferenceImplementation(comm, level), OptimisedImplementation(comm, level)):
        x, y, z = path.vector(numbers(path, 1)), path.vector(), path.vector()
        for _ in range(2):  # again, by the same messages
            path.spmv(x, y)
            path.precondition(x, z)
        assert (path.natural(x) == numbers(path, 1)).all()
        results.append((path.natural(y), path.natural(z), np.array([path.dot(x, y)])))
    for expected, found in zip(*results, strict=True):
        assert np.abs(found - expected).max() < 1e-13 * np.abs(expected).max()


@pytest.mark.parametrize("preconditioned", [True, False])
def test_histories_and_solutions(comm: MPI.Intracomm, level: HpcgLevel, preconditioned: bool) -> None:
    results, solutions = [], []
    for path in (ReferenceImplementation(comm, level), OptimisedImplementation(comm, level)):
        x = path.vector(numbers(path, 2))
        results.append(path.cg(path.vector(numbers(path, 3)), x, 8, 0.0, preconditioned))
        solutions.append(path.natural(x))
    assert results[1].history == pytest.approx(results[0].history, rel=1e-9)
    assert comm.allgather(results[1].history) == comm.size * [results[1].history]
    assert solutions[1] == pytest.approx(solutions[0], rel=1e-9, abs=1e-9)


def test_a_wrong_halo_index_shows(comm: MPI.Intracomm, level: HpcgLevel) -> None:
    if comm.size == 1:
        pytest.skip("one rank has no halo")
    reference, optimised = ReferenceImplementation(comm, level), OptimisedImplementation(comm, level)
    sent = optimised.level.plan.send_index
    sent[0] = (sent[0] + 1) % optimised.n_rows
    results = []
    for path in (reference, optimised):
        y = path.vector()
        path.spmv(path.vector(numbers(path, 4)), y)
        results.append(path.natural(y))
    wrong = np.abs(results[1] - results[0]).max() > 1e-6
    assert sum(comm.allgather(bool(wrong))) >= 1
