"""Gray-Scott row kernels: vector code for one plane's rows, built from `physics.point_update`.

Two intrinsics, each an LLVM function of its own that the sweep calls once per group of rows:

- `update_four_rows`: full, aligned vectors of four rows, which share one Philox block (y // 4); stores
  may be streaming. All the time is spent here.
- `update_part_of_row`: any cells first <= i < last of one row, by masked stores: what is left over.

Both evaluate the same expressions in the same order, so a cell rounds alike in either.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ridgeline.kernels.llvm import I64, Lanes, Vector, data_pointer, element_type, prefetch
from ridgeline.kernels.random import WORDS
from ridgeline.kernels.random_llvm import load_keys, philox_words, uniform_scale, unscaled_uniform
from ridgeline.models.gray_scott.physics import Coefficients, point_update

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
            self.keys = load_keys(self.integers, function.args[-1])
            c = c._replace(noise=c.noise * uniform_scale(self.lanes))
        self.coefficients = c
        self.update = point_update(self.lanes.fma)

    def at(self, name: str, row: int = 0, pitch: str = "pitch"):
        """Return the index of cell 0 of the row `row` rows after the one that `name` points to."""
        if row == 0:
            return self.index[name]
        offset = self.builder.mul(self.index[pitch], ir.Constant(I64, row))
        return self.builder.add(self.index[name], offset)

    def loop(self, first, last, body) -> None:
        """Emit `for i in range(first, last, lanes): body(i)` and the function's return."""
        builder = self.builder
        function, before = builder.function, builder.block
        inside, after = function.append_basic_block("vectors"), function.append_basic_block("done")
        builder.cbranch(builder.icmp_signed("<", first, last), inside, after)
        builder.position_at_end(inside)
        i = builder.phi(I64)
        i.add_incoming(first, before)
        body(i)
        following = builder.add(i, ir.Constant(I64, self.lanes.count))
        i.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, last), inside, after)
        builder.position_at_end(after)
        builder.ret_void()

    def rows(self, i, count: int, noise: list[Vector | None]) -> list[tuple[Vector, Vector]]:
        """Return the new (u, v) of `count` rows at vector i; noise has one unscaled vector per row."""
        values = [self._values_and_sums(pointer, i, count) for pointer in self.pointers[:2]]
        return [
            self.update(u, v, sum_u, sum_v, r, self.coefficients)
            for (u, sum_u), (v, sum_v), r in zip(*values, noise)
        ]

    def _values_and_sums(self, pointer, i, count: int) -> list[tuple[Vector, Vector]]:
        add = self.builder.add
        load = self.lanes.load

        def aligned(name: str, row: int) -> Vector:
            return load(pointer, add(self.at(name, row), i), aligned=True)

        centre = [aligned("centre", row) for row in range(-1, count + 1)]
        result = []
        for row in range(count):
            here = add(self.at("centre", row), i)
            left, right = (load(pointer, add(here, ir.Constant(I64, shift))) for shift in (-1, 1))
            x = left + right
            y = centre[row] + centre[row + 2]
            z = aligned("below", row) + aligned("above", row)
            result.append((centre[row + 1], (x + y) + z))
        return result

    def words(self, i, wrap: bool) -> tuple[Vector, ...]:
        """Return the four words of noise of the cells at vector i; `wrap`: x may be a periodic ghost's."""
        builder = self.builder
        x = self.integers.iota(builder.add(self.index["x_global"], i))
        if wrap:
            nx = self.integers.splat(self.index["nx_global"])
            x = x.min_unsigned(x + nx)
            x = x.min_unsigned(x - nx)
        group = builder.lshr(self.index["y_global"], ir.Constant(I64, 2))
        return philox_words(x, group, self.index["z_global"], self.index["step"], self.keys)


def _four_rows(build: RowBuilder, streaming: bool) -> None:
    def body(i):
        for row in range(WORDS):
            for pointer in build.pointers[:2]:
                prefetch(build.builder, pointer, build.builder.add(build.at("ahead", row), i))
        noise = [None] * WORDS
        if build.keys:
            noise = [unscaled_uniform(word, build.lanes) for word in build.words(i, wrap=False)]
        for row, new in enumerate(build.rows(i, WORDS, noise)):
            index = build.builder.add(build.at("out", row, "out_pitch"), i)
            for pointer, value in zip(build.pointers[2:], new):
                value.store(pointer, index, aligned=True, streaming=streaming)

    build.loop(build.index["first"], build.index["last"], body)


def _part_of_row(build: RowBuilder) -> None:
    builder, index = build.builder, build.index
    width = build.lanes.count
    start = builder.and_(index["first"], ir.Constant(I64, -width))

    def body(i):
        x = build.integers.iota(i)
        noise = None
        if build.keys:
            word = _word_of_row(build, build.words(i, wrap=True))
            noise = unscaled_uniform(word, build.lanes)
        ((new_u, new_v),) = build.rows(i, 1, [noise])
        mask = builder.and_(
            builder.not_(x.less(build.integers.splat(index["first"]))),
            x.less(build.integers.splat(index["last"])),
        )
        new_u.store_masked(mask, build.pointers[2], builder.add(index["out"], i))
        new_v.store_masked(mask, build.pointers[3], builder.add(index["out"], i))

    build.loop(start, index["last"], body)


def _word_of_row(build: RowBuilder, words: tuple[Vector, ...]) -> Vector:
    builder = build.builder
    place = builder.and_(build.index["y_global"], ir.Constant(I64, WORDS - 1))
    value = words[0].value
    for n in range(1, WORDS):
        is_n = builder.icmp_unsigned("==", place, ir.Constant(I64, n))
        value = builder.select(is_n, words[n].value, value)
    return Vector(build.integers, value)


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
def update_part_of_row(typing, vector_bytes, u, v, indices, coefficients, keys, out_u, out_v):
    """Update the cells first <= i < last of one row; the arguments are those of `update_four_rows`."""

    def codegen(context, builder, signature, args):
        name, emit = "part_of_row", _part_of_row
        _call(
            name, emit, context, builder, signature, args, vector_bytes.literal_value, (1, 2, 3, 4, 5, 6, 7)
        )
        return context.get_dummy_value()

    return types.void(vector_bytes, u, v, indices, coefficients, keys, out_u, out_v), codegen
