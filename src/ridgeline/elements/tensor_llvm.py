"""LLVM code of small matrix products: register-blocked accumulators, broadcasts and fused multiply-adds.

`emit_product` adds one function to a module for C[m x n] (+)= A[m x k] B[k x n], everything but the pointers literal,
and returns it. A second call with the same sizes returns the same function, so that a kernel that applies one product
in five places contains its code once.

Blocking: C is covered by blocks of rows x vector registers, which are summed over k and stored once; k is unrolled.
Columns are vectors of the full width, then one narrower vector, masked if its width is not a power of two. Nothing
beyond column n is read or written. Rows are split into blocks of at most two heights. Loops over blocks are loops at
run time, so that the code of a product is the code of one to four blocks.

Rounding: every element is a sum over k in ascending order by fma, beginning with the first product or with C. The
result does not depend on the blocking or on the vector width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ridgeline.jit.llvm import F64, I1, I64, Lanes, Vector, constant, host_vector_bytes, prefetch

# Accumulators of a block by vector bytes: they hide the latency; with more of them LLVM spills.
ACCUMULATORS = {64: 20, 32: 10, 16: 10}
# For sums of so many terms or more LLVM loads so far ahead that it spills with more accumulators than these.
LONG, LONG_ACCUMULATORS = 11, 16
# The most vectors of a row of a block, which hide the latency with so many rows or more; and for fewer rows.
MAX_VECTORS, LATENCY_ROWS, FEW_ROWS_VECTORS = 2, 5, 3
# Bytes that one request to memory brings.
LINE = 64


@dataclass(frozen=True)
class ProductShape:
    """What a product is specialised on; lengths in elements, matrices by rows.

    m, n, k: C[m x n] (+)= A[m x k] B[k x n]. lda, ldb, ldc: distance of rows. batch: how many products, whose
    matrices lie stride_a, stride_b, stride_c apart (0: the same matrix for all). prefetched: from how many arrays as
    many numbers are prefetched as the products write. parity: of A about its centre (`even_odd`), 0 for none.
    """

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    accumulate: bool
    batch: int = 1
    stride_a: int = 0
    stride_b: int = 0
    stride_c: int = 0
    prefetched: int = 0
    parity: int = 0

    def name(self, element: ir.Type, vector_bytes: int) -> str:
        """Return the name of the function in LLVM."""
        sizes = (self.m, self.n, self.k, self.lda, self.ldb, self.ldc, int(self.accumulate), self.batch)
        others = self.stride_a, self.stride_b, self.stride_c, self.prefetched, self.parity % 3
        numbers = "_".join(map(str, (*sizes, *others)))
        return f"ridgeline_product_{'f64' if element == F64 else 'f32'}_{vector_bytes}_{numbers}"


@dataclass(frozen=True)
class Piece:
    """A vector of a block's row: its lanes, and how many of them are used."""

    lanes: int
    used: int


@dataclass(frozen=True)
class Group:
    """Columns of a block, `count` times side by side: the first column and the vectors of one row."""

    column: int
    pieces: tuple[Piece, ...]
    count: int

    @property
    def width(self) -> int:
        """Columns of one block."""
        return sum(piece.used for piece in self.pieces)


