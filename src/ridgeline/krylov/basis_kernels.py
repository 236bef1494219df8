"""Passes over the bases of GMRES and of projections onto earlier solutions: many vectors, each read once.

The conventions are those of krylov/kernels.py. Rows of a basis are read four at a time, in runs that are long enough
for the hardware's prefetching. The vectors that are combined with them stay in cache.
"""

import numpy as np
from numba import boolean, float64, int64

from ridgeline.krylov.kernels import BLOCK, VECTOR, VECTORS, compiled_pass, part_of_pass

LONG = 4096  # points of a run where rows of a basis are only read
CHAIN = 256  # points of a block where each vector of a basis is read as often as there are vectors


@part_of_pass()
def _add_dots(basis, count, start, end, scaled, out_sums):
    """Add sum basis[k, start:end] scaled to out_sums[k], k < count, four rows at a time."""
    size = end - start
    whole = count - count % 4
    for k in range(0, whole, 4):
        a, b, c, d = (
            basis[k, start:end],
            basis[k + 1, start:end],
            basis[k + 2, start:end],
            basis[k + 3, start:end],
        )
        f = g = h = q = 0.0
        for i in range(size):
            value = scaled[i]
            f += a[i] * value
            g += b[i] * value
            h += c[i] * value
            q += d[i] * value
        out_sums[k] += f
        out_sums[k + 1] += g
        out_sums[k + 2] += h
        out_sums[k + 3] += q
    for k in range(whole, count):
        a = basis[k, start:end]
        f = 0.0
        for i in range(size):
            f += a[i] * scaled[i]
        out_sums[k] += f


@part_of_pass()
def _add_pair_dots(basis, count, start, end, first, second, out_sums):
    """Do what `_add_dots` does for two vectors, out_sums[0] and out_sums[1], with one reading of the rows."""
    size = end - start
    whole = count - count % 4
    for k in range(0, whole, 4):
        a, b, c, d = (
            basis[k, start:end],
            basis[k + 1, start:end],
            basis[k + 2, start:end],
            basis[k + 3, start:end],
        )
        f = g = h = q = 0.0
        l = m = o = r = 0.0
        for i in range(size):
            one, two = first[i], second[i]
            f += a[i] * one
            g += b[i] * one
            h += c[i] * one
            q += d[i] * one
            l += a[i] * two
            m += b[i] * two
            o += c[i] * two
            r += d[i] * two
        out_sums[0, k] += f
        out_sums[0, k + 1] += g
        out_sums[0, k + 2] += h
        out_sums[0, k + 3] += q
        out_sums[1, k] += l
        out_sums[1, k + 1] += m
        out_sums[1, k + 2] += o
        out_sums[1, k + 3] += r
    for k in range(whole, count):
        a = basis[k, start:end]
        f = l = 0.0
        for i in range(size):
            f += a[i] * first[i]
            l += a[i] * second[i]
        out_sums[0, k] += f
        out_sums[1, k] += l


@compiled_pass(lambda: (VECTORS, int64, VECTOR, VECTOR, boolean, VECTOR, VECTORS))
def pair_dots(basis, count, a, b, with_b, weights, out_sums):
    """Set out_sums[0, k] = sum basis[k] a weights and out_sums[1, k] = sum basis[k] b weights for k < count.

    basis : [rows >= count, n]; a, b, weights : [n], a and b may be rows of basis; b is not read unless with_b
    out_sums : [2, rows]. One pass: count + 2 words per point, + 1 with b.
    """
    n = len(a)
    first, second = np.empty(LONG, a.dtype), np.empty(LONG, a.dtype)
    out_sums[:] = 0.0
    for start in range(0, n, LONG):
        end = min(start + LONG, n)
        _multiply(a[start:end], weights[start:end], first)
        if with_b:
            _multiply(b[start:end], weights[start:end], second)
            _add_pair_dots(basis, count, start, end, first, second, out_sums)
        else:
            _add_dots(basis, count, start, end, first, out_sums[0])


@part_of_pass()
def _multiply(a, b, out):
    """Set out = a b over the length of a."""
    for i in range(len(a)):
        out[i] = a[i] * b[i]


@compiled_pass(lambda: (VECTORS, int64, VECTOR, float64, VECTOR))
def basis_subtract(basis, count, factors, scale, w):
    """Set w = scale (w - sum_{k < count} factors[k] basis[k]). One pass: count + 2 words per point.

    basis : [rows >= count, n]; factors : [count]; w : [n]
    """
    for start in range(0, len(w), BLOCK):
        end = min(start + BLOCK, len(w))
        a = w[start:end]
        for i in range(end - start):
            a[i] *= scale
        _add_rows(basis, count, factors, -scale, start, end, a)


