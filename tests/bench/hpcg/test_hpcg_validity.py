"""HPCG's tests see a wrong entry, index or level in the matrix or in what was made of it: the result is INVALID."""

from collections.abc import Callable

import numpy as np
import pytest
from mpi4py import MPI

from hpcg_quick import finish, prepared
from ridgeline.bench.hpcg import optimised_matrix, validity
from ridgeline.bench.hpcg.hpcg_report import make_report, report_text
from ridgeline.bench.hpcg.hpcg_run import HpcgRun

COMM = MPI.COMM_SELF


def scale_one(values: np.ndarray) -> None:
    """Make one entry, in the middle, wrong by a thousandth."""
    places = np.flatnonzero(values)
    values[places[places.size // 2]] *= 1.001


def swap_two(numbers: np.ndarray) -> None:
    middle = numbers.size // 2
    numbers[[middle, middle + 1]] = numbers[[middle + 1, middle]]


def scale_entry(triangle, strip: int) -> None:
    """Make the last value of a strip that has columns wrong; between strips there are gaps, which nothing reads.

    Not the first: in the first sweep of a coarse level x is 0 in the first row, where the residual is 0.
    """
    count = triangle.strip_slots[strip + 1] - triangle.strip_slots[strip]
    assert count > 0
    rows = triangle.strip_rows[strip + 1] - triangle.strip_rows[strip]
    triangle.values[triangle.strip_values[strip] + count * rows - 1] *= 1.001


def last_strip(triangle) -> int:
    return len(triangle.strip_rows) - 2


def shift_one(numbers: np.ndarray) -> None:
    numbers[numbers.size // 2] += 1


def triangles(run: HpcgRun, depth: int = 0):
    level = run.implementation.level
    for _ in range(depth):
        level = level.coarse
    return level.lower, level.upper


FAULTS: dict[str, Callable[[HpcgRun], None]] = {
    "entry of the matrix": lambda run: scale_one(run.level.matrix.values),
    "entry of the matrix, coarse": lambda run: scale_one(run.level.coarse.matrix.values),
    "column of the matrix": lambda run: swap_two(run.level.matrix.columns),
    "entry of L": lambda run: scale_entry(triangles(run)[0], last_strip(triangles(run)[0])),
    "entry of U": lambda run: scale_entry(triangles(run)[1], 0),
    "entry of L, coarsest": lambda run: scale_entry(triangles(run, 3)[0], last_strip(triangles(run, 3)[0])),
    "diagonal": lambda run: scale_one(run.implementation.level.diagonal),
    "inverse diagonal": lambda run: scale_one(run.implementation.level.inverse_diagonal),
    "entry of L at coarse points": lambda run: scale_one(run.implementation.level.transfer.lower.values),
    "column of a run": lambda run: shift_one(triangles(run)[0].slot_columns),
    "coarse points": lambda run: swap_two(run.implementation.level.transfer.lower.rows),
    "order": lambda run: swap_two(run.implementation.level.new_number),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_makes_the_result_invalid(fault: str) -> None:
    benchmark = prepared(COMM)
    FAULTS[fault](benchmark)
    record = finish(benchmark)
    assert not record.valid
    assert "Final Summary::HPCG result is=INVALID." in report_text(make_report(record))


def test_a_wrong_wavefront_makes_the_result_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row swept too early: still symmetric, still convergent, but not Gauss-Seidel in natural order."""
    correct = optimised_matrix.number_wavefronts

    def one_wrong(*matrix):
        fronts = correct(*matrix)
        fronts[fronts.size // 2] = 0
        return fronts

    monkeypatch.setattr(optimised_matrix, "number_wavefronts", one_wrong)
    record = finish(prepared(COMM))
    assert not record.valid
    assert "agreement with the reference" in record.failures


def test_a_wrong_diagonal_is_seen_before_it_is_restored() -> None:
    """Symmetric, convergent, and replaced by the spectral test: only the comparison with the reference sees it."""
    benchmark = prepared(COMM)
    diagonal = np.full(benchmark.geometry.n_rows, 26.0)
    diagonal[100] *= 1 + 1e-9
    benchmark.implementation.replace_diagonal(diagonal)
    assert finish(benchmark).failures == ["agreement with the reference"]


def test_a_run_without_faults_is_valid() -> None:
    benchmark = prepared(COMM)
    before = benchmark.implementation.natural(benchmark.implementation.vector(benchmark.b))
    record = finish(benchmark)
    assert record.failures == []
    assert (record.spectral.plain, record.spectral.preconditioned) == (11, 1)
    assert max(record.symmetry.spmv, record.symmetry.multigrid) < 1e-3
    assert max(record.agreement.spmv, record.agreement.multigrid) < 1e-14
    np.testing.assert_array_equal(before, benchmark.b)


class Stuck:
    """A path whose CG finds nothing, or not a number."""

    def __init__(self, path, residual: float) -> None:
        self.path, self.residual = path, residual

    def __getattr__(self, name: str):
        return getattr(self.path, name)

    def cg(self, b, x, most, tolerance, preconditioned=True, regions=None):
        from ridgeline.bench.hpcg.implementation import CGResult

        return CGResult(1, self.residual, 1.0)


@pytest.mark.parametrize("residual", [1.0, np.nan])
def test_few_iterations_count_only_if_they_converge(residual: float) -> None:
    benchmark = prepared(COMM)
    matrix = benchmark.level.matrix
    result = validity.spectral_test(Stuck(benchmark.implementation, residual), matrix, benchmark.b)
    assert not result.passed


def test_random_values_depend_on_the_row_alone() -> None:
    rows = np.arange(1000)
    whole = validity.random_values(rows, 1)
    np.testing.assert_array_equal(whole[[7, 900]], validity.random_values(np.array([7, 900]), 1))
    assert 1.0 <= whole.min() < 1.01
    assert 1.99 < whole.max() < 2.0
    assert abs(np.corrcoef(whole, validity.random_values(rows, 2))[0, 1]) < 0.1
