"""Rows of the nodal operator: one row of A u, of its diagonal, of a residual and of a damped Jacobi step.

The operator is -div(sigma grad phi) in trilinear finite elements. With one sigma for all cells it is a sum of
products of the one-dimensional stiffness K and mass M of the axes,

    A = Kz My Mx + Mz Ky Mx + Mz My Kx,

so that a row of A u is found in two steps: the nine neighbouring rows of u are summed into two rows, one with the
weights Kz My + Mz Ky and one with Mz My, to which Mx and Kx are applied (`combine_rows`, `relax_row`). These two
steps are LLVM code with explicit multiply-adds, so that a node rounds alike wherever it lies in a row, and on any
ranks. With one sigma for each cell, the four rows of cells around a row of nodes are summed one after the other.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeline.jit.kernel import subroutine
from ridgeline.jit.llvm import I64, Vector, VectorLoop

LINE = 64  # bytes of a cache line, on which rows are loaded
MARGIN = 16  # places of a table before the first owned node, so that owned rows begin on a cache line
LANES = 16  # numbers in which relax_row keeps the largest residuals: as many float32 as the widest vector has
MASS, STIFFNESS, FREE, CELL_MASS, CELL_SLOPE = 0, 3, 6, 7, 8  # rows of the table of an axis (nodal_tables.py)
# Rows of the work array of a pass.
SUMS_A, SUMS_B, STEPS, DIAGONAL, APPLIED, RESIDUAL, FACTORS, RESIDUAL_FACTORS, LARGEST = range(9)
WORK_ROWS = 9


def _place(loop: VectorLoop, row: int, i: ir.Value) -> ir.Value:
    """Return the place in the work array of number i of one of its rows."""
    return loop.builder.add(loop.builder.mul(loop.values["length"], ir.Constant(I64, row)), i)


@intrinsic
def combine_rows(typing, count, rows, below, here, above, pitch, work, length, factor_row):
    """Set work[SUMS_A] and work[SUMS_B] to sums of nine rows, with the 9 + 9 factors of a row of the work array.

    The rows are those around place `here` and in the planes below and above. length: of a row of the work array, of
    which no slices are taken, because counting references to them costs as much as a row of 100 nodes.
    """
    signature = types.void(count, rows, below, here, above, pitch, work, length, factor_row)
    names = ["count", "rows", "below", "here", "above", "pitch", "work", "length", "factor_row"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, rows.dtype)
        factors = builder.gep(
            loop.values["work"], [builder.mul(loop.values["length"], loop.values["factor_row"])]
        )
        weights = [
            loop.lanes.splat(builder.load(builder.gep(factors, [ir.Constant(I64, n)]))) for n in range(18)
        ]
        pitch_value, starts = loop.values["pitch"], []
        for plane in ("below", "here", "above"):
            middle = loop.values[plane]
            starts += [builder.sub(middle, pitch_value), middle, builder.add(middle, pitch_value)]

        def body(i: ir.Value) -> None:
            first = second = None
            for n, start in enumerate(starts):
                value = loop.load("rows", builder.add(start, i))
                a, b = weights[n], weights[9 + n]
                first = a * value if first is None else loop.lanes.fma(a, value, first)
                second = b * value if second is None else loop.lanes.fma(b, value, second)
            loop.store(first, "work", _place(loop, SUMS_A, i))
            loop.store(second, "work", _place(loop, SUMS_B, i))

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


ROW = ["count", "skip", "work", "length", "table", "stride", "x", "b", "place"]


def _residual(loop: VectorLoop, i: ir.Value) -> Vector:
    """Return b - A u in the nodes from i on: the two sums of rows go through the mass and the stiffness along x."""
    builder = loop.builder
    applied = None
    place, first = builder.add(loop.values["x"], i), builder.add(loop.values["skip"], i)
    for part, sums in ((MASS, SUMS_A), (STIFFNESS, SUMS_B)):
        for d in range(3):
            offset = builder.mul(loop.values["stride"], ir.Constant(I64, part + d))
            factor = loop.load("table", builder.add(place, offset))
            value = loop.load("work", _place(loop, sums, builder.add(first, ir.Constant(I64, d))))
            applied = factor * value if applied is None else loop.lanes.fma(factor, value, applied)
    assert applied is not None
    return loop.load("b", builder.add(loop.values["place"], i)) - applied


@intrinsic
def relax_row(typing, count, skip, work, length, table, stride, x, b, place, u, u_place, out):
    """Set a row of out = u + work[STEPS] (b - A u), and keep the largest |b - A u| of each lane in work[LARGEST]."""
    signature = types.void(count, skip, work, length, table, stride, x, b, place, u, u_place, out)
    names = [*ROW, "u", "u_place", "out"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, b.dtype)
        kept = _place(loop, LARGEST, ir.Constant(I64, 0))
        largest = cgutils.alloca_once(builder, loop.lanes.type)
        builder.store(loop.load("work", kept).value, largest)

        def body(i: ir.Value) -> None:
            residual = _residual(loop, i)
            known = loop.lanes.vector(builder.load(largest))
            builder.store(known.max_ordered(residual.magnitude()).value, largest)
            before = loop.load("u", builder.add(loop.values["u_place"], i))
            after = loop.lanes.fma(loop.load("work", _place(loop, STEPS, i)), residual, before)
            loop.store(after, "out", builder.add(loop.values["place"], i))

        loop.run(body)
        loop.lanes.vector(builder.load(largest)).store(loop.values["work"], kept)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def residual_row(typing, count, skip, work, length, table, stride, x, b, place):
    """Set work[RESIDUAL] = b - A u in a row."""
    signature = types.void(count, skip, work, length, table, stride, x, b, place)

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, ROW, b.dtype)
        loop.run(lambda i: loop.store(_residual(loop, i), "work", _place(loop, RESIDUAL, i)))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_residual(typing, count, part, work, length, sums, place):
    """Add part * work[RESIDUAL] to `count` numbers of `sums` from a place on."""
    signature = types.void(count, part, work, length, sums, place)
    names = ["count", "part", "work", "length", "sums", "place"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, sums.dtype)
        part = loop.splat("part")

        def body(i: ir.Value) -> None:
            at = builder.add(loop.values["place"], i)
            residual = loop.load("work", _place(loop, RESIDUAL, i))
            loop.store(loop.lanes.fma(part, residual, loop.load("sums", at)), "sums", at)

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_four_rows(typing, count, f00, f01, f10, f11, rows, low, high, length, u, place, target, target_place):
    """Set target = u + the sum of four rows with factors: two rows from place low on, and two from place high on.

    These are coarse rows, expanded along x, around a fine row.
    """
    signature = types.void(count, f00, f01, f10, f11, rows, low, high, length, u, place, target, target_place)
    names = ["count", "f00", "f01", "f10", "f11", "rows", "low", "high", "length"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(
            context, builder, signature, args, [*names, "u", "place", "target", "target_place"], u.dtype
        )
        factors = [loop.splat(name) for name in names[1:5]]
        length = loop.values["length"]
        starts = [
            start
            for name in ("low", "high")
            for start in (loop.values[name], builder.add(loop.values[name], length))
        ]

        def body(i: ir.Value) -> None:
            total = factors[0] * loop.load("rows", builder.add(starts[0], i))
            for factor, start in zip(factors[1:], starts[1:]):
                total = loop.lanes.fma(factor, loop.load("rows", builder.add(start, i)), total)
            value = loop.load("u", builder.add(loop.values["place"], i)) + total
            loop.store(value, "target", builder.add(loop.values["target_place"], i))

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


@subroutine(nogil=True, inline="always")
def set_factors(table_z, table_y, k, j, work, row):
    """Set the weights of the nine rows around row (k, j) of the tables: Kz My + Mz Ky, then Mz My."""
    for dz in range(3):
        kz, mz = table_z[STIFFNESS + dz, k], table_z[MASS + dz, k]
        for dy in range(3):
            ky, my = table_y[STIFFNESS + dy, j], table_y[MASS + dy, j]
            work[row, 3 * dz + dy] = kz * my + mz * ky
            work[row, 9 + 3 * dz + dy] = mz * my


@subroutine(nogil=True)
def set_steps(table_x, x, count, weight, work):
    """Set work[STEPS] = weight / diagonal in a row whose weights are work[FACTORS]."""
    diagonal = work[DIAGONAL]
    mass, stiffness = table_x[MASS + 1, x : x + count], table_x[STIFFNESS + 1, x : x + count]
    for i in range(count):
        diagonal[i] = work[FACTORS, 4] * mass[i] + work[FACTORS, 13] * stiffness[i]
    jacobi_steps(weight, diagonal, count, work[STEPS])


@subroutine(nogil=True)
def jacobi_steps(weight, diagonal, count, steps):
    """Set steps = weight / diagonal of A in a row, and 0 at fixed nodes, whose rows of A are zero."""
    for i in range(count):
        if diagonal[i] > 0:
            steps[i] = weight / diagonal[i]
        else:
            steps[i] = 0


@subroutine(nogil=True)
def sum_rows_of_cell(u, place, plane, pitch, factors, sums_a, sums_b, count):
    """Sum the four rows around a row of cells, of which `place` is the lowest, with two sets of four factors."""
    r00, r01 = u[place : place + count], u[place + pitch : place + pitch + count]
    place += plane
    r10, r11 = u[place : place + count], u[place + pitch : place + pitch + count]
    for i in range(count):
        sums_a[i] = factors[0] * r00[i] + factors[1] * r01[i] + factors[2] * r10[i] + factors[3] * r11[i]
    for i in range(count):
        sums_b[i] = factors[4] * r00[i] + factors[5] * r01[i] + factors[6] * r10[i] + factors[7] * r11[i]


@subroutine(nogil=True)
def add_row_of_cells(sigma, place, table_x, x, sums_a, sums_b, count, applied):
    """Add a row of cells to a row of A u. The sums begin one node before the row, `place` is the right cell."""
    left, right = sigma[place - 1 : place - 1 + count], sigma[place : place + count]
    mass, slope = table_x[CELL_MASS, x - 1 : x + count], table_x[CELL_SLOPE, x - 1 : x + count]
    for i in range(count):
        low = mass[i] * (sums_a[i + 1] + sums_a[i] / 2) + slope[i] * (sums_b[i + 1] - sums_b[i])
        high = mass[i + 1] * (sums_a[i + 1] + sums_a[i + 2] / 2) + slope[i + 1] * (
            sums_b[i + 1] - sums_b[i + 2]
        )
        applied[i] += left[i] * low + right[i] * high


@subroutine(nogil=True)
def add_diagonal_of_cells(sigma, place, table_x, x, a, b, count, diagonal):
    """Add a row of cells to the diagonal of A in a row of nodes."""
    left, right = sigma[place - 1 : place - 1 + count], sigma[place : place + count]
    mass, slope = table_x[CELL_MASS, x - 1 : x + count], table_x[CELL_SLOPE, x - 1 : x + count]
    for i in range(count):
        diagonal[i] += left[i] * (a * mass[i] + b * slope[i]) + right[i] * (
            a * mass[i + 1] + b * slope[i + 1]
        )


@subroutine(nogil=True)
def apply_by_cells(
    u, below, here, above, pitch, tables, k, j, x, count, sigma, sigma_place, sigma_plane, sigma_row, work
):  # fmt: skip
    """Set work[APPLIED] to a row of A u and work[DIAGONAL] to that of A, for one sigma in each cell."""
    table_z, table_y, table_x = tables
    applied, diagonal, factors = work[APPLIED], work[DIAGONAL], work[FACTORS]
    for i in range(count):
        applied[i] = 0
        diagonal[i] = 0
    for dz in range(2):
        low, plane = (below, here - below) if dz == 0 else (here, above - here)
        mass_z, slope_z = table_z[CELL_MASS, k - 1 + dz], table_z[CELL_SLOPE, k - 1 + dz]
        for dy in range(2):
            mass_y, slope_y = table_y[CELL_MASS, j - 1 + dy], table_y[CELL_SLOPE, j - 1 + dy]
            # The four rows of nodes at the edges of this row of cells; one of them is the row itself.
            for n in range(4):
                own_z, own_y = n // 2 == 1 - dz, n % 2 == 1 - dy
                mz, kz = (mass_z, slope_z) if own_z else (mass_z / 2, -slope_z)
                my, ky = (mass_y, slope_y) if own_y else (mass_y / 2, -slope_y)
                factors[n] = kz * my + mz * ky
                factors[4 + n] = mz * my
            sums_a, sums_b = work[SUMS_A], work[SUMS_B]
            sum_rows_of_cell(u, low + (dy - 1) * pitch, plane, pitch, factors, sums_a, sums_b, count + 2)
            cells = sigma_place + (dz - 1) * sigma_plane + (dy - 1) * sigma_row
            add_row_of_cells(sigma, cells, table_x, x, sums_a, sums_b, count, applied)
            own_a, own_b = slope_z * mass_y + mass_z * slope_y, mass_z * mass_y
            add_diagonal_of_cells(sigma, cells, table_x, x, own_a, own_b, count, diagonal)
    free, free_x = table_z[FREE, k] * table_y[FREE, j], table_x[FREE, x : x + count]
    for i in range(count):
        applied[i] *= free * free_x[i]
        diagonal[i] *= free * free_x[i]


@subroutine(nogil=True)
def relax_by_cells(
    u, below, here, above, pitch, tables, k, j, x, count, b, place, weight, sigma, sigma_layout, out, work
):  # fmt: skip
    """Set a row of out = u + weight (b - A u) / diagonal; keep the largest residual in work[LARGEST].

    below, here, above: places in u of the node before the row, in three planes. k, j, x: places in the tables.
    """
    cells = sigma_layout[0] + k * sigma_layout[1] + j * sigma_layout[2] + x
    apply_by_cells(
        u, below, here, above, pitch, tables, k, j, x, count, sigma, cells, sigma_layout[1], sigma_layout[2], work
    )  # fmt: skip
    jacobi_steps(weight, work[DIAGONAL], count, work[STEPS])
    applied, before, result = work[APPLIED], u[here + 1 : here + 1 + count], out[place : place + count]
    target, largest, steps = b[place : place + count], work[LARGEST, 0], work[STEPS]
    for i in range(count):
        residual = target[i] - applied[i]
        result[i] = before[i] + steps[i] * residual
        largest = max(largest, abs(residual))
    work[LARGEST, 0] = largest


@subroutine(nogil=True)
def residual_by_cells(
    u, below, here, above, pitch, tables, k, j, x, count, b, place, sigma, sigma_layout, work
):
    """Set work[RESIDUAL] = b - A u in a row; the arguments are those of `relax_by_cells`."""
    cells = sigma_layout[0] + k * sigma_layout[1] + j * sigma_layout[2] + x
    apply_by_cells(
        u, below, here, above, pitch, tables, k, j, x, count, sigma, cells, sigma_layout[1], sigma_layout[2], work
    )  # fmt: skip
    applied, target, out = work[APPLIED], b[place : place + count], work[RESIDUAL]
    for i in range(count):
        out[i] = target[i] - applied[i]


@subroutine(nogil=True)
def first_steps(tables, k, j, x, count, weight, by_cells, sigma, sigma_layout, work):
    """Set work[STEPS] = weight / diagonal of A in a row."""
    table_z, table_y, table_x = tables
    if not by_cells:
        known_a, known_b = work[FACTORS, 4], work[FACTORS, 13]
        set_factors(table_z, table_y, k, j, work, FACTORS)
        if work[FACTORS, 4] != known_a or work[FACTORS, 13] != known_b:
            set_steps(table_x, x, count, weight, work)
        return
    diagonal = work[DIAGONAL]
    for i in range(count):
        diagonal[i] = 0
    for dz in range(2):
        mass_z, slope_z = table_z[CELL_MASS, k - 1 + dz], table_z[CELL_SLOPE, k - 1 + dz]
        for dy in range(2):
            mass_y, slope_y = table_y[CELL_MASS, j - 1 + dy], table_y[CELL_SLOPE, j - 1 + dy]
            cells = sigma_layout[0] + (k - 1 + dz) * sigma_layout[1] + (j - 1 + dy) * sigma_layout[2] + x
            a, b = slope_z * mass_y + mass_z * slope_y, mass_z * mass_y
            add_diagonal_of_cells(sigma, cells, table_x, x, a, b, count, diagonal)
    free, free_x = table_z[FREE, k] * table_y[FREE, j], table_x[FREE, x : x + count]
    for i in range(count):
        diagonal[i] *= free * free_x[i]
    jacobi_steps(weight, diagonal, count, work[STEPS])
