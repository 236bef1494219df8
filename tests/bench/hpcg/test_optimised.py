"""HPCG's optimised path against the plain one on one rank, on HPCG's matrix and on irregular ones."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.implementation import Implementation, Times
from ridgeline.bench.hpcg.optimised import OptimisedImplementation
from ridgeline.bench.hpcg.problem import HpcgLevel, SparseMatrix, generate_problem
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.runtime.regions import Regions

COMM = MPI.COMM_SELF


def irregular(matrix: SparseMatrix, seed: int) -> SparseMatrix:
    """Take away a third of the entries off the diagonal, anywhere, and change the values of all others."""
    rng = np.random.default_rng(seed)
    keep = rng.random(matrix.values.size) > 1 / 3
    keep[matrix.diagonal] = True
    rows = np.repeat(np.arange(matrix.n_rows), np.diff(matrix.indptr))[keep]
    columns = matrix.columns[keep]
    values = matrix.values[keep] * rng.uniform(0.5, 1.5, int(keep.sum()))
    indptr = np.searchsorted(rows, np.arange(matrix.n_rows + 1)).astype(np.int64)
    return replace(
        matrix,
        indptr=indptr,
        columns=columns,
        values=values,
        diagonal=np.flatnonzero(columns == rows),
    )


def irregular_level(level: HpcgLevel, seed: int = 1) -> HpcgLevel:
    coarse = None if level.coarse is None else irregular_level(level.coarse, seed + 1)
    return HpcgLevel(irregular(level.matrix, seed), level.fine_of_coarse, coarse)


Problem = tuple[HpcgLevel, NDArray[np.float64]]


@pytest.fixture(scope="module")
def problem() -> Problem:
    level, b, _ = generate_problem(COMM, make_geometry(1, 0, 16, 24, 32), levels=3)
    return level, b


@pytest.fixture(scope="module", params=["regular", "irregular"])
def paths(request: pytest.FixtureRequest, problem: Problem) -> tuple[Implementation, Implementation]:
    level = problem[0] if request.param == "regular" else irregular_level(problem[0])
    return ReferenceImplementation(COMM, level), OptimisedImplementation(COMM, level)


def numbers(n: int, seed: int = 5) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-1, 1, n)


def close(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return bool(np.abs(a - b).max() < 1e-14 * np.abs(a).max())


def test_vectors_come_back_in_natural_order(paths: tuple[Implementation, Implementation]) -> None:
    optimised = paths[1]
    values = numbers(optimised.n_rows)
    vector = optimised.vector(values)
    assert (optimised.natural(vector) == values).all()
    assert not (vector.owned == values).all()


def test_product_and_cycle_are_the_reference_s(paths: tuple[Implementation, Implementation]) -> None:
    results = []
    for path in paths:
        x, y, z = path.vector(numbers(path.n_rows)), path.vector(), path.vector(numbers(path.n_rows, 6))
        path.spmv(x, y)
        path.precondition(x, z)
        assert (path.natural(x) == numbers(path.n_rows)).all()
        assert path.dot(x, y) == pytest.approx(numbers(path.n_rows) @ path.natural(y), rel=1e-12)
        results.append((path.natural(y), path.natural(z)))
    assert close(results[0][0], results[1][0])
    assert close(results[0][1], results[1][1])


def test_one_level_alone_is_a_symmetric_sweep(problem: Problem) -> None:
    level = HpcgLevel(irregular(problem[0].matrix, 9), None, None)
    results = []
    for path in (ReferenceImplementation(COMM, level), OptimisedImplementation(COMM, level)):
        r, z = path.vector(numbers(path.n_rows)), path.vector()
        path.precondition(r, z)
        results.append(path.natural(z))
    assert close(*results)


@pytest.mark.parametrize("preconditioned", [True, False])
def test_residual_histories_are_the_reference_s(
    problem: Problem, paths: tuple[Implementation, Implementation], preconditioned: bool
) -> None:
    results, solutions = [], []
    for path in paths:
        x = path.vector(numbers(path.n_rows))
        results.append(path.cg(path.vector(problem[1]), x, 12, 1e-7, preconditioned))
        solutions.append(path.natural(x))
    reference, optimised = results
    assert optimised.iterations == reference.iterations == len(optimised.history)
    assert optimised.initial_residual == pytest.approx(reference.initial_residual, rel=1e-13)
    assert optimised.history == pytest.approx(reference.history, rel=1e-9)
    assert solutions[1] == pytest.approx(solutions[0], rel=1e-9, abs=1e-9)


def test_solves_end_at_the_tolerance_or_do_not_begin(
    problem: Problem, paths: tuple[Implementation, Implementation]
) -> None:
    path = paths[1]
    b, x = path.vector(problem[1]), path.vector()
    none = path.cg(b, x, 0, 0.0)
    assert (none.iterations, none.residual, none.history) == (0, none.initial_residual, [])
    assert not x.owned.any()
    some = path.cg(b, x, 50, 1e-3)
    assert 0 < some.iterations < 12
    assert some.scaled_residual <= 1e-3 * (1 + 1e-6)
    again = path.vector()
    assert path.cg(b, again, 50, 1e-3) == some  # nothing is left over from solves before
    assert (again.owned == x.owned).all()


def test_times_are_added_up_and_make_the_total(
    problem: Problem, paths: tuple[Implementation, Implementation]
) -> None:
    path, regions = paths[1], Regions()
    path.cg(path.vector(problem[1]), path.vector(), 3, 0.0, regions=regions)
    times = Times.of(regions)
    parts = times.dot + times.waxpby + times.spmv + times.multigrid
    assert min(times.dot, times.waxpby, times.spmv, times.multigrid) > 0
    assert times.allreduce <= times.dot
    assert 0 < parts <= times.total
    path.cg(path.vector(problem[1]), path.vector(), 3, 0.0, regions=regions)
    assert regions.total() > times.total


def test_another_diagonal_changes_the_finest_level_alone(problem: Problem) -> None:
    level = irregular_level(problem[0], 20)  # its own: the reference changes it
    optimised, reference = OptimisedImplementation(COMM, level), ReferenceImplementation(COMM, level)
    before = level.matrix.values[level.matrix.diagonal].copy()
    for diagonal in (1e6 * (1 + np.arange(before.size) % 9), before):
        results = []
        for path in (reference, optimised):
            path.replace_diagonal(diagonal)
            x, y, z = path.vector(numbers(path.n_rows)), path.vector(), path.vector()
            path.spmv(x, y)
            path.precondition(x, z)
            results.append((path.natural(y), path.natural(z)))
        assert close(results[0][0], results[1][0])
        assert close(results[0][1], results[1][1])


def test_memory_counts_every_value_and_vector(problem: Problem) -> None:
    path = OptimisedImplementation(COMM, problem[0])
    nonzeros, level = 0, problem[0]
    while level is not None:
        nonzeros += level.matrix.values.size
        level = level.coarse
    assert 8 * nonzeros < path.memory() < 2 * 12 * nonzeros
    top = path.level
    one = sum(array.nbytes for array in (*top.lower, *top.upper, top.diagonal, top.order))
    assert path.memory() > one


def test_a_right_side_whose_sums_underflow_ends_quietly(
    problem: Problem, paths: tuple[Implementation, Implementation]
) -> None:
    path = paths[1]
    x = path.vector()
    result = path.cg(path.vector(1e-155 * problem[1]), x, 40, 0.0)
    assert np.isfinite(x.owned).all()
    assert np.isfinite(result.history).all()


def test_a_solve_that_was_spoilt_leaves_nothing_behind(problem: Problem) -> None:
    level, b = problem
    path = OptimisedImplementation(COMM, level)
    right, z, x = path.vector(b), path.vector(), path.vector()
    path.precondition(right, z)
    clean = z.owned.copy()
    spoilt = path.vector(np.full(b.size, np.nan))
    path.cg(spoilt, x, 2, 0.0)
    path.precondition(spoilt, z)
    path.precondition(right, z)
    np.testing.assert_array_equal(z.owned, clean)
    x.values.fill(0.0)
    assert np.isfinite(path.cg(right, x, 2, 0.0).residual)