@compiled_pass(lambda: (VECTORS, int64, VECTOR, float64, VECTOR, float64, float64, VECTOR, VECTOR))
def basis_subtract_pair(basis, count, of_v, scale_v, of_w, last, scale_w, v, w):
    """Set v = scale_v (v - sum of_v[k] basis[k]), then w = scale_w (w - sum of_w[k] basis[k] - last v), k < count.

    basis : [rows >= count, n]; of_v, of_w : [count]; v, w : [n]. One pass: count + 4 words per point.
    """
    for start in range(0, len(w), BLOCK):
        end = min(start + BLOCK, len(w))
        size = end - start
        a, b = v[start:end], w[start:end]
        whole = count - count % 2
        for k in range(0, whole, 2):
            one, two = basis[k, start:end], basis[k + 1, start:end]
            f, g, h, q = of_v[k], of_v[k + 1], of_w[k], of_w[k + 1]
            for i in range(size):
                a[i] -= f * one[i] + g * two[i]
                b[i] -= h * one[i] + q * two[i]
        for k in range(whole, count):
            one, f, g = basis[k, start:end], of_v[k], of_w[k]
            for i in range(size):
                a[i] -= f * one[i]
                b[i] -= g * one[i]
        for i in range(size):
            a[i] *= scale_v
        for i in range(size):
            b[i] = scale_w * (b[i] - last * a[i])


@compiled_pass(lambda T: (T[:, ::1], int64, VECTOR, VECTOR))
def basis_add(basis, count, factors, x):
    """Set x += sum_{k < count} factors[k] basis[k]. basis may be float32. One pass: count + 2 words per point."""
    for start in range(0, len(x), BLOCK):
        end = min(start + BLOCK, len(x))
        _add_rows(basis, count, factors, 1.0, start, end, x[start:end])


@part_of_pass()
def _add_rows(basis, count, factors, scale, start, end, out):
    """Set out += scale sum factors[k] basis[k, start:end], four rows at a time."""
    size = end - start
    whole = count - count % 4
    for k in range(0, whole, 4):
        a, b, c, d = (
            basis[k, start:end],
            basis[k + 1, start:end],
            basis[k + 2, start:end],
            basis[k + 3, start:end],
        )
        f, g, h, q = (
            scale * factors[k],
            scale * factors[k + 1],
            scale * factors[k + 2],
            scale * factors[k + 3],
        )
        for i in range(size):
            out[i] += (f * a[i] + g * b[i]) + (h * c[i] + q * d[i])
    for k in range(whole, count):
        a, f = basis[k, start:end], scale * factors[k]
        for i in range(size):
            out[i] += f * a[i]


@compiled_pass(lambda: (VECTORS, int64, boolean, VECTOR, float64, VECTOR, VECTOR, VECTOR))
def projection_combine(basis, count, fresh, along, scale, factors, mirror, out_x):
    """Add a new vector to the basis, combine all vectors, and drop a direction by a reflection, all in one pass.

    basis : [rows, n], of which the rows before `count` are orthonormal
    fresh, along, scale : if fresh, row `count` is a new vector d, and becomes scale (d - sum_k along[k] basis[k])
    factors, out_x : out_x = sum_k factors[k] basis[k] over `count` rows, or one more if fresh
    mirror : [rows], or empty for no reflection. After that, row_k -= mirror[k] (sum_j mirror[j] row_j) for all rows
        but the last, which is unused from then on

    Words per point: the rows are read and out_x is written; with a mirror the remaining rows are written too.
    """
    n, drop = len(out_x), len(mirror) > 0
    image = np.empty(BLOCK, out_x.dtype)
    rows = count + 1 if fresh else count
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        size = end - start
        if fresh:
            new = basis[count, start:end]
            for i in range(size):
                new[i] *= scale
            _add_rows(basis, count, along, -scale, start, end, new)
        _set_rows(basis, rows, factors, start, end, out_x[start:end])
        if drop:
            _set_rows(basis, rows, mirror, start, end, image)
            for k in range(rows - 1):
                row, share = basis[k, start:end], mirror[k]
                for i in range(size):
                    row[i] -= share * image[i]


@part_of_pass()
def _set_rows(basis, count, factors, start, end, out):
    """Set out = sum factors[k] basis[k, start:end]."""
    for i in range(end - start):
        out[i] = 0.0
    _add_rows(basis, count, factors, 1.0, start, end, out)


@compiled_pass(lambda: (VECTORS, int64, VECTOR, VECTORS))
def basis_products(basis, count, weights, out_sums):
    """Set out_sums[i, j] = out_sums[j, i] = sum basis[i] basis[j] weights, i and j < count.

    basis : [rows >= count, n]; weights : [n]; out_sums : [rows, rows], the others 0. One pass: count + 1 words per
    point.
    """
    n = len(weights)
    scaled = np.empty(CHAIN, weights.dtype)
    out_sums[:] = 0.0
    for start in range(0, n, CHAIN):
        end = min(start + CHAIN, n)
        for i in range(count):
            _multiply(basis[i, start:end], weights[start:end], scaled)
            _add_dots(basis, i + 1, start, end, scaled, out_sums[i])
    for i in range(count):
        for j in range(i):
            out_sums[j, i] = out_sums[i, j]


@compiled_pass(lambda: (VECTORS, int64, VECTORS))
def basis_transform(basis, count, factors):
    """Set basis[i] = sum_{j <= i} factors[i, j] basis[j], i < count. One pass: 2 count words per point.

    basis : [rows >= count, n]; factors : [>= count, >= count], only its lower triangle is read
    """
    n = basis.shape[1]
    for start in range(0, n, CHAIN):
        end = min(start + CHAIN, n)
        for back in range(count):
            i = count - 1 - back
            row = basis[i, start:end]
            for p in range(end - start):
                row[p] *= factors[i, i]
            _add_rows(basis, i, factors[i], 1.0, start, end, row)
