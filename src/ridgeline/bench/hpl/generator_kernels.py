"""The compiled loop of HPL's generator."""

import numpy as np
from numba import float64, int64, uint64

from ridgeline.bench.hpl.blas_calls import matrix_type
from ridgeline.jit.kernel import kernel

_SCALE = 2.0**-64


@kernel(lambda: (uint64[::1], uint64[::1], int64, matrix_type(float64)), nogil=True)
def fill_columns(starts, constants, nb, out):
    """Write the numbers of each column of out [rows, columns], from its first state in starts [columns], uint64.

    constants: multiplier and increment of one step, and of the steps over the blocks of other processes; nb: rows of
    a block.
    """
    one, plus, over, over_plus = constants[0], constants[1], constants[2], constants[3]
    for column in range(out.shape[1]):
        state = starts[column]
        for first in range(0, out.shape[0], nb):
            for row in range(first, min(first + nb, out.shape[0])):
                out[row, column] = 0.5 - np.float64(state) * _SCALE
                state = one * state + plus
            state = over * state + over_plus
