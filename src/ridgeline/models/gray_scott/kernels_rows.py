"""Gray-Scott row kernels: vector code for the rows of a plane, built from `physics.point_update`.

There are two intrinsics. Each is an LLVM function of its own, which the sweep calls once per group of rows:

- `update_row_groups` updates full, aligned vectors of groups of four rows, which take the words of one Philox block;
  stores may be streaming. Nearly all the time is spent here.
- `update_one_row` updates any cells first <= i < last of one row by masked stores: what is left over.

Both evaluate the same expressions in the same order, so that a cell rounds alike in either of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ridgeline.jit.llvm import (
    I32,
    I64,
    Lanes,
    Vector,
    data_pointer,
    element_type,
    left_neighbours,
    prefetch,
    right_neighbours,
)
from ridgeline.jit.random import (
    GENERATORS,
    UNIFORM_SCALE,
    WORDS,
    Generator,
    load_keys,
    philox_words,
    unscaled_uniform,
)
from ridgeline.models.gray_scott.physics import Coefficients, point_update

CHUNK = 1024  # cells of a row that are updated at a time: the noise of 2 x 4 rows of them is kept
VECTORS_AHEAD = 8  # how far to prefetch from the second-level cache
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
    "groups",
)


class RowBuilder:
    """Builds the body of one row function, whose arguments are in `index` by the names of INDICES.

    generator: of the noise, None if there is none.
    """

    def __init__(
        self, function: ir.Function, element: ir.Type, vector_bytes: int, generator: Generator | None
    ):
        self.builder = ir.IRBuilder(function.append_basic_block())
        itemsize = 8 if element == ir.DoubleType() else 4
        self.lanes = Lanes(self.builder, element, vector_bytes // itemsize)
        self.integers = Lanes(self.builder, I64, self.lanes.count)
        self.pointers = function.args[:4]  # u, v, out_u, out_v
        self.index = dict(zip(INDICES, function.args[4 : 4 + len(INDICES)]))
        scalars = function.args[4 + len(INDICES) : 10 + len(INDICES)]
        one, minus_six = self.lanes.constant(1.0), self.lanes.constant(-6.0)
        vectors: list[Any] = [*(self.lanes.splat(s) for s in scalars), one, minus_six]
        c = Coefficients(*vectors)
        self.generator = generator
        if generator:
            self.keys = function.args[-1]
            c = c._replace(noise=c.noise * UNIFORM_SCALE)
        self.coefficients = c
        self.update = point_update(self.lanes.fma)

    def move_down(self, rows: int) -> None:
        """Let `load` refer to the row that lies this many rows after the first."""
        mul, add = self.builder.mul, self.builder.add
        down, out_down = mul(rows, self.index["pitch"]), mul(rows, self.index["out_pitch"])
        self.rows = {name: add(self.index[name], down) for name in ("below", "centre", "above", "ahead")}
        self.rows["out"] = add(self.index["out"], out_down)

    def load(self, pointer: ir.Value, name: str, i: ir.Value, rows: int = 0, vectors: int = 0) -> Vector:
        """Load the aligned vector at i of the present row in plane `name`, or some rows or vectors from it."""
        add, index = self.builder.add, self.builder.add(self.rows[name], i)
        if rows:
            index = add(index, self.builder.mul(self.index["pitch"], ir.Constant(I64, rows)))
        if vectors:
            index = add(index, ir.Constant(I64, vectors * self.lanes.count))
        return self.lanes.load(pointer, index, aligned=True)

    def prefetch_around(self, pointer: ir.Value, i: ir.Value) -> None:
        """Prefetch cache lines of later rows from memory into L2, and lines some vectors ahead from L2 into L1."""
        add = self.builder.add
        prefetch(self.builder, pointer, add(self.rows["ahead"], i), locality=2)
        i_ahead = add(i, ir.Constant(I64, VECTORS_AHEAD * self.lanes.count))
        for row in (self.rows["below"], self.rows["above"], add(self.rows["centre"], self.index["pitch"])):
            prefetch(self.builder, pointer, add(row, i_ahead))

    def loop(
        self,
        first: ir.Value,
        last: ir.Value,
        step: int,
        body: Callable[..., Any],
        carried: Sequence[Vector] = (),
    ) -> None:
        """Emit `for i in range(first, last, step): carried = body(i, carried)`, for at least one i."""
        builder = self.builder
        before = builder.block
        inside = builder.function.append_basic_block("loop")
        after = builder.function.append_basic_block("done")
        builder.branch(inside)
        builder.position_at_end(inside)
        i, *values = [builder.phi(kind) for kind in (I64, *(c.value.type for c in carried))]
        following = body(i, [Vector(c.lanes, value) for c, value in zip(carried, values)]) or []
        i_following = builder.add(i, ir.Constant(I64, step))
        for phi, start, end in zip(
            (i, *values), (first, *(c.value for c in carried)), (i_following, *(f.value for f in following))
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(end, builder.block)
        builder.cbranch(builder.icmp_signed("<", i_following, last), inside, after)
        builder.position_at_end(after)

    def first_carried(self, i: ir.Value) -> list[Vector]:
        """Return what `cells` carries from vector to vector: u at i and u one cell to the left, and v likewise."""
        carried = []
        for pointer in self.pointers[:2]:
            here = self.load(pointer, "centre", i)
            carried += [here, left_neighbours(self.load(pointer, "centre", i, vectors=-1), here)]
        return carried

    def cells(
        self, i: ir.Value, carried: list[Vector], noise: Vector | None
    ) -> tuple[list[Vector], list[Vector]]:
        """Return the new [u, v] at vector i of the present row, and what to carry to the next vector.

        Neighbours in x are found by lane shifts of aligned vectors, because an unaligned load would cross a cache
        line.
        """
        sums, following = [], []
        for pointer, here, left in zip(self.pointers[:2], carried[::2], carried[1::2]):
            after = self.load(pointer, "centre", i, vectors=1)
            x = left + right_neighbours(here, after)
            y = self.load(pointer, "centre", i, rows=-1) + self.load(pointer, "centre", i, rows=1)
            z = self.load(pointer, "below", i) + self.load(pointer, "above", i)
            sums.append((x + y) + z)
            following += [after, left_neighbours(here, after)]
        return list(self.update(carried[0], carried[2], *sums, noise, self.coefficients)), following


class NoiseBuffer:
    """Random words of cells that are updated next, kept in the first-level cache: `sets` of 1 or 4 rows.

    One Philox block is a chain of rounds, each of which waits for the previous one. The blocks of several registers
    are therefore computed side by side, on a vector type that LLVM splits.
    """

    def __init__(
        self,
        build: RowBuilder,
        generator: Generator,
        rows: int,
        registers: int,
        cells: int = 0,
        sets: int = 1,
    ):
        self.build, self.generator = build, generator
        self.rows = rows
        self.group = max(registers * build.lanes.bytes * build.lanes.count // 8, build.lanes.count)
        self.cells = max(cells, self.group)
        self.memory = build.builder.alloca(I32, sets * rows * self.cells)
        self.memory.align = 4 * self.group
        self.words = Lanes(build.builder, I32, self.group)

    def fill(self, i: ir.Value, block_row: ir.Value, row: ir.Value, place: ir.Value) -> None:
        """Compute the words of `group` cells from i on, of all rows of a row of blocks, into buffer rows `row` ...

        place: where in these buffer rows, a multiple of `group`.
        """
        build, builder = self.build, self.build.builder
        x = Lanes(builder, I64, self.group).iota(builder.add(build.index["x_global"], i))
        if self.rows == 1:
            x = self._wrapped(x)
        keys = load_keys(x.lanes, build.keys, self.generator)
        words = philox_words(x, block_row, build.index["z_global"], build.index["step"], keys)
        for n, word in enumerate(words if self.rows == WORDS else [self._word_of_row(words)]):
            index = self._index(builder.add(row, ir.Constant(I64, n)), place)
            word.truncate(self.words).store(self.memory, index, aligned=True)

    def at(self, row: ir.Value, y: ir.Value, place: ir.Value) -> Vector:
        """Return the unscaled noise of the vector at cell `place` of buffer row `row`, for the row y of the grid."""
        build = self.build
        words = Lanes(build.builder, I32, build.lanes.count)
        word = words.load(self.memory, self._index(row, place), aligned=True)
        return unscaled_uniform(word, y, build.lanes, self.generator)

    def _index(self, row, place):
        return self.build.builder.add(place, self.build.builder.mul(row, ir.Constant(I64, self.cells)))

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


def _row_groups(build: RowBuilder, streaming: bool) -> None:
    """Emit the update of groups of rows, row after row, so that the hardware prefetchers see few and long streams.

    The last four rows that a row of Philox blocks serves draw the noise of the next row of blocks, a fourth each, so
    that the arithmetic is spread between memory traffic. Two sets of buffer rows take turns.
    """
    builder, index = build.builder, build.index
    add, integer = builder.add, lambda n: ir.Constant(I64, n)
    noise = None
    if build.generator:
        noise = NoiseBuffer(build, build.generator, WORDS, REGISTERS, CHUNK, sets=2)
        served = build.generator.rows
        last_row = builder.sub(
            add(index["y_global"], builder.mul(index["groups"], integer(WORDS))), integer(1)
        )
        first_block, last_block = (
            builder.lshr(y, integer(served.bit_length() - 1)) for y in (index["y_global"], last_row)
        )

    def set_of(block_row):
        return builder.mul(builder.and_(block_row, integer(1)), integer(WORDS))

    def fill(i, block_row, place):
        noise.fill(i, block_row, set_of(block_row), place)

    def chunk(start, _):
        end = add(start, integer(CHUNK))
        end = builder.select(builder.icmp_signed("<", end, index["last"]), end, index["last"])
        if noise:
            build.loop(start, end, noise.group, lambda i, _: fill(i, first_block, builder.sub(i, start)))

        def row(number, _):
            build.move_down(number)
            if noise:
                y = add(index["y_global"], number)
                word = builder.and_(y, integer(WORDS - 1))
                block_row = builder.lshr(y, integer(served.bit_length() - 1))
                buffer_row = add(set_of(block_row), word)
                next_block = add(block_row, integer(1))
                draws = builder.and_(
                    builder.icmp_signed(">=", builder.and_(y, integer(served - 1)), integer(served - WORDS)),
                    builder.icmp_signed("<", block_row, last_block),
                )
                turn = builder.select(draws, builder.mul(word, integer(noise.group)), integer(-1))

            def vectors(i, carried):
                for pointer in build.pointers[:2]:
                    build.prefetch_around(pointer, i)
                r = None
                if noise:
                    place = builder.sub(i, start)
                    now = builder.and_(place, integer(WORDS * noise.group - 1))
                    with builder.if_then(builder.icmp_signed("==", now, turn)):
                        fill(i, next_block, place)
                    r = noise.at(buffer_row, y, place)
                new, carried = build.cells(i, carried, r)
                for pointer, value in zip(build.pointers[2:], new):
                    value.store(pointer, add(build.rows["out"], i), aligned=True, streaming=streaming)
                return carried

            build.loop(start, end, build.lanes.count, vectors, build.first_carried(start))

        build.loop(integer(0), builder.mul(index["groups"], integer(WORDS)), 1, row)

    build.loop(index["first"], index["last"], CHUNK, chunk)
    builder.ret_void()


def _one_row(build: RowBuilder, registers: int) -> None:
    """Emit the update of some cells of one row."""
    builder, index = build.builder, build.index
    zero = ir.Constant(I64, 0)
    first = builder.and_(index["first"], ir.Constant(I64, -build.lanes.count))
    noise = None
    if build.generator:
        noise = NoiseBuffer(build, build.generator, 1, registers)
        served = build.generator.rows
        block_row = builder.lshr(index["y_global"], ir.Constant(I64, served.bit_length() - 1))
    build.move_down(zero)

    def vectors(i, carried):
        r = None
        if noise:
            place = builder.and_(builder.sub(i, first), ir.Constant(I64, noise.group - 1))
            with builder.if_then(builder.icmp_unsigned("==", place, zero)):
                noise.fill(i, block_row, zero, place)
            r = noise.at(zero, index["y_global"], place)
        new, carried = build.cells(i, carried, r)
        x = build.integers.iota(i)
        before, behind = (x.less(build.integers.splat(index[end])) for end in ("first", "last"))
        mask = builder.and_(builder.not_(before), behind)
        for pointer, value in zip(build.pointers[2:], new):
            value.store_masked(mask, pointer, builder.add(index["out"], i))
        return carried

    build.loop(first, index["last"], build.lanes.count, vectors, build.first_carried(first))
    builder.ret_void()


def _call(emit: Callable[..., None], context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> None:
    """Call the row function of these arguments (see `update_row_groups`), built by `emit` if the module lacks it."""
    how = signature.args[0].literal_value
    u, v, indices, coefficients, keys, out_u, out_v = range(1, 8)
    noisy = not isinstance(signature.args[keys], types.NoneType)
    element = element_type(signature.args[u].dtype)
    pointers = [data_pointer(context, builder, signature, args, n) for n in (u, v, out_u, out_v)]
    values = [builder.extract_value(args[indices], n) for n in range(len(INDICES))]
    values += [builder.extract_value(args[coefficients], n) for n in range(6)]
    if noisy:
        values.append(data_pointer(context, builder, signature, args, keys))
    name = f"gray_scott {how} {element} {'noise' if noisy else 'plain'}".replace(" ", "_")
    function = builder.module.globals.get(name)
    if function is None:
        kinds = [value.type for value in pointers + values]
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[2:4]:
            argument.add_attribute("noalias")
        _, vector_bytes, generator = how.split()
        emit(RowBuilder(function, element, int(vector_bytes), GENERATORS[generator] if noisy else None))
    builder.call(function, pointers + values)


@intrinsic(prefer_literal=True)
def update_row_groups(typing, how, u, v, indices, coefficients, keys, out_u, out_v):
    """Update the vectors first <= i < last, both multiples of the vector, of `groups` times four rows.

    Parameters
    ----------
    how : a literal of three words: "streaming" or "ordinary" for the stores, bytes of a vector, name of the generator
    u, v, out_u, out_v : flat arrays
    indices : 64-bit integers in the order of INDICES. below, centre, above: index of cell 0 of the first row in
        planes z-1, z, z+1 of u and v (aligned), rows `pitch` apart; out, out_pitch: the same of the results; ahead:
        index of rows to prefetch; x_global, y_global, z_global: global index of cell 0 of the first row (y a multiple
        of 4); nx_global; step; groups
    coefficients : `physics.Coefficients`
    keys : `round_keys`, or None
    """

    def codegen(context, builder, signature, args):
        def emit(build):
            _row_groups(build, how.literal_value.startswith("streaming "))

        _call(emit, context, builder, signature, args)
        return context.get_dummy_value()

    return types.void(how, u, v, indices, coefficients, keys, out_u, out_v), codegen


@intrinsic(prefer_literal=True)
def update_one_row(typing, how, u, v, indices, coefficients, keys, out_u, out_v):
    """Update the cells first <= i < last of one row; the arguments are those of `update_row_groups`.

    how: as there, but the first word is "short", which is faster for one vector, or "long", for many.
    """

    def codegen(context, builder, signature, args):
        def emit(build):
            _one_row(build, 1 if how.literal_value.startswith("short ") else REGISTERS)

        _call(emit, context, builder, signature, args)
        return context.get_dummy_value()

    return types.void(how, u, v, indices, coefficients, keys, out_u, out_v), codegen
