"""The vector kernels against NumPy: any length, alignment, number of threads, kind of store, both dtypes."""

from itertools import product

import numpy as np
import pytest
from numba import njit

from ridgeline.jit import stream_kernels

DTYPES = [np.float64, np.float32]
LENGTHS = [0, 1, 7, 8, 16, 17, 1000, 4096 + 3]
S = 0.375


def vectors(n, dtype, offset):
    """Three vectors that start `offset` elements behind a cache line, each between guards of -99."""
    rng = np.random.default_rng(n)
    found = []
    for _ in range(3):
        raw = np.full(n + 64, -99, dtype)
        start = (-raw.ctypes.data // raw.itemsize) % (64 // raw.itemsize) + 16 + offset
        raw[start : start + n] = rng.random(n)
        found.append((raw, raw[start : start + n]))
    return found


def fma(x, s, y):
    """X + s y rounded once (s has few bits, so the product is exact in twice the precision)."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    return (x.astype(wide) + wide(s) * y.astype(wide)).astype(x.dtype)


CASES = {
    "fill": (lambda x, y, out, t, w: stream_kernels.fill(S, out, t), lambda x, y: np.full_like(x, S)),
    "copy": (lambda x, y, out, t, w: stream_kernels.copy(x, out, t, w), lambda x, y: x),
    "scale": (
        lambda x, y, out, t, w: stream_kernels.scale(S, x, out, t, w),
        lambda x, y: x.dtype.type(S) * x,
    ),
    "add": (lambda x, y, out, t, w: stream_kernels.add(x, y, out, t, w), lambda x, y: x + y),
    "triad": (lambda x, y, out, t, w: stream_kernels.triad(x, S, y, out, t, w), lambda x, y: fma(x, S, y)),
}


def test_every_element_is_computed_and_nothing_else_is_written():
    cuts = list(product(LENGTHS, (1, 2, 3), (0, 3)))
    for name, streaming, dtype in product(CASES, [False, True], DTYPES):
        kernel, expected = CASES[name]
        for n, n_threads, offset in cuts:
            case = f"{name}, {streaming=}, {dtype=}, {n=}, {n_threads=}, {offset=}"
            (_, x), (_, y), (raw, out) = vectors(n, dtype, offset)
            guards = raw.copy()
            kernel(x, y, out, n_threads, streaming)
            np.testing.assert_array_equal(out, expected(x, y), err_msg=case)
            inside = (out.ctypes.data - raw.ctypes.data) // raw.itemsize
            guards[inside : inside + n] = out
            np.testing.assert_array_equal(raw, guards, err_msg=case)


def test_output_may_be_an_input():
    (_, x), (_, y), _ = vectors(1000, np.float64, 5)
    expected = fma(x, S, y)
    stream_kernels.triad(x, S, y, x, 2, streaming=True)
    np.testing.assert_array_equal(x, expected)


def test_dot_reads_every_element_once():
    for dtype, n_threads, n in product(DTYPES, [1, 2, 3], [*LENGTHS, 3 * stream_kernels.BLOCK + 5]):
        x = (np.arange(n) % 31 - 15).astype(dtype)  # small integers: sums are exact in any order
        y = (np.arange(n) % 7 - 2).astype(dtype)
        exact = np.dot(x.astype(float), y.astype(float))
        assert stream_kernels.dot(x, y, n_threads) == exact, f"{dtype=}, {n_threads=}, {n=}"


def test_dot_in_float32_does_not_stall_on_long_vectors():
    x = np.ones(2**24 + 2**20, np.float32)  # a float32 sum of ones stops growing at 2^24
    assert stream_kernels.dot(x, x, 1) == x.size


def check_refusal(x, out, n_threads, message):
    with pytest.raises(ValueError, match=message):
        stream_kernels.copy(x, out, n_threads)


def test_bad_vectors_are_refused():
    table = [
        (np.zeros(3), np.zeros(4), 1, r"float64\[3\] and float64\[4\]"),
        (np.zeros(4, np.float32), np.zeros(4), 1, r"float32\[4\] and float64\[4\]"),
        (np.zeros(8)[::2], np.zeros(4), 1, "contiguous"),
        (np.zeros((2, 2)), np.zeros((2, 2)), 1, "1-D"),
        (np.zeros(4, np.int64), np.zeros(4, np.int64), 1, "int64. Use float64 or float32"),
        (np.zeros(4), np.zeros(4), 0, "n_threads is 0"),
    ]
    for x, out, n_threads, message in table:
        check_refusal(x, out, n_threads, message)


def test_dot_refuses_vectors_that_differ():
    with pytest.raises(ValueError, match=r"float64\[3\] and float64\[4\]"):
        stream_kernels.dot(np.zeros(3), np.zeros(4), 1)
    with pytest.raises(ValueError, match="n_threads is 0"):
        stream_kernels.dot(np.zeros(3), np.zeros(3), 0)


def test_stores_are_of_the_kind_asked_for():
    @njit
    def sweep(streaming, x, out):
        stream_kernels._sweep_range(True, stream_kernels.COPY, streaming, x, x, 0.0, out, 0, x.size)

    sweep(True, np.zeros(0), np.zeros(0))
    text = sweep.inspect_llvm(sweep.signatures[0])
    assert "!nontemporal" in text
    assert "llvm.memcpy" not in text  # LLVM's would choose its own kind of store
    assert "llvm.memmove" not in text
