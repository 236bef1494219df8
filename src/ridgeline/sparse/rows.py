"""Serial kernels on compressed sparse rows (indptr, indices, data), index lists and vectors."""

from numba import boolean, float64, int32, int64

from ridgeline.jit.kernel import kernel


@kernel(lambda T: (int64[::1], T[::1], T[::1]))
def scatter_add(index, values, out):
    """Set out = 0, then out[index[p]] += values[p], in the order of p. index: integer; all 1-D."""
    out[:] = 0
    for p in range(index.size):
        out[index[p]] += values[p]


@kernel(lambda T, index=int64: (index[::1], T[::1], T[::1]))
def gather(index, values, out):
    """Set out[p] = values[index[p]], and zero where index[p] < 0. All 1-D."""
    zero = values[0] * 0
    for p in range(index.size):
        out[p] = values[index[p]] if index[p] >= 0 else zero


@kernel(lambda T: (int64[::1], int32[::1], *[T[::1]] * 3))
def multiply(indptr, indices, data, x, out):
    """Set out = A x. Cost: reads every non-zero and its column once; 2 flops each."""
    for row in range(indptr.size - 1):
        total = data[0] * 0
        for p in range(indptr[row], indptr[row + 1]):
            total += data[p] * x[indices[p]]
        out[row] = total


@kernel(lambda T: (int64[::1], int32[::1], *[T[::1]] * 3))
def multiply_add(indptr, indices, data, x, out):
    """Add A x to out."""
    for row in range(indptr.size - 1):
        total = data[0] * 0
        for p in range(indptr[row], indptr[row + 1]):
            total += data[p] * x[indices[p]]
        out[row] += total


@kernel(lambda T: (int64[::1], int32[::1], *[T[::1]] * 4))
def residual(indptr, indices, data, b, x, out):
    """Set out = b - A x."""
    for row in range(indptr.size - 1):
        total = b[row]
        for p in range(indptr[row], indptr[row + 1]):
            total -= data[p] * x[indices[p]]
        out[row] = total


@kernel(lambda T: (*[T[::1]] * 5, boolean))
def chebyshev_start(inverse_diagonal, scale, r, direction, x, fresh):
    """Set direction = scale D^-1 r, and x = direction if fresh, otherwise x + direction. scale: array [1]."""
    for row in range(direction.size):
        direction[row] = scale[0] * inverse_diagonal[row] * r[row]
        x[row] = direction[row] if fresh else x[row] + direction[row]


@kernel(lambda T: (int64[::1], int32[::1], *[T[::1]] * 7))
def chebyshev_step(indptr, indices, data, inverse_diagonal, factors, b, x, r, direction):
    """Set r = b - A x and direction = factors[0] direction + factors[1] D^-1 r: one Chebyshev step."""
    for row in range(direction.size):
        total = b[row]
        for p in range(indptr[row], indptr[row + 1]):
            total -= data[p] * x[indices[p]]
        r[row] = total
        direction[row] = factors[0] * direction[row] + factors[1] * inverse_diagonal[row] * total


@kernel(lambda T: (T[::1], T[::1]))
def add(direction, x):
    """Add direction to x, over the length of direction."""
    for row in range(direction.size):
        x[row] += direction[row]


@kernel(lambda T: (T[::1], T[::1]))
def dot(x, y):
    """Return x.y, summed from the first element to the last."""
    total = 0.0
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@kernel(lambda T: (T[::1], float64, T[::1], T[::1]))
def add_scaled(x, beta, y, out):
    """Set out = x + beta y; out may be x or y."""
    for i in range(out.size):
        out[i] = x[i] + beta * y[i]


@kernel(lambda T: (int64[::1], int32[::1], T[::1], int64[::1], T[::1], T[::1]))
def symmetric_gauss_seidel(indptr, indices, data, diagonal, r, x):
    """Make a forward and a backward Gauss-Seidel sweep on A x = r, in the order of the rows.

    diagonal: int64 [n], places of the diagonal in data. x may be longer than n: its other values are only read.
    """
    n = indptr.size - 1
    for step in range(2 * n):
        row = step if step < n else 2 * n - 1 - step
        total = r[row]
        for p in range(indptr[row], indptr[row + 1]):
            total -= data[p] * x[indices[p]]
        own = data[diagonal[row]]
        x[row] = (total + x[row] * own) / own


@kernel(lambda T: (int32[::1], *[T[::1]] * 3))
def restrict_residual(index, r, ax, coarse):
    """Set coarse[c] = r[index[c]] - ax[index[c]]."""
    for c in range(index.size):
        coarse[c] = r[index[c]] - ax[index[c]]


@kernel(lambda T: (int32[::1], T[::1], T[::1]))
def prolong_add(index, coarse, x):
    """Add coarse[c] to x[index[c]]."""
    for c in range(index.size):
        x[index[c]] += coarse[c]
