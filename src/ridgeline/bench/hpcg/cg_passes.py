"""The vector passes of preconditioned conjugate gradients, merged so that every vector is read once a pass.

Vectors are float64 [n]. Sums are taken over blocks of 1024 numbers, with eight running sums in a block, and then over
the blocks in order, so that the bits do not depend on the number of threads. `sums` is scratch, float64 [blocks(n)].
The twins named `..._threaded` share the blocks among n_threads threads. There is no fast-math.
"""

from numba import float64, int64, prange

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

BLOCK = 1024


@kernel(lambda: (int64,))
def blocks(n):
    """Return how many partial sums a vector of n numbers needs."""
    return -(-n // BLOCK)


@subroutine
def _dot_block(x, y):
    """Return x . y of two slices. Their indices begin at 0, with no check for wrap-around: vector code."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = x.size // 8
    for line in range(whole):
        i = 8 * line
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
        s4 += x[i + 4] * y[i + 4]
        s5 += x[i + 5] * y[i + 5]
        s6 += x[i + 6] * y[i + 6]
        s7 += x[i + 7] * y[i + 7]
    total = ((s0 + s4) + (s2 + s6)) + ((s1 + s5) + (s3 + s7))
    for i in range(8 * whole, x.size):
        total += x[i] * y[i]
    return total


@subroutine
def _total(sums):
    total = 0.0
    for block in range(sums.size):
        total += sums[block]
    return total


@subroutine
def _dot_blocks(first_block, end_block, x, y, sums):
    for block in range(first_block, end_block):
        first, end = block * BLOCK, min((block + 1) * BLOCK, y.size)
        sums[block] = _dot_block(x[first:end], y[first:end])


@kernel(lambda: (*[float64[::1]] * 3,))
def dot(x, y, sums):
    """Return x . y over the length of y."""
    _dot_blocks(0, sums.size, x, y, sums)
    return _total(sums)


@kernel(lambda: (int64, *[float64[::1]] * 3), parallel=True)
def dot_threaded(n_threads, x, y, sums):
    """Compute `dot` by n_threads threads."""
    n = sums.size
    for thread in prange(n_threads):
        _dot_blocks(n * thread // n_threads, n * (thread + 1) // n_threads, x, y, sums)
    return _total(sums)


@subroutine
def _residual_dot_blocks(first_block, end_block, alpha, b, ap, r, sums):
    for block in range(first_block, end_block):
        first, end = block * BLOCK, min((block + 1) * BLOCK, r.size)
        out, right, product = r[first:end], b[first:end], ap[first:end]
        for i in range(end - first):
            out[i] = right[i] - alpha * product[i]
        sums[block] = _dot_block(out, out)


@kernel(lambda: (float64, *[float64[::1]] * 4))
def residual_dot(alpha, b, ap, r, sums):
    """Set r = b - alpha ap and return r . r. b may be r itself. One pass: 2 or 3 words per point."""
    _residual_dot_blocks(0, sums.size, alpha, b, ap, r, sums)
    return _total(sums)


@kernel(lambda: (int64, float64, *[float64[::1]] * 4), parallel=True)
def residual_dot_threaded(n_threads, alpha, b, ap, r, sums):
    """Compute `residual_dot` by n_threads threads."""
    n = sums.size
    for thread in prange(n_threads):
        _residual_dot_blocks(n * thread // n_threads, n * (thread + 1) // n_threads, alpha, b, ap, r, sums)
    return _total(sums)


@subroutine
def _update_x_and_p_range(first, end, alpha, beta, z, p, x):
    solution, conjugate, gradient = x[first:end], p[first:end], z[first:end]
    for i in range(end - first):
        old = conjugate[i]
        solution[i] += alpha * old
        conjugate[i] = gradient[i] + beta * old


@kernel(lambda: (float64, float64, *[float64[::1]] * 3))
def update_x_and_p(alpha, beta, z, p, x):
    """Set x += alpha p, then p = z + beta p, over the length of z. One pass: 5 words per point.

    The update of x belongs to the iteration before; it waits for this pass, so that p is read once for both.
    """
    _update_x_and_p_range(0, z.size, alpha, beta, z, p, x)


@kernel(lambda: (int64, float64, float64, *[float64[::1]] * 3), parallel=True)
def update_x_and_p_threaded(n_threads, alpha, beta, z, p, x):
    """Compute `update_x_and_p` by n_threads threads."""
    n = blocks(z.size)
    for thread in prange(n_threads):
        first = n * thread // n_threads * BLOCK
        _update_x_and_p_range(first, min(n * (thread + 1) // n_threads * BLOCK, z.size), alpha, beta, z, p, x)


def kernels(threads: int) -> list[Specialisation]:
    """Return the kernels of this file for one thread, and for the given number of threads."""
    shared = [dot_threaded, residual_dot_threaded, update_x_and_p_threaded] if threads > 1 else []
    return specialise([blocks, dot, residual_dot, update_x_and_p, *shared])
