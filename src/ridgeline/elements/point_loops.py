"""Loops over the points of an element in vector registers: what element kernels do between their products.

Each loop is an intrinsic on 1-D arrays with a literal number of points, so that LLVM needs no checks for overlap.
Masks handle the last points, if they do not fill a register. `x_start` is the place of the first number of array x.
Multiply-adds are fused where the code says so. Only sums are reassociated: they keep one partial sum per lane.

The last part multiplies by the metrics of an element. metrics: nine of `count` each, r_x, r_y, r_z, s_x, s_y, s_z,
t_x, t_y, t_z. A triple of arrays x, y, z may be the same as the triple of outputs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.llvm import F64, I32, I64, Lanes, Vector, data_pointer, element_type, host_vector_bytes
from ridgeline.jit.llvm import prefetch as emit_prefetch

INDEX = types.int64
LINE = 64  # bytes of a cache line


class PointLoop:
    """The loop of one intrinsic over a literal number of points.

    names: the names of the intrinsic's arguments in order; an argument `x_start` is the place where array `x` begins.
    dtype: Numba's type of the numbers.
    """

    def __init__(
        self, context: Any, builder: ir.IRBuilder, signature: Any, args: Any, names: Sequence[str], dtype: Any
    ) -> None:
        self.builder = builder
        self.values = {}
        for n, (name, kind) in enumerate(zip(names, signature.args, strict=True)):
            array = isinstance(kind, types.Array)
            self.values[name] = data_pointer(context, builder, signature, args, n) if array else args[n]
        for name, value in list(self.values.items()):
            if name.endswith("_start"):
                base = name.removesuffix("_start")
                self.values[base] = builder.gep(self.values[base], [value])
        self.lanes = Lanes(builder, element_type(dtype), host_vector_bytes() * 8 // dtype.bitwidth)
        self._index = None
        self._mask = None
        self._sums: list[Any] = []

    def splat(self, name: str, place: int | None = None) -> Vector:
        """Return a scalar argument, or number `place` of an array, in every lane."""
        value = self.values[name]
        if place is not None:
            value = self.builder.load(self.builder.gep(value, [ir.Constant(I64, place)]))
        return self.lanes.splat(value)

    def _place(self, shift: int) -> Any:
        return self.builder.add(self._index, ir.Constant(I64, shift)) if shift else self._index

    def load(self, name: str, shift: int = 0) -> Vector:
        """Load the loop's points of an array, shifted by `shift` numbers; zeros beyond the last point."""
        if self._mask is None:
            return self.lanes.load(self.values[name], self._place(shift))
        return self.lanes.load_masked(self._mask, self.values[name], self._place(shift))

    def load_block(self, name: str, part: int, parts: int) -> Vector:
        """Load part `part` of an array [blocks, parts, lanes] for the loop's points; the last block whole."""
        first = self.builder.mul(self._index, ir.Constant(I64, parts))
        place = self.builder.add(first, ir.Constant(I64, part * self.lanes.count))
        return self.lanes.load(self.values[name], place)

    def store(self, vector: Vector, name: str, shift: int = 0) -> None:
        """Store the loop's points, and nothing beyond the last point."""
        if self._mask is None:
            vector.store(self.values[name], self._place(shift))
        else:
            vector.store_masked(self._mask, self.values[name], self._place(shift))

    def start_sum(self, count: int = 1) -> None:
        """Set the partial sums of `count` sums to zero. This comes before `run`."""
        self._sums = [cgutils.alloca_once(self.builder, self.lanes.type) for _ in range(count)]
        for slot in self._sums:
            self.builder.store(self.lanes.constant(0.0).value, slot)

    def add_to_sum(self, a: Vector, b: Vector, which: int = 0) -> None:
        """Add a * b to the sum that `total(which)` returns. Beyond the last point a or b must be zero."""
        if not self._sums:
            raise RuntimeError("start_sum() must be called before the loop")
        slot = self._sums[which]
        self.builder.store(self.lanes.fma(a, b, Vector(self.lanes, self.builder.load(slot))).value, slot)

    def total(self, which: int = 0) -> ir.Value:
        """Return the sum of all lanes as float64, summed pairwise."""
        parts = self.builder.load(self._sums[which])
        values = [
            self.builder.extract_element(parts, ir.Constant(I32, lane)) for lane in range(self.lanes.count)
        ]
        if self.lanes.element != F64:
            values = [self.builder.fpext(value, F64) for value in values]
        while len(values) > 1:
            values = [self.builder.fadd(a, b) for a, b in zip(values[::2], values[1::2])]
        return values[0]

    def run(self, count: int, body: Callable[[], None]) -> None:
        """Emit body() for `count` points, a literal: full registers in a loop, the rest under a mask."""
        width = self.lanes.count
        whole = count - count % width
        if whole:
            ends = (ir.Constant(I64, value) for value in (0, whole, width))
            with cgutils.for_range_slice(self.builder, *ends) as (index, _):
                self._index = index
                body()
        if whole < count:
            self._index = ir.Constant(I64, whole)
            bits = [int(lane < count - whole) for lane in range(width)]
            self._mask = ir.Constant(ir.VectorType(ir.IntType(1), width), bits)
            body()
            self._mask = None


