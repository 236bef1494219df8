"""Packing between lines, planes and rows, against indexing spelt out in NumPy."""

import numpy as np
import pytest

from ridgeline.fourier import packing as spectral

DTYPES = [np.complex64, np.complex128]


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_y", [4, 7, 10])
def test_lines_are_gathered_and_scattered(n_y, dtype):
    n_variables, n_columns, offset, n_lines = 2, 9, 3, 5
    arena = numbers(3 * n_y * n_columns, dtype)
    order = np.random.default_rng(1).permutation(3 * n_y)[: 2 * n_y]  # pieces lie anywhere
    start = (order * n_columns).reshape(n_variables, n_y).astype(np.int64)
    tile = np.zeros((3, 6, n_y + 2), dtype)
    spectral.gather_lines(arena, start, offset, n_lines, n_variables, 1, tile)
    for v in range(n_variables):
        for y in range(n_y):
            piece = arena[start[v, y] + offset : start[v, y] + offset + n_lines]
            np.testing.assert_array_equal(tile[v, :n_lines, y], piece)
    assert (tile[2] == 0).all()
    assert (tile[:, n_lines:] == 0).all()

    back = np.zeros_like(arena)
    spectral.scatter_lines(tile, start, offset, n_lines, n_variables, back)
    written = back != 0
    np.testing.assert_array_equal(back[written], arena[written])
    assert written.sum() == n_variables * n_y * n_lines


RUNS = np.array(  # segment, place in it, place in the plane, length, z, first column
    [[0, 0, 0, 3, 0, 0], [0, 3, 5, 1, 1, 0], [1, 0, 6, 2, 1, 1], [1, 2, 20, 3, 4, 0]], np.int64
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1, 5])
def test_planes_are_unpacked_and_packed(step, dtype):
    """z x columns with a pitch of 5, or (step 5) columns x z with the same places transposed."""
    runs = RUNS.copy()
    z, column = runs[:, 4], runs[:, 5]
    runs[:, 2] = z * 5 + column if step == 1 else column * 5 + z
    size, n_segments, first, n_planes = 25, 2, 1, 2
    start = np.arange(2 * 4 * n_segments, dtype=np.int64).reshape(2, 4, n_segments) * 8 + 1
    arena = numbers(2 * 4 * n_segments * 8 + 8, dtype)
    planes = numbers((3, 2, size), dtype, 5)
    zeros = np.array([[3, 1], [23, 2]], np.int64)
    spectral.unpack_planes(arena, start, runs, zeros, step, first, n_planes, 2, planes)
    expected = numbers((3, 2, size), dtype, 5)
    for v in range(2):
        for p in range(n_planes):
            for segment, place, begin, length, _, _ in runs:
                piece = arena[start[v, first + p, segment] + place :][:length]
                expected[v, p, begin : begin + step * length : step][:length] = piece
            expected[v, p, [3, 23, 24]] = 0
    np.testing.assert_array_equal(planes, expected)

    packed = np.zeros_like(arena)
    spectral.pack_planes(planes, start, runs, step, first, n_planes, 2, packed)
    written = packed != 0
    assert written.sum() == 2 * n_planes * runs[:, 3].sum()
    np.testing.assert_array_equal(packed[written], arena[written])


@pytest.mark.parametrize("layout", ["strided", "packed"])
def test_planes_and_rows_are_exchanged(layout):
    """Two owners of z = 0, 1, 2 and z = 3, 4; columns in two groups; groups of 3 planes, of which 2 move."""
    n_z, n_columns, group, n_planes = 5, 4, 3, 2
    step_z, step = (n_columns, 1) if layout == "strided" else (1, n_z)
    planes = numbers((2, n_planes, n_z * n_columns), np.complex128)
    rows = np.array([[0, 3], [1, 3], [2, 3], [9, 2], [10, 2]], np.int64)
    groups = np.array([0, 1, 4], np.int64)
    start = np.arange(2 * 5 * group * 2, dtype=np.int64).reshape(2, 5 * group, 2) * 4
    arena = np.zeros(start.size * 4, complex)
    spectral.planes_to_rows(planes, step_z, step, n_z, start, groups, rows, 1, n_planes, 2, arena)
    for v in range(2):
        for p in range(n_planes):
            for z in range(n_z):
                row = rows[z, 0] + (1 + p) * rows[z, 1]
                pieces = [arena[start[v, row, g] :][: groups[g + 1] - groups[g]] for g in range(2)]
                line = planes[v, p, z * step_z : z * step_z + n_columns * step : step][:n_columns]
                np.testing.assert_array_equal(np.concatenate(pieces), line)
    back = np.zeros_like(planes)
    spectral.rows_to_planes(arena, start, groups, rows, 1, n_planes, 2, step_z, step, n_z, back)
    np.testing.assert_array_equal(back, planes)


@pytest.mark.parametrize("dtype", DTYPES)
def test_modes_are_spread_over_lines_and_collected(dtype):
    most = np.array([0, 3, 1])
    start = np.concatenate([[0], np.cumsum(2 * most + 1)])
    modes = numbers(start[-1], dtype)
    lines = numbers((3, 10), dtype, 3)
    spectral.lines_from_modes(modes, start, 1, 2, 8, lines)
    expected = np.zeros((2, 8), dtype)
    expected[0, [0, 1, 2, 3, -3, -2, -1]] = modes[1:8]
    expected[1, [0, 1, -1]] = modes[8:]
    np.testing.assert_array_equal(lines[:2, :8], expected)
    back = np.zeros_like(modes)
    spectral.modes_from_lines(lines, start, 1, 2, 8, dtype(0).real.dtype.type(0.5), back)
    np.testing.assert_allclose(back[1:], modes[1:] / 2, rtol=1e-6)
    assert back[0] == 0
