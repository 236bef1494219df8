"""Two real rows transformed as one complex row: joining their Fourier modes and separating them again.

Real rows a, b are transformed in x as the *pair* a + i b, one complex transform, nearly twice as fast as two real
ones. With the modes A_j, B_j of the rows, the pair has A_j + i B_j at j and conj(A_j) + i conj(B_j) at -j. (Numerical
Recipes, "FFT of two real functions simultaneously", is a textbook form.)

The kernels work in vector registers, by the LLVM code in the first half of this file. Complex numbers are passed as
real arrays, real and imaginary parts alternating: [..., 2 j] and [..., 2 j + 1].
"""

from llvmlite import ir
from numba import int64, types
from numba.extending import intrinsic

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.llvm import I32, Lanes, Vector, constant, data_pointer, element_type, host_vector_bytes


def _picks(vector, picks):
    lanes = vector.lanes
    mask = constant(ir.VectorType(I32, lanes.count), picks)
    return Vector(lanes, lanes.builder.shuffle_vector(vector.value, vector.value, mask))


def swapped(vector):
    """Return (imaginary, real) of each complex number."""
    return _picks(vector, [i ^ 1 for i in range(vector.lanes.count)])


def _reversed(vector):
    """Return the complex numbers in reverse order."""
    return _picks(vector, [i ^ 1 for i in reversed(range(vector.lanes.count))])


def _lanes(builder, dtype, whole):
    """Return vectors that fill a register if `whole`, or hold one complex number."""
    count = host_vector_bytes() * 8 // dtype.bitwidth if whole else 2
    return Lanes(builder, element_type(dtype), count)


