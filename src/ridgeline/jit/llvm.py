"""LLVM vector code from plain Python expressions: the helpers that compiled kernels are built with.

These classes are used inside a Numba intrinsic, while IR is being built. A `Vector` stands for one SIMD register, and
ordinary arithmetic on it emits vector instructions. A formula in plain Python therefore runs unchanged on NumPy
arrays and on vectors.

    @intrinsic
    def triad_line(typing, a, i, b, c, s):                   # a[i:i+L] = b[i:i+L] + s * c[i:i+L]
        def codegen(context, builder, signature, args):
            lanes = Lanes(builder, element_type(signature.args[0].dtype), 8)
            a, b, c = (data_pointer(context, builder, signature, args, n) for n in (0, 2, 3))
            lanes.fma(lanes.splat(args[4]), lanes.load(c, args[1]), lanes.load(b, args[1])).store(
                a, args[1], streaming=True)
            return context.get_dummy_value()
        return types.void(a, i, b, c, s), codegen

No fast-math flag is ever set: LLVM neither contracts nor reassociates, and fused multiply-adds are the ones
written as `fma`. A formula therefore rounds alike at every vector width, in remainders and as a scalar.

Reference: LLVM Language Reference Manual (masked intrinsics, nontemporal metadata, llvm.prefetch).
"""

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel_cache import VECTOR_BYTES_VARIABLE

I1, I8, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()


@cache
def host_features() -> frozenset[str]:
    """Return the names of the instruction sets of this CPU, as LLVM spells them."""
    return frozenset(name for name, present in llvmlite.binding.get_host_cpu_features().items() if present)


@cache
def host_vector_bytes() -> int:
    """Return the bytes of the widest vector of this CPU: 64 with AVX-512, 32 with AVX2, otherwise 16.

    RIDGELINE_VECTOR_BYTES = 16, 32 or 64 in the environment overrides it, to compare widths.
    """
    chosen = os.environ.get(VECTOR_BYTES_VARIABLE)
    if chosen:
        if chosen not in ("16", "32", "64"):
            raise ValueError(f"{VECTOR_BYTES_VARIABLE} is {chosen!r}, but it must be 16, 32 or 64.")
        return int(chosen)
    features = host_features()
    if {"avx512f", "avx512dq", "avx512vl", "avx512bw"} <= features:
        return 64
    return 32 if "avx2" in features else 16


def element_type(dtype: types.Type) -> ir.Type:
    """Return LLVM's type of a Numba scalar type."""
    known = {types.float64: F64, types.float32: F32, types.int64: I64, types.uint64: I64}
    known |= {types.int32: I32, types.uint32: I32}
    return known[dtype]


def constant(type_: ir.Type, value: Any) -> ir.Constant:
    """Return a constant; for a vector type, `value` in every lane unless it is a list."""
    if isinstance(type_, ir.VectorType) and not isinstance(value, list):
        value = [value] * type_.count
    return ir.Constant(type_, value)


def data_pointer(context: Any, builder: ir.IRBuilder, signature: Any, args: Any, n: int) -> ir.Value:
    """Return the pointer to element 0 of argument `n`, an array."""
    return context.make_array(signature.args[n])(context, builder, args[n]).data