def with_starts(*arrays: str) -> list[str]:
    """Return the names of arrays, each followed by the name of its start."""
    return [name for array in arrays for name in (array, f"{array}_start")]


def literal(value: Any) -> int | None:
    """Return the number of a literal type, or None for other types: Numba then tries again with literals."""
    return value.literal_value if isinstance(value, types.IntegerLiteral) else None


def scalar(value: Any) -> Any:
    """Return Numba's type of a scalar argument, without its literal value."""
    return types.unliteral(value)


@intrinsic(prefer_literal=True)
def prefetch_points(typing, count, write, x, x_start):
    """Prefetch `count` numbers of x into the second-level cache, to read or to write them.

    Places beyond the array are harmless. count and write are literals.
    """
    if literal(count) is None or not isinstance(write, types.BooleanLiteral):
        return None
    numbers = LINE * 8 // x.dtype.bitwidth

    def codegen(context, builder, signature, args):
        pointer = data_pointer(context, builder, signature, args, 2)
        ends = (ir.Constant(I64, value) for value in (0, literal(count), numbers))
        with cgutils.for_range_slice(builder, *ends) as (index, _):
            place = builder.add(index, args[3])
            emit_prefetch(builder, pointer, place, write=write.literal_value, locality=2)
        return context.get_dummy_value()

    return types.void(count, write, x, types.int64), codegen


@intrinsic(prefer_literal=True)
def apply_factors(typing, count, pitch, factors, factors_start, u_r, u_s, u_t, u_t_start):
    """(u_r, u_s, u_t) = G (u_r, u_s, u_t) at `count` points, in place; G_rr, G_rs, ... begin `pitch` apart."""
    if literal(count) is None or literal(pitch) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "pitch", "factors", "factors_start", "u_r", "u_s", "u_t", "u_t_start")
        loop = PointLoop(context, builder, signature, args, names, u_r.dtype)

        def body():
            fma = loop.lanes.fma
            r, s, t = loop.load("u_r"), loop.load("u_s"), loop.load("u_t")
            rr, rs, rt, ss, st, tt = (loop.load("factors", literal(pitch) * place) for place in range(6))
            loop.store(fma(rr, r, fma(rs, s, rt * t)), "u_r")
            loop.store(fma(rs, r, fma(ss, s, st * t)), "u_s")
            loop.store(fma(rt, r, fma(st, s, tt * t)), "u_t")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    return types.void(count, pitch, factors, types.int64, u_r, u_s, u_t, types.int64), codegen


