"""HPCG's matrices against dense ones made from the equations, on every rank of a process grid, without MPI."""

import numpy as np
import pytest
from mpi4py import MPI

import hpcg_dense
from ridgeline.bench.hpcg import problem
from ridgeline.bench.hpcg.geometry import coarsen, place
from ridgeline.bench.hpcg.problem import diagonal_of, generate_problem, planes, replace_diagonal, row_numbers
from ridgeline.runtime.errors import ConfigError

SELF = MPI.COMM_SELF


def dense_rows(indptr, columns, values, width):
    rows = np.zeros((indptr.size - 1, width))
    for row in range(len(rows)):
        mine = slice(indptr[row], indptr[row + 1])
        assert np.all(np.diff(columns[mine]) > 0)  # the order z, y, x of the neighbours
        rows[row, columns[mine]] = values[mine]
    return rows


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (1, 3, 2), (2, 2, 2)])
@pytest.mark.parametrize("local", [(4, 3, 2), (1, 1, 1), (1, 5, 2)])
def test_rows_of_every_rank(local, grid) -> None:
    whole = tuple(p * n for p, n in zip(grid, local))
    expected = hpcg_dense.operator(whole)
    total = 0
    for rank in range(np.prod(grid)):
        geometry = place(int(np.prod(grid)), rank, local, grid)
        box = geometry.origin, geometry.local, geometry.whole
        n = geometry.n_rows
        indptr, diagonal = np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
        problem.row_starts(*box, indptr)
        columns, values, b = np.zeros(indptr[-1], np.int64), np.zeros(indptr[-1]), np.zeros(n)
        problem.fill_values(*box, indptr, values, diagonal, b)
        for of_rows, of_columns, numbers in planes(geometry, indptr):
            assert of_rows.size == local[0] * local[1] + 1
            columns[of_columns] = numbers
        rows = row_numbers(geometry)
        np.testing.assert_array_equal(rows, hpcg_dense.numbers(geometry))
        np.testing.assert_array_equal(dense_rows(indptr, columns, values, len(expected)), expected[rows])
        np.testing.assert_array_equal(columns[diagonal], rows)
        np.testing.assert_array_equal(b, expected[rows].sum(axis=1))
        total += indptr[-1]
    assert total == np.prod([3 * n - 2 for n in whole])


def test_levels() -> None:
    geometry = place(1, 0, (8, 4, 12), (1, 1, 1))
    level, b, exact = generate_problem(SELF, geometry, levels=3)
    np.testing.assert_array_equal(exact, np.ones(geometry.n_rows))
    np.testing.assert_array_equal(hpcg_dense.operator((8, 4, 12)) @ exact, b)
    dense = hpcg_dense.levels(geometry, 3)
    for expected in dense:
        matrix = level.matrix
        found = dense_rows(matrix.indptr, matrix.columns, matrix.values, matrix.n_rows)
        np.testing.assert_array_equal(found, expected.a)
        assert matrix.total_nonzeros == matrix.indptr[-1] == np.count_nonzero(expected.a)
        assert (matrix.plan.n_owned, matrix.plan.n_external) == (matrix.n_rows, 0)
        assert matrix.columns.dtype == np.int32
        if expected is not dense[-1]:
            np.testing.assert_array_equal(level.fine_of_coarse, expected.fine)
            assert level.coarse.matrix.geometry == coarsen(matrix.geometry)
            level = level.coarse
    assert level.coarse is None
    assert level.fine_of_coarse is None


def test_too_many_levels() -> None:
    with pytest.raises(
        ConfigError, match=r"4 x 2 x 1 points cannot be halved\. Use even sizes or fewer levels"
    ):
        generate_problem(SELF, place(1, 0, (8, 4, 2), (1, 1, 1)), levels=3)


def test_replace_diagonal() -> None:
    level, _, _ = generate_problem(SELF, place(1, 0, (4, 4, 4), (1, 1, 1)), levels=1)
    np.testing.assert_array_equal(diagonal_of(level.matrix), np.full(64, 26.0))
    replace_diagonal(level.matrix, np.arange(64.0))
    np.testing.assert_array_equal(diagonal_of(level.matrix), np.arange(64.0))
    assert np.count_nonzero(level.matrix.values == -1.0) == level.matrix.values.size - 64
