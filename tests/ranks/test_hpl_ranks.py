"""HPL on every process grid of its ranks, against NumPy, and on matrices that have no solution."""

from collections import Counter

import numpy as np
import pytest

from hpl_cases import filled_by, random_system, whole_solution
from ridgeline.bench.hpl.hpl_solve import kernels, solve_system
from ridgeline.bench.hpl.record import BROADCASTS, HplSettings
from ridgeline.bench.hpl.update import RowSwap
from ridgeline.runtime.errors import DecompositionError

RANKS = (1, 2, 3, 4, 5, 6)
QUICK_RANKS = (3,)
TIMEOUT = 120


def grids(comm):
    return [(p, comm.size // p) for p in range(1, comm.size + 1) if comm.size % p == 0]


# N a multiple of NB and not, NB > N, N = 1, fewer blocks than processes, panels with a recursion.
@pytest.mark.parametrize(
    ("n", "nb", "nbmin"), [(96, 16, 4), (101, 12, 5), (7, 16, 4), (1, 4, 4), (60, 40, 8), (9, 4, 1)]
)
def test_solutions_are_numpys(comm, n, nb, nbmin):
    a, b = random_system(n)
    expected = np.linalg.solve(a, b)
    bound = 4 * np.linalg.cond(a) * np.finfo(float).eps * np.abs(expected).max()
    for p, q in grids(comm):
        for order in ("row", "column"):
            run = solve_system(comm, HplSettings(n, nb, p, q, nbmin=nbmin, order=order))
            assert run.passed, (p, q, run.norms)
            np.testing.assert_allclose(whole_solution(comm, run), expected, rtol=0, atol=bound)
            assert run.norms.a == pytest.approx(np.linalg.norm(a, np.inf), rel=1e-14)
            assert run.norms.a_one == pytest.approx(np.linalg.norm(a, 1), rel=1e-14)
            assert run.norms.b == np.abs(b).max()
            assert run.norms.x_one == pytest.approx(np.abs(expected).sum(), rel=bound)
            assert comm.allgather(run.norms) == comm.size * [run.norms]


@pytest.mark.parametrize("broadcast", BROADCASTS)
def test_broadcasts_give_the_same_bits(comm, broadcast):
    for p, q in grids(comm):
        runs = [solve_system(comm, HplSettings(75, 8, p, q, broadcast=one)) for one in (broadcast, "1ring")]
        np.testing.assert_array_equal(runs[0].solution, runs[1].solution)
        assert runs[0].passed


def test_the_fastest_broadcast_is_taken_by_all_and_kept(comm, monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))
    first, second = (solve_system(comm, HplSettings(75, 8, 1, comm.size)) for _ in range(2))
    assert comm.allgather(first.broadcast) == comm.size * [first.broadcast]
    assert list(first.broadcast_seconds) == (list(BROADCASTS) if comm.size > 2 else [])
    assert (second.broadcast, second.broadcast_seconds) == (first.broadcast, first.broadcast_seconds)


def test_threads_share_the_update(comm):
    for p, q in grids(comm):
        runs = [solve_system(comm, HplSettings(500, 24, p, q, threads=2, ndiv=3)) for _ in range(2)]
        np.testing.assert_array_equal(runs[0].solution, runs[1].solution)
        assert runs[0].passed


def test_every_grid_chooses_the_same_pivots(comm):
    """Rows that must change places at every step: of a cyclic shift, whose solution is known exactly."""
    n = 53

    def shifted(rows, column):
        return rows + 1.0 if column == n else np.where((rows + 20) % n == column, 2.0, 0.0)

    expected = np.empty(n)
    expected[(np.arange(n) + 20) % n] = (np.arange(n) + 1.0) / 2
    for p, q in grids(comm):
        run = solve_system(comm, HplSettings(n, 8, p, q, nbmin=3), fill=filled_by(shifted))
        np.testing.assert_array_equal(whole_solution(comm, run), expected)


UNSOLVABLE = {
    "zero": lambda rows, column: rows * 0.0,
    "equal columns": lambda rows, column: np.cos(rows + 1.0) if column != 40 else rows + 1.0,
    "a column of zeros": lambda rows, column: np.cos(rows * (column + 1.0)) * (column != 17),
    "too large": lambda rows, column: 1.5e308 * np.cos(7.0 * rows * column + rows),
    "not a number": lambda rows, column: np.where(rows == 3, np.nan, np.cos(rows * column + 1.0)),
    "infinite": lambda rows, column: np.where(
        (rows == 3) & (column == 5), np.inf, np.cos(rows * column + 1.0)
    ),
}


@pytest.mark.parametrize("name", UNSOLVABLE)
def test_the_official_test_fails_without_a_crash(comm, name):
    n = 40

    def function(rows, column):
        return rows + 1.0 if column == n and name != "too large" else UNSOLVABLE[name](rows, column)

    for p, q in grids(comm):
        run = solve_system(comm, HplSettings(n, 6, p, q), fill=filled_by(function))
        assert not run.passed
        assert run.seconds > 0


def test_rows_of_very_different_size_are_solved_to_rounding(comm):
    """Badly scaled, and yet the official test holds: partial pivoting has a small backward error."""
    n = 48
    a, _ = random_system(n)

    def function(rows, column):
        return np.ones(rows.size) if column == n else a[rows, column] * 10.0 ** (rows % 13 - 6)

    for p, q in grids(comm):
        assert solve_system(comm, HplSettings(n, 7, p, q), fill=filled_by(function)).passed


def test_a_row_in_a_wrong_place_is_found(comm, monkeypatch):
    original = RowSwap.__init__

    def broken(self, panel, rows):
        if panel.first == 16 and panel.pivots[0] != 16:
            panel.pivots[0] = 16.0
        original(self, panel, rows)

    monkeypatch.setattr(RowSwap, "__init__", broken)
    for p, q in grids(comm):
        assert not solve_system(comm, HplSettings(64, 8, p, q)).passed


def test_nothing_is_compiled_in_a_run(comm):
    """Shapes of one row or one column are contiguous both ways, and must not be new types to Numba."""
    wanted = [one.kernel for one in kernels()]
    for p, q in grids(comm):
        for n, nb in ((1, 1), (9, 4), (13, 1), (5, 8)):
            solve_system(comm, HplSettings(n, nb, p, q))
    assert {one: len(one.signatures) for one in wanted} == Counter(wanted)


def test_a_grid_of_other_ranks_is_refused(comm):
    with pytest.raises(DecompositionError, match="grid requires"):
        solve_system(comm, HplSettings(10, 2, comm.size + 1, 1))


def test_samples_tell_of_the_whole_run(comm):
    told = []
    run = solve_system(comm, HplSettings(90, 8, 1, comm.size), on_progress=told.append)
    assert told == (run.samples if comm.rank == 0 else [])
    assert [sample.columns for sample in run.samples] == [*range(8, 90, 8), 90]
    assert all(sample.flops_per_second > 0 for sample in run.samples)
    assert {"panel", "update", "swap", "substitution"} <= set(run.phases)
