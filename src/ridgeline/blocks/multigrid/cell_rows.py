"""Rows of cells, the pieces that the passes of cell-centred multigrid (cell_kernels.py) are made of.

Each is one loop over a row in LLVM code with explicit multiply-adds, so that a cell rounds alike wherever it lies in
a row, and on any ranks. Fields and planes are given as arrays and the flat places of rows in them, because making a
view of a row costs as much as computing ten cells.

A piece serves constant and varying coefficients, by a branch outside its loop. With constant coefficients the factors
tau / diagonal of a row come from `steps`, because rows with the same factors follow each other, and a division costs
as much as the rest of a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir
from numba import int64, types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel import subroutine
from ridgeline.jit.llvm import I64, Vector, VectorLoop

LO, UP, DIAGONAL = 0, 1, 2  # rows of `factors`
ROWS = 3  # of an axis in `factors`
LANES = (
    16  # numbers in which `check_row` keeps the largest residuals: as many float32 as the widest vector has
)


class CellEquation(NamedTuple):
    """The coefficients of a level.

    variable, uniform : whether beta and a vary, and whether all cells of a row have the same factors along x
    alpha, a, fz, fy, fx : alpha, or the field a and beta at lower faces
    factors : [3, 3, n]; for each axis lo, up and their sum, by local cells with ghosts
    """

    variable: Any
    uniform: Any
    alpha: Any
    a: Any
    fz: Any
    fy: Any
    fx: Any
    factors: Any


class Kind(NamedTuple):
    """Which loops serve an equation: one with varying coefficients, and with uniform factors along x."""

    varying: bool
    uniform: bool


class RowOfCells(NamedTuple):
    """Where a row begins in fields, in faces and in the tables along x, and its factors.

    lx, diagonal : the factor along x if it is uniform; without x in the diagonal if it is not
    """

    cell: Any
    face: Any
    face_pitch: Any
    face_plane: Any
    column: Any
    columns: Any
    lz: Any
    uz: Any
    ly: Any
    uy: Any
    lx: Any
    diagonal: Any


class RowsAround(NamedTuple):
    """The places in `source` of a row (here) and of its neighbours along z (below, above) and y (before, after)."""

    below: Any
    above: Any
    before: Any
    after: Any
    here: Any


def equation_type(T: Any) -> Any:
    """Return Numba's type of a `CellEquation`."""
    return types.NamedTuple((int64, int64, T, *[T[:, :, ::1]] * 4, T[:, :, ::1]), CellEquation)


@subroutine(nogil=True)
def row_of_cells(equation, shape, k, j, start):
    """Return the row (k, j) from column `start` on; shape: of the fields with ghosts."""
    factors, faces = equation.factors, equation.fz.shape
    along = factors.dtype.type(equation.uniform) * factors[2, DIAGONAL, start]
    diagonal = equation.alpha + (factors[0, DIAGONAL, k] + factors[1, DIAGONAL, j]) + along
    return RowOfCells(
        (k * shape[1] + j) * shape[2] + start,
        (k * faces[1] + j) * faces[2] + start,
        faces[2],
        faces[1] * faces[2],
        start,
        factors.shape[2],
        factors[0, LO, k],
        factors[0, UP, k],
        factors[1, LO, j],
        factors[1, UP, j],
        factors[2, LO, start],
        diagonal,
    )


EQUATION = ["count", "equation", "row", "b"]
NEIGHBOURS = [*EQUATION, "source", "around"]


def _at(loop: VectorLoop, place: str, i: ir.Value, *more: ir.Value | int) -> ir.Value:
    """Return place + i + more."""
    total = loop.builder.add(loop.values[place], i)
    for part in more:
        total = loop.builder.add(total, ir.Constant(I64, part) if isinstance(part, int) else part)
    return total


def _along_x(loop: VectorLoop, row: int, i: ir.Value) -> Vector:
    """Return numbers of a row of the factors along x."""
    skipped = loop.builder.mul(loop.values["columns"], ir.Constant(I64, 2 * ROWS + row))
    return loop.load("factors", _at(loop, "column", i, skipped))


def _couplings(loop: VectorLoop, kind: Kind, i: ir.Value) -> list[tuple[str, int, Vector]]:
    """Return for each neighbour the row that it is in, its shift along x, and the factor of its value."""
    varying, uniform = kind
    values = loop.values
    zero = ir.Constant(I64, 0)
    couplings = []
    for factor, neighbour, face, shift in (
        ("lz", "below", "fz", zero),
        ("uz", "above", "fz", values["face_plane"]),
        ("ly", "before", "fy", zero),
        ("uy", "after", "fy", values["face_pitch"]),
    ):
        coupling = loop.splat(factor)
        if varying:
            coupling = coupling * loop.load(face, _at(loop, "face", i, shift))
        couplings.append((neighbour, 0, coupling))
    for row, shift_x in ((LO, -1), (UP, 1)):
        coupling = loop.splat("lx") if uniform else _along_x(loop, row, i)
        if varying:
            coupling = coupling * loop.load("fx", _at(loop, "face", i, row))
        couplings.append(("here", shift_x, coupling))
    return couplings


