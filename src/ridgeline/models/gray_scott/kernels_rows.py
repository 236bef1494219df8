"""Gray-Scott row kernels: vector code for one plane's rows, built from `physics.point_update`.

Two intrinsics, each an LLVM function of its own that the sweep calls once per group of rows:

- `update_four_rows`: full, aligned vectors of four rows, which share one Philox block (y // 4); stores
  may be streaming. All the time is spent here.
- `update_one_row`: any cells first <= i < last of one row, by masked stores: what is left over.

Both evaluate the same expressions in the same order, so a cell rounds alike in either.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ridgeline.kernels.llvm import (
    I64,
    Lanes,
    Vector,
    data_pointer,
    element_type,
    prefetch,
    right_neighbours,
)
from ridgeline.kernels.random import WORDS
from ridgeline.kernels.random_llvm import load_keys, philox_words, uniform_scale, unscaled_uniform
from ridgeline.models.gray_scott.physics import Coefficients, point_update

REGISTERS = 4  # Philox blocks of this many vector registers are computed side by side

INDICES = (
    "below",
    "centre",
    "above",
    "pitch",
    "out",
    "out_pitch",
    "first",
    "last",
    "ahead",
    "x_global",
    "y_global",
    "z_global",
    "nx_global",
    "step",
)


class RowBuilder:
    """Builds the body of one row function; its arguments are attributes named as in INDICES."""

    def __init__(self, function: ir.Function, element: ir.Type, vector_bytes: int, noisy: bool):
        self.builder = ir.IRBuilder(function.append_basic_block())
        itemsize = 8 if element == ir.DoubleType() else 4
        self.lanes = Lanes(self.builder, element, vector_bytes // itemsize)
        self.integers = Lanes(self.builder, I64, self.lanes.count)
        self.pointers = function.args[:4]  # u, v, out_u, out_v
        self.index = dict(zip(INDICES, function.args[4 : 4 + len(INDICES)]))
        scalars = function.args[4 + len(INDICES) : 10 + len(INDICES)]
        c = Coefficients(
            *(self.lanes.splat(s) for s in scalars), self.lanes.constant(1.0), self.lanes.constant(-6.0)
        )
        self.keys = None
        if noisy:
            self.keys = function.args[-1]
            c = c._replace(noise=c.noise * uniform_scale(self.lanes))
        self.coefficients = c
        self.update = point_update(self.lanes.fma)

    def at(self, name: str, row: int = 0, pitch: str = "pitch"):
        """Return the index of cell 0 of the row `row` rows after the one that `name` points to."""
        if row == 0:
            return self.index[name]
        offset = self.builder.mul(self.index[pitch], ir.Constant(I64, row))
        return self.builder.add(self.index[name], offset)

    def loop(self, first, last, body, carried: list[Vector]) -> None:
        """Emit `for i in range(first, last, lanes): carried = body(i, carried)` and the function's return."""
        builder = self.builder
        function, before = builder.function, builder.block
        inside, after = function.append_basic_block("vectors"), function.append_basic_block("done")
        builder.cbranch(builder.icmp_signed("<", first, last), inside, after)
        builder.position_at_end(inside)
        i, *values = [builder.phi(kind) for kind in (I64, *(c.value.type for c in carried))]
        following = body(i, [Vector(c.lanes, value) for c, value in zip(carried, values)])
        i_following = builder.add(i, ir.Constant(I64, self.lanes.count))
        for phi, start, end in zip(
            (i, *values), (first, *(c.value for c in carried)), (i_following, *(f.value for f in following))
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(end, builder.block)
        builder.cbranch(builder.icmp_signed("<", i_following, last), inside, after)
        builder.position_at_end(after)
        builder.ret_void()

    def _aligned(self, pointer, name: str, row: int, i, shift: int = 0) -> Vector:
        index = self.builder.add(self.at(name, row), i)
        if shift:
            index = self.builder.add(index, ir.Constant(I64, shift * self.lanes.count))
        return self.lanes.load(pointer, index, aligned=True)

    def first_carried(self, i, count: int) -> list[Vector]:
        """Return what the loop carries from vector to vector: the values at i of `count` rows of u, of v."""
        return [
            self._aligned(pointer, "centre", row, i) for pointer in self.pointers[:2] for row in range(count)
        ]

    def rows(self, i, count: int, carried: list[Vector], noise: list[Vector | None]):
        """Return the new (u, v) of `count` rows at vector i, and what to carry to the next vector.

        noise has one unscaled vector per row. Of the neighbours in x, the right ones come by a lane shift of
        the next aligned vector, the left ones by an unaligned load: shifts compete with additions for the
        same ports, unaligned loads with the other loads, so each gets one.
        """
        half = len(carried) // 2
        u = self._values_and_sums(self.pointers[0], i, count, carried[:half])
        v = self._values_and_sums(self.pointers[1], i, count, carried[half:])
        new, following_u, following_v = [], [], []
        for r in noise:  # u and v row by row: few sums wait in registers
            u_here, sum_u, next_u = next(u)
            v_here, sum_v, next_v = next(v)
            new.append(self.update(u_here, v_here, sum_u, sum_v, r, self.coefficients))
            following_u.append(next_u)
            following_v.append(next_v)
        return new, following_u + following_v

    def _values_and_sums(self, pointer, i, count: int, carried: list[Vector]):
        """Yield for each row its value, the sum of its six neighbours, and the value at the next vector."""
        ends = (self._aligned(pointer, "centre", row, i) for row in (-1, count))
        column = [next(ends), *carried, next(ends)]
        for row in range(count):
            left_index = self.builder.add(self.builder.add(self.at("centre", row), i), ir.Constant(I64, -1))
            left = self.lanes.load(pointer, left_index)
            after = self._aligned(pointer, "centre", row, i, 1)
            x = left + right_neighbours(carried[row], after)
            y = column[row] + column[row + 2]
            z = self._aligned(pointer, "below", row, i) + self._aligned(pointer, "above", row, i)
            yield carried[row], (x + y) + z, after

    def words(self, x: Vector) -> tuple[Vector, ...]:
        """Return the four words of noise of the cells with global indices x."""
        group = self.builder.lshr(self.index["y_global"], ir.Constant(I64, 2))
        keys = load_keys(x.lanes, self.keys)
        return philox_words(x, group, self.index["z_global"], self.index["step"], keys)


class NoiseBuffer:
    """Noise of the next few vectors, refilled as the loop over i runs from `first`.

    One Philox block is a chain of ten rounds, each waiting for the one before. So the blocks of several
    registers are computed side by side, on a vector type that LLVM splits; the results wait in the
    first-level cache.
    """

    def __init__(self, build: RowBuilder, first, registers: int, rows: int):
        self.build = build
        self.first = first
        self.rows = rows
        lanes = build.lanes
        self.count = max(registers * lanes.bytes * lanes.count // 8, lanes.count)  # cells
        self.wide = Lanes(build.builder, lanes.element, self.count)
        self.memory = build.builder.alloca(lanes.element, rows * self.count)
        self.memory.align = self.count * lanes.bytes

    def at(self, i) -> list[Vector]:
        """Return the rows' unscaled noise at vector i: of all four, or of the one row y_global."""
        build, builder = self.build, self.build.builder
        place = builder.and_(builder.sub(i, self.first), ir.Constant(I64, self.count - 1))
        with builder.if_then(builder.icmp_unsigned("==", place, ir.Constant(I64, 0))):
            x = Lanes(builder, I64, self.count).iota(builder.add(build.index["x_global"], i))
            words = (
                build.words(x) if self.rows == WORDS else [self._word_of_row(build.words(self._wrapped(x)))]
            )
            for row, word in enumerate(words):
                index = ir.Constant(I64, row * self.count)
                unscaled_uniform(word, self.wide).store(self.memory, index, aligned=True)
        indices = [builder.add(place, ir.Constant(I64, row * self.count)) for row in range(self.rows)]
        return [build.lanes.load(self.memory, index, aligned=True) for index in indices]

    def _wrapped(self, x: Vector) -> Vector:
        """Give periodic ghosts the index of the cell that they copy."""
        nx = x.lanes.splat(self.build.index["nx_global"])
        x = x.min_unsigned(x + nx)
        return x.min_unsigned(x - nx)

    def _word_of_row(self, words: tuple[Vector, ...]) -> Vector:
        builder = self.build.builder
        place = builder.and_(self.build.index["y_global"], ir.Constant(I64, WORDS - 1))
        value = words[0].value
        for n in range(1, WORDS):
            is_n = builder.icmp_unsigned("==", place, ir.Constant(I64, n))
            value = builder.select(is_n, words[n].value, value)
        return Vector(words[0].lanes, value)


def _four_rows(build: RowBuilder, streaming: bool) -> None:
    builder, first = build.builder, build.index["first"]
    noise = NoiseBuffer(build, first, REGISTERS, WORDS) if build.keys else None

    def body(i, carried):
        for row in range(WORDS):
            for pointer in build.pointers[:2]:
                prefetch(builder, pointer, builder.add(build.at("ahead", row), i))
        new, carried = build.rows(i, WORDS, carried, noise.at(i) if noise else [None] * WORDS)
        for row, values in enumerate(new):
            index = builder.add(build.at("out", row, "out_pitch"), i)
            for pointer, value in zip(build.pointers[2:], values):
                value.store(pointer, index, aligned=True, streaming=streaming)
        return carried

    build.loop(first, build.index["last"], body, build.first_carried(first, WORDS))


def _one_row(build: RowBuilder, registers: int) -> None:
    builder, index = build.builder, build.index
    first = builder.and_(index["first"], ir.Constant(I64, -build.lanes.count))
    noise = NoiseBuffer(build, first, registers, 1) if build.keys else None

    def body(i, carried):
        new, carried = build.rows(i, 1, carried, noise.at(i) if noise else [None])
        x = build.integers.iota(i)
        before, behind = (x.less(build.integers.splat(index[end])) for end in ("first", "last"))
        mask = builder.and_(builder.not_(before), behind)
        for pointer, value in zip(build.pointers[2:], new[0]):
            value.store_masked(mask, pointer, builder.add(index["out"], i))
        return carried

    build.loop(first, index["last"], body, build.first_carried(first, 1))


def _call(name, emit, context, builder, signature, args, vector_bytes, arguments) -> None:
    """Call the row function `name`, built by `emit` if this module has none yet."""
    u, v, indices, coefficients, keys, out_u, out_v = arguments
    noisy = not isinstance(signature.args[keys], types.NoneType)
    element = element_type(signature.args[u].dtype)
    pointers = [data_pointer(context, builder, signature, args, n) for n in (u, v, out_u, out_v)]
    values = [builder.extract_value(args[indices], n) for n in range(len(INDICES))]
    values += [builder.extract_value(args[coefficients], n) for n in range(6)]
    if noisy:
        values.append(data_pointer(context, builder, signature, args, keys))
    name = f"gray_scott_{name}_{element}_{vector_bytes}" + ("_noise" if noisy else "")
    function = builder.module.globals.get(name)
    if function is None:
        kinds = [value.type for value in pointers + values]
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[2:4]:
            argument.add_attribute("noalias")
        emit(RowBuilder(function, element, vector_bytes, noisy))
    builder.call(function, pointers + values)


@intrinsic(prefer_literal=True)
def update_four_rows(typing, vector_bytes, streaming, u, v, indices, coefficients, keys, out_u, out_v):
    """Update the vectors first <= i < last, both multiples of the vector, of four rows.

    vector_bytes, streaming: literals. u, v, out_u, out_v: flat arrays. indices: 64-bit integers as INDICES:
    below, centre, above: index of cell 0 of the first row in planes z-1, z, z+1 of u and v (aligned), rows
    `pitch` apart; out, out_pitch: the same of the results; ahead: index of rows to prefetch; the global
    indices of cell 0 of the first row (y a multiple of 4); nx_global; step. keys: `round_keys` or None.
    """

    def codegen(context, builder, signature, args):
        stream = bool(streaming.literal_value)

        def emit(build):
            _four_rows(build, stream)

        name = "rows_streaming" if stream else "rows"
        _call(
            name, emit, context, builder, signature, args, vector_bytes.literal_value, (2, 3, 4, 5, 6, 7, 8)
        )
        return context.get_dummy_value()

    arguments = (vector_bytes, streaming, u, v, indices, coefficients, keys, out_u, out_v)
    return types.void(*arguments), codegen


@intrinsic(prefer_literal=True)
def update_one_row(typing, vector_bytes, short, u, v, indices, coefficients, keys, out_u, out_v):
    """Update the cells first <= i < last of one row; the arguments are those of `update_four_rows`.

    short: a literal; True is faster for one vector, False for many.
    """

    def codegen(context, builder, signature, args):
        registers = 1 if short.literal_value else REGISTERS

        def emit(build):
            _one_row(build, registers)

        name = "short_row" if short.literal_value else "row"
        _call(
            name, emit, context, builder, signature, args, vector_bytes.literal_value, (2, 3, 4, 5, 6, 7, 8)
        )
        return context.get_dummy_value()

    return types.void(vector_bytes, short, u, v, indices, coefficients, keys, out_u, out_v), codegen
