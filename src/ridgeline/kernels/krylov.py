"""Passes over long vectors that Krylov solvers need, merged so that each vector is read as seldom as can be.

Vectors are rows of C-contiguous arrays [rows, points]; scalars and results are small float64 arrays. Work goes in
blocks that stay in the first-level cache while the vectors of a pass are taken one after the other, so that several
plain loops, which compile to vector code, cost one pass over memory. Sums have a fixed order: lanes within a block,
then blocks. Scratch is one or two blocks of numbers.

A sum may be reordered by the compiler ("reassoc") but numbers that are not finite are kept as such: a NaN in any
input that counts is a NaN in the result.
"""

import numba
import numpy as np

BLOCK = 1024  # points: 8 KiB a vector, four of them in a first-level cache
CHAIN = 256  # points of a block where all vectors of a projection are wanted again
FAST = {"reassoc", "contract"}

_jit = numba.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")


@_jit
def weighted_dots(u, v, weights, out_sums):
    """Set out_sums[c] = sum_i u[c, i] v[c, i] weights[i]. u, v : [c, n] float64. One pass: 3 words per point."""
    rows, n = u.shape
    out_sums[:] = 0.0
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        w = weights[start:end]
        for c in range(rows):
            a, b = u[c, start:end], v[c, start:end]
            total = 0.0
            for i in range(end - start):
                total += a[i] * b[i] * w[i]
            out_sums[c] += total


@_jit
def combine(rows, scales, shape):
    """Set rows[c] += scales[c] shape. rows : [c, n]; shape : [n]."""
    for c in range(rows.shape[0]):
        row, scale = rows[c], scales[c]
        for i in range(len(shape)):
            row[i] += scale * shape[i]


@_jit
def subtract(a, b, out):
    """Set out = a - b. [n] each; float32 or float64."""
    for i in range(len(out)):
        out[i] = a[i] - b[i]


@_jit
def copy(a, out):
    """Set out = a, from one precision to another. [n] each."""
    for i in range(len(out)):
        out[i] = a[i]


@_jit
def zero_points(rows, points):
    """Set rows[c, points] = 0. rows : [c, n]; points : int64, places in a row."""
    for c in range(rows.shape[0]):
        row = rows[c]
        for i in range(len(points)):
            row[points[i]] = 0.0


# Conjugate gradients ------------------------------------------------------------------------------------------


@_jit
def cg_direction(r, inverse_diagonal, beta, p):
    """Set p[c] = inverse_diagonal r[c] + beta[c] p[c]. r, p : [c, n]; inverse_diagonal : [1 or c, n]."""
    for c in range(r.shape[0]):
        a, b = r[c], p[c]
        d = inverse_diagonal[c if inverse_diagonal.shape[0] > 1 else 0]
        factor = beta[c]
        if factor == 0.0:  # the first direction: p is not read, whatever it holds
            for i in range(len(a)):
                b[i] = d[i] * a[i]
        else:
            for i in range(len(a)):
                b[i] = d[i] * a[i] + factor * b[i]


@_jit
def cg_residuals(r, inverse_diagonal, weights, norm_weights, out_sums):
    """Set out_sums[c] = (r.z, r.r): sums of r^2 inverse_diagonal weights and of r^2 norm_weights. r : [c, n]."""
    rows, n = r.shape
    out_sums[:] = 0.0
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        for c in range(rows):
            _add_residuals(r[c], inverse_diagonal, weights, norm_weights, c, start, end, out_sums)


@_jit
def _add_residuals(r, inverse_diagonal, weights, norm_weights, c, start, end, out_sums):
    """Add the sums of one block of component c."""
    b = r[start:end]
    d = inverse_diagonal[c if inverse_diagonal.shape[0] > 1 else 0, start:end]
    w, m = weights[start:end], norm_weights[start:end]
    rz = rr = 0.0
    for i in range(end - start):
        square = b[i] * b[i]
        rz += square * d[i] * w[i]
        rr += square * m[i]
    out_sums[c, 0] += rz
    out_sums[c, 1] += rr