@intrinsic(prefer_literal=True)
def search_direction(typing, count, constants, diagonal, diagonal_start, r, r_start, p, p_start):
    """p = diagonal r + constants[0] p."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", "diagonal", "diagonal_start", "r", "r_start", "p", "p_start")
        loop = PointLoop(context, builder, signature, args, names, p.dtype)
        beta = loop.splat("constants", 0)

        def body():
            product = loop.load("diagonal") * loop.load("r")
            loop.store(loop.lanes.fma(beta, loop.load("p"), product), "p")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    index = types.int64
    return types.void(count, constants, diagonal, index, r, index, p, index), codegen


@intrinsic(prefer_literal=True)
def scale_points(typing, count, factor, factor_start, w, w_start, p, p_start):
    """w *= factor; return p.w, the sum over the points, as float64."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "factor", "factor_start", "w", "w_start", "p", "p_start")
        loop = PointLoop(context, builder, signature, args, names, w.dtype)
        loop.start_sum()

        def body():
            value = loop.load("factor") * loop.load("w")
            loop.store(value, "w")
            loop.add_to_sum(loop.load("p"), value)

        loop.run(literal(count), body)
        return loop.total()

    index = types.int64
    return types.float64(count, factor, index, w, index, p, index), codegen


@intrinsic(prefer_literal=True)
def add_mass(typing, count, constants, mass, mass_start, w, w_start, p, p_start):
    """w += constants[1] mass p; return p.w, the sum over the points, as float64."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "constants", "mass", "mass_start", "w", "w_start", "p", "p_start")
        loop = PointLoop(context, builder, signature, args, names, w.dtype)
        loop.start_sum()
        h2 = loop.splat("constants", 1)

        def body():
            p_here = loop.load("p")
            value = loop.lanes.fma(h2 * loop.load("mass"), p_here, loop.load("w"))
            loop.store(value, "w")
            loop.add_to_sum(p_here, value)

        loop.run(literal(count), body)
        return loop.total()

    index = types.int64
    return types.float64(count, constants, mass, index, w, index, p, index), codegen


@intrinsic(prefer_literal=True)
def dot_points(typing, count, x, x_start, y, y_start):
    """Return x.y, the sum over the points, as float64."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "x", "x_start", "y", "y_start")
        loop = PointLoop(context, builder, signature, args, names, x.dtype)
        loop.start_sum()
        loop.run(literal(count), lambda: loop.add_to_sum(loop.load("x"), loop.load("y")))
        return loop.total()

    return types.float64(count, x, types.int64, y, types.int64), codegen


def compiled(dtype_name: str, arguments: str) -> Callable[..., Any]:
    """Return a decorator that compiles a kernel at once for one signature, or loads it from the disk cache.

    arguments: one word each: `elements` (int64 list), `h` (float64 scalar), `r4` or `w4` (array of the dtype in 4
    dimensions, read or written), `i2` (int64 array, read). Arguments that are read may be read-only arrays. There is
    one signature, so that arrays that differ in such details do not cause a second compilation.
    """
    number = from_dtype(np.dtype(dtype_name))

    def kind(word: str) -> Any:
        if word == "h":
            return types.float64
        if word == "elements":
            return types.Array(types.int64, 1, "C", readonly=True)
        if word[0] == "i":
            return types.Array(types.int64, int(word[1]), "C", readonly=True)
        return types.Array(number, int(word[1]), "C", readonly=word[0] == "r")

    return kernel(tuple(kind(word) for word in arguments.split()), nogil=True, error_model="numpy")


