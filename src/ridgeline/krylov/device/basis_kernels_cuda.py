"""Passes over bases of many vectors in GPU memory: the twins of `krylov.basis_kernels`.

A basis is a flat device array of rows of n points. Factors are float64 device arrays; they stay in the first-level
cache. In kernels that sum, a thread block works on ROWS rows. Thread blocks that have other rows of the same points
are neighbours, so that the vectors by which rows are multiplied come from the second-level cache. In place of rows
beyond the last one the last row is read again; these sums are ignored. Thread block b of sum s leaves its part at
out[s blocks + b]; `kernels_cuda.fold_sums` adds the parts in one order.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import device_function, fma, kernel, load, store
from ridgeline.krylov.device.kernels_cuda import BLOCKS, THREADS, leave_sums, thread_place

ROWS = 4  # of a basis, whose products a thread block forms with one reading of what they share
_GROUP, _PAIRS = ROWS * THREADS, 2 * ROWS * THREADS


@device_function
def _combined(basis, count, n, i, factors, start, value):
    """Return value + sum_{k < count} factors[start + k] basis[k, i], four loads at a time."""
    whole = count - count % 4
    for k in range(0, whole, 4):
        a, b = _wide(basis, k * n + i), _wide(basis, (k + 1) * n + i)
        c, d = _wide(basis, (k + 2) * n + i), _wide(basis, (k + 3) * n + i)
        value = fma(load(factors, start + k), a, value)
        value = fma(load(factors, start + k + 1), b, value)
        value = fma(load(factors, start + k + 2), c, value)
        value = fma(load(factors, start + k + 3), d, value)
    for k in range(whole, count):
        value = fma(load(factors, start + k), _wide(basis, k * n + i), value)
    return value


@device_function
def _wide(array, index):
    return np.float64(load(array, index))


@kernel(THREADS, BLOCKS)
def pair_dots(groups, count, n, basis, a, b, weights, out):
    """Products of rows with a, and with b where it has a size: 2 ROWS sums of each group of ROWS rows.

    Sum (group 2 ROWS + r) is of row group ROWS + r with a, sum (group 2 ROWS + ROWS + r) of that row with b.
    Launch groups x blocks.
    """
    scratch = cuda.shared.array(_PAIRS, np.float64)
    group, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, groups)
    row, last = group * ROWS, count - 1
    second, third, fourth = min(row + 1, last), min(row + 2, last), min(row + 3, last)
    a0 = a1 = a2 = a3 = 0.0
    b0 = b1 = b2 = b3 = 0.0
    for i in range(first, n, step):
        w = load(weights, i)
        one, two = load(a, i) * w, 0.0
        if b.size > 0:
            two = load(b, i) * w
        r0, r1 = load(basis, row * n + i), load(basis, second * n + i)
        r2, r3 = load(basis, third * n + i), load(basis, fourth * n + i)
        a0, a1, a2, a3 = fma(r0, one, a0), fma(r1, one, a1), fma(r2, one, a2), fma(r3, one, a3)
        b0, b1, b2, b3 = fma(r0, two, b0), fma(r1, two, b1), fma(r2, two, b2), fma(r3, two, b3)
    sums = (a0, a1, a2, a3, b0, b1, b2, b3)
    for s in range(2 * ROWS):
        store(scratch, s * THREADS + cuda.threadIdx.x, sums[s])
    leave_sums(scratch, 2 * ROWS, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, groups, out)


@kernel(THREADS, BLOCKS)
def basis_products(groups, count, n, basis, weights, out):
    """Products of rows with rows: sum ((row groups + group) ROWS + r) is of `row` with row group ROWS + r.

    Sums beyond the diagonal are not computed and mean nothing. Launch count x groups x blocks.
    """
    scratch = cuda.shared.array(_GROUP, np.float64)
    fields = count * groups
    field, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, fields)
    mine, column, last = field // groups, field % groups * ROWS, count - 1
    second, third, fourth = min(column + 1, last), min(column + 2, last), min(column + 3, last)
    c0 = c1 = c2 = c3 = 0.0
    if column <= mine:
        for i in range(first, n, step):
            one = load(basis, mine * n + i) * load(weights, i)
            c0 = fma(one, load(basis, column * n + i), c0)
            c1 = fma(one, load(basis, second * n + i), c1)
            c2 = fma(one, load(basis, third * n + i), c2)
            c3 = fma(one, load(basis, fourth * n + i), c3)
    sums = (c0, c1, c2, c3)
    for s in range(ROWS):
        store(scratch, s * THREADS + cuda.threadIdx.x, sums[s])
    leave_sums(scratch, ROWS, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, fields, out)


@kernel(THREADS, BLOCKS)
def basis_add(count, n, basis, factors, x):
    """x += sum factors[k] basis[k]; the basis may be float32."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, n, step):
        store(x, i, _combined(basis, count, n, i, factors, 0, load(x, i)))


@kernel(THREADS, BLOCKS)
def basis_subtract(count, n, basis, factors, scale, w):
    """w = scale (w + sum factors[k] basis[k]): the caller passes the factors with their signs changed."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, n, step):
        store(w, i, scale * _combined(basis, count, n, i, factors, 0, load(w, i)))


@kernel(THREADS, BLOCKS)
def basis_subtract_pair(count, n, basis, factors, scale_v, last, scale_w, v, w):
    """Do `basis_subtract` of v, by the first `count` factors, and of w, by the next ones and `last` times v."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, n, step):
        a, b = load(v, i), load(w, i)
        for k in range(count):
            row = load(basis, k * n + i)
            a = fma(load(factors, k), row, a)
            b = fma(load(factors, count + k), row, b)
        a *= scale_v
        store(v, i, a)
        store(w, i, scale_w * fma(-last, a, b))


@kernel(THREADS, BLOCKS)
def projection_combine(count, fresh, mirrored, n, basis, factors, scale, x):
    """Do what `krylov.basis_kernels.projection_combine` does.

    factors: three runs of count + 1: `along` with changed signs, those of x, those of the mirror.
    """
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    of_x, of_mirror = count + 1, 2 * (count + 1)
    for i in range(first, n, step):
        new = load(basis, count * n + i) if fresh else 0.0
        solution = image = 0.0
        for k in range(count):
            row = load(basis, k * n + i)
            new = fma(load(factors, k), row, new)
            solution = fma(load(factors, of_x + k), row, solution)
            image = fma(load(factors, of_mirror + k), row, image)
        if fresh:
            new *= scale
            store(basis, count * n + i, new)
            solution = fma(load(factors, of_x + count), new, solution)
            image = fma(load(factors, of_mirror + count), new, image)
        store(x, i, solution)
        if mirrored:
            for k in range(count if fresh else count - 1):
                share = load(factors, of_mirror + k)
                store(basis, k * n + i, fma(-share, image, load(basis, k * n + i)))


@kernel(THREADS, BLOCKS)
def basis_transform(count, n, basis, factors):
    """basis[i] = sum_{j <= i} factors[i, j] basis[j], i < count; factors: count rows of count."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, n, step):
        for back in range(count):
            row = count - 1 - back
            value = load(factors, row * count + row) * load(basis, row * n + i)
            store(basis, row * n + i, _combined(basis, row, n, i, factors, row * count, value))
