"""The compiled loop that eliminates a small block without pivoting."""

from numba import float32, int64

from ridgeline.jit.kernel import kernel


@kernel(lambda: (float32[:, ::1], int64, int64), nogil=True, error_model="numpy")
def eliminate(block, first, last):
    """Replace block[first:last, first:last] by its factors L (unit, lower) and U. block: [column, row].

    A zero pivot gives infinities and NaN, no error: what follows tells.
    """
    for k in range(first, last):
        inverse = float32(1.0) / block[k, k]
        for i in range(k + 1, last):
            block[k, i] *= inverse
        for j in range(k + 1, last):
            factor = block[j, k]
            for i in range(k + 1, last):
                block[j, i] -= factor * block[k, i]
