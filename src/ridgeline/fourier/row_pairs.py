"""Two real rows as one complex row: joining their Fourier modes and parting them again, in vector registers.

Real rows a, b are transformed in x as the *pair* a + i b, one complex transform, nearly twice as fast as two real
ones. With the modes A_j, B_j of the rows, the pair has A_j + i B_j at j and conj(A_j) + i conj(B_j) at -j. (Numerical
Recipes, "FFT of two real functions simultaneously", is a textbook form.)

Complex numbers are passed as real arrays, real and imaginary parts alternating: [..., 2 j] and [..., 2 j + 1].
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
    """Return vectors of the whole register, or of one complex number."""
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
def _vector_length(typing, array):
    """Return how many complex numbers a register holds."""
    numbers = host_vector_bytes() * 4 // array.dtype.bitwidth

    def codegen(context, builder, signature, args):
        return context.get_constant(types.intp, numbers)

    return types.intp(array), codegen


@intrinsic(prefer_literal=True)
def _join(typing, whole, source, a, b, out, forth, back):
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
def _part(typing, whole, pairs, forth, back, out, a, b):
    """Part modes at pairs[forth ...] and, mirrored, pairs[back ...] into out[a ...], out[b ...]; as `_join`."""
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
def _join_dealt(typing, source, a, b, out, forth, back, stride):
    """Join as many modes as a register holds into out[forth + i stride] and, mirrored, out[back - i stride].

    As `_join` does, for pencils: a rank has every P_r-th mode of a row.
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
def _part_dealt(typing, pairs, forth, back, stride, out, a, b):
    """Part as many modes as a register holds, as `_part`, from pairs[forth + i stride] and pairs[back - i stride]."""

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


@subroutine(nogil=True)
def _join_piece(source, a, b, pitch, first, step, length, nx, out, begin):
    """Join modes first, first + step, ... at source[a ...] and source[b ...] into the pair at out[begin ...].

    pitch: from one mode of a row to the next, in complex numbers
    """
    forth, back = begin + 2 * first, begin + 2 * (nx - first)
    whole = 0
    if pitch == 1:
        count = _vector_length(source)
        whole = length - length % count
        if step == 1:
            for i in range(0, whole, count):
                _join(True, source, a + 2 * i, b + 2 * i, out, forth + 2 * i, back - 2 * (i + count - 1))
        else:
            for i in range(0, whole, count):
                far = 2 * step * i
                _join_dealt(source, a + 2 * i, b + 2 * i, out, forth + far, back - far, 2 * step)
    for i in range(whole, length):
        _join(
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
        count = _vector_length(pairs)
        whole = length - length % count
        if step == 1:
            for i in range(0, whole, count):
                _part(True, pairs, forth + 2 * i, back - 2 * (i + count - 1), out, a + 2 * i, b + 2 * i)
        else:
            for i in range(0, whole, count):
                far = 2 * step * i
                _part_dealt(pairs, forth + far, back - far, 2 * step, out, a + 2 * i, b + 2 * i)
    for i in range(whole, length):
        _part(
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
    for v in range(n_variables):
        for q in range((n_rows + 1) // 2):
            row = first_row + 2 * q
            begin = (v * out_pairs.shape[1] + q) * out_pairs.shape[2]
            flat[begin + 2 * n_columns : begin + 2 * (nx - n_columns + 1)] = 0
            for s in range(segments.shape[0]):
                first, step, length = segments[s, 0], segments[s, 1], segments[s, 2]
                a = 2 * start[v, row, s]
                if 2 * q + 1 < n_rows:
                    b = 2 * start[v, row + 1, s]
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
    for v in range(n_variables):
        for q in range((n_rows + 1) // 2):
            row = first_row + 2 * q
            begin = (v * pairs.shape[1] + q) * pairs.shape[2]
            flat[begin + 2 * nx : begin + 2 * nx + 2] = flat[begin : begin + 2]
            for s in range(segments.shape[0]):
                first, step, length = segments[s, 0], segments[s, 1], segments[s, 2]
                a = 2 * start[v, row, s]
                if 2 * q + 1 < n_rows:
                    b = 2 * start[v, row + 1, s]
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