@_jit
def cg_update(alpha, active, p, w, inverse_diagonal, weights, norm_weights, x, r, out_sums):
    """Set x += alpha p, r -= alpha w, and out_sums[c] = (r.z, r.r) of the new r, z = inverse_diagonal r.

    alpha, active : [c], float64 and bool: components that are not active are left alone, their sums 0
    p, w, x, r : [c, n]; inverse_diagonal : [1 or c, n]; weights, norm_weights : [n], maybe the same array
    out_sums : [c, 2]

    One pass: reads p, w, x, r, writes x, r, and reads the diagonal and weights once for all components: 6 c + 2
    words per point, + 1 with norm_weights of their own.
    """
    rows, n = r.shape
    out_sums[:] = 0.0
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        for c in range(rows):
            if not active[c]:
                continue
            step = alpha[c]
            a, b = x[c, start:end], p[c, start:end]
            for i in range(end - start):
                a[i] += step * b[i]
            a, b = r[c, start:end], w[c, start:end]
            for i in range(end - start):
                a[i] -= step * b[i]
            _add_residuals(r[c], inverse_diagonal, weights, norm_weights, c, start, end, out_sums)


@_jit
def flexible_update(alpha, p, w, weights_norm, x, r, old_r, out_sums):
    """Set old_r = r, x += alpha p, r -= alpha w; out_sums[0] = r.r with weights_norm. All [n]. One pass."""
    out_sums[:] = 0.0
    for start in range(0, len(r), BLOCK):
        end = min(start + BLOCK, len(r))
        a, b = x[start:end], p[start:end]
        for i in range(end - start):
            a[i] += alpha * b[i]
        a, b, kept, m = r[start:end], w[start:end], old_r[start:end], weights_norm[start:end]
        for i in range(end - start):
            kept[i] = a[i]
        total = 0.0
        for i in range(end - start):
            a[i] -= alpha * b[i]
        for i in range(end - start):
            total += a[i] * a[i] * m[i]
        out_sums[0] += total


@_jit
def flexible_dots(z, r, old_r, weights, out_sums):
    """Set out_sums = (z.r, z.(r - old_r)). z : [n] float32 or float64; the others [n] float64. One pass."""
    zr = change = 0.0
    for start in range(0, len(r), BLOCK):
        end = min(start + BLOCK, len(r))
        a, b, c, w = z[start:end], r[start:end], old_r[start:end], weights[start:end]
        first = second = 0.0
        for i in range(end - start):
            weighted = a[i] * w[i]
            first += weighted * b[i]
            second += weighted * (b[i] - c[i])
        zr += first
        change += second
    out_sums[0] = zr
    out_sums[1] = change


@_jit
def flexible_direction(z, beta, p):
    """Set p = z + beta p. z : [n] float32 or float64; p : [n] float64."""
    if beta == 0.0:
        for i in range(len(p)):
            p[i] = z[i]
    else:
        for i in range(len(p)):
            p[i] = z[i] + beta * p[i]


# GMRES ----------------------------------------------------------------------------------------------------------


@_jit
def pair_dots(basis, count, a, b, with_b, weights, out_sums):
    """Set out_sums[0, k] = sum basis[k] a weights and out_sums[1, k] = sum basis[k] b weights for k < count.

    basis : [rows >= count, n]; a, b, weights : [n], a and b maybe rows of basis; b is not read unless with_b
    out_sums : [2, rows]. One pass: count + 2 words per point, + 1 with b.
    """
    n = len(a)
    first, second = np.empty(BLOCK, a.dtype), np.empty(BLOCK, a.dtype)
    out_sums[:] = 0.0
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        size = end - start
        w, u = weights[start:end], a[start:end]
        for i in range(size):
            first[i] = u[i] * w[i]
        if with_b:
            u = b[start:end]
            for i in range(size):
                second[i] = u[i] * w[i]
        for k in range(count):
            v = basis[k, start:end]
            one = two = 0.0
            if with_b:
                for i in range(size):
                    one += v[i] * first[i]
                    two += v[i] * second[i]
            else:
                for i in range(size):
                    one += v[i] * first[i]
            out_sums[0, k] += one
            out_sums[1, k] += two


