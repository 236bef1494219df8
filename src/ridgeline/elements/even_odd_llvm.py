"""LLVM code of small products with a matrix that is symmetric about its centre, by even and odd parts.

C[m x n] (+)= M[m x k] B[k x n] with M[m-1-r, k-1-l] = parity M[r, l]. Derivatives between points that lie
symmetrically in an interval have parity -1; interpolations and second derivatives have parity 1. With b+ and b- the
sums and differences of rows l and k-1-l of B, row r of C is E b+ + O b-, and row m-1-r is parity (E b+ - O b-). That
is half the multiply-adds, and some additions. A block has all rows of C, of one or two vectors. Its sums and
differences stay in registers where these suffice.

Source: Solomonoff, J. Comput. Phys. 98 (1992) 174; Kronbichler, Kormann, ACM TOMS 45 (2019) 29, Sec. 3.1.
"""

from typing import Any

from llvmlite import ir

from ridgeline.elements.tensor_llvm import MAX_VECTORS, Group, Piece, ProductCode, column_groups, shares
from ridgeline.jit.llvm import I64, Vector, host_vector_bytes

REGISTERS = {64: 30, 32: 14, 16: 14}  # for sums, differences and accumulators, by vector bytes
LEAST_PAIRS = 2  # of rows of C at once: they hide one another's latency
Row = list[Vector]  # its vectors


class EvenOddProduct(ProductCode):
    """A product with a centrosymmetric matrix; A holds its parts, [2, (m + 1) // 2, (k + 1) // 2]."""

    def run(self) -> None:
        """Emit the whole product."""
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
                self.ask(number * half_k + l, len(counts) * half_k)
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
        """Return rows `row` and k-1-`row` of B added, and subtracted; the middle row itself, and nothing."""
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
        lacking = 1 if shape.parity > 0 else 0  # the part that the middle row of M has not
        if not values or (2 * row + 1 == shape.m and part == lacking):
            return
        scalar = self.builder.load(self.at(self.a, (part * half_m + row) * half_k + l))
        for v, (value, piece) in enumerate(zip(values, pieces)):
            lanes, place = self.lanes(piece), (part, row, v)
            factor = lanes.splat(scalar)
            known = sums.get(place)
            sums[place] = factor * value if known is None else lanes.fma(factor, value, known)

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
