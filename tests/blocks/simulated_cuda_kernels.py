"""Tests of GPU building blocks in numba-cuda's simulator; test_halo_cuda_kernels.py runs this file."""

import math

import numba
import numpy as np
import pytest
from numba import cuda
from numba.extending import intrinsic

from ridgeline.blocks import box_copies, halo_cuda
from ridgeline.jit.cuda_device import SIMULATED, fma, wide_product
from ridgeline.jit.cuda_random import SCALE, device_key, philox_words, significant_bits, unscaled_uniform
from ridgeline.jit.random import PHILOX_7, PHILOX_10, uniform_reference
from simulator import ON_GPU, only_simulated

assert SIMULATED != ON_GPU, "run with NUMBA_ENABLE_CUDASIM=1"


@intrinsic
def hardware_fma(typing, a, b, c):
    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return a(a, b, c), codegen


@numba.njit
def fma_on_cpu(a, b, c, out):
    for i in range(a.size):
        out[i] = hardware_fma(a[i], b[i], c[i])


@only_simulated
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fused_multiply_add_rounds_once(dtype) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(4000).astype(dtype) for _ in range(2))
    # Sums that cancel, ties and sums far apart all occur.
    c = (-a * b * rng.choice([1, 1 + 2**-20, 2**-24, 2**24, 0], 4000)).astype(dtype)
    expected = np.empty_like(a)
    fma_on_cpu(a, b, c, expected)
    found = [fma(*three) for three in zip(a, b, c)]
    assert {type(x) for x in found} == {dtype}
    np.testing.assert_array_equal(found, expected)
    assert (expected != a * b + c).any()


@only_simulated
def test_fused_multiply_add_of_float32_does_not_round_twice() -> None:
    # c + 2^-24 - 2^-70 lies just below the middle between c and its successor, which float64 rounds it to.
    a, b = np.float32((2**23 + 1) * 2.0**-23), np.float32((2**23 - 1) * 2.0**-47)
    c = np.float32(1 + 2.0**-23)
    assert fma(a, b, c) == c
    assert np.float32(float(a) * float(b) + float(c)) > c


@only_simulated
def test_fused_multiply_add_keeps_zeros_and_what_is_not_finite() -> None:
    one, zero = np.float64(1), np.float64(0)
    assert math.copysign(1, fma(-one, zero, -zero)) == -1
    assert math.isnan(fma(np.float64("nan"), one, one))
    assert fma(np.float64("inf"), one, one) == math.inf


@only_simulated
@pytest.mark.parametrize("generator", [PHILOX_7, PHILOX_10])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_random_numbers_are_those_of_the_cpu(dtype, generator) -> None:
    seed, real = 2**63 + 12345, np.dtype(dtype).type
    key, bits = device_key(seed), significant_bits(dtype, generator)
    for z, group, x, step in [(0, 0, 0, 0), (3, 7, 2**31, 5), (2**20, 2**21, 2**22, 2**31)]:
        words = philox_words(x, group, z, step, key, generator.rounds)
        assert {type(word) for word in words} == {np.uint32}
        for row in range(generator.rows):
            shift = bits.shift if row < 4 else np.uint32(0)
            number = real(unscaled_uniform(words[row % 4], shift, bits.mask, bits.least)) * real(SCALE)
            y = generator.rows * group + row
            assert number == uniform_reference(seed, step, z, y, x, dtype, generator)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_boxes_are_copied_as_on_the_cpu(dtype) -> None:
    rng = np.random.default_rng(0)
    source = rng.random(3000).astype(dtype)
    table = np.array(
        [
            [5, 200, 20, 0, 12, 4, 2, 3, 4],  # a box into a buffer
            [40, 200, 20, 600, 5, 1, 4, 5, 1],  # a face across x
            [700, 100, 10, 1200, 300, 30, 1, 4, 9],  # one plane, pitched on both sides
            [0, 1, 1, 2000, 1, 1, 7, 0, 3],  # nothing
        ],
        np.uint64,
    )
    expected, found = np.zeros(3000, dtype), cuda.to_device(np.zeros(3000, dtype))
    box_copies.copy_boxes(source, expected, table)
    grid, block = halo_cuda.launch_shape(table)
    assert grid[1] == len(table)
    halo_cuda.copy_boxes[grid, block](cuda.to_device(source), found, cuda.to_device(table))
    np.testing.assert_array_equal(found.copy_to_host(), expected)
    assert np.count_nonzero(expected) == 2 * 3 * 4 + 4 * 5 + 4 * 9


@only_simulated
def test_wide_product_keeps_all_bits() -> None:
    product = wide_product(np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFF))
    assert product == 0xFFFFFFFF**2
    assert isinstance(product, np.uint64)
