"""The loop over one run of `sparse.runs.Runs` in vector code: what the sweeps of `sparse.sweeps` share."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ridgeline.jit.llvm import F64, I32, I64, Lanes, Vector, data_pointer, prefetch
from ridgeline.sparse.runs import WIDTH, Runs

UNROLL = 4  # slots of one trip of the loop over slots
SUMS = 2  # independent sums that slots go to in turn, so that additions overlap
BEHIND = 256  # rows of vectors fetched ahead of a backward sweep: hardware follows runs that go up, not their order
AHEAD = 4096  # values from the one in use to the one that is fetched into L2: beyond the page, where hardware stops


class RunLoop:
    """Emits a loop over the chunks of one run, the last by masks: nothing beyond the run is touched.

    Used inside the codegen of an intrinsic. names: of its arguments in order, among them `run` (its number) and `x`.
    An argument of type Runs (`lower`, `upper`), or an array, is known by its name. backward: the runs are taken last
    first, the order in which an upper triangle lies in memory.
    """

    def __init__(self, context, builder, signature, args, names, backward=False):
        self.builder = builder
        self.lanes = Lanes(builder, F64, WIDTH)
        self._runs, self._vectors = {}, {}
        self._backward = backward
        for n, (name, kind) in enumerate(zip(names, signature.args, strict=True)):
            if isinstance(kind, types.NamedTuple):
                self._runs[name] = {
                    field: context.make_array(part)(
                        context, builder, builder.extract_value(args[n], place)
                    ).data
                    for place, (field, part) in enumerate(zip(Runs._fields, kind.types, strict=True))
                }
            elif isinstance(kind, types.Array):
                self._vectors[name] = data_pointer(context, builder, signature, args, n)
            else:
                self._run = args[n]
        self._positions = {
            name: cgutils.alloca_once_value(builder, self._number(name, "run_values")) for name in self._runs
        }
        self._mask = None
        self._total = cgutils.alloca_once_value(builder, self.lanes.constant(0.0).value)

    def _number(self, name: str, field: str, next_run: bool = False) -> ir.Value:
        """Return element `run` (or the next) of a field as a 64-bit value."""
        place = self.builder.add(self._run, ir.Constant(I64, 1)) if next_run else self._run
        value = self.builder.load(self.builder.gep(self._runs[name][field], [place]))
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
        """Add a b of the rows of the chunk to what `run` returns."""
        total = self.lanes.vector(self.builder.load(self._total))
        self.builder.store(self.lanes.fma(a, b, total).value, self._total)

    def sum(self, start: Vector, *triangles: str, subtract: bool = False) -> Vector:
        """Return start + (or -) the rows of the chunk of triangles times x."""
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
        """Add the slots of a chunk, UNROLL a trip, and move its position on."""
        builder, arrays, position = self.builder, self._runs[name], self._positions[name]
        slot, end = self._number(name, "run_slots"), self._number(name, "run_slots", True)
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

    def run(self, body):
        """Emit body() for each chunk; return the sum of what `add_product` has added, a 64-bit float value."""
        builder, width = self.builder, ir.Constant(I64, WIDTH)
        name = next(iter(self._runs))
        self._first, end = self._number(name, "run_rows"), self._number(name, "run_rows", True)
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