def _diagonal(loop: VectorLoop, kind: Kind, i: ir.Value, couplings: list[tuple[str, int, Vector]]) -> Vector:
    if not kind.varying and kind.uniform:
        return loop.splat("diagonal")
    if not kind.varying:
        return loop.splat("diagonal") + _along_x(loop, DIAGONAL, i)
    total = loop.load("a", _at(loop, "cell", i))
    for _, _, coupling in couplings:
        total = total + coupling
    return total


def _sum(loop: VectorLoop, i: ir.Value, couplings: list[tuple[str, int, Vector]]) -> Vector:
    """Return b + the neighbours times their factors."""
    total = loop.load("b", _at(loop, "cell", i))
    for neighbour, shift, coupling in couplings:
        total = loop.lanes.fma(coupling, loop.load("source", _at(loop, neighbour, i, shift)), total)
    return total


def _residual(loop: VectorLoop, kind: Kind, i: ir.Value) -> Vector:
    """Return b - A x."""
    couplings = _couplings(loop, kind, i)
    here = loop.load("source", _at(loop, "here", i))
    return loop.lanes.fma(-_diagonal(loop, kind, i, couplings), here, _sum(loop, i, couplings))


def _either(loop: VectorLoop, name: str, emit: Callable[[bool], None]) -> None:
    """Emit both loops, of which the argument `name` chooses one."""
    chosen = loop.values[name]
    with loop.builder.if_else(loop.builder.icmp_signed("!=", chosen, ir.Constant(chosen.type, 0))) as (
        yes,
        no,
    ):
        with yes:
            emit(True)
        with no:
            emit(False)


def _each_kind(loop: VectorLoop, emit: Callable[[Kind], None]) -> None:
    """Emit the loops of all kinds of equations, of which the equation chooses one."""

    def emit_varying_or_constant(varying: bool) -> None:
        if varying:
            emit(Kind(True, False))
        else:
            _either(loop, "uniform", lambda uniform: emit(Kind(False, uniform)))

    _either(loop, "variable", emit_varying_or_constant)


def _steps(loop: VectorLoop, kind: Kind, i: ir.Value) -> Vector:
    """Return tau / diagonal of constant coefficients."""
    if kind.uniform:
        return loop.lanes.splat(
            loop.builder.load(loop.builder.gep(loop.values["steps"], [loop.values["column"]]))
        )
    return loop.load("steps", _at(loop, "column", i))


def _kept(loop: VectorLoop) -> Vector:
    """Return 1 - tau."""
    return loop.lanes.constant(1.0) - loop.splat("tau")


