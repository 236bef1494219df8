"""The compiled loop of HPL's generator.

Kernels get matrices transposed, as [columns, rows] in C order, and turn them first of all. Numba would take a
column-major matrix of one column for a row-major one, and compile anew in the middle of a run.
"""

import numpy as np
from numba import float64, int64, uint64

from ridgeline.jit.kernel import kernel

_SCALE = 2.0**-64


@kernel(lambda: (uint64[::1], uint64[::1], int64, int64, float64[:, ::1]), nogil=True)
def fill_columns(starts, constants, nb, rows, out):
    """Write the first `rows` numbers of each column of out [at least rows, columns].

    starts: the first state of each column, uint64 [columns]; nb: rows of a block; constants: multiplier and increment
    of one step, and of the steps over the blocks of other processes, uint64 [4].
    """
    out = out.T
    one, plus, over, over_plus = constants[0], constants[1], constants[2], constants[3]
    for column in range(out.shape[1]):
        state = starts[column]
        for first in range(0, rows, nb):
            for row in range(first, min(first + nb, rows)):
                out[row, column] = 0.5 - np.float64(state) * _SCALE
                state = one * state + plus
            state = over * state + over_plus
