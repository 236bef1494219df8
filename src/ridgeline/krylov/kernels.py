"""Passes over long vectors that Krylov solvers need, merged so that each vector is read as seldom as possible.

Vectors are rows of C-contiguous arrays [rows, points]; scalars and results are small float64 arrays. A pass works on
blocks of points that stay in the first-level cache while its vectors are processed one after the other. Several plain
loops, which compile to vector code, then cost one pass over memory. Sums have a fixed order: lanes within a block,
then blocks. Scratch memory is one or two blocks of numbers.

The compiler may reorder a sum ("reassoc"), but it may not assume that numbers are finite: a NaN in any input that
counts is a NaN in the result.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import boolean, float64, int64

from ridgeline.jit.kernel import kernel, subroutine

BLOCK = 1024  # points: 8 KiB a vector, four of them in a first-level cache
FAST = {"reassoc", "contract"}

part_of_pass = partial(subroutine, nogil=True, fastmath=FAST, error_model="numpy")

VECTOR, VECTORS = float64[::1], float64[:, ::1]


def compiled_pass(signature: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Return the decorator of a pass: a `kernel` with this signature and the settings that all passes share."""
    return kernel(signature, nogil=True, fastmath=FAST, error_model="numpy")


@compiled_pass(lambda: (VECTORS, VECTORS, VECTOR, VECTOR))
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


@compiled_pass(lambda: (VECTORS, VECTOR, VECTOR))
def combine(rows, scales, shape):
    """Set rows[c] += scales[c] shape. rows : [c, n]; shape : [n]."""
    for c in range(rows.shape[0]):
        row, scale = rows[c], scales[c]
        for i in range(len(shape)):
            row[i] += scale * shape[i]


@compiled_pass(lambda: (VECTOR, VECTOR, VECTOR))
def subtract(a, b, out):
    """Set out = a - b. [n] each; float32 or float64."""
    for i in range(len(out)):
        out[i] = a[i] - b[i]


@compiled_pass(lambda T: (T[::1], VECTOR))
def copy(a, out):
    """Set out = a, from one precision to another. [n] each."""
    for i in range(len(out)):
        out[i] = a[i]


@compiled_pass(lambda: (VECTORS, int64[::1]))
def zero_points(rows, points):
    """Set rows[c, points] = 0. rows : [c, n]; points : int64, places in a row."""
    for c in range(rows.shape[0]):
        row = rows[c]
        for i in range(len(points)):
            row[points[i]] = 0.0


# Conjugate gradients ------------------------------------------------------------------------------------------


@compiled_pass(lambda: (VECTORS, VECTORS, VECTOR, VECTORS))
def cg_direction(r, inverse_diagonal, beta, p):
    """Set p[c] = inverse_diagonal r[c] + beta[c] p[c]. r, p : [c, n]; inverse_diagonal : [1 or c, n]."""
    for c in range(r.shape[0]):
        a, b = r[c], p[c]
        d = inverse_diagonal[c if inverse_diagonal.shape[0] > 1 else 0]
        factor = beta[c]
        # In the first direction p is not read, whatever it holds.
        if factor == 0.0:
            for i in range(len(a)):
                b[i] = d[i] * a[i]
        else:
            for i in range(len(a)):
                b[i] = d[i] * a[i] + factor * b[i]


@compiled_pass(lambda: (VECTORS, VECTORS, VECTOR, VECTOR, VECTORS))
def cg_residuals(r, inverse_diagonal, weights, norm_weights, out_sums):
    """Set out_sums[c] = (r.z, r.r): sums of r^2 inverse_diagonal weights and of r^2 norm_weights. r : [c, n]."""
    rows, n = r.shape
    out_sums[:] = 0.0
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        for c in range(rows):
            _add_residuals(r[c], inverse_diagonal, weights, norm_weights, c, start, end, out_sums)


@part_of_pass()
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


@compiled_pass(lambda: (VECTOR, boolean[::1], *[VECTORS] * 3, VECTOR, VECTOR, *[VECTORS] * 3))
def cg_update(alpha, active, p, w, inverse_diagonal, weights, norm_weights, x, r, out_sums):
    """Set x += alpha p, r -= alpha w, and out_sums[c] = (r.z, r.r) of the new r, z = inverse_diagonal r.

    alpha, active : [c], float64 and bool; components that are not active are left alone and their sums are 0
    p, w, x, r : [c, n]; inverse_diagonal : [1 or c, n]; weights, norm_weights : [n], may be the same array
    out_sums : [c, 2]

    One pass: reads p, w, x, r, writes x, r, and reads the diagonal and weights once for all components: 6 c + 2
    words per point, and 1 more if norm_weights is a separate array.
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


@compiled_pass(lambda: (float64, *[VECTOR] * 7))
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


@compiled_pass(lambda T: (T[::1], *[VECTOR] * 4))
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


@compiled_pass(lambda T: (T[::1], float64, VECTOR))
def flexible_direction(z, beta, p):
    """Set p = z + beta p. z : [n] float32 or float64; p : [n] float64."""
    if beta == 0.0:
        for i in range(len(p)):
            p[i] = z[i]
    else:
        for i in range(len(p)):
            p[i] = z[i] + beta * p[i]