class Lanes:
    """A vector type, `count` lanes of `element`, together with the builder that emits its code."""

    def __init__(self, builder: ir.IRBuilder, element: ir.Type, count: int) -> None:
        self.builder = builder
        self.element = element
        self.count = count
        self.type = ir.VectorType(element, count)
        self.is_float = isinstance(element, ir.FloatType | ir.DoubleType)
        self.bytes = {F32: 4, F64: 8, I32: 4, I64: 8}[element]
        self.suffix = f"v{count}" + (f"f{8 * self.bytes}" if self.is_float else f"i{8 * self.bytes}")

    def vector(self, value: ir.Value) -> "Vector":
        """Wrap an LLVM value of this type."""
        return Vector(self, value)

    def constant(self, value: Any) -> "Vector":
        """Return a constant vector: one number for all lanes, or a list with one per lane."""
        return Vector(self, constant(self.type, value))

    def splat(self, scalar: ir.Value) -> "Vector":
        """Return a vector with the scalar LLVM value in every lane."""
        undefined = ir.Constant(self.type, ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
        mask = constant(ir.VectorType(I32, self.count), 0)
        return Vector(self, self.builder.shuffle_vector(first, undefined, mask))

    def iota(self, start: ir.Value) -> "Vector":
        """Return start, start + 1, ... for a scalar integer LLVM value."""
        return self.splat(start) + self.constant(list(range(self.count)))

    def address(self, pointer: ir.Value, index: ir.Value) -> ir.Value:
        """Return the vector pointer to element `index` of `pointer`."""
        return self.builder.bitcast(self.builder.gep(pointer, [index]), self.type.as_pointer())

    def load(self, pointer: ir.Value, index: ir.Value, aligned: bool = False) -> "Vector":
        """Load elements index ... index + count - 1; `aligned` promises a multiple of the vector's size."""
        align = self.bytes * (self.count if aligned else 1)
        return Vector(self, self.builder.load(self.address(pointer, index), align=align))

    def load_masked(self, mask: ir.Value, pointer: ir.Value, index: ir.Value) -> "Vector":
        """Load the lanes whose bit in `mask` is set, zero elsewhere; the others' memory is not touched."""
        kind = ir.FunctionType(
            self.type, [self.type.as_pointer(), I32, ir.VectorType(I1, self.count), self.type]
        )
        name = f"llvm.masked.load.{self.suffix}.p0"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        zero = constant(self.type, 0.0 if self.is_float else 0)
        arguments = [self.address(pointer, index), ir.Constant(I32, self.bytes), mask, zero]
        return Vector(self, self.builder.call(function, arguments))

    def fma(self, a: "Vector", b: "Vector", c: "Vector") -> "Vector":
        """Return a * b + c, rounded once."""
        kind = ir.FunctionType(self.type, [self.type] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.fma.{self.suffix}")
        return Vector(self, self.builder.call(function, [a.value, b.value, c.value]))


class Vector:
    """One SIMD value of `lanes`; arithmetic emits one vector instruction each, on floats or integers.

    The right operand may be a Python or NumPy number: the same constant in every lane.
    """

    def __init__(self, lanes: Lanes, value: ir.Value) -> None:
        self.lanes = lanes
        self.value = value

    def _emit(
        self, float_name: str | None, integer_name: str | None, other: "Vector | float | None" = None
    ) -> "Vector":
        name = float_name if self.lanes.is_float else integer_name
        if name is None:
            raise TypeError(f"There is no such operation on {self.lanes.type}.")
        if other is not None and not isinstance(other, Vector):
            other = self.lanes.constant(float(other) if self.lanes.is_float else int(other))
        operands = [self.value] if other is None else [self.value, other.value]
        return Vector(self.lanes, getattr(self.lanes.builder, name)(*operands))

    def __add__(self, other: "Vector") -> "Vector":
        return self._emit("fadd", "add", other)

    def __sub__(self, other: "Vector") -> "Vector":
        return self._emit("fsub", "sub", other)

    def __mul__(self, other: "Vector | float") -> "Vector":
        return self._emit("fmul", "mul", other)

    def __truediv__(self, other: "Vector | float") -> "Vector":
        return self._emit("fdiv", None, other)

    def __neg__(self) -> "Vector":
        return self._emit("fneg", "neg")

    def __and__(self, other: "Vector | int") -> "Vector":
        return self._emit(None, "and_", other)

    def __or__(self, other: "Vector | int") -> "Vector":
        return self._emit(None, "or_", other)

    def __xor__(self, other: "Vector | int") -> "Vector":
        return self._emit(None, "xor", other)

    def __rshift__(self, other: "Vector | int") -> "Vector":
        return self._emit(None, "lshr", other)

    def __lshift__(self, other: "Vector | int") -> "Vector":
        return self._emit(None, "shl", other)

    def less(self, other: "Vector") -> ir.Value:
        """Compare signed integers: return an LLVM mask of one bit per lane."""
        return self.lanes.builder.icmp_signed("<", self.value, other.value)

    def max_ordered(self, other: "Vector") -> "Vector":
        """Return the lane-wise maximum of floats; where one is not a number, `other`."""
        builder = self.lanes.builder
        larger = builder.fcmp_ordered(">", self.value, other.value)
        return Vector(self.lanes, builder.select(larger, self.value, other.value))

    def magnitude(self) -> "Vector":
        """Return the absolute value of each float lane."""
        kind = ir.FunctionType(self.lanes.type, [self.lanes.type])
        name = f"llvm.fabs.{self.lanes.suffix}"
        function = cgutils.get_or_insert_function(self.lanes.builder.module, kind, name)
        return Vector(self.lanes, self.lanes.builder.call(function, [self.value]))

    def min_unsigned(self, other: "Vector") -> "Vector":
        """Return the lane-wise minimum of unsigned integers."""
        builder = self.lanes.builder
        smaller = builder.icmp_unsigned("<", self.value, other.value)
        return Vector(self.lanes, builder.select(smaller, self.value, other.value))

    def truncate(self, lanes: Lanes) -> "Vector":
        """Keep the low bits of each integer lane."""
        return Vector(lanes, self.lanes.builder.trunc(self.value, lanes.type))

    def to_float(self, lanes: Lanes) -> "Vector":
        """Convert signed integers to floats."""
        return Vector(lanes, self.lanes.builder.sitofp(self.value, lanes.type))

    def store(
        self, pointer: ir.Value, index: ir.Value, aligned: bool = False, streaming: bool = False
    ) -> None:
        """Store to elements index ...; `streaming` bypasses the caches (implies aligned)."""
        lanes = self.lanes
        align = lanes.bytes * (lanes.count if aligned or streaming else 1)
        instruction = lanes.builder.store(self.value, lanes.address(pointer, index), align=align)
        if streaming:
            one = lanes.builder.module.add_metadata([ir.Constant(I32, 1)])
            instruction.set_metadata("nontemporal", one)

    def store_masked(self, mask: ir.Value, pointer: ir.Value, index: ir.Value) -> None:
        """Store the lanes whose bit in `mask` is set; the others' memory is not touched."""
        lanes = self.lanes
        kind = ir.FunctionType(
            ir.VoidType(), [lanes.type, lanes.type.as_pointer(), I32, ir.VectorType(I1, lanes.count)]
        )
        name = f"llvm.masked.store.{lanes.suffix}.p0"
        function = cgutils.get_or_insert_function(lanes.builder.module, kind, name)
        align = ir.Constant(I32, lanes.bytes)
        lanes.builder.call(function, [self.value, lanes.address(pointer, index), align, mask])


class VectorLoop:
    """A loop over `count` numbers, a register at a time; masks end it exactly, so no memory beyond is touched.

    It is used inside the codegen of an intrinsic.

    Parameters
    ----------
    names : the names of the intrinsic's arguments in order, one of them `count`; arrays become pointers, and the
        fields of a named tuple go by their own names
    dtype : Numba's type of the numbers that registers hold
    """

    def __init__(
        self, context: Any, builder: ir.IRBuilder, signature: Any, args: Any, names: Sequence[str], dtype: Any
    ) -> None:
        self.builder = builder
        self.values: dict[str, ir.Value] = {}
        for name, kind, value in zip(names, signature.args, args, strict=True):
            parts = [(name, kind, value)]
            if isinstance(kind, types.BaseNamedTuple):
                parts = list(zip(kind.fields, kind.types, cgutils.unpack_tuple(builder, value)))
            for field, type_of_field, part in parts:
                array = isinstance(type_of_field, types.Array)
                self.values[field] = (
                    context.make_array(type_of_field)(context, builder, part).data if array else part
                )
        self.lanes = Lanes(builder, element_type(dtype), host_vector_bytes() * 8 // dtype.bitwidth)
        self._mask = None

    def splat(self, name: str, place: int | None = None) -> Vector:
        """Return a scalar argument, or number `place` of an array, in every lane."""
        value = self.values[name]
        if place is not None:
            value = self.builder.load(self.builder.gep(value, [ir.Constant(I64, place)]))
        return self.lanes.splat(value)

    def load(self, name: str, index: ir.Value) -> Vector:
        """Load a vector of an array, zeros beyond the end of the loop."""
        if self._mask is None:
            return self.lanes.load(self.values[name], index)
        return self.lanes.load_masked(self._mask, self.values[name], index)

    def store(self, vector: Vector, name: str, index: ir.Value) -> None:
        """Store a vector to an array, without the lanes beyond the end of the loop."""
        if self._mask is None:
            vector.store(self.values[name], index)
        else:
            vector.store_masked(self._mask, self.values[name], index)

    def run(self, body: Callable[[ir.Value], None]) -> None:
        """Emit body(i) for i = 0, lanes, 2 lanes, ... as 64-bit LLVM values."""
        builder, count = self.builder, self.values["count"]
        width, zero = ir.Constant(I64, self.lanes.count), ir.Constant(I64, 0)
        rest = builder.srem(count, width)
        whole = builder.sub(count, rest)
        with cgutils.for_range_slice(builder, zero, whole, width) as (i, _):
            body(i)
        with builder.if_then(builder.icmp_signed("!=", rest, zero)):
            places = Lanes(builder, I64, self.lanes.count)
            self._mask = places.iota(zero).less(places.splat(rest))
            body(whole)
            self._mask = None


def count_lanes(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """Return how many lanes a mask has, as a 64-bit LLVM value."""
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I64, [I64]), "llvm.ctpop.i64")
    return builder.call(function, [builder.zext(bits, I64)])


def _shuffle(first: Vector, second: Vector, start: int) -> Vector:
    lanes = first.lanes
    picks = constant(ir.VectorType(I32, lanes.count), [start + i for i in range(lanes.count)])
    return Vector(lanes, lanes.builder.shuffle_vector(first.value, second.value, picks))


def left_neighbours(previous: Vector, current: Vector) -> Vector:
    """Return the values one to the left of `current`, given the vector before it in memory."""
    return _shuffle(previous, current, current.lanes.count - 1)


def right_neighbours(current: Vector, following: Vector) -> Vector:
    """Return the values one to the right of `current`, given the vector after it in memory."""
    return _shuffle(current, following, 1)


def prefetch(
    builder: ir.IRBuilder, pointer: ir.Value, index: ir.Value, write: bool = False, locality: int = 3
) -> None:
    """Prefetch the cache line of element `index`; locality 3: into L1, 2: into L2, 0: non-temporal."""
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    address = builder.bitcast(builder.gep(pointer, [index]), I8.as_pointer())
    flags = [ir.Constant(I32, flag) for flag in (int(write), locality, 1)]
    builder.call(function, [address, *flags])


def emit_store_fence(builder: ir.IRBuilder) -> None:
    """Make streaming stores visible to other cores before any later store."""
    if llvmlite.binding.get_process_triple().startswith(("x86_64", "i686")):
        kind = ir.FunctionType(ir.VoidType(), [])
        name = "llvm.x86.sse.sfence"
        builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
    else:
        builder.fence("seq_cst")


@intrinsic
def store_fence(typing):
    """Order the streaming stores before this call before everything that follows; callable from compiled code."""

    def codegen(context, builder, signature, args):
        emit_store_fence(builder)
        return context.get_dummy_value()

    return types.void(), codegen