def column_pieces(n: int, lanes: int) -> list[Piece]:
    """Cover n columns by vectors of `lanes`, and the rest by one vector of the least power of two."""
    rest = n % lanes
    tail = [Piece(1 << (rest - 1).bit_length(), rest)] if rest else []
    return [Piece(lanes, lanes)] * (n // lanes) + tail


def shares(total: int, largest: int) -> list[int]:
    """Split `total` into parts of at most `largest`, not much smaller, and of two sizes at most.

    Equal parts are preferred, because they share their code. The next choice is the split with the least code in both
    sizes whose last part is not too small to hide the latency. Otherwise the sizes differ by one.
    """
    sizes = range(min(largest, total), largest // 2, -1)
    for size in sizes:
        if total % size == 0:
            return [size] * (total // size)
    uneven = [size for size in sizes if total % size >= largest // 4]
    if largest > 4 and uneven:
        size = min(uneven, key=lambda size: size + total % size)
        return [size] * (total // size) + [total % size]
    parts = -(-total // largest)
    size, larger = divmod(total, parts)
    return [size + 1] * larger + [size] * (parts - larger)


def vectors_of_rows(m: int) -> int:
    """Return the most vectors of a row in a block of a product with m rows.

    Vectors of a row share the broadcasts from A; rows share the vectors of B. With two vectors in a row, a core that
    loads two vectors a cycle keeps up with its multiply-adds. Few rows need more vectors to hide the latency.
    """
    return MAX_VECTORS if m >= LATENCY_ROWS else FEW_ROWS_VECTORS


def accumulators_of_sums(k: int, vector_bytes: int) -> int:
    """Return the most accumulators of a block whose sums have k terms."""
    most = ACCUMULATORS[vector_bytes]
    return min(most, LONG_ACCUMULATORS) if k >= LONG else most


def column_groups(n: int, lanes: int, vectors: int) -> list[Group]:
    """Split n columns into blocks of at most so many vectors; equal neighbours form one group."""
    pieces = column_pieces(n, lanes)
    sizes = shares(len(pieces), vectors)
    blocks, first = [], 0
    for size in sizes:
        blocks.append(tuple(pieces[first : first + size]))
        first += size
    groups, column = [], 0
    for block, alike in groupby(blocks):
        group = Group(column, block, len(list(alike)))
        groups.append(group)
        column += group.count * group.width
    return groups


class ProductCode(ABC):
    """The emitter of one function's code: loops, and the vectors of a block's rows."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, shape: ProductShape, pointers: Any) -> None:
        self.builder = builder
        self.element = element
        self.shape = shape
        self.c, self.a, self.b, *coming = pointers
        self.coming = [cgutils.alloca_once_value(builder, pointer) for pointer in coming]
        # Cache lines of each of them that a block prefetches.
        self.lines = 0

    @abstractmethod
    def run(self) -> None:
        """Emit the whole product."""

    def at(self, pointer: ir.Value, offset: int | ir.Value) -> ir.Value:
        """Return `pointer` moved by `offset` elements, a number or an LLVM value."""
        if isinstance(offset, int):
            offset = ir.Constant(I64, offset)
        return self.builder.gep(pointer, [offset])

    def repeat(self, count: int, body: Callable[[ir.Value], None]) -> None:
        """Emit body(i) for i = 0 ... count - 1: a loop, or once with a constant."""
        builder, zero = self.builder, ir.Constant(I64, 0)
        if count == 1:
            body(zero)
            return
        before, inside = builder.block, builder.append_basic_block("loop")
        builder.branch(inside)
        builder.position_at_end(inside)
        index = builder.phi(I64)
        body(index)
        following = builder.add(index, ir.Constant(I64, 1))
        index.add_incoming(zero, before)
        index.add_incoming(following, builder.block)
        after = builder.append_basic_block("done")
        more = builder.icmp_unsigned("<", following, ir.Constant(I64, count))
        builder.cbranch(more, inside, after).set_metadata("llvm.loop", _never_unroll(builder.module))
        builder.position_at_end(after)

    def times(self, index: ir.Value, factor: int) -> ir.Value:
        """Return index times a number."""
        return self.builder.mul(index, ir.Constant(I64, factor))

    def lanes(self, piece: Piece) -> Lanes:
        """Return the vector type of a piece."""
        return Lanes(self.builder, self.element, piece.lanes)

    def load(self, piece: Piece, pointer: ir.Value, offset: int) -> Vector:
        """Load a piece at `offset` elements."""
        index = ir.Constant(I64, offset)
        if piece.used == piece.lanes:
            return self.lanes(piece).load(pointer, index)
        return self.lanes(piece).load_masked(self.mask(piece), pointer, index)

    def store(self, vector: Vector, piece: Piece, pointer: ir.Value, offset: int) -> None:
        """Store the lanes of a piece at `offset` elements."""
        index = ir.Constant(I64, offset)
        if piece.used == piece.lanes:
            vector.store(pointer, index)
        else:
            vector.store_masked(self.mask(piece), pointer, index)

    def mask(self, piece: Piece) -> ir.Value:
        """Return which lanes of a piece are used."""
        return constant(ir.VectorType(I1, piece.lanes), [int(i < piece.used) for i in range(piece.lanes)])

    @property
    def per_line(self) -> int:
        """Numbers of a cache line."""
        return LINE // (8 if self.element == F64 else 4)

    @property
    def most_lanes(self) -> int:
        """Numbers of a vector of the full width."""
        return host_vector_bytes() // (8 if self.element == F64 else 4)

    def prefetch_step(self, step: int, steps: int) -> None:
        """Emit what a block prefetches in one of its steps; a burst would fill the queue to memory, and wait.

        It goes into the second-level cache, because the first level has room for the factors of one element of 8
        points but not of two.
        """
        first, end = (self.lines * number // steps for number in (step, step + 1))
        for slot in self.coming:
            pointer = self.builder.load(slot)
            for line in range(first, end):
                prefetch(self.builder, pointer, ir.Constant(I64, line * self.per_line), locality=2)
            if step == steps - 1:
                self.builder.store(self.at(pointer, self.lines * self.per_line), slot)


class Product(ProductCode):
    """A product of any two matrices: blocks of rows x vectors, each summed over k and stored once."""

    def run(self) -> None:
        shape = self.shape
        accumulators = accumulators_of_sums(shape.k, host_vector_bytes())
        groups = column_groups(shape.n, self.most_lanes, vectors_of_rows(shape.m))
        blocks = sum(
            group.count * len(shares(shape.m, max(1, accumulators // len(group.pieces)))) for group in groups
        )
        self.lines = -(-shape.m * shape.n // (blocks * self.per_line))

        def one_product(number):
            a = self.at(self.a, self.times(number, shape.stride_a))
            b = self.at(self.b, self.times(number, shape.stride_b))
            c = self.at(self.c, self.times(number, shape.stride_c))
            for group in groups:
                rows = shares(shape.m, max(1, accumulators // len(group.pieces)))

                def column_block(number, group=group, rows=rows):
                    column = self.builder.add(self.times(number, group.width), ir.Constant(I64, group.column))
                    first = 0
                    for size, alike in groupby(rows):
                        count = len(list(alike))

                        def row_block(number, size=size, first=first):
                            row = self.builder.add(self.times(number, size), ir.Constant(I64, first))
                            place = self.builder.add(self.times(row, shape.ldc), column)
                            self.block(
                                size,
                                group.pieces,
                                self.at(c, place),
                                self.at(a, self.times(row, shape.lda)),
                                self.at(b, column),
                            )

                        self.repeat(count, row_block)
                        first += size * count

                self.repeat(group.count, column_block)

        self.repeat(shape.batch, one_product)

    def block(self, rows: int, pieces: tuple[Piece, ...], c: ir.Value, a: ir.Value, b: ir.Value) -> None:
        """Emit one block of C: load the accumulators or start from nothing, sum over k, store."""
        shape = self.shape
        starts = [sum(piece.used for piece in pieces[:v]) for v in range(len(pieces))]
        places = [(row, v) for row in range(rows) for v in range(len(pieces))]
        lanes = [self.lanes(pieces[v]) for _, v in places]
        # Vectors, once something is added.
        sums: list[Any] = [None] * len(places)
        if shape.accumulate:
            sums = [self.load(pieces[v], c, row * shape.ldc + starts[v]) for row, v in places]
        for k in range(shape.k):
            self.prefetch_step(k, shape.k)
            row_of_b = [self.load(piece, b, k * shape.ldb + at) for piece, at in zip(pieces, starts)]
            for n, (row, v) in enumerate(places):
                if v == 0:
                    scalar = self.builder.load(self.at(a, row * shape.lda + k))
                factor = lanes[n].splat(scalar)
                if sums[n] is None:
                    sums[n] = factor * row_of_b[v]
                else:
                    sums[n] = lanes[n].fma(factor, row_of_b[v], sums[n])
        for vector, (row, v) in zip(sums, places):
            self.store(vector, pieces[v], c, row * shape.ldc + starts[v])


def _never_unroll(module: ir.Module) -> ir.MDValue:
    """Return the metadata of a loop that LLVM must not unroll, because it would then spill registers.

    The first operand is the node itself, which makes the metadata of each loop distinct.
    """
    disable = module.add_metadata(["llvm.loop.unroll.disable"])
    node = ir.MDValue(module, [disable], name=str(len(module.metadata)))
    node.operands = (node, disable)
    return node


def emit_product(
    module: ir.Module, element: ir.Type, shape: ProductShape, code: Callable[..., ProductCode] = Product
) -> ir.Function:
    """Return the function of a product in `module`, added if it is new; its arguments are pointers.

    These are c, a, b and the arrays that are prefetched.
    """
    vector_bytes = host_vector_bytes()
    name = shape.name(element, vector_bytes)
    if name in module.globals:
        return module.globals[name]
    kind = ir.FunctionType(ir.VoidType(), [element.as_pointer()] * (3 + shape.prefetched))
    function = ir.Function(module, kind, name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    code(builder, element, shape, function.args).run()
    builder.ret_void()
    return function
