"""Level order, storage by runs and sweeps against plain loops on boxes and on random matrices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.sparse import sweeps
from ridgeline.sparse.levels import block_rows
from ridgeline.sparse.runs import SPARE, Runs
from sparse_systems import CASES, System, box


@pytest.fixture(params=list(CASES))
def matrix(request: pytest.FixtureRequest) -> System:
    return CASES[request.param]()


def natural_sweep(a: NDArray, r: NDArray, x: NDArray, rows: range) -> NDArray:
    """Gauss-Seidel on a x = r in the order of `rows`, from x."""
    x = x.copy()
    for i in rows:
        x[i] += (r[i] - a[i] @ x) / a[i, i]
    return x


def test_levels_order_rows_that_share_an_entry(matrix: System) -> None:
    linked = (matrix.dense != 0) | (matrix.dense != 0).T
    levels, block = matrix.levels, matrix.block
    for i in range(levels.size):
        first = i // block * block
        lowest = levels[:first].max(initial=-1) + 1
        before = levels[first:i][linked[i, first:i]]
        assert levels[i] == max(lowest, before.max(initial=-1) + 1)
    np.testing.assert_array_equal(matrix.order, np.argsort(levels, kind="stable"))
    np.testing.assert_array_equal(matrix.new_number[matrix.order], np.arange(levels.size))
    np.testing.assert_array_equal(np.diff(matrix.level_rows), np.bincount(levels))


@pytest.mark.parametrize(
    ("shape", "block"), [((20, 20, 30), 8400), ((100, 90, 3), 9000), ((3000, 4, 1), 9000)]
)
def test_blocks_are_whole_planes(shape: tuple[int, int, int], block: int) -> None:
    nx, ny, nz = shape
    k, j, i = np.indices((nz, ny, nx))
    columns = []
    for c, b, a in np.ndindex(3, 3, 3):
        z, y, x = k + c - 1, j + b - 1, i + a - 1
        inside = (np.clip(z, 0, nz - 1) == z) & (np.clip(y, 0, ny - 1) == y) & (np.clip(x, 0, nx - 1) == x)
        columns.append(np.where(inside, x + nx * (y + ny * z), nx * ny * nz).ravel())
    found = block_rows(27 * np.arange(k.size + 1), np.stack(columns, 1).ravel().astype(np.int32))
    assert found == block


def unpacked(runs: Runs, n: int) -> NDArray:
    """Return the dense triangle that runs stand for."""
    dense = np.zeros((n, n))
    for run in range(runs.run_rows.size - 1):
        first, end = runs.run_rows[run : run + 2]
        columns = runs.slot_columns[runs.run_slots[run] : runs.run_slots[run + 1]]
        place = runs.run_values[run]
        for chunk in range(first, end, 8):
            width = min(8, end - chunk)
            for s in range(columns.size):
                for row in range(chunk, chunk + width):
                    dense[row, columns[s] + row - first] = runs.values[place]
                    place += 1
    return dense


def test_runs_hold_the_triangles(matrix: System) -> None:
    n = matrix.levels.size
    permuted = matrix.dense[np.ix_(matrix.order, matrix.order)]
    np.testing.assert_array_equal(unpacked(matrix.lower, n), np.tril(permuted, -1))
    np.testing.assert_array_equal(unpacked(matrix.upper, n), np.triu(permuted, 1))
    assert not np.any(matrix.lower.run_values % 8)
    rows = matrix.lower.run_rows[matrix.lower.level_runs]
    np.testing.assert_array_equal(rows, matrix.level_rows)


def test_runs_of_a_box_are_long() -> None:
    runs = box(41, 21, 2).lower
    # Levels go along a line of j, i falling by 2 as j rises.
    assert np.diff(runs.run_rows).max() == 20
    assert runs.run_rows.size - 1 < 41 * 21 * 2 // 5


def test_rows_at_the_sides_stay_in_the_runs_of_a_plane() -> None:
    runs = box(40, 30, 3, block=1200).lower
    middle = runs.run_rows[(runs.run_rows >= 1200) & (runs.run_rows < 2400)]
    levels = 40 + 2 * 29
    assert middle.size <= levels * 6 // 5  # three times as many without


def test_zeros_in_runs_are_few(matrix: System) -> None:
    runs, n = matrix.lower, matrix.levels.size
    width = np.diff(matrix.lower.run_slots) + np.diff(matrix.upper.run_slots)
    entries = np.array(
        [np.sum((row >= 0) & (row < n)) for row in np.split(matrix.columns, matrix.indptr[1:-1])]
    )
    entries -= np.diag(matrix.dense) != 0
    in_run = np.add.reduceat(entries[matrix.order], runs.run_rows[:-1])
    rows = np.diff(runs.run_rows)
    zeros = rows * width - in_run
    assert np.all(zeros >= 0)
    assert np.all(zeros <= np.maximum(rows * width // SPARE, width // 2))
    assert np.all(zeros[rows == 1] == 0)


@pytest.fixture
def vectors(matrix: System) -> dict[str, NDArray]:
    """Vectors in the new order; NaN behind the owned part, which no pass may touch."""
    n, rng = matrix.levels.size, np.random.default_rng(1)
    diagonal = np.diag(matrix.dense)[matrix.order]
    made = {name: np.append(rng.standard_normal(n), [np.nan] * 9) for name in ("r", "x", "half", "y")}
    return made | {"diagonal": diagonal, "inverse": 1 / diagonal}


def in_old_order(matrix: System, vector: NDArray) -> NDArray:
    return vector[: matrix.levels.size][matrix.new_number]


def close(actual: NDArray, expected: NDArray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)


def test_symmetric_sweep_from_zero(matrix: System, vectors) -> None:
    n, a = matrix.levels.size, matrix.dense
    r, x, half, inverse = (vectors[name] for name in ("r", "x", "half", "inverse"))
    x[:n] = 1e9  # must not matter
    sweeps.forward_zero(matrix.lower, r, inverse, x, half)
    expected = natural_sweep(a, in_old_order(matrix, r), np.zeros(n), range(n))
    close(in_old_order(matrix, x), expected)
    close(half[:n], vectors["diagonal"] * x[:n])
    again = x.copy()
    sweeps.backward(matrix.upper, half, inverse, x)
    expected = natural_sweep(a, in_old_order(matrix, r), expected, range(n - 1, -1, -1))
    close(in_old_order(matrix, x), expected)
    total = sweeps.backward_dot(matrix.upper, half, inverse, again, r)
    np.testing.assert_array_equal(again, x)
    close(total, x[:n] @ r[:n])
    assert np.isnan([x[n:], half[n:]]).all()


def test_symmetric_sweep_from_any_start(matrix: System, vectors) -> None:
    n, a = matrix.levels.size, matrix.dense
    r, x, half, inverse = (vectors[name] for name in ("r", "x", "half", "inverse"))
    start = in_old_order(matrix, x)
    permuted = a[np.ix_(matrix.order, matrix.order)]
    half[:n] = np.triu(permuted) @ x[:n]
    sweeps.forward(matrix.lower, r, half, inverse, x)
    expected = natural_sweep(a, in_old_order(matrix, r), start, range(n))
    close(in_old_order(matrix, x), expected)
    sweeps.backward(matrix.upper, half, inverse, x)
    expected = natural_sweep(a, in_old_order(matrix, r), expected, range(n - 1, -1, -1))
    close(in_old_order(matrix, x), expected)
    assert np.isnan([x[n:], half[n:]]).all()


def test_product(matrix: System, vectors) -> None:
    n = matrix.levels.size
    x, y, diagonal = (vectors[name] for name in ("x", "y", "diagonal"))
    sweeps.multiply_dot(matrix.lower, matrix.upper, diagonal, x, y)
    close(in_old_order(matrix, y), matrix.dense @ in_old_order(matrix, x))
    again = np.empty(n)
    total = sweeps.multiply_dot(matrix.lower, matrix.upper, diagonal, x, again)
    np.testing.assert_array_equal(again, y[:n])
    close(total, x[:n] @ y[:n])
    assert np.isnan(y[n:]).all()
