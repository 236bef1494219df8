"""Two real rows transformed as one complex row, against real transforms of each."""

from itertools import product

import numpy as np

from ridgeline.fourier import real_pairs as pairs

CASES = [(64, 31, 4), (32, 16, 6), (32, 12, 5), (20, 7, 4), (12, 1, 1), (8, 4, 3)]
SEGMENTS = ["one", "dealt", "packed"]


def make(nx, n_columns, n_rows, kind, dtype, n_variables=2):
    """Real rows with modes 0 ... n_columns - 1, and their modes scattered over an array."""
    rng = np.random.default_rng(0)
    modes = np.fft.rfft(rng.standard_normal((n_variables, n_rows, nx)))
    modes[:, :, n_columns:] = 0
    rows = np.fft.irfft(modes, n=nx) * nx
    pitch = 3 if kind == "packed" else 1
    segments = np.array([[0, 1, n_columns]])
    if kind == "dealt":
        segments = np.array([[0, 2, (n_columns + 1) // 2], [1, 2, n_columns // 2]])
    start = np.zeros((n_variables, n_rows, len(segments)), np.int64)
    place, source = 1, np.zeros(1 + n_variables * n_rows * (n_columns * pitch + 1), dtype)
    for v in range(n_variables):
        for r in reversed(range(n_rows)):
            for s, (first, step, length) in enumerate(segments):
                start[v, r, s] = place
                values = modes[v, r, first : first + step * length : step][:length]
                source[place : place + pitch * length : pitch] = values
                place += pitch * length
    return rows, source, start, pitch, segments


def test_pairs_hold_two_rows():
    for dtype, kind, (nx, n_columns, n_rows) in product([np.complex64, np.complex128], SEGMENTS, CASES):
        case = f"{dtype=}, {kind=}, {nx=}, {n_columns=}, {n_rows=}"
        rows, source, start, pitch, segments = make(nx, n_columns, n_rows, kind, dtype)
        real = source.real.dtype
        tolerance = 1e-5 * nx if real == np.float32 else 1e-13 * nx
        work = np.full((2, (n_rows + 1) // 2, 2 * nx + 4), 7, real)
        scratch = np.full((2, 2 * n_columns + 2), 5, real)
        numbers = source.view(real)
        pairs.load_pairs(numbers, start, pitch, segments, n_columns, 0, n_rows, 2, nx, scratch, work)
        joined = np.fft.ifft(work[:, :, : 2 * nx].copy().view(dtype)) * nx
        parts = np.stack([joined.real, joined.imag], axis=2).reshape(2, -1, nx)
        np.testing.assert_allclose(parts[:, :n_rows], rows, atol=tolerance, err_msg=case)
        assert np.abs(parts[:, n_rows:]).max(initial=0) <= tolerance, case

        work[:, :, : 2 * nx] = np.fft.fft(joined).astype(dtype).view(real)
        back = np.zeros_like(source)
        pairs.store_pairs(work, segments, 0, n_rows, 2, nx, start, pitch, scratch, back.view(real))
        np.testing.assert_allclose(back / (2 * nx), source, atol=tolerance, err_msg=case)


def test_imaginary_parts_of_means_do_not_leak_into_the_other_row():
    _, source, start, pitch, segments = make(16, 5, 2, "one", np.complex128, 1)
    work = np.zeros((2, 1, 1, 34))
    scratch = np.zeros((2, 10))
    for n, imag in enumerate((0.0, 3.0)):
        source[start[0, :, 0]] = source[start[0, :, 0]].real + 1j * imag
        numbers = source.view(np.float64)
        pairs.load_pairs(numbers, start, pitch, segments, 5, 0, 2, 1, 16, scratch, work[n])
    np.testing.assert_array_equal(work[0, ..., :32], work[1, ..., :32])


def test_blocks_become_pairs_and_come_back():
    for dtype, (first, n_rows) in product([np.float32, np.float64], [(0, 6), (2, 3), (4, 1)]):
        case = f"{dtype=}, {first=}, {n_rows=}"
        block = np.arange(2 * 4 * 6, dtype=dtype).reshape(2, 4, 6) + 1  # n_z = 2
        work = np.full((3, 14), 9, dtype)
        pairs.pairs_from_block(block, 1, first, n_rows, work)
        for i in range(n_rows):
            row = block[(first + i) % 2, 1 + (first + i) // 2]
            np.testing.assert_array_equal(work[i // 2, i % 2 : 12 : 2], row, err_msg=case)
        if n_rows % 2:
            assert (work[n_rows // 2, 1:12:2] == 0).all(), case
        back = np.zeros_like(block)
        pairs.block_from_pairs(work, 1, first, n_rows, back)
        assert (back != 0).sum() == n_rows * 6, case
        np.testing.assert_array_equal(back[back != 0], block[back != 0], err_msg=case)