def alternating(lanes, real, imaginary):
    """Return a vector of factors of real and imaginary parts."""
    return lanes.constant([real, imaginary] * (lanes.count // 2))


def _spread(vector, pointer, place, stride):
    """Store complex number i of a vector at real index place + i stride."""
    lanes, builder = vector.lanes, vector.lanes.builder
    one = Lanes(builder, lanes.element, 2)
    for i in range(lanes.count // 2):
        mask = constant(ir.VectorType(I32, 2), [2 * i, 2 * i + 1])
        part = one.vector(builder.shuffle_vector(vector.value, vector.value, mask))
        part.store(pointer, builder.add(place, builder.mul(stride, ir.Constant(stride.type, i))))


def _collect(lanes, pointer, place, stride):
    """Load complex number i of a vector from real index place + i stride."""
    builder, one = lanes.builder, Lanes(lanes.builder, lanes.element, 2)
    places = [
        builder.add(place, builder.mul(stride, ir.Constant(stride.type, i))) for i in range(lanes.count // 2)
    ]
    parts = [one.load(pointer, each).value for each in places]
    while len(parts) > 1:
        joined = constant(ir.VectorType(I32, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
        parts = [builder.shuffle_vector(*two, joined) for two in zip(parts[::2], parts[1::2])]
    return lanes.vector(parts[0])


@intrinsic
def vector_length(typing, array):
    """Return how many complex numbers a register holds."""
    numbers = host_vector_bytes() * 4 // array.dtype.bitwidth

    def codegen(context, builder, signature, args):
        return context.get_constant(types.intp, numbers)

    return types.intp(array), codegen


@intrinsic(prefer_literal=True)
def join_run(typing, whole, source, a, b, out, forth, back):
    """Join modes at source[a ...], source[b ...] into out[forth ...] and, mirrored, out[back ...]; real indices.

    `whole` is a literal: as many modes as a register holds, or one.
    """
    if not isinstance(whole, types.BooleanLiteral):
        return None

    def codegen(context, builder, signature, args):
        lanes = _lanes(builder, source.dtype, whole.literal_value)
        load = data_pointer(context, builder, signature, args, 1)
        store = data_pointer(context, builder, signature, args, 4)
        first, second = lanes.load(load, args[2]), swapped(lanes.load(load, args[3]))
        # A + i B = (Re A - Im B, Im A + Re B); conj A + i conj B = (Re A + Im B, Re B - Im A)
        lanes.fma(second, alternating(lanes, -1.0, 1.0), first).store(store, args[5])
        _reversed(lanes.fma(first, alternating(lanes, 1.0, -1.0), second)).store(store, args[6])
        return context.get_dummy_value()

    index = types.intp
    return types.void(whole, source, index, index, out, index, index), codegen


@intrinsic(prefer_literal=True)
def part_run(typing, whole, pairs, forth, back, out, a, b):
    """Part modes at pairs[forth ...] and, mirrored, pairs[back ...] into out[a ...], out[b ...]; as `join_run`."""
    if not isinstance(whole, types.BooleanLiteral):
        return None

    def codegen(context, builder, signature, args):
        lanes = _lanes(builder, pairs.dtype, whole.literal_value)
        load = data_pointer(context, builder, signature, args, 1)
        store = data_pointer(context, builder, signature, args, 4)
        pair, mirror = lanes.load(load, args[2]), _reversed(lanes.load(load, args[3]))
        # 2 A = pair + conj(mirror); 2 B = (Im pair + Im mirror, Re mirror - Re pair)
        lanes.fma(mirror, alternating(lanes, 1.0, -1.0), pair).store(store, args[5])
        swapped(lanes.fma(pair, alternating(lanes, -1.0, 1.0), mirror)).store(store, args[6])
        return context.get_dummy_value()

    index = types.intp
    return types.void(whole, pairs, index, index, out, index, index), codegen


@intrinsic
def join_dealt(typing, source, a, b, out, forth, back, stride):
    """Join as many modes as a register holds into out[forth + i stride] and, mirrored, out[back - i stride].

    It is `join_run` for pencils, where a rank has every P_r-th mode of a row.
    """

    def codegen(context, builder, signature, args):
        lanes = _lanes(builder, source.dtype, True)
        load = data_pointer(context, builder, signature, args, 0)
        store = data_pointer(context, builder, signature, args, 3)
        first, second = lanes.load(load, args[1]), swapped(lanes.load(load, args[2]))
        _spread(lanes.fma(second, alternating(lanes, -1.0, 1.0), first), store, args[4], args[6])
        mirrored = lanes.fma(first, alternating(lanes, 1.0, -1.0), second)
        _spread(mirrored, store, args[5], builder.neg(args[6]))
        return context.get_dummy_value()

    index = types.intp
    return types.void(source, index, index, out, index, index, index), codegen


@intrinsic
def part_dealt(typing, pairs, forth, back, stride, out, a, b):
    """Part as many modes as a register holds, from pairs[forth + i stride] and pairs[back - i stride].

    It is `part_run` for pencils.
    """

    def codegen(context, builder, signature, args):
        lanes = _lanes(builder, pairs.dtype, True)
        load = data_pointer(context, builder, signature, args, 0)
        store = data_pointer(context, builder, signature, args, 4)
        pair = _collect(lanes, load, args[1], args[3])
        mirror = _collect(lanes, load, args[2], builder.neg(args[3]))
        lanes.fma(mirror, alternating(lanes, 1.0, -1.0), pair).store(store, args[5])
        swapped(lanes.fma(pair, alternating(lanes, -1.0, 1.0), mirror)).store(store, args[6])
        return context.get_dummy_value()

    index = types.intp
    return types.void(pairs, index, index, index, out, index, index), codegen


def _interleaved(first, second, reverse):
    """Return the complex numbers of two vectors in turn, as two vectors; reverse: from the last to the first."""
    lanes = first.lanes
    n = lanes.count // 2
    order = [2 * (k // 2 + n * (k % 2)) for k in range(2 * n)]
    picks = [place + part for place in (order[::-1] if reverse else order) for part in (0, 1)]
    halves = (constant(ir.VectorType(I32, 2 * n), half) for half in (picks[: 2 * n], picks[2 * n :]))
    return [lanes.vector(lanes.builder.shuffle_vector(first.value, second.value, half)) for half in halves]


def _every_second(low, high, begin, reverse):
    """Return every second complex number of two vectors, from `begin` on; reverse: from the last but `begin`."""
    lanes = low.lanes
    n = lanes.count // 2
    places = [2 * n - 1 - begin - 2 * k if reverse else begin + 2 * k for k in range(n)]
    mask = constant(ir.VectorType(I32, 2 * n), [2 * place + part for place in places for part in (0, 1)])
    return lanes.vector(lanes.builder.shuffle_vector(low.value, high.value, mask))


@intrinsic
def join_both(typing, source, even, odd, out, forth, back):
    """Join the modes of two ranks that have every second one: twice as many as a register holds, in two registers.

    even, odd: (a, b) of `join_run`; they go in turn to out[forth ...] and, mirrored, to out[back ...].
    """

    def codegen(context, builder, signature, args):
        lanes = _lanes(builder, source.dtype, True)
        load = data_pointer(context, builder, signature, args, 0)
        store = data_pointer(context, builder, signature, args, 3)
        pairs, mirrors = [], []
        for rows in args[1:3]:
            a, b = (builder.extract_value(rows, i) for i in range(2))
            first, second = lanes.load(load, a), swapped(lanes.load(load, b))
            pairs.append(lanes.fma(second, alternating(lanes, -1.0, 1.0), first))
            mirrors.append(lanes.fma(first, alternating(lanes, 1.0, -1.0), second))
        for place, values, reverse in ((args[4], pairs, False), (args[5], mirrors, True)):
            low, high = _interleaved(*values, reverse)
            low.store(store, place)
            high.store(store, builder.add(place, ir.Constant(place.type, lanes.count)))
        return context.get_dummy_value()

    index = types.intp
    rows = types.UniTuple(index, 2)
    return types.void(source, rows, rows, out, index, index), codegen


@intrinsic
def part_both(typing, pairs, forth, back, out, even, odd):
    """Part twice as many modes as a register holds to the two ranks that have every second one: see `join_both`."""

    def codegen(context, builder, signature, args):
        lanes = _lanes(builder, pairs.dtype, True)
        load = data_pointer(context, builder, signature, args, 0)
        store = data_pointer(context, builder, signature, args, 3)
        next_register = ir.Constant(args[1].type, lanes.count)
        forward, mirrored = (
            (lanes.load(load, place), lanes.load(load, builder.add(place, next_register)))
            for place in args[1:3]
        )
        for rank, rows in enumerate(args[4:6]):
            a, b = (builder.extract_value(rows, i) for i in range(2))
            pair, mirror = _every_second(*forward, rank, False), _every_second(*mirrored, rank, True)
            lanes.fma(mirror, alternating(lanes, 1.0, -1.0), pair).store(store, a)
            swapped(lanes.fma(pair, alternating(lanes, -1.0, 1.0), mirror)).store(store, b)
        return context.get_dummy_value()

    index = types.intp
    rows = types.UniTuple(index, 2)
    return types.void(pairs, index, index, out, rows, rows), codegen


@subroutine(nogil=True)
def _in_turn(segments, pitch, count):
    """Return how many modes of each of two ranks alternate in a row, a multiple of `count`; 0 if they do not."""
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
