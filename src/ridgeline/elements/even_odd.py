"""Products with centrosymmetric matrices inside compiled kernels, with half the multiply-adds of those of `tensor`.

Points that lie symmetrically in an interval have such matrices. Reversing the rows and the columns leaves the matrix
as it is (interpolations and second derivatives: EVEN) or changes its sign (derivatives: ODD). A kernel splits such a
matrix once, and multiplies by its parts:

    parts = even_odd_parts(derivative, np.empty(parts_size(n, n), u.dtype))
    even_odd_product(products, n, n * n, n, 1, False, ODD, u_t, 0, parts, 0, u, here)   # along z
    even_odd_product(products, n, n, n, n, False, ODD, u_s, 0, parts, 0, u, here)       # along y

C[m x n] (+)= M[m x k] B[k x n] with M[m-1-r, k-1-l] = parity M[r, l]. With b+ and b- the sums and differences of rows
l and k-1-l of B, row r of C is E b+ + O b-, and row m-1-r is parity (E b+ - O b-). That is half the multiply-adds,
and some additions. In the generated code a block has all rows of C, of one or two vectors, and its sums and
differences stay in registers where there are enough of them.

Results differ from those of `tensor` by rounding. Oracle: `reference`. Sources: Solomonoff, J. Comput. Phys. 98
(1992) 174; Kronbichler, Kormann, ACM TOMS 45 (2019) 29, Sec. 3.1.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ridgeline.elements.tensor import check_arrays, code_of_product, literal_sizes
from ridgeline.elements.tensor_llvm import (
    MAX_VECTORS,
    Group,
    Piece,
    ProductCode,
    ProductShape,
    column_groups,
    shares,
)
from ridgeline.jit.kernel import subroutine
from ridgeline.jit.llvm import I64, Vector, host_vector_bytes

EVEN, ODD = 1, -1
REGISTERS = {64: 30, 32: 14, 16: 14}  # for sums, differences and accumulators, by vector bytes
LEAST_PAIRS = 2  # of rows of C at once: they hide one another's latency

# The vectors of a row.
Row = list[Vector]


class EvenOddProduct(ProductCode):
    """A product with a centrosymmetric matrix; A holds its parts, [2, (m + 1) // 2, (k + 1) // 2]."""

    def run(self) -> None:
        shape, registers = self.shape, REGISTERS[host_vector_bytes()]
        fits = MAX_VECTORS * (shape.k + 2) <= registers
        groups = column_groups(shape.n, self.most_lanes, MAX_VECTORS if fits else 1)
        blocks = sum(group.count for group in groups)
        self.lines = -(-shape.m * shape.n // (blocks * self.per_line))

        def one_product(number: ir.Value) -> None:
            b = self.at(self.b, self.times(number, shape.stride_b))
            c = self.at(self.c, self.times(number, shape.stride_c))
            for group in groups:

                def column_block(number: ir.Value, group: Group = group) -> None:
                    column = self.builder.add(self.times(number, group.width), ir.Constant(I64, group.column))
                    self.block(group.pieces, self.at(c, column), self.at(b, column), registers)

                self.repeat(group.count, column_block)

        self.repeat(shape.batch, one_product)

    def block(self, pieces: tuple[Piece, ...], c: ir.Value, b: ir.Value, registers: int) -> None:
        """Emit all rows of C in the columns of some vectors: sums and differences, then pairs of rows."""
        shape, vectors = self.shape, len(pieces)
        starts = [sum(piece.used for piece in pieces[:v]) for v in range(vectors)]
        half_m, half_k = -(-shape.m // 2), -(-shape.k // 2)
        parts = [self.sum_and_difference(row, pieces, starts, b) for row in range(half_k)]
        pairs = max(LEAST_PAIRS, (registers - vectors * shape.k) // (2 * vectors))
        counts = shares(half_m, min(pairs, half_m))
        first = 0
        for number, count in enumerate(counts):
            rows = range(first, first + count)
            sums: dict[tuple[int, int, int], Vector] = {}  # of part, row, vector
            for l, even_and_odd in enumerate(parts):
                self.prefetch_step(number * half_k + l, len(counts) * half_k)
                for row in rows:
                    for part, values in enumerate(even_and_odd):
                        self.add(sums, part, row, l, values, pieces)
            for row in rows:
                for v, piece in enumerate(pieces):
                    self.put(sums.get((0, row, v)), sums.get((1, row, v)), row, piece, c, starts[v])
            first += count

    def sum_and_difference(
        self, row: int, pieces: tuple[Piece, ...], starts: list[int], b: ir.Value
    ) -> tuple[Row, Row]:
        """Return rows `row` and k-1-`row` of B added, and subtracted; for the middle row, itself and nothing."""
        shape, last = self.shape, self.shape.k - 1 - row
        one = [self.load(piece, b, row * shape.ldb + at) for piece, at in zip(pieces, starts)]
        if row == last:
            return one, []
        other = [self.load(piece, b, last * shape.ldb + at) for piece, at in zip(pieces, starts)]
        return [x + y for x, y in zip(one, other)], [x - y for x, y in zip(one, other)]

    def add(self, sums: Any, part: int, row: int, l: int, values: Row, pieces: tuple[Piece, ...]) -> None:
        """Add column l of a part of M times `values` to the sums of a row of C."""
        shape = self.shape
        half_m, half_k = -(-shape.m // 2), -(-shape.k // 2)
        # The middle row of M has one part only.
        absent = 1 if shape.parity > 0 else 0
        if not values or (2 * row + 1 == shape.m and part == absent):
            return
        scalar = self.builder.load(self.at(self.a, (part * half_m + row) * half_k + l))
        for v, (value, piece) in enumerate(zip(values, pieces)):
            lanes, place = self.lanes(piece), (part, row, v)
            factor = lanes.splat(scalar)
            before = sums.get(place)
            sums[place] = factor * value if before is None else lanes.fma(factor, value, before)

    def put(self, even: Any, odd: Any, row: int, piece: Piece, c: ir.Value, start: int) -> None:
        """Store a row of C and its mirror image."""
        shape, last = self.shape, self.shape.m - 1 - row
        both = even if odd is None else odd if even is None else even + odd
        self.keep(both, row, piece, c, start)
        if row == last:
            return
        self.keep(even - odd if shape.parity > 0 else odd - even, last, piece, c, start)

    def keep(self, vector: Vector, row: int, piece: Piece, c: ir.Value, start: int) -> None:
        """Store a vector of C, or add it."""
        place = row * self.shape.ldc + start
        if self.shape.accumulate:
            vector = self.load(piece, c, place) + vector
        self.store(vector, piece, c, place)


def parts_size(m: int, k: int) -> int:
    """Return how many numbers the parts of an m x k matrix have."""
    return 2 * ((m + 1) // 2) * ((k + 1) // 2)


@subroutine(inline="always")
def even_odd_parts(matrix, out):
    """Set out, flat [2, (m + 1) // 2, (k + 1) // 2], to the parts of a centrosymmetric matrix [m, k]; return it."""
    m, k = matrix.shape
    half_m, half_k = (m + 1) // 2, (k + 1) // 2
    for row in range(half_m):
        for l in range(half_k):
            one, other = matrix[row, l], matrix[row, k - 1 - l]
            middle = 2 * l + 1 == k
            out[row * half_k + l] = one if middle else 0.5 * (one + other)
            out[(half_m + row) * half_k + l] = 0.0 if middle else 0.5 * (one - other)
    return out


@intrinsic(prefer_literal=True)
def even_odd_product(
    typing, products, m, n, k, batch, accumulate, parity, c, c_start, parts, parts_start, b, b_start
):
    """C[m x n] (+)= M[m x k] B[k x n] of contiguous matrices, M by its parts (`even_odd_parts`).

    batch: B and C are so many matrices one after another; M is the same for all. parity: EVEN or ODD, of M. Sizes,
    `accumulate` and `parity` are literals. Reads k n and writes m n elements of each matrix; m n (k + 1) + n k
    floating-point operations.
    """
    check_arrays("even_odd_product", c=c, parts=parts, b=b)
    sizes = products, m, n, k, batch, accumulate, parity
    start = types.intp
    signature = types.void(*sizes, c, start, parts, start, b, start)
    return signature, _code("even_odd_product", sizes, 7, ())


@intrinsic(prefer_literal=True)
def prefetching_even_odd_product(
    typing,
    products,
    m,
    n,
    k,
    batch,
    accumulate,
    parity,
    prefetched,
    c,
    c_start,
    parts,
    parts_start,
    b,
    b_start,
    coming,
    coming_start,
    other,
    other_start,
):
    """Compute `even_odd_product` while prefetching what is read later, as `prefetching_product` does."""
    check_arrays("prefetching_even_odd_product", c=c, parts=parts, b=b, coming=coming, other=other)
    sizes = products, m, n, k, batch, accumulate, parity
    count = literal_sizes("prefetching_even_odd_product", prefetched=prefetched)["prefetched"]
    start = types.intp
    arrays = [c, start, parts, start, b, start, coming, start, other, start]
    signature = types.void(*sizes, prefetched, *arrays)
    return signature, _code("prefetching_even_odd_product", sizes, 8, (14, 16)[:count])


def _code(name, sizes, first, places):
    """Return the code generator. first: the place of `c` among the arguments; places: those of arrays to prefetch."""
    names = "products", "m", "n", "k", "batch", "accumulate", "parity"
    values = literal_sizes(name, **dict(zip(names, sizes)))
    products, m, n, k, batch, accumulate, parity = values.values()
    strides = 0, k * n, m * n
    shape = ProductShape(m, n, k, k, n, n, bool(accumulate), batch, *strides, len(places), parity)
    return code_of_product(products, shape, first, first + 2, first + 4, places, EvenOddProduct)
