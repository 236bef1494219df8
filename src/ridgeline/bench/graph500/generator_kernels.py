"""Compiled part of the edge list: random numbers, the draws of an edge, and the scrambling of its vertices."""

from numba import float32, float64, int64, prange, uint64

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

MODULUS = 2**31 - 1
X, Y = 107374182, 104480  # factors of the first and the last of the five words

_CHUNK = 4096  # edges that one thread makes in turn, from one jump to their first

_INITIATOR = 10000  # denominator of the probabilities
_BC, _A = 1900, 5700
_UNBIASED = MODULUS % _INITIATOR  # numbers below it are drawn again
TO_UNIT = 0.000000000465661287524579692  # 1 / (2^31 - 1), with the digits of the reference implementation


@subroutine
def _folded(number):
    """Return a number congruent to `number` modulo 2^31 - 1, below 2^33 for numbers below 2^63."""
    return (number & MODULUS) + (number >> 31)


@subroutine(inline="always")
def _jumped(matrix, z1, z2, z3, z4, z5, row):
    """Return one word of matrix @ z modulo 2^31 - 1."""
    total = _folded(matrix[row, 0] * z1) + _folded(matrix[row, 1] * z2) + _folded(matrix[row, 2] * z3)
    return (total + _folded(matrix[row, 3] * z4) + _folded(matrix[row, 4] * z5)) % MODULUS


@subroutine(inline="always")
def _jump(matrix, z):
    """Return the state z, five words, after the steps of a matrix."""
    z1, z2, z3, z4, z5 = z
    return (
        _jumped(matrix, z1, z2, z3, z4, z5, 0),
        _jumped(matrix, z1, z2, z3, z4, z5, 1),
        _jumped(matrix, z1, z2, z3, z4, z5, 2),
        _jumped(matrix, z1, z2, z3, z4, z5, 3),
        _jumped(matrix, z1, z2, z3, z4, z5, 4),
    )


@subroutine
def _step(z):
    """Return the state after one step; its first word is the number drawn, 0 ... 2^31 - 2."""
    drawn = _folded(X * z[0] + Y * z[4])
    if drawn >= MODULUS:
        drawn -= MODULUS
    return (drawn, z[0], z[1], z[2], z[3])


@subroutine
def _bits_reversed(word):
    """Return 64 bits in the opposite order."""
    word = (word >> uint64(32)) | (word << uint64(32))
    word = ((word >> uint64(16)) & uint64(0x0000FFFF0000FFFF)) | (
        (word & uint64(0x0000FFFF0000FFFF)) << uint64(16)
    )
    word = ((word >> uint64(8)) & uint64(0x00FF00FF00FF00FF)) | (
        (word & uint64(0x00FF00FF00FF00FF)) << uint64(8)
    )
    word = ((word >> uint64(4)) & uint64(0x0F0F0F0F0F0F0F0F)) | (
        (word & uint64(0x0F0F0F0F0F0F0F0F)) << uint64(4)
    )
    word = ((word >> uint64(2)) & uint64(0x3333333333333333)) | (
        (word & uint64(0x3333333333333333)) << uint64(2)
    )
    return ((word >> uint64(1)) & uint64(0x5555555555555555)) | (
        (word & uint64(0x5555555555555555)) << uint64(1)
    )


@subroutine(inline="always")
def _scrambled(vertex, values, scale):
    """Return the number that a vertex gets: a permutation of 0 ... 2^scale - 1."""
    unused = uint64(64 - scale)
    word = uint64(vertex) + values[0] + values[1]
    word = _bits_reversed(word * (values[0] | uint64(0x4519840211493211))) >> unused
    return int64(_bits_reversed(word * (values[1] | uint64(0x3050852102C843A5))) >> unused)


@subroutine
def _edge(z, scale):
    """Return the state after an edge, and its two vertices before scrambling, start <= end.

    Each bit is a draw of a quarter of the initiator: B for the lowest numbers, then C, A, D. Its row and column come
    from comparisons, since a processor predicts no branch on random numbers.
    """
    start, end = 0, 0
    for _ in range(scale):
        z = _step(z)
        while z[0] < _UNBIASED:
            z = _step(z)
        drawn = z[0] % _INITIATOR
        in_d = int64(drawn >= 2 * _BC + _A)
        row = in_d | (int64(drawn >= _BC) & int64(drawn < 2 * _BC))
        column = in_d | int64(drawn < _BC)
        flip = int64(start == end) & int64(row > column)  # the lower triangle is flipped into the upper one
        start, end = 2 * start + row - flip, 2 * end + column + flip
    return z, start, end


@kernel(
    lambda: (int64[::1], int64[:, :, ::1], uint64[::1], int64, int64, int64[::1], int64[::1], float32[::1]),
    parallel=True,
    nogil=True,
)
def kronecker_edges(state, jumps, values, scale, first, start, end, weight):
    """Write edges first, first + 1, ... into start and end, and weight unless it is empty.

    state [5]: the seeded generator; jumps [52, 5, 5]; values [2]: of the scrambling.
    """
    count, to_next = start.shape[0], jumps[0]
    for chunk in prange((count + _CHUNK - 1) // _CHUNK):
        begin = chunk * _CHUNK
        z = (state[0], state[1], state[2], state[3], state[4])
        for bit in range(jumps.shape[0]):
            if ((first + begin) >> bit) & 1:
                z = _jump(jumps[bit], z)
        for i in range(begin, min(begin + _CHUNK, count)):
            drawn, low, high = _edge(z, scale)
            start[i] = _scrambled(low, values, scale)
            end[i] = _scrambled(high, values, scale)
            if weight.shape[0]:
                weight[i] = float32(float64(float32(_step(drawn)[0])) * TO_UNIT)
            z = _jump(to_next, z)


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([kronecker_edges])