@intrinsic
def start_row(typing, count, equation, row, b, steps, tau, target, place):
    """Set a row of target to tau b / diagonal, the first step from zero."""
    signature = types.void(count, equation, row, b, steps, tau, target, place)

    def codegen(context, builder, signature, args):
        names = [*EQUATION, "steps", "tau", "target", "place"]
        loop = VectorLoop(context, builder, signature, args, names, b.dtype)

        def emit(kind: Kind) -> None:
            def body(i: ir.Value) -> None:
                value = loop.load("b", _at(loop, "cell", i))
                if kind.varying:
                    diagonal = _diagonal(loop, kind, i, _couplings(loop, kind, i))
                    step = loop.splat("tau") * (value / diagonal)
                else:
                    step = _steps(loop, kind, i) * value
                loop.store(step, "target", _at(loop, "place", i))

            loop.run(body)

        _each_kind(loop, emit)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def relax_row(typing, count, equation, row, b, source, around, steps, tau, target, place):
    """Set a row of target to (1 - tau) x + tau (b + neighbours) / diagonal, a step of points."""
    signature = types.void(count, equation, row, b, source, around, steps, tau, target, place)

    def codegen(context, builder, signature, args):
        names = [*NEIGHBOURS, "steps", "tau", "target", "place"]
        loop = VectorLoop(context, builder, signature, args, names, b.dtype)

        def emit(kind: Kind) -> None:
            def body(i: ir.Value) -> None:
                couplings = _couplings(loop, kind, i)
                kept = _kept(loop) * loop.load("source", _at(loop, "here", i))
                total = _sum(loop, i, couplings)
                if kind.varying:
                    step, total = loop.splat("tau"), total / _diagonal(loop, kind, i, couplings)
                else:
                    step = _steps(loop, kind, i)
                loop.store(loop.lanes.fma(step, total, kept), "target", _at(loop, "place", i))

            loop.run(body)

        _each_kind(loop, emit)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_residual(typing, count, equation, row, b, source, around, weight, sums):
    """Add a weight times b - A x of a row to `sums`, which begins at column 0."""
    signature = types.void(count, equation, row, b, source, around, weight, sums)

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, [*NEIGHBOURS, "weight", "sums"], b.dtype)

        def emit(kind: Kind) -> None:
            def body(i: ir.Value) -> None:
                at = _at(loop, "column", i)
                residual = _residual(loop, kind, i)
                loop.store(loop.lanes.fma(loop.splat("weight"), residual, loop.load("sums", at)), "sums", at)

            loop.run(body)

        _each_kind(loop, emit)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def check_row(typing, count, equation, row, b, source, around, largest):
    """Keep the largest |b - A x| of each lane in `largest`, or NaN.

    Magnitudes are compared by their bits, of which those of NaN are the largest.
    """
    signature = types.void(count, equation, row, b, source, around, largest)

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, [*NEIGHBOURS, "largest"], b.dtype)
        first, numbers = ir.Constant(I64, 0), ir.VectorType(ir.IntType(b.dtype.bitwidth), loop.lanes.count)
        known = cgutils.alloca_once(builder, numbers)
        builder.store(builder.bitcast(loop.lanes.load(loop.values["largest"], first).value, numbers), known)

        def emit(kind: Kind) -> None:
            def body(i: ir.Value) -> None:
                bits = builder.bitcast(_residual(loop, kind, i).magnitude().value, numbers)
                before = builder.load(known)
                larger = builder.icmp_unsigned(">", bits, before)
                builder.store(builder.select(larger, bits, before), known)

            loop.run(body)

        _each_kind(loop, emit)
        result = loop.lanes.vector(builder.bitcast(builder.load(known), loop.lanes.type))
        result.store(loop.values["largest"], first)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def eliminate_row(
    typing, count, equation, row, b, source, around, starts, below_factor, inverse, upper, sums, at, pitch
):
    """Eliminate the row before, along z, from the equations of a row of lines.

    Sets upper and sums at place `at` from the row before, `pitch` earlier. sums: b + neighbours along y and x, or b
    alone if it `starts` from zero. With constant coefficients `inverse` and `upper` are known.
    """
    signature = types.void(
        count, equation, row, b, source, around, starts, below_factor, inverse, upper, sums, at, pitch
    )
    names = [*NEIGHBOURS, "starts", "below_factor", "inverse", "upper", "sums", "at", "pitch"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, b.dtype)

        def emit(kind: Kind, starts: bool) -> None:
            def body(i: ir.Value) -> None:
                couplings = _couplings(loop, kind, i)
                total = _sum(loop, i, [] if starts else couplings[2:])
                at = _at(loop, "at", i)
                before = builder.sub(at, loop.values["pitch"])
                lower = loop.splat("below_factor")
                if kind.varying:
                    lower = lower * loop.load("fz", _at(loop, "face", i))
                    known = lower * loop.load("upper", before)
                    diagonal = _diagonal(loop, kind, i, couplings)
                    inverse = loop.lanes.constant(1.0) / (diagonal - known)
                    loop.store(couplings[1][2] * inverse, "upper", at)
                else:
                    inverse = loop.load("inverse", at)
                total = loop.lanes.fma(lower, loop.load("sums", before), total)
                loop.store(total * inverse, "sums", at)

            loop.run(body)

        _each_kind(loop, lambda kind: _either(loop, "starts", lambda starts: emit(kind, starts)))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def substitute_row(typing, count, upper, sums, at, pitch, tau, starts, source, here, target, place):
    """Solve a row of lines from the row above, `pitch` later, and set target to (1 - tau) x + tau of the solution."""
    signature = types.void(count, upper, sums, at, pitch, tau, starts, source, here, target, place)
    names = ["count", "upper", "sums", "at", "pitch", "tau", "starts", "source", "here", "target", "place"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, sums.dtype)

        def emit(starts: bool) -> None:
            def body(i: ir.Value) -> None:
                at = _at(loop, "at", i)
                above = loop.load("sums", builder.add(at, loop.values["pitch"]))
                value = loop.lanes.fma(loop.load("upper", at), above, loop.load("sums", at))
                loop.store(value, "sums", at)
                step = loop.splat("tau")
                if starts:
                    result = step * value
                else:
                    result = loop.lanes.fma(
                        step, value, _kept(loop) * loop.load("source", _at(loop, "here", i))
                    )
                loop.store(result, "target", _at(loop, "place", i))

            loop.run(body)

        _either(loop, "starts", emit)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def blend_rows(typing, count, coarse, r00, r01, r10, r11, f00, f01, f10, f11, sums):
    """Set sums to four rows of `coarse` times factors."""
    signature = types.void(count, coarse, r00, r01, r10, r11, f00, f01, f10, f11, sums)
    rows, factors = ["r00", "r01", "r10", "r11"], ["f00", "f01", "f10", "f11"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(
            context, builder, signature, args, ["count", "coarse", *rows, *factors, "sums"], sums.dtype
        )

        def body(i: ir.Value) -> None:
            total = loop.splat("f00") * loop.load("coarse", _at(loop, "r00", i))
            for row, factor in zip(rows[1:], factors[1:]):
                total = loop.lanes.fma(loop.splat(factor), loop.load("coarse", _at(loop, row, i)), total)
            loop.store(total, "sums", i)

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen
