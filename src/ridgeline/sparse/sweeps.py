"""Gauss-Seidel sweeps and products with a matrix A = L + D + U whose triangles are stored by strips.

Rows are ordered by wavefront (`sparse.wavefronts.order_by_wavefront`). L and U are `sparse.row_strips.Strips` with
the same strips (`sparse.row_strips.make_triangles`). Vectors are float64 in that order, at least [n]; external values
behind the first n are neither read nor written. x must be finite, since strips multiply some of it by stored zeros.
Each kernel is one pass, which reads every value of a triangle once. Serial; `sparse.sweeps_threaded` has the same
passes by threads.

Symmetric Gauss-Seidel on A x = r is `forward_zero` (from x = 0) or `forward` (from any x), then `backward`. A sweep
leaves the half-product D x + U x, so that the next forward sweep need not read U, nor the backward sweep L.

The loop over one strip is generated as vector code by `StripLoop`.
"""

from llvmlite import ir
from numba import float64, types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel import Specialisation, kernel, specialise, subroutine
from ridgeline.jit.llvm import F64, I32, I64, Lanes, Vector, data_pointer, prefetch
from ridgeline.sparse.row_strips import STRIPS, WIDTH, Strips

UNROLL = 4  # slots of one trip of the loop over slots
SUMS = 2  # independent sums to which slots are added in turn, so that additions overlap
# Rows by which a backward sweep prefetches vectors: the hardware follows the ascending rows of a strip, not the
# descending order of the strips.
BEHIND = 256
# Values by which the triangle is prefetched into L2: beyond the page, where the hardware's prefetcher stops.
AHEAD = 4096


class StripLoop:
    """Emits a loop over the chunks of one strip, the last of them masked: nothing beyond the strip is touched.

    It is used inside the codegen of an intrinsic. names: the intrinsic's arguments in order, among them `strip` (the
    number of the strip) and `x`; arguments that are Strips (`lower`, `upper`) or arrays are then called by name.
    backward: whether strips are taken from the last to the first, the order in which an upper triangle is stored.
    """

    def __init__(self, context, builder, signature, args, names, backward=False):
        self.builder = builder
        self.lanes = Lanes(builder, F64, WIDTH)
        self._strips, self._vectors = {}, {}
        self._backward = backward
        for n, (name, kind) in enumerate(zip(names, signature.args, strict=True)):
            if isinstance(kind, types.NamedTuple):
                self._strips[name] = {
                    field: context.make_array(part)(
                        context, builder, builder.extract_value(args[n], place)
                    ).data
                    for place, (field, part) in enumerate(zip(Strips._fields, kind.types, strict=True))
                }
            elif isinstance(kind, types.Array):
                self._vectors[name] = data_pointer(context, builder, signature, args, n)
            else:
                self._strip = args[n]
        self._positions = {
            name: cgutils.alloca_once_value(builder, self._number(name, "strip_values"))
            for name in self._strips
        }
        self._mask = None
        self._total = cgutils.alloca_once_value(builder, self.lanes.constant(0.0).value)

    def _number(self, name: str, field: str, next_strip: bool = False) -> ir.Value:
        """Return element `strip` (or the next) of a field as a 64-bit value."""
        place = self.builder.add(self._strip, ir.Constant(I64, 1)) if next_strip else self._strip
        value = self.builder.load(self.builder.gep(self._strips[name][field], [place]))
        return self.builder.sext(value, I64) if value.type == I32 else value

    def load(self, name: str) -> Vector:
        """Load the rows of the chunk from a vector."""
        self._fetch(name)
        return self._load(self._vectors[name], self._row)

    def _fetch(self, name: str) -> None:
        if self._backward:
            place = self.builder.sub(self._row, ir.Constant(I64, BEHIND))
            prefetch(self.builder, self._vectors[name], place, locality=2)

    def _load(self, pointer: ir.Value, index: ir.Value) -> Vector:
        if self._mask is None:
            return self.lanes.load(pointer, index)
        return self.lanes.load_masked(self._mask, pointer, index)

    def store(self, value: Vector, name: str) -> None:
        """Store the rows of the chunk to a vector."""
        self._fetch(name)
        if self._mask is None:
            value.store(self._vectors[name], self._row)
        else:
            value.store_masked(self._mask, self._vectors[name], self._row)

    def add_product(self, a: Vector, b: Vector) -> None:
        """Add a b of the rows of the chunk to what `emit` returns."""
        total = self.lanes.vector(self.builder.load(self._total))
        self.builder.store(self.lanes.fma(a, b, total).value, self._total)

    def sum(self, start: Vector, *triangles: str, subtract: bool = False) -> Vector:
        """Return start plus (or minus) the product of the triangles' rows in the chunk with x."""
        builder, lanes = self.builder, self.lanes
        sums = [cgutils.alloca_once(builder, lanes.type) for _ in range(SUMS)]
        for n, place in enumerate(sums):
            builder.store((start if n == 0 else lanes.constant(0.0)).value, place)
        for name in triangles:
            self._add_triangle(name, sums, subtract)
        parts = [lanes.vector(builder.load(place)) for place in sums]
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2])] + parts[len(parts) // 2 * 2 :]
        return parts[0]

    def _add_triangle(self, name: str, sums: list[Vector], subtract: bool) -> None:
        """Add the slots of a chunk, UNROLL in each iteration, and advance the position in the values."""
        builder, arrays, position = self.builder, self._strips[name], self._positions[name]
        slot, end = self._number(name, "strip_slots"), self._number(name, "strip_slots", True)
        shift = builder.sub(self._row, self._first)
        ahead = AHEAD if self._backward or name == "lower" else -AHEAD

        def add(slot, place, total):
            column = builder.load(builder.gep(arrays["slot_columns"], [slot]))
            x = self._load(self._vectors["x"], builder.add(builder.sext(column, I64), shift))
            a = self._load(arrays["values"], place)
            prefetch(builder, arrays["values"], builder.add(place, ir.Constant(I64, ahead)), locality=2)
            old = self.lanes.vector(builder.load(total))
            builder.store(self.lanes.fma(-a if subtract else a, x, old).value, total)

        def trip(slot, count):
            place = builder.load(position)
            for n in range(count):
                add(builder.add(slot, ir.Constant(I64, n)), place, sums[n % SUMS])
                place = builder.add(place, self._width)
            builder.store(place, position)

        whole = builder.sub(end, builder.and_(builder.sub(end, slot), ir.Constant(I64, UNROLL - 1)))
        with cgutils.for_range_slice(builder, slot, whole, ir.Constant(I64, UNROLL)) as (first, _):
            trip(first, UNROLL)
        with cgutils.for_range_slice(builder, whole, end, ir.Constant(I64, 1)) as (first, _):
            trip(first, 1)

    def emit(self, body):
        """Emit body() for each chunk; return the sum over the strip of what `add_product` was given, float64."""
        builder, width = self.builder, ir.Constant(I64, WIDTH)
        name = next(iter(self._strips))
        self._first, end = self._number(name, "strip_rows"), self._number(name, "strip_rows", True)
        rest = builder.and_(builder.sub(end, self._first), ir.Constant(I64, WIDTH - 1))
        whole = builder.sub(end, rest)
        with cgutils.for_range_slice(builder, self._first, whole, width) as (row, _):
            self._row, self._width = row, width
            body()
        with builder.if_then(builder.icmp_signed("!=", rest, ir.Constant(I64, 0))):
            places = Lanes(builder, I64, WIDTH)
            self._mask = places.iota(ir.Constant(I64, 0)).less(places.splat(rest))
            self._row, self._width = whole, rest
            body()
            self._mask = None
        total = builder.load(self._total)
        lanes = [builder.extract_element(total, ir.Constant(I32, n)) for n in range(WIDTH)]
        while len(lanes) > 1:
            lanes = [builder.fadd(a, b) for a, b in zip(lanes[::2], lanes[1::2])]
        return lanes[0]


@intrinsic
def _forward_zero_strip(typing, lower, strip, r, inverse_diagonal, x, half_product):
    def codegen(context, builder, signature, args):
        loop = StripLoop(
            context, builder, signature, args, ("lower", "strip", "r", "inverse", "x", "half_product")
        )

        def body():
            new = loop.sum(loop.load("r"), "lower", subtract=True)
            loop.store(new, "half_product")
            loop.store(new * loop.load("inverse"), "x")

        loop.emit(body)
        return context.get_dummy_value()

    return types.void(lower, types.int64, r, inverse_diagonal, x, half_product), codegen


@intrinsic
def _forward_strip(typing, lower, strip, r, half_product, inverse_diagonal, x):
    def codegen(context, builder, signature, args):
        loop = StripLoop(
            context, builder, signature, args, ("lower", "strip", "r", "half_product", "inverse", "x")
        )

        def body():
            new = loop.sum(loop.load("r"), "lower", subtract=True)
            change = new - loop.load("half_product")
            loop.store(new, "half_product")
            loop.store(loop.lanes.fma(change, loop.load("inverse"), loop.load("x")), "x")

        loop.emit(body)
        return context.get_dummy_value()

    return types.void(lower, types.int64, r, half_product, inverse_diagonal, x), codegen


@intrinsic
def _backward_strip(typing, upper, strip, half_product, inverse_diagonal, x):
    def codegen(context, builder, signature, args):
        loop = StripLoop(
            context, builder, signature, args, ("upper", "strip", "half_product", "inverse", "x"), True
        )

        def body():
            rest = loop.sum(loop.load("half_product"), "upper", subtract=True)
            loop.store(rest * loop.load("inverse"), "x")

        loop.emit(body)
        return context.get_dummy_value()

    return types.void(upper, types.int64, half_product, inverse_diagonal, x), codegen


@intrinsic
def _backward_dot_strip(typing, upper, strip, half_product, inverse_diagonal, x, r):
    def codegen(context, builder, signature, args):
        loop = StripLoop(
            context, builder, signature, args, ("upper", "strip", "half_product", "inverse", "x", "r"), True
        )

        def body():
            new = loop.sum(loop.load("half_product"), "upper", subtract=True) * loop.load("inverse")
            loop.store(new, "x")
            loop.add_product(new, loop.load("r"))

        return loop.emit(body)

    return types.float64(upper, types.int64, half_product, inverse_diagonal, x, r), codegen


@intrinsic
def _multiply_strip(typing, lower, upper, strip, diagonal, x, y):
    def codegen(context, builder, signature, args):
        loop = StripLoop(context, builder, signature, args, ("lower", "upper", "strip", "diagonal", "x", "y"))

        def body():
            x = loop.load("x")
            new = loop.sum(loop.load("diagonal") * x, "lower", "upper")
            loop.store(new, "y")
            loop.add_product(x, new)

        return loop.emit(body)

    return types.float64(lower, upper, types.int64, diagonal, x, y), codegen


@subroutine
def forward_zero_strips(lower, first, end, r, inverse_diagonal, x, half_product):
    """Make `forward_zero` for strips first ... end - 1."""
    for strip in range(first, end):
        _forward_zero_strip(lower, strip, r, inverse_diagonal, x, half_product)


@subroutine
def forward_strips(lower, first, end, r, half_product, inverse_diagonal, x):
    """Make `forward` for strips first ... end - 1."""
    for strip in range(first, end):
        _forward_strip(lower, strip, r, half_product, inverse_diagonal, x)


@subroutine
def backward_strips(upper, first, end, half_product, inverse_diagonal, x):
    """Make `backward` for strips end - 1 down to first."""
    for strip in range(end - 1, first - 1, -1):
        _backward_strip(upper, strip, half_product, inverse_diagonal, x)


@subroutine
def backward_dot_strips(upper, first, end, half_product, inverse_diagonal, x, r, sums):
    """Make `backward_strips`, and set sums[strip] to the sum of r x over the rows of each strip."""
    for strip in range(end - 1, first - 1, -1):
        sums[strip] = _backward_dot_strip(upper, strip, half_product, inverse_diagonal, x, r)


@subroutine
def multiply_strips(lower, upper, first, end, diagonal, x, y, sums):
    """Make `multiply_dot` for strips first ... end - 1, and set sums[strip] to the sum of x y over its rows."""
    for strip in range(first, end):
        sums[strip] = _multiply_strip(lower, upper, strip, diagonal, x, y)


@kernel(lambda: (STRIPS, *[float64[::1]] * 4))
def forward_zero(lower, r, inverse_diagonal, x, half_product):
    """Solve (D + L) x = r and set half_product = r - L x: a forward sweep from x = 0.

    x may hold any finite values on entry.
    """
    forward_zero_strips(lower, 0, lower.strip_rows.size - 1, r, inverse_diagonal, x, half_product)


@kernel(lambda: (STRIPS, *[float64[::1]] * 4))
def forward(lower, r, half_product, inverse_diagonal, x):
    """Sweep forward from any x: with new = r_i - (L x)_i, x_i += (new - half_i) / D_i and half_i = new.

    half_product must hold D x + U x on entry.
    """
    forward_strips(lower, 0, lower.strip_rows.size - 1, r, half_product, inverse_diagonal, x)


@kernel(lambda: (STRIPS, *[float64[::1]] * 3))
def backward(upper, half_product, inverse_diagonal, x):
    """Solve (D + U) x = half_product: a backward sweep after `forward_zero` or `forward`."""
    backward_strips(upper, 0, upper.strip_rows.size - 1, half_product, inverse_diagonal, x)


@kernel(lambda: (STRIPS, *[float64[::1]] * 4))
def backward_dot(upper, half_product, inverse_diagonal, x, r):
    """Make `backward` and return the sum of r x over the rows."""
    total = 0.0
    for strip in range(upper.strip_rows.size - 2, -1, -1):
        total += _backward_dot_strip(upper, strip, half_product, inverse_diagonal, x, r)
    return total


@kernel(lambda: (STRIPS, STRIPS, *[float64[::1]] * 3))
def multiply_dot(lower, upper, diagonal, x, y):
    """Set y = (L + D + U) x and return the sum of x y over the rows."""
    total = 0.0
    for strip in range(lower.strip_rows.size - 1):
        total += _multiply_strip(lower, upper, strip, diagonal, x, y)
    return total


def kernels() -> list[Specialisation]:
    """Return the kernels of this file."""
    return specialise([forward_zero, forward, backward, backward_dot, multiply_dot])
