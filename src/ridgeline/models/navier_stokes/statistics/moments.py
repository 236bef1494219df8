"""Weighted sums of fields and of their products, in one pass: the accumulators of running statistics."""

from numba import float64, int64

from ridgeline.jit.kernel import kernel, subroutine

BLOCK = 512  # points of all fields that are worked on at a time: they stay in the first-level cache


@subroutine
def _add(weight, a, out):
    for i in range(a.size):
        out[i] += weight * a[i]


@subroutine
def _add_product(weight, a, b, out):
    for i in range(a.size):
        out[i] += weight * a[i] * b[i]


@kernel(lambda: (float64, *[float64[:, ::1]] * 2, *[int64[::1]] * 2, float64[:, ::1]))
def add_moments(weight, fields, scalars, first, second, out_sums):
    """Add weight * field and weight * (product of two fields) to running sums.

    fields : float64 [f, n_points]; scalars : float64 [s, n_points], numbered after them
    first, second : int64 [m], the numbers of the fields of each product
    out_sums : float64 [f + s + m, n_points], the fields' sums, then the products'

    Memory: each field read once, each sum read and written once.
    """
    n_fields, n_points = fields.shape
    n_all = n_fields + len(scalars)
    for low in range(0, n_points, BLOCK):
        high = min(low + BLOCK, n_points)
        for i in range(n_all):
            a = fields[i, low:high] if i < n_fields else scalars[i - n_fields, low:high]
            _add(weight, a, out_sums[i, low:high])
        for product in range(len(first)):
            i, j = first[product], second[product]
            a = fields[i, low:high] if i < n_fields else scalars[i - n_fields, low:high]
            b = fields[j, low:high] if j < n_fields else scalars[j - n_fields, low:high]
            _add_product(weight, a, b, out_sums[n_all + product, low:high])
