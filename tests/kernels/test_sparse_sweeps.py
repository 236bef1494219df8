"""Level order, storage by runs and sweeps against plain loops on boxes and on random matrices."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.kernels import sparse_sweeps as sweeps
from ridgeline.kernels.sparse_levels import WHOLE, block_rows, dependency_levels, level_order
from ridgeline.kernels.sparse_runs import Runs, make_halves


class System(NamedTuple):
    """A matrix by rows in its own order, dense too, and what is made of it."""

    indptr: NDArray
    columns: NDArray
    values: NDArray
    dense: NDArray  # [n, n], owned columns only
    block: int
    levels: NDArray
    order: NDArray
    new_number: NDArray
    level_rows: NDArray
    lower: Runs
    upper: Runs


def system(rows: list[list[int]], seed: int = 3, block: int = WHOLE) -> System:
    """Make a matrix of random values with a dominant diagonal; columns of len(rows) and more are external."""
    rng = np.random.default_rng(seed)
    n = len(rows)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    columns = np.array([column for row in rows for column in row], np.int32)
    values = rng.uniform(-1, 1, columns.size)
    dense = np.zeros((n, n))
    for i in range(n):
        for place in range(indptr[i], indptr[i + 1]):
            if columns[place] == i:
                values[place] = 30 + rng.random()
            if columns[place] < n:
                dense[i, columns[place]] = values[place]
    levels = dependency_levels(indptr, columns, block)
    by_level = level_order(levels)
    return System(
        indptr,
        columns,
        values,
        dense,
        block,
        levels,
        *by_level,
        *make_halves(indptr, columns, values, *by_level),
    )


def box(nx: int, ny: int, nz: int, external: bool = False, block: int = WHOLE) -> System:
    """Make the 27-point pattern of a box, x fastest; with external columns behind its right face."""
    n = nx * ny * nz
    rows: list[list[int]] = []
    for k, j, i in np.ndindex(nz, ny, nx):
        row = [
            a + nx * (b + ny * c) if a < nx else n + b + ny * c
            for c in range(max(k - 1, 0), min(k + 2, nz))
            for b in range(max(j - 1, 0), min(j + 2, ny))
            for a in range(max(i - 1, 0), min(i + 2, nx + external))
        ]
        rows.append(row)
    return system(rows, block=block)


def scattered(n: int, per_row: int, seed: int = 5, block: int = WHOLE) -> System:
    """Make a random pattern, unsymmetric, unsorted; some rows hold nothing but the diagonal."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        others = rng.choice(2 * n, rng.integers(0, per_row + 1), replace=False)
        rows.append([int(c) for c in rng.permutation(np.unique([*others, i]))] if i % 7 else [i])
    return system(rows, seed, block)


CASES = {
    "one row": lambda: system([[0]]),
    "diagonal": lambda: system([[i] for i in range(19)]),
    "line": lambda: box(23, 1, 1),
    "plane": lambda: box(39, 21, 1),
    "box": lambda: box(7, 21, 5),
    "box with external columns": lambda: box(5, 18, 3, external=True),
    "box by planes": lambda: box(17, 15, 3, block=255),
    "box by blocks that cut planes": lambda: box(9, 11, 4, external=True, block=70),
    "random": lambda: scattered(150, 12),
    "random by blocks": lambda: scattered(150, 12, block=40),
    "dense": lambda: system([list(range(20))] * 20),
}


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
    assert (
        np.diff(runs.run_rows).max() == 19
    )  # levels go along a line of j, i falling by 2 as j rises; less the ends
    assert runs.run_rows.size - 1 < 41 * 21 * 2 // 4


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
    x[:n] = np.nan  # nothing of it may be read
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
    sweeps.multiply(matrix.lower, matrix.upper, diagonal, x, y)
    close(in_old_order(matrix, y), matrix.dense @ in_old_order(matrix, x))
    again = np.empty(n)
    total = sweeps.multiply_dot(matrix.lower, matrix.upper, diagonal, x, again)
    np.testing.assert_array_equal(again, y[:n])
    close(total, x[:n] @ y[:n])
    assert np.isnan(y[n:]).all()
