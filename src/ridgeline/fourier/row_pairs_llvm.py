"""Vector registers of complex numbers for pairs of real rows: what `row_pairs` is made of, as LLVM code."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

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

    As `join_run` does, for pencils: a rank has every P_r-th mode of a row.
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

    As `part_run` does, for pencils.
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
    """Part twice as many modes as a register holds to the two ranks that have every second one; as `join_both`."""

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