@subroutine(inline="always")
def scratch(count, like):
    """Return an uninitialised array of the dtype of `like` that begins at a cache line."""
    whole = np.empty(count + LINE // like.itemsize, like.dtype)
    lead = -(whole.ctypes.data // like.itemsize) % (LINE // like.itemsize)
    return whole[lead : lead + count]


def _product(loop, factors, vectors):
    """Return the sum of three products."""
    total = factors[2] * vectors[2]
    for place in (1, 0):
        total = loop.lanes.fma(factors[place], vectors[place], total)
    return total


@intrinsic(prefer_literal=True)
def to_physical(typing, count, metrics, metrics_start, r, s, t, x, x_start, y, y_start, z, z_start):
    """(x, y, z) = r (r_x, r_y, r_z) + s (s_x, s_y, s_z) + t (t_x, t_y, t_z)."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ["count", *with_starts("metrics"), "r", "s", "t", *with_starts("x", "y", "z")]
        loop = PointLoop(context, builder, signature, args, names, x.dtype)
        size = literal(count)

        def body():
            parts = [loop.load(name) for name in "rst"]
            results = [
                _product(loop, [loop.load("metrics", (3 * a + c) * size) for a in range(3)], parts)
                for c in range(3)
            ]
            for result, name in zip(results, "xyz"):
                loop.store(result, name)

        loop.run(size, body)
        return context.get_dummy_value()

    kinds = (count, metrics, INDEX, r, s, t, x, INDEX, y, INDEX, z, INDEX)
    return types.void(*kinds), codegen


@intrinsic(prefer_literal=True)
def to_reference(typing, count, metrics, metrics_start, x, x_start, y, y_start, z, z_start, r, s, t):
    """(r, s, t) = (r_x x + r_y y + r_z z, s_x x + ..., t_x x + ...)."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ["count", *with_starts("metrics", "x", "y", "z"), "r", "s", "t"]
        loop = PointLoop(context, builder, signature, args, names, r.dtype)
        size = literal(count)

        def body():
            parts = [loop.load(name) for name in "xyz"]
            results = [
                _product(loop, [loop.load("metrics", (3 * a + c) * size) for c in range(3)], parts)
                for a in range(3)
            ]
            for result, name in zip(results, "rst"):
                loop.store(result, name)

        loop.run(size, body)
        return context.get_dummy_value()

    kinds = (count, metrics, INDEX, x, INDEX, y, INDEX, z, INDEX, r, s, t)
    return types.void(*kinds), codegen


@intrinsic(prefer_literal=True)
def multiply_three(typing, count, factor, factor_start, r, s, t):
    """(r, s, t) *= factor."""
    if literal(count) is None:
        return None

    def codegen(context, builder, signature, args):
        names = ("count", "factor", "factor_start", "r", "s", "t")
        loop = PointLoop(context, builder, signature, args, names, r.dtype)

        def body():
            factor = loop.load("factor")
            for name in "rst":
                loop.store(factor * loop.load(name), name)

        loop.run(literal(count), body)
        return context.get_dummy_value()

    return types.void(count, factor, INDEX, r, s, t), codegen


@intrinsic(prefer_literal=True)
def advect_points(typing, count, axis_aligned, constants, weights, c, c_stride, c_start, r, s, t):
    """t = c_0 r + c_1 s + c_2 t with c_q = c[c_start + q c_stride ...]; if axis-aligned, times constants[q] weights.

    count and axis_aligned are literals. weights and t begin at c_start as well, r and s at 0.
    """
    if literal(count) is None or not isinstance(axis_aligned, types.BooleanLiteral):
        return None

    def codegen(context, builder, signature, args):
        names = ["count", "axis_aligned", "constants", "weights", "c", "stride", "c_start", "r", "s", "t"]
        loop = PointLoop(context, builder, signature, args, names, t.dtype)
        first, stride = loop.values["c"], args[5]
        for q in range(3):
            loop.values[f"c{q}"] = first
            first = builder.gep(first, [stride])
        for name in ("weights", "t"):
            loop.values[name] = builder.gep(loop.values[name], [args[6]])
        aligned = axis_aligned.literal_value
        scale = [loop.splat("constants", q) for q in range(3)] if aligned else []

        def body():
            c = [loop.load(f"c{q}") for q in range(3)]
            if aligned:
                c = [component * factor for component, factor in zip(c, scale)]
            total = _product(loop, c, [loop.load(name) for name in "rst"])
            loop.store(total * loop.load("weights") if aligned else total, "t")

        loop.run(literal(count), body)
        return context.get_dummy_value()

    kinds = (count, axis_aligned, constants, weights, c, INDEX, INDEX, r, s, t)
    return types.void(*kinds), codegen
