"""Two real rows as one complex row: joining their Fourier modes and parting them again, in vector registers.

Real rows a, b are transformed in x as the *pair* a + i b, one complex transform, nearly twice as fast as two real
ones. With the modes A_j, B_j of the rows, the pair has A_j + i B_j at j and conj(A_j) + i conj(B_j) at -j. (Numerical
Recipes, "FFT of two real functions simultaneously", is a textbook form.)

Complex numbers are passed as real arrays, real and imaginary parts alternating: [..., 2 j] and [..., 2 j + 1].
"""

from numba import int64

from ridgeline.fourier.row_pairs_llvm import (
    join_both,
    join_dealt,
    join_run,
    part_both,
    part_dealt,
    part_run,
    vector_length,
)
from ridgeline.jit.kernel import kernel, subroutine


@subroutine(nogil=True)
def _in_turn(segments, pitch, count):
    """Return how many modes of each of two ranks lie in turn in a row, a multiple of `count`; 0 if they do not."""
    if segments.shape[0] != 2 or pitch != 1 or segments[0, 1] != 2:
        return 0
    length = min(segments[0, 2], segments[1, 2])
    return length - length % count


@subroutine(nogil=True)
def _join_piece(source, a, b, pitch, first, step, length, nx, out, begin):
    """Join modes first, first + step, ... at source[a ...] and source[b ...] into the pair at out[begin ...].

    pitch: from one mode of a row to the next, in complex numbers
    """
    forth, back = begin + 2 * first, begin + 2 * (nx - first)
    whole = 0
    if pitch == 1:
        count = vector_length(source)
        whole = length - length % count
        if step == 1:
            for i in range(0, whole, count):
                join_run(True, source, a + 2 * i, b + 2 * i, out, forth + 2 * i, back - 2 * (i + count - 1))
        else:
            for i in range(0, whole, count):
                far = 2 * step * i
                join_dealt(source, a + 2 * i, b + 2 * i, out, forth + far, back - far, 2 * step)
    for i in range(whole, length):
        join_run(
            False,
            source,
            a + 2 * pitch * i,
            b + 2 * pitch * i,
            out,
            forth + 2 * step * i,
            back - 2 * step * i,
        )
    if first == 0 and length > 0:  # the mean of a real row is real
        out[forth], out[forth + 1] = source[a], source[b]


@subroutine(nogil=True)
def _part_piece(pairs, begin, first, step, length, nx, out, a, b, pitch):
    """Part the pair at pairs[begin ...] into modes first, first + step, ... at out[a ...] and out[b ...]."""
    forth, back = begin + 2 * first, begin + 2 * (nx - first)
    whole = 0
    if pitch == 1:
        count = vector_length(pairs)
        whole = length - length % count
        if step == 1:
            for i in range(0, whole, count):
                part_run(True, pairs, forth + 2 * i, back - 2 * (i + count - 1), out, a + 2 * i, b + 2 * i)
        else:
            for i in range(0, whole, count):
                far = 2 * step * i
                part_dealt(pairs, forth + far, back - far, 2 * step, out, a + 2 * i, b + 2 * i)
    for i in range(whole, length):
        part_run(
            False, pairs, forth + 2 * step * i, back - 2 * step * i, out, a + 2 * pitch * i, b + 2 * pitch * i
        )


