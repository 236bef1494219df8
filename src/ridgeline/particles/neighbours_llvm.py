"""The inner loops of neighbour lists as LLVM IR: eight distances at a time, of which the near ones are kept."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.llvm import F64, I1, I32, I64, Lanes, constant, count_lanes, data_pointer

LANES = 8


@intrinsic
def append_near(typing, x, y, z, order, begin, end, x0, y0, z0, square, self_row, half, out, at, last):
    """Append to `out` the rows order[k], begin <= k < end, whose (x, y, z)[k] is near (x0, y0, z0).

    A row is near if the square of its distance is below `square` and it is not self_row. half: only the upper half of
    space counts. Entries are written from index `at` on, and none beyond `last`. Returns the index after the last
    entry. LANES entries beyond `end` are read, and LANES entries from the returned index on are overwritten.
    """

    def codegen(context, builder, signature, args):
        arrays = [data_pointer(context, builder, signature, args, n) for n in (0, 1, 2, 3, 12)]
        columns, rows, target = arrays[:3], arrays[3], arrays[4]
        begin, end, self_row, half, first, last = (args[n] for n in (4, 5, 10, 11, 13, 14))
        floats, wide, narrow = (
            Lanes(builder, F64, LANES),
            Lanes(builder, I64, LANES),
            Lanes(builder, I32, LANES),
        )
        place = [floats.splat(value) for value in args[6:9]]
        mine, zero = narrow.splat(builder.trunc(self_row, I32)), floats.constant(0.0)
        position = cgutils.alloca_once_value(builder, first)

        def ordered(relation, a, b):
            return builder.fcmp_ordered(relation, a.value, b.value)

        def upper(dx, dy, dz):
            """Return the lanes in the upper half of space."""
            found = builder.and_(ordered("==", dy, zero), ordered(">", dx, zero))
            found = builder.and_(ordered("==", dz, zero), builder.or_(ordered(">", dy, zero), found))
            return builder.or_(ordered(">", dz, zero), found)

        def append(k, of_half):
            dx, dy, dz = (floats.load(column, k) - here for column, here in zip(columns, place))
            r2 = floats.fma(dz, dz, floats.fma(dy, dy, dx * dx))
            found = narrow.load(rows, k)
            wanted = builder.and_(ordered("<", r2, floats.splat(args[9])), wide.iota(k).less(wide.splat(end)))
            wanted = builder.and_(wanted, builder.icmp_signed("!=", found.value, mine.value))
            if of_half:
                wanted = builder.and_(wanted, upper(dx, dy, dz))
            now = builder.load(position)
            narrow.vector(_compress(builder, narrow, found.value, wanted)).store(target, now)
            now = builder.add(now, count_lanes(builder, wanted))
            builder.store(builder.select(builder.icmp_signed("<", now, last), now, last), position)

        with builder.if_else(builder.trunc(half, I1)) as branches:
            for branch, of_half in zip(branches, (True, False)):
                with (
                    branch,
                    cgutils.for_range_slice(builder, begin, end, ir.Constant(I64, LANES)) as (k, _),
                ):
                    append(k, of_half)
        return builder.load(position)

    return types.int64(x, y, z, order, begin, end, x0, y0, z0, square, self_row, half, out, at, last), codegen


@intrinsic
def gather_near_box(typing, columns, order, begin, end, box, square, out_columns, out_order, at):
    """Append the particles k, begin <= k < end, that are near a box to out_columns and out_order.

    columns : (3, m), x, y, z; order : rows; box : (6,), lower and upper ends of x, y, z; at : index to write to. A
    particle is near if the square of its distance to the box is below `square`. The distance is computed as in
    `append_near`, so that rounding never loses a neighbour of a particle in the box. Returns the index after the last
    entry. LANES entries beyond `end` are read, and LANES entries from the returned index on are overwritten.
    """

    def codegen(context, builder, signature, args):
        rows, bounds, out_rows = (data_pointer(context, builder, signature, args, n) for n in (1, 4, 7))
        begin, end, first = args[2], args[3], args[8]
        sources, targets = (_rows_of(context, builder, signature, args, n) for n in (0, 6))
        floats, wide, narrow = (
            Lanes(builder, F64, LANES),
            Lanes(builder, I64, LANES),
            Lanes(builder, I32, LANES),
        )
        low, high = (
            [floats.splat(builder.load(builder.gep(bounds, [ir.Constant(I64, at + c)]))) for c in range(3)]
            for at in (0, 3)
        )
        nothing, limit = floats.constant(0.0), floats.splat(args[5])
        position = cgutils.alloca_once_value(builder, first)
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(I64, LANES)) as (k, _):
            place = [floats.load(source, k) for source in sources]
            dx, dy, dz = (
                (a - x).max_ordered(x - b).max_ordered(nothing) for x, a, b in zip(place, low, high)
            )
            r2 = floats.fma(dz, dz, floats.fma(dy, dy, dx * dx))
            near = builder.fcmp_ordered("<", r2.value, limit.value)
            near = builder.and_(near, wide.iota(k).less(wide.splat(end)))
            now = builder.load(position)
            for x, target in zip(place, targets):
                floats.vector(_compress(builder, floats, x.value, near)).store(target, now)
            found = narrow.load(rows, k)
            narrow.vector(_compress(builder, narrow, found.value, near)).store(out_rows, now)
            builder.store(builder.add(now, count_lanes(builder, near)), position)
        return builder.load(position)

    return types.int64(columns, order, begin, end, box, square, out_columns, out_order, at), codegen


def _rows_of(context, builder, signature, args, n):
    """Return pointers to the three rows of argument n, a C-ordered array (3, m)."""
    array = context.make_array(signature.args[n])(context, builder, args[n])
    length = builder.extract_value(array.shape, 1)
    return [builder.gep(array.data, [builder.mul(length, ir.Constant(I64, c))]) for c in range(3)]


def _compress(builder, lanes, value, mask):
    """Return the lanes that the mask selects, moved together to the front; the rest is zero."""
    # As integers: LLVM 22 aborts on floats where the processor has no such instruction (before AVX-512).
    whole = Lanes(builder, I64 if lanes.element == F64 else I32, lanes.count)
    kind = ir.FunctionType(whole.type, [whole.type, ir.VectorType(I1, lanes.count), whole.type])
    name = f"llvm.experimental.vector.compress.{whole.suffix}"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    bits = builder.call(function, [builder.bitcast(value, whole.type), mask, constant(whole.type, 0)])
    return builder.bitcast(bits, lanes.type)