@_jit
def basis_dots(basis, count, w, weights, out_sums):
    """Set out_sums[k] = sum basis[k] w weights, k < count, and out_sums[count] = sum w^2 weights.

    basis : [rows >= count, n]; w, weights : [n]; out_sums : [count + 1]. One pass: count + 2 words per point.
    """
    n = len(w)
    scaled = np.empty(BLOCK, w.dtype)
    out_sums[: count + 1] = 0.0
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        size = end - start
        a, b = w[start:end], weights[start:end]
        total = 0.0
        for i in range(size):
            scaled[i] = a[i] * b[i]
        for i in range(size):
            total += a[i] * scaled[i]
        out_sums[count] += total
        for k in range(count):
            v = basis[k, start:end]
            total = 0.0
            for i in range(size):
                total += v[i] * scaled[i]
            out_sums[k] += total


@_jit
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


@_jit
def basis_subtract_pair(basis, count, of_v, scale_v, of_w, last, scale_w, v, w):
    """Set v = scale_v (v - sum of_v[k] basis[k]), then w = scale_w (w - sum of_w[k] basis[k] - last v), k < count.

    basis : [rows >= count, n]; of_v, of_w : [count]; v, w : [n]. One pass: count + 4 words per point.
    """
    for start in range(0, len(w), BLOCK):
        end = min(start + BLOCK, len(w))
        size = end - start
        a, b = v[start:end], w[start:end]
        for k in range(count):
            row, f, g = basis[k, start:end], of_v[k], of_w[k]
            for i in range(size):
                a[i] -= f * row[i]
                b[i] -= g * row[i]
        for i in range(size):
            a[i] *= scale_v
        for i in range(size):
            b[i] = scale_w * (b[i] - last * a[i])


@_jit
def basis_add(basis, count, factors, x):
    """Set x += sum_{k < count} factors[k] basis[k]. basis may be float32. One pass: count + 2 words per point."""
    for start in range(0, len(x), BLOCK):
        end = min(start + BLOCK, len(x))
        _add_rows(basis, count, factors, 1.0, start, end, x[start:end])


@_jit
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


@_jit
def residual_norm(b, applied, weights, out_r, out_sums):
    """Set out_r = b - applied and out_sums[0] = sum out_r^2 weights. [n] each. One pass: 4 words per point."""
    out_sums[:] = 0.0
    for start in range(0, len(b), BLOCK):
        end = min(start + BLOCK, len(b))
        a, c, r, w = b[start:end], applied[start:end], out_r[start:end], weights[start:end]
        for i in range(end - start):
            r[i] = a[i] - c[i]
        total = 0.0
        for i in range(end - start):
            total += r[i] * r[i] * w[i]
        out_sums[0] += total


# Projection on earlier solutions ----------------------------------------------------------------------------------


@_jit
def projection_combine(basis, count, fresh, along, scale, cosines, sines, rotate, factors, out_x):
    """Take in a new vector, drop the oldest direction by rotations, and combine: all in one pass.

    basis : [rows, n], rows < count orthonormal. If fresh, row `count` holds a new vector d, which becomes
    scale (d - sum_k along[k] basis[k]). If rotate, then rows k, k + 1 (k = 0, 1, ... count - 1 in turn) become
    cosines[k] row_k + sines[k] row_{k + 1} and cosines[k] row_{k + 1} - sines[k] row_k, and the last row is void.
    out_x = sum_k factors[k] basis[k] over the rows that are then held.
    Words per point: rows read + 1 written; all rows written too if rotate.
    """
    n = len(out_x)
    chain = np.empty(CHAIN, out_x.dtype)
    held = count + 1 if fresh else count
    for start in range(0, n, CHAIN):
        end = min(start + CHAIN, n)
        size = end - start
        x = out_x[start:end]
        if fresh:
            new = basis[count, start:end]
            for i in range(size):
                new[i] *= scale
            _add_rows(basis, count, along, -scale, start, end, new)
        if rotate:
            row = basis[0, start:end]
            for i in range(size):
                chain[i] = row[i]
            for k in range(held - 1):
                row, above = basis[k, start:end], basis[k + 1, start:end]
                c, s = cosines[k], sines[k]
                for i in range(size):
                    row[i] = c * chain[i] + s * above[i]
                for i in range(size):
                    chain[i] = c * above[i] - s * chain[i]
        for i in range(size):
            x[i] = 0.0
        _add_rows(basis, held - 1 if rotate else held, factors, 1.0, start, end, x)
