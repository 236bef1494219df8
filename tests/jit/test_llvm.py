"""The IR helpers, each run once through a small compiled kernel and held to NumPy."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit, types
from numba.extending import intrinsic

from ridgeline.jit import llvm
from ridgeline.jit.llvm import Lanes, data_pointer, element_type

L = 8


def line_kernel(body):
    """Compile `kernel(out, i, a, b, c)`: out[i:i+L] = body(lanes, pointers, i)."""

    @intrinsic
    def line(typing, out, i, a, b, c):
        def codegen(context, builder, signature, args):
            lanes = Lanes(builder, element_type(signature.args[0].dtype), L)
            pointers = [data_pointer(context, builder, signature, args, n) for n in (0, 2, 3, 4)]
            body(lanes, pointers, args[1])
            return context.get_dummy_value()

        return types.void(out, i, a, b, c), codegen

    @njit
    def kernel(out, i, a, b, c):
        line(out, i, a, b, c)
        llvm.store_fence()

    return kernel


def aligned(n, dtype):
    raw = np.zeros(n + 64, np.uint8 if dtype is None else dtype)
    return raw[(-raw.ctypes.data // raw.itemsize) % (64 // raw.itemsize) :][:n]


def run(body, dtype=np.float64, i=L, rng=None):
    rng = rng or np.random.default_rng(1)
    arrays = [aligned(4 * L, dtype) for _ in range(4)]
    for x in arrays:
        x[:] = rng.integers(1, 2**31, x.size) if np.dtype(dtype).kind in "iu" else rng.random(x.size)
    before = arrays[0].copy()
    line_kernel(body)(arrays[0], i, *arrays[1:])
    return before, arrays


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arithmetic_is_not_contracted(dtype):
    def body(lanes, p, i):
        a, b, c = (lanes.load(q, i, aligned=True) for q in p[1:])
        (a * b + c - lanes.constant(0.5) * -a).store(p[0], i, streaming=True)

    before, (out, a, b, c) = run(body, dtype)
    expected = (a * b + c) - dtype(0.5) * -a
    np.testing.assert_array_equal(out[L : 2 * L], expected[L : 2 * L])
    np.testing.assert_array_equal(np.delete(out, range(L, 2 * L)), np.delete(before, range(L, 2 * L)))


def test_fma_rounds_once():
    def body(lanes, p, i):
        a, b = (lanes.load(q, i) for q in p[1:3])
        product = a * b
        lanes.fma(a, b, -product).store(p[0], i)

    _, (out, a, b, _) = run(body)
    exact = [float(Fraction(x) * Fraction(y) - Fraction(x * y)) for x, y in zip(a, b)]
    np.testing.assert_array_equal(out[L : 2 * L], exact[L : 2 * L])
    assert np.any(out[L : 2 * L] != 0)


@pytest.mark.parametrize("dtype", [np.uint64, np.uint32])
def test_integers(dtype):
    def body(lanes, p, i):
        a, b, c = (lanes.load(q, i) for q in p[1:])
        three = lanes.constant(3)
        (((a + b) * c ^ (a & b)) - (a | c) + (b >> three) + (c << three)).store(p[0], i)

    _, (out, a, b, c) = run(body, dtype)
    three = dtype(3)
    expected = (((a + b) * c) ^ (a & b)) - (a | c) + (b >> three) + (c << three)
    np.testing.assert_array_equal(out[L : 2 * L], expected[L : 2 * L])


def test_neighbours_by_lane_shifts():
    def body(lanes, p, i):
        step = llvm.constant(llvm.I64, L)
        at = [lanes.load(p[1], j) for j in (lanes.builder.sub(i, step), i, lanes.builder.add(i, step))]
        left, right = llvm.left_neighbours(at[0], at[1]), llvm.right_neighbours(at[1], at[2])
        llvm.prefetch(lanes.builder, p[1], i)
        (left - right).store(p[0], i)

    _, (out, a, *_) = run(body)
    np.testing.assert_array_equal(out[L : 2 * L], a[L - 1 : 2 * L - 1] - a[L + 1 : 2 * L + 1])


@pytest.mark.parametrize("i", [5, L])
def test_masked_store_touches_nothing_else(i):
    def body(lanes, p, i):
        integers = Lanes(lanes.builder, llvm.I64, L)
        mask = integers.constant(list(range(L))).less(integers.constant(3))
        lanes.load(p[1], i).store_masked(mask, p[0], i)

    before, (out, a, *_) = run(body, i=i)
    expected = before.copy()
    expected[i : i + 3] = a[i : i + 3]
    np.testing.assert_array_equal(out, expected)


def test_conversions_and_selects():
    def body(lanes, p, i):
        integers, words = Lanes(lanes.builder, llvm.I64, L), Lanes(lanes.builder, llvm.I32, L)
        x = integers.iota(i) + integers.constant(2**31 - 12)  # crosses the sign of a 32-bit word
        word = x.truncate(words)
        small = integers.iota(i).min_unsigned(integers.constant(10)).truncate(words)
        (word.to_float(lanes) + small.to_float(lanes)).store(p[0], i)

    _, (out, *_) = run(body)
    x = np.arange(L, 2 * L)
    words = (x + 2**31 - 12).astype(np.uint32).view(np.int32)
    np.testing.assert_array_equal(out[L : 2 * L], words + np.minimum(x, 10))


def test_vector_width_of_the_host(monkeypatch):
    assert llvm.host_vector_bytes.__wrapped__() in (16, 32, 64)
    monkeypatch.setenv(llvm.VECTOR_BYTES_VARIABLE, "32")
    assert llvm.host_vector_bytes.__wrapped__() == 32
    monkeypatch.setenv(llvm.VECTOR_BYTES_VARIABLE, "24")
    with pytest.raises(ValueError, match="must be 16, 32 or 64"):
        llvm.host_vector_bytes.__wrapped__()
