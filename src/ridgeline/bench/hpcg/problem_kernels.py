"""The matrix and right side of HPCG on one rank's box: 27 points, cut off at the whole box's boundary, serial."""

from numba import float64, int32, int64, types

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine

_TRIPLE = types.UniTuple(int64, 3)


@subroutine
def _points(place, count):
    """Return how many of the points place - 1, place, place + 1 lie in 0 ... count - 1."""
    return 1 + (place > 0) + (place < count - 1)


@kernel(lambda: (*[_TRIPLE] * 3, int64[::1]))
def row_starts(origin, local, whole, indptr):
    """indptr[i + 1] = non-zeros of rows 0 ... i. origin, local, whole: (x, y, z) of the first point, of the sizes."""
    row, total = 0, 0
    indptr[0] = 0
    for z in range(origin[2], origin[2] + local[2]):
        in_z = _points(z, whole[2])
        for y in range(origin[1], origin[1] + local[1]):
            in_plane = in_z * _points(y, whole[1])
            for x in range(origin[0], origin[0] + local[0]):
                total += in_plane * _points(x, whole[0])
                row += 1
                indptr[row] = total


@kernel(lambda: (*[_TRIPLE] * 3, int64[::1]))
def fill_columns(origin, local, whole, columns):
    """Write the columns of all rows, in the order z, y, x of the neighbour: numbers in the whole box [non-zeros]."""
    p = 0
    for z in range(origin[2], origin[2] + local[2]):
        for y in range(origin[1], origin[1] + local[1]):
            for x in range(origin[0], origin[0] + local[0]):
                low, high = max(x - 1, 0), min(x + 2, whole[0])
                for other_z in range(max(z - 1, 0), min(z + 2, whole[2])):
                    for other_y in range(max(y - 1, 0), min(y + 2, whole[1])):
                        line = whole[0] * (other_y + whole[1] * other_z)
                        for other_x in range(low, high):
                            columns[p] = line + other_x
                            p += 1


@kernel(lambda: (*[_TRIPLE] * 3, int64[::1], float64[::1], int64[::1], float64[::1]))
def fill_values(origin, local, whole, indptr, values, diagonal, right_side):
    """Write values [non-zeros], 26 and -1, diagonal [n], its places in values, right_side [n] = 26 - (non-zeros - 1).

    indptr: of `row_starts`.
    """
    values[:] = -1.0
    row = 0
    for z in range(origin[2], origin[2] + local[2]):
        for y in range(origin[1], origin[1] + local[1]):
            lines = (z > 0) * _points(y, whole[1]) + (y > 0)  # before the row's own
            for x in range(origin[0], origin[0] + local[0]):
                diagonal[row] = indptr[row] + lines * _points(x, whole[0]) + (x > 0)
                values[diagonal[row]] = 26.0
                right_side[row] = 26.0 - (indptr[row + 1] - indptr[row] - 1)
                row += 1


@kernel(lambda: (_TRIPLE, int32[::1]))
def every_second(coarse, fine_of_coarse):
    """fine_of_coarse[c] = row of the fine box at twice the point of row c. coarse: (x, y, z) sizes of its box."""
    row = 0
    for z in range(coarse[2]):
        for y in range(coarse[1]):
            for x in range(coarse[0]):
                fine_of_coarse[row] = 2 * x + 2 * coarse[0] * (2 * y + 2 * coarse[1] * 2 * z)
                row += 1


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([row_starts, fill_columns, fill_values, every_second])
