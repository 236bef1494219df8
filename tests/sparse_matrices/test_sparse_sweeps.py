"""Order by wavefront, storage by strips and sweeps against plain loops on boxes and on random matrices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ridgeline.sparse import sweeps
from ridgeline.sparse.row_strips import SPARE, Strips
from ridgeline.sparse.wavefronts import block_rows
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


def test_wavefronts_order_rows_that_share_an_entry(matrix: System) -> None:
    linked = (matrix.dense != 0) | (matrix.dense != 0).T
    fronts, block = matrix.fronts, matrix.block
    for i in range(fronts.size):
        first = i // block * block
        lowest = fronts[:first].max(initial=-1) + 1
        before = fronts[first:i][linked[i, first:i]]
        assert fronts[i] == max(lowest, before.max(initial=-1) + 1)
    np.testing.assert_array_equal(matrix.order, np.argsort(fronts, kind="stable"))
    np.testing.assert_array_equal(matrix.new_number[matrix.order], np.arange(fronts.size))
    np.testing.assert_array_equal(np.diff(matrix.front_rows), np.bincount(fronts))


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


def unpacked(strips: Strips, n: int) -> NDArray:
    """Return the dense triangle that strips stand for."""
    dense = np.zeros((n, n))
    for strip in range(strips.strip_rows.size - 1):
        first, end = strips.strip_rows[strip : strip + 2]
        columns = strips.slot_columns[strips.strip_slots[strip] : strips.strip_slots[strip + 1]]
        place = strips.strip_values[strip]
        for chunk in range(first, end, 8):
            width = min(8, end - chunk)
            for s in range(columns.size):
                for row in range(chunk, chunk + width):
                    dense[row, columns[s] + row - first] = strips.values[place]
                    place += 1
    return dense


def test_runs_hold_the_triangles(matrix: System) -> None:
    n = matrix.fronts.size
    permuted = matrix.dense[np.ix_(matrix.order, matrix.order)]
    np.testing.assert_array_equal(unpacked(matrix.lower, n), np.tril(permuted, -1))
    np.testing.assert_array_equal(unpacked(matrix.upper, n), np.triu(permuted, 1))
    assert not np.any(matrix.lower.strip_values % 8)
    rows = matrix.lower.strip_rows[matrix.lower.front_strips]
    np.testing.assert_array_equal(rows, matrix.front_rows)


def test_runs_of_a_box_are_long() -> None:
    strips = box(41, 21, 2).lower
    # Wavefronts go along a line of j, i falling by 2 as j rises.
    assert np.diff(strips.strip_rows).max() == 20
    assert strips.strip_rows.size - 1 < 41 * 21 * 2 // 5


def test_rows_at_the_sides_stay_in_the_runs_of_a_plane() -> None:
    strips = box(40, 30, 3, block=1200).lower
    middle = strips.strip_rows[(strips.strip_rows >= 1200) & (strips.strip_rows < 2400)]
    fronts = 40 + 2 * 29
    assert middle.size <= fronts * 6 // 5  # three times as many without


def test_zeros_in_runs_are_few(matrix: System) -> None:
    strips, n = matrix.lower, matrix.fronts.size
    width = np.diff(matrix.lower.strip_slots) + np.diff(matrix.upper.strip_slots)
    entries = np.array(
        [np.sum((row >= 0) & (row < n)) for row in np.split(matrix.columns, matrix.indptr[1:-1])]
    )
    entries -= np.diag(matrix.dense) != 0
    in_strip = np.add.reduceat(entries[matrix.order], strips.strip_rows[:-1])
    rows = np.diff(strips.strip_rows)
    zeros = rows * width - in_strip
    assert np.all(zeros >= 0)
    assert np.all(zeros <= np.maximum(rows * width // SPARE, width // 2))
    assert np.all(zeros[rows == 1] == 0)


@pytest.fixture
def vectors(matrix: System) -> dict[str, NDArray]:
    """Vectors in the new order; NaN behind the owned part, which no pass may touch."""
    n, rng = matrix.fronts.size, np.random.default_rng(1)
    diagonal = np.diag(matrix.dense)[matrix.order]
    made = {name: np.append(rng.standard_normal(n), [np.nan] * 9) for name in ("r", "x", "half", "y")}
    return made | {"diagonal": diagonal, "inverse": 1 / diagonal}


def in_old_order(matrix: System, vector: NDArray) -> NDArray:
    return vector[: matrix.fronts.size][matrix.new_number]


def close(actual: NDArray, expected: NDArray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-13, atol=1e-13)


def test_symmetric_sweep_from_zero(matrix: System, vectors) -> None:
    n, a = matrix.fronts.size, matrix.dense
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
    n, a = matrix.fronts.size, matrix.dense
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
    n = matrix.fronts.size
    x, y, diagonal = (vectors[name] for name in ("x", "y", "diagonal"))
    sweeps.multiply_dot(matrix.lower, matrix.upper, diagonal, x, y)
    close(in_old_order(matrix, y), matrix.dense @ in_old_order(matrix, x))
    again = np.empty(n)
    total = sweeps.multiply_dot(matrix.lower, matrix.upper, diagonal, x, again)
    np.testing.assert_array_equal(again, y[:n])
    close(total, x[:n] @ y[:n])
    assert np.isnan(y[n:]).all()
