"""The rows of a sweep: vector code for the rows of a plane, built from what a model says of one cell (`CellRule`).

`row_functions` makes two intrinsics. Each is an LLVM function of its own, which the sweep calls once per group of
rows:

- `update_row_groups` updates full, aligned vectors of groups of four rows, which take the words of one Philox block;
  stores may be streaming. Nearly all the time is spent here.
- `update_one_row` updates any cells first <= i < last of one row by masked stores: what is left over.

Both evaluate the same expressions in the same order, so that a cell rounds alike in either of them.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
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
    WORDS,
    Generator,
    load_keys,
    philox_words,
    unscaled_uniform,
)

CHUNK = 1024  # cells of a row that are updated at a time: the noise of 2 x 4 rows of them is kept
CHUNK_BYTES = 64 * CHUNK  # of all noise that is kept, at most: with many noisy fields a chunk has fewer cells
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
    "stage",
)


class CellRule(NamedTuple):
    """What a sweep computes in a cell. It is the same for equal members, and is part of the key of the kernel cache.

    Attributes
    ----------
    update : returns the new values of the fields, vectors of LLVM IR, from `RowCells`; a plain function, called while
        a sweep is built. It closes over nothing but functions, numbers, strings and tuples of them
    stencil : for each field, whether `update` reads its neighbours
    coefficients : how many numbers `update` reads, in the precision of the fields
    noisy : how many random numbers in [-1, 1) it draws for a cell
    """

    update: Callable[[Any], list[Vector]]
    stencil: tuple[bool, ...]
    coefficients: int
    noisy: int = 1


class RowCells:
    """What the rule of a cell reads: one vector of cells of a row. Loads are emitted when they are asked for."""

    def __init__(
        self, build: "RowBuilder", i: ir.Value, carried: dict[int, list[Vector]], noise: list[Vector] | None
    ) -> None:
        self._build, self._i, self._carried = build, i, carried
        self.lanes, self.coefficients, self.context = build.lanes, build.coefficients, build.context
        self.noise = noise  # unscaled: times UNIFORM_SCALE they are in [-1, 1); None if the sweep has none
        self.following: list[Vector] = []  # what the next vector takes over, as in `carried`

    def here(self, field: int) -> Vector:
        """Return the values of a field in these cells."""
        if field in self._carried:
            return self._carried[field][0]
        return self._build.load(field, "centre", self._i)

    def before(self, field: int) -> Vector:
        """Return what the result held before, which is of an earlier stage; not in sweeps of several steps."""
        build = self._build
        place = build.builder.add(build.rows["out"], self._i)
        return build.lanes.load(build.out_pointers[field], place, aligned=True)

    def neighbours(self, field: int) -> tuple[Vector, ...]:
        """Return the values at x - 1, x + 1, y - 1, y + 1, z - 1 and z + 1.

        Neighbours in x are found by lane shifts of aligned vectors, because an unaligned load would cross a cache
        line.
        """
        build, i, (here, left) = self._build, self._i, self._carried[field]
        after = build.load(field, "centre", i, vectors=1)
        self.following += [after, left_neighbours(here, after)]
        rows = (build.load(field, "centre", i, rows=rows) for rows in (-1, 1))
        planes = (build.load(field, name, i) for name in ("below", "above"))
        return (left, right_neighbours(here, after), *rows, *planes)

    def index(self, axis: int) -> Vector:
        """Return the global indices of these cells in z, y or x (axis 0, 1, 2) as floats."""
        build, builder = self._build, self._build.builder
        if axis == 2:
            x = build.integers.iota(builder.add(build.index["x_global"], self._i))
            return build.wrapped(x).to_float(build.lanes)
        row = build.index["z_global"] if axis == 0 else build.row_global
        return build.lanes.splat(builder.sitofp(row, build.lanes.element))


class RowBuilder:
    """Builds the body of one row function, whose arguments are in `index` by the names of INDICES.

    generator: of the noise, None if there is none. context: Numba's, by which rules call compiled functions.
    """

    def __init__(
        self,
        function: ir.Function,
        element: ir.Type,
        vector_bytes: int,
        generator: Generator | None,
        rule: CellRule,
        context: Any,
    ):
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.rule, self.context = rule, context
        itemsize = 8 if element == ir.DoubleType() else 4
        self.lanes = Lanes(self.builder, element, vector_bytes // itemsize)
        self.integers = Lanes(self.builder, I64, self.lanes.count)
        n = len(rule.stencil)
        self.pointers, self.out_pointers = function.args[:n], function.args[n : 2 * n]
        self.index = dict(zip(INDICES, function.args[2 * n : 2 * n + len(INDICES)]))
        numbers = function.args[2 * n + len(INDICES)]
        first = self.builder.mul(self.index["stage"], ir.Constant(I64, rule.coefficients))
        places = (self.builder.add(first, ir.Constant(I64, c)) for c in range(rule.coefficients))
        self.coefficients = [
            self.lanes.splat(self.builder.load(self.builder.gep(numbers, [place]))) for place in places
        ]
        self.generator = generator if rule.noisy else None
        if self.generator:
            self.keys = function.args[-1]
            each = (
                2 * self.generator.rounds
            )  # the schedule of each noisy field follows that of the one before
            self.keys_of = [
                self.builder.gep(self.keys, [ir.Constant(I64, n * each)]) for n in range(rule.noisy)
            ]

    def move_down(self, rows: int) -> None:
        """Let `load` refer to the row that lies this many rows after the first."""
        mul, add = self.builder.mul, self.builder.add
        down, out_down = mul(rows, self.index["pitch"]), mul(rows, self.index["out_pitch"])
        self.rows = {name: add(self.index[name], down) for name in ("below", "centre", "above", "ahead")}
        self.rows["out"] = add(self.index["out"], out_down)
        self.row_global = add(self.index["y_global"], rows)

    def wrapped(self, x: Vector) -> Vector:
        """Return the global indices of cells in x, for periodic ghosts those of the cells that they copy."""
        nx = x.lanes.splat(self.index["nx_global"])
        x = x.min_unsigned(x + nx)
        return x.min_unsigned(x - nx)

    def load(self, field: int, name: str, i: ir.Value, rows: int = 0, vectors: int = 0) -> Vector:
        """Load the aligned vector at i of the present row in plane `name`, or some rows or vectors from it."""
        pointer = self.pointers[field]
        add, index = self.builder.add, self.builder.add(self.rows[name], i)
        if rows:
            index = add(index, self.builder.mul(self.index["pitch"], ir.Constant(I64, rows)))
        if vectors:
            index = add(index, ir.Constant(I64, vectors * self.lanes.count))
        return self.lanes.load(pointer, index, aligned=True)

    def prefetch_around(self, pointer: ir.Value, i: ir.Value, stencil: bool) -> None:
        """Prefetch cache lines of later rows from memory into L2, and lines some vectors ahead from L2 into L1."""
        add = self.builder.add
        prefetch(self.builder, pointer, add(self.rows["ahead"], i), locality=2)
        i_ahead = add(i, ir.Constant(I64, VECTORS_AHEAD * self.lanes.count))
        around = (self.rows["below"], self.rows["above"], add(self.rows["centre"], self.index["pitch"]))
        for row in around if stencil else (self.rows["centre"],):
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
        """Return what `cells` carries on: each field that has a stencil at i, and one cell to the left."""
        carried = []
        for field in self._stencil_fields():
            here = self.load(field, "centre", i)
            carried += [here, left_neighbours(self.load(field, "centre", i, vectors=-1), here)]
        return carried

    def cells(
        self, i: ir.Value, carried: list[Vector], noise: list[Vector] | None
    ) -> tuple[list[Vector], list[Vector]]:
        """Return the new values at vector i of the present row, and what to carry to the next vector."""
        by_field = {field: carried[2 * n : 2 * n + 2] for n, field in enumerate(self._stencil_fields())}
        cells = RowCells(self, i, by_field, noise)
        new = self.rule.update(cells)
        return new, cells.following

    def _stencil_fields(self) -> list[int]:
        return [field for field, reads in enumerate(self.rule.stencil) if reads]


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
        keys: ir.Value = None,
    ):
        self.build, self.generator, self.keys = build, generator, keys
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
            x = build.wrapped(x)
        keys = load_keys(x.lanes, self.keys, self.generator)
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
    noises, cells_of_chunk = [], CHUNK
    if build.generator:
        while build.rule.noisy * 2 * WORDS * 4 * cells_of_chunk > CHUNK_BYTES:
            cells_of_chunk //= 2
        noises = [
            NoiseBuffer(build, build.generator, WORDS, REGISTERS, cells_of_chunk, sets=2, keys=keys)
            for keys in build.keys_of
        ]
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
        for noise in noises:
            noise.fill(i, block_row, set_of(block_row), place)

    def chunk(start, _):
        end = add(start, integer(cells_of_chunk))
        end = builder.select(builder.icmp_signed("<", end, index["last"]), end, index["last"])
        if noises:
            build.loop(start, end, noises[0].group, lambda i, _: fill(i, first_block, builder.sub(i, start)))

        def row(number, _):
            build.move_down(number)
            if noises:
                y = build.row_global
                word = builder.and_(y, integer(WORDS - 1))
                block_row = builder.lshr(y, integer(served.bit_length() - 1))
                buffer_row = add(set_of(block_row), word)
                next_block = add(block_row, integer(1))
                draws = builder.and_(
                    builder.icmp_signed(">=", builder.and_(y, integer(served - 1)), integer(served - WORDS)),
                    builder.icmp_signed("<", block_row, last_block),
                )
                turn = builder.select(draws, builder.mul(word, integer(noises[0].group)), integer(-1))

            def vectors(i, carried):
                for field, pointer in enumerate(build.pointers):
                    build.prefetch_around(pointer, i, build.rule.stencil[field])
                r = None
                if noises:
                    place = builder.sub(i, start)
                    now = builder.and_(place, integer(WORDS * noises[0].group - 1))
                    with builder.if_then(builder.icmp_signed("==", now, turn)):
                        fill(i, next_block, place)
                    r = [noise.at(buffer_row, y, place) for noise in noises]
                new, carried = build.cells(i, carried, r)
                for pointer, value in zip(build.out_pointers, new, strict=True):
                    value.store(pointer, add(build.rows["out"], i), aligned=True, streaming=streaming)
                return carried

            build.loop(start, end, build.lanes.count, vectors, build.first_carried(start))

        build.loop(integer(0), builder.mul(index["groups"], integer(WORDS)), 1, row)

    build.loop(index["first"], index["last"], cells_of_chunk, chunk)
    builder.ret_void()


def _one_row(build: RowBuilder, registers: int) -> None:
    """Emit the update of some cells of one row."""
    builder, index = build.builder, build.index
    zero = ir.Constant(I64, 0)
    first = builder.and_(index["first"], ir.Constant(I64, -build.lanes.count))
    noises = []
    if build.generator:
        noises = [NoiseBuffer(build, build.generator, 1, registers, keys=keys) for keys in build.keys_of]
        served = build.generator.rows
        block_row = builder.lshr(index["y_global"], ir.Constant(I64, served.bit_length() - 1))
    build.move_down(zero)

    def vectors(i, carried):
        r = None
        if noises:
            place = builder.and_(builder.sub(i, first), ir.Constant(I64, noises[0].group - 1))
            with builder.if_then(builder.icmp_unsigned("==", place, zero)):
                for noise in noises:
                    noise.fill(i, block_row, zero, place)
            r = [noise.at(zero, index["y_global"], place) for noise in noises]
        new, carried = build.cells(i, carried, r)
        x = build.integers.iota(i)
        before, behind = (x.less(build.integers.splat(index[end])) for end in ("first", "last"))
        mask = builder.and_(builder.not_(before), behind)
        for pointer, value in zip(build.out_pointers, new, strict=True):
            value.store_masked(mask, pointer, builder.add(index["out"], i))
        return carried

    build.loop(first, index["last"], build.lanes.count, vectors, build.first_carried(first))
    builder.ret_void()


def _call(
    emit: Callable[..., None], rule: CellRule, context: Any, builder: ir.IRBuilder, signature: Any, args: Any
) -> None:
    """Call the row function of these arguments (see `row_functions`), built by `emit` if the module lacks it."""
    how = signature.args[0].literal_value
    fields, indices, coefficients, keys, out = range(1, 6)
    noisy = not isinstance(signature.args[keys], types.NoneType)
    array = signature.args[fields].dtype
    element = element_type(array.dtype)
    pointers = [
        context.make_array(array)(context, builder, value).data
        for group in (fields, out)
        for value in cgutils.unpack_tuple(builder, args[group])
    ]
    values = [builder.extract_value(args[indices], n) for n in range(len(INDICES))]
    values += [
        data_pointer(context, builder, signature, args, n) for n in (coefficients, *([keys] if noisy else []))
    ]
    name = f"sweep {how} {element} {'noise' if noisy else 'plain'}".replace(" ", "_")
    function = builder.module.globals.get(name)
    if function is None:
        kinds = [value.type for value in pointers + values]
        function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[len(pointers) // 2 : len(pointers)]:
            argument.add_attribute("noalias")
        _, vector_bytes, generator = how.split()
        noise = GENERATORS[generator] if noisy else None
        emit(RowBuilder(function, element, int(vector_bytes), noise, rule, context))
    builder.call(function, pointers + values)


@cache
def row_functions(rule: CellRule) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the intrinsics `update_row_groups` and `update_one_row` of a rule.

    `update_row_groups` updates the vectors first <= i < last, both multiples of the vector, of `groups` times four
    rows. `update_one_row` updates the cells first <= i < last of one row. Their arguments are

    how : a literal of three words: "streaming" or "ordinary" for the stores of groups, or "short" (faster for one
        vector) or "long" for one row; bytes of a vector; name of the generator
    fields, out : tuples of flat arrays
    indices : 64-bit integers in the order of INDICES. below, centre, above: index of cell 0 of the first row in
        planes z-1, z, z+1 of the fields (aligned), rows `pitch` apart; out, out_pitch: the same of the results;
        ahead: index of rows to prefetch; x_global, y_global, z_global: global index of cell 0 of the first row (y of
        groups a multiple of 4); nx_global; step; groups; stage: the row of coefficients
    coefficients : (stages, rule.coefficients) of the fields' dtype
    keys : `round_keys` of each noisy field, one after the other, or None
    """
    # What the intrinsics close over is part of the key of the kernels that call them, and needs a lasting text.
    members = tuple(rule)

    @intrinsic(prefer_literal=True)
    def update_row_groups(typing, how, fields, indices, coefficients, keys, out):
        def codegen(context, builder, signature, args):
            def emit(build):
                _row_groups(build, how.literal_value.startswith("streaming "))

            _call(emit, CellRule(*members), context, builder, signature, args)
            return context.get_dummy_value()

        return types.void(how, fields, indices, coefficients, keys, out), codegen

    @intrinsic(prefer_literal=True)
    def update_one_row(typing, how, fields, indices, coefficients, keys, out):
        def codegen(context, builder, signature, args):
            def emit(build):
                _one_row(build, 1 if how.literal_value.startswith("short ") else REGISTERS)

            _call(emit, CellRule(*members), context, builder, signature, args)
            return context.get_dummy_value()

        return types.void(how, fields, indices, coefficients, keys, out), codegen

    return update_row_groups, update_one_row
