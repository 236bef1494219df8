"""HPL-MxP on one rank: iterations and backward error by size and storage, odd sizes, and what must fail."""

import numpy as np
import pytest
from mpi4py import MPI

from hpl_cases import random_system
from ridgeline.bench.hpl import hpl_run
from ridgeline.bench.hpl.hpl_solve import solve_mixed
from ridgeline.bench.hpl.matrix import shift
from ridgeline.bench.hpl.record import HplSettings
from ridgeline.bench.hpl.sizes import mxp_bytes
from ridgeline.bench.result import to_csv

SELF = MPI.COMM_SELF
# Iterations of GMRES allowed to each storage, by what its rounding leaves of a digit in each.
MOST = {"float32": 3, "float16": 5, "bfloat16": 8}


@pytest.mark.parametrize("storage", MOST)
@pytest.mark.parametrize("n", [64, 250, 900])
def test_iterations_and_backward_error(n, storage):
    run = solve_mixed(SELF, HplSettings(n, 48), storage)
    assert run.passed
    assert run.converged
    assert 1 <= run.iterations <= MOST[storage]
    assert run.scaled_residual < 8 / n  # 64-bit accuracy: the rules would allow 16
    a, b = random_system(n)
    expected = np.linalg.solve(a + shift(n) * np.eye(n), b)
    np.testing.assert_allclose(run.x, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


def test_narrow_storage_needs_more_iterations():
    iterations = [solve_mixed(SELF, HplSettings(400, 48), storage).iterations for storage in MOST]
    assert iterations == sorted(iterations)
    assert len(set(iterations)) == 3


def test_the_matrix_for_testing_is_another_one():
    hard, easy = (solve_mixed(SELF, HplSettings(400, 48), "bfloat16", testing) for testing in (False, True))
    assert easy.passed
    assert easy.iterations <= hard.iterations
    assert np.abs(easy.x).max() < 0.5 * np.abs(hard.x).max()  # its diagonal is far larger


@pytest.mark.parametrize(("n", "nb"), [(1, 1), (1, 64), (2, 1), (33, 32), (64, 100), (97, 24)])
def test_odd_sizes(n, nb):
    run = solve_mixed(SELF, HplSettings(n, nb))
    assert run.passed
    a, b = random_system(n)
    np.testing.assert_allclose((a + shift(n) * np.eye(n)) @ run.x, b, rtol=0, atol=1e-14)


@pytest.mark.parametrize("threads", [1, 2])
def test_repeats_give_the_same_bits(threads):
    runs = [solve_mixed(SELF, HplSettings(1200, 64, threads=threads)) for _ in range(3)]
    assert runs[0].passed
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0].x, other.x)


def test_the_factors_do_the_work(monkeypatch):
    """Without them GMRES does not reach the accuracy in the iterations that the rules allow."""
    from ridgeline.bench.hpl import hpl_solve

    monkeypatch.setattr(hpl_solve, "solve", lambda factors, comm, r: r.copy())
    run = solve_mixed(SELF, HplSettings(900, 64))
    assert run.iterations == hpl_solve.MXP_ITERATIONS
    assert not run.converged


@pytest.mark.parametrize(
    "diagonal", [lambda n: np.zeros(n), lambda n: np.full(n, np.inf), lambda n: np.full(n, np.nan)]
)
def test_factors_that_are_no_help_fail_the_test(diagonal):
    run = solve_mixed(SELF, HplSettings(500, 32), "bfloat16", diagonal=diagonal(500))
    assert not run.passed
    result = hpl_run.make_mxp_result(run, 1e9, 1, [])
    assert result.failures[0].startswith("HPL-MxP FAILED: the scaled backward error is ")
    assert not result.verified
    assert any(note.endswith("FAILED") for note in result.notes)


def test_progress_is_told_and_ends_with_all_columns():
    seen = []
    run = solve_mixed(SELF, HplSettings(100, 16), on_progress=seen.append)
    assert [sample.columns for sample in seen] == [16, 32, 48, 64, 80, 96, 100]
    assert seen == run.samples
    result = hpl_run.make_mxp_result(run, 1e9, 1, ["NB = 16"])
    assert to_csv(result).startswith("benchmark,columns,seconds,flops_per_second,flops_per_second_now\n")
    (solve,) = result.extra["solves"]
    assert solve["seconds"] == pytest.approx(sum(solve["phases"].values()))
    assert solve["flops_per_second"] == pytest.approx((2 / 3 * 100**3 + 1.5 * 100**2) / solve["seconds"])


def test_memory_counts_the_matrix_once_in_single_precision():
    assert 4 * 20000**2 < mxp_bytes(20000, 256, 1, 1) < 1.05 * 4 * 20000**2
    assert mxp_bytes(20000, 256, 2, 2) < 1.2 * 20000**2
