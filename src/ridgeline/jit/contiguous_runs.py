"""Copy runs of consecutive numbers between an array in which they lie scattered and one that holds them packed."""

from numba import int64

from ridgeline.jit.kernel import kernel


@kernel(lambda T: (T[::1], int64[::1], int64[::1], T[::1]), nogil=True)
def gather_runs(values, start, count, out_packed):
    """Copy the runs values[start[i] : start[i] + count[i]], one after the other, to out_packed.

    values : (n,) array; start, count : (n_runs,) int64; out_packed : (sum of count or more,) array
    Cost: reads and writes each number once; bound by memory where runs are longer than a cache line.
    """
    place = 0
    for i in range(start.shape[0]):
        first = start[i]
        for j in range(count[i]):
            out_packed[place + j] = values[first + j]
        place += count[i]


@kernel(lambda stored, T: (stored[::1], int64[::1], int64[::1], T[::1]), nogil=True)
def scatter_runs(packed, start, count, out_values):
    """Copy runs that lie one after the other in `packed` to out_values[start[i] : start[i] + count[i]].

    The reverse of `gather_runs`; dtypes may differ in precision.
    """
    place = 0
    for i in range(start.shape[0]):
        first = start[i]
        for j in range(count[i]):
            out_values[first + j] = packed[place + j]
        place += count[i]