@kernel(
    lambda T: (T[::1], int64[:, :, ::1], int64, int64[:, ::1], *[int64] * 5, T[:, ::1], T[:, :, ::1]),
    nogil=True,
)
def load_pairs(
    source, start, pitch, segments, n_columns, first_row, n_rows, n_variables, nx, scratch, out_pairs
):
    """Join the modes of real rows first_row + 2 q and first_row + 2 q + 1 to pair q.

    Parameters
    ----------
    source : (n,) real view of complex numbers
    start : (>= n_variables, rows, n_segments) int64, begin of each row's pieces, in complex numbers
    pitch : from one column of a piece to the next, in complex numbers
    segments : (n_segments, 3) int64: first column, step between columns, length of the pieces
    n_columns : columns 0 ... n_columns - 1 are in the segments, the others are zero; n_columns <= nx / 2
    n_rows : rows to join; an odd last one pairs with zero
    scratch : (2, 2 n_columns or more) real, overwritten
    out_pairs : (>= n_variables, >= (n_rows + 1) // 2, 2 nx + 2 or more) real view; place nx is undefined

    Cost: reads n_columns numbers per row and writes nx per pair, from cache to cache.
    """
    flat = out_pairs.reshape(-1)
    spare = scratch.reshape(-1)
    count = vector_length(source)
    in_turn = _in_turn(segments, pitch, count)
    for v in range(n_variables):
        for q in range((n_rows + 1) // 2):
            row = first_row + 2 * q
            begin = (v * out_pairs.shape[1] + q) * out_pairs.shape[2]
            flat[begin + 2 * n_columns : begin + 2 * (nx - n_columns + 1)] = 0
            done = 0
            if 2 * q + 1 < n_rows and in_turn > 0:
                a, b = 2 * start[v, row, 0], 2 * start[v, row + 1, 0]
                c, d = 2 * start[v, row, 1], 2 * start[v, row + 1, 1]
                done = in_turn
                for i in range(0, 2 * done, 2 * count):
                    mirror = begin + 2 * (nx - 2 * count + 1) - 2 * i
                    join_both(source, (a + i, b + i), (c + i, d + i), flat, begin + 2 * i, mirror)
                flat[begin], flat[begin + 1] = source[a], source[b]  # the mean of a real row is real
            for s in range(segments.shape[0]):
                first, step, length = segments[s, 0] + 2 * done, segments[s, 1], segments[s, 2] - done
                a = 2 * (start[v, row, s] + done)
                if 2 * q + 1 < n_rows:
                    b = 2 * (start[v, row + 1, s] + done)
                    _join_piece(source, a, b, pitch, first, step, length, nx, flat, begin)
                else:
                    for i in range(length):
                        scratch[0, 2 * i] = source[a + 2 * pitch * i]
                        scratch[0, 2 * i + 1] = source[a + 2 * pitch * i + 1]
                    scratch[1, : 2 * length] = 0
                    _join_piece(spare, 0, scratch.shape[1], 1, first, step, length, nx, flat, begin)


@kernel(
    lambda T: (T[:, :, ::1], int64[:, ::1], *[int64] * 4, int64[:, :, ::1], int64, T[:, ::1], T[::1]),
    nogil=True,
)
def store_pairs(pairs, segments, first_row, n_rows, n_variables, nx, start, pitch, scratch, out_target):
    """Part pairs into the modes of their rows, TIMES 2: the reverse of `load_pairs`, with its arguments."""
    flat = pairs.reshape(-1)
    spare = scratch.reshape(-1)
    count = vector_length(pairs)
    in_turn = _in_turn(segments, pitch, count)
    for v in range(n_variables):
        for q in range((n_rows + 1) // 2):
            row = first_row + 2 * q
            begin = (v * pairs.shape[1] + q) * pairs.shape[2]
            flat[begin + 2 * nx : begin + 2 * nx + 2] = flat[begin : begin + 2]
            done = 0
            if 2 * q + 1 < n_rows and in_turn > 0:
                a, b = 2 * start[v, row, 0], 2 * start[v, row + 1, 0]
                c, d = 2 * start[v, row, 1], 2 * start[v, row + 1, 1]
                done = in_turn
                for i in range(0, 2 * done, 2 * count):
                    mirror = begin + 2 * (nx - 2 * count + 1) - 2 * i
                    part_both(flat, begin + 2 * i, mirror, out_target, (a + i, b + i), (c + i, d + i))
            for s in range(segments.shape[0]):
                first, step, length = segments[s, 0] + 2 * done, segments[s, 1], segments[s, 2] - done
                a = 2 * (start[v, row, s] + done)
                if 2 * q + 1 < n_rows:
                    b = 2 * (start[v, row + 1, s] + done)
                    _part_piece(flat, begin, first, step, length, nx, out_target, a, b, pitch)
                else:
                    _part_piece(flat, begin, first, step, length, nx, spare, 0, scratch.shape[1], 1)
                    for i in range(length):
                        out_target[a + 2 * pitch * i] = scratch[0, 2 * i]
                        out_target[a + 2 * pitch * i + 1] = scratch[0, 2 * i + 1]


@kernel(lambda T: (T[:, ::1], *[int64] * 3, T[:, :, ::1]), nogil=True)
def block_from_pairs(pairs, plane, first_row, n_rows, out_block):
    """Set rows of real values from pairs in physical space.

    pairs : (>= (n_rows + 1) // 2, 2 nx or more) real view
    plane, first_row : row r is out_block[r mod n_z, plane + r div n_z], r = first_row ... first_row + n_rows - 1
    out_block : (n_z, n_y, nx) real
    """
    n_z = out_block.shape[0]
    for i in range(n_rows):
        pair = pairs[i // 2]
        row = out_block[(first_row + i) % n_z, plane + (first_row + i) // n_z]
        part = i % 2
        for x in range(len(row)):
            row[x] = pair[2 * x + part]


@kernel(lambda T: (T[:, :, ::1], *[int64] * 3, T[:, ::1]), nogil=True)
def pairs_from_block(block, plane, first_row, n_rows, out_pairs):
    """Join rows of real values to pairs in physical space, an odd last one with zero: `block_from_pairs` reversed."""
    n_z, n_x = block.shape[0], block.shape[2]
    for q in range((n_rows + 1) // 2):
        out = out_pairs[q]
        for part in range(2):
            i = 2 * q + part
            if i < n_rows:
                row = block[(first_row + i) % n_z, plane + (first_row + i) // n_z]
                for x in range(n_x):
                    out[2 * x + part] = row[x]
            else:
                for x in range(n_x):
                    out[2 * x + part] = 0
