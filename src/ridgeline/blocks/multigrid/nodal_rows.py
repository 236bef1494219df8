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


@intrinsic
def combine_rows(typing, count, rows, below, here, above, pitch, factors, sums_a, sums_b):
    """Sum nine rows, those around place `here` and in the planes below and above, with two sets of nine factors."""
    signature = types.void(count, rows, below, here, above, pitch, factors, sums_a, sums_b)
    names = ["count", "rows", "below", "here", "above", "pitch", "factors", "sums_a", "sums_b"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, rows.dtype)
        weights = [loop.splat("factors", n) for n in range(18)]
        pitch_value = loop.values["pitch"]
        starts = []
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
            loop.store(first, "sums_a", i)
            loop.store(second, "sums_b", i)

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


ROW = ["count", "skip", "sums_a", "sums_b", "table", "stride", "x_start", "b", "b_start"]


def _residual(loop: VectorLoop, i: ir.Value) -> Vector:
    """Return b - A u in the nodes from i on: the two sums of rows go through the mass and the stiffness along x."""
    builder = loop.builder
    applied = None
    place, first = builder.add(loop.values["x_start"], i), builder.add(loop.values["skip"], i)
    for part, sums in enumerate(("sums_a", "sums_b")):
        for d in range(3):
            offset = builder.mul(loop.values["stride"], ir.Constant(I64, 3 * part + d))
            factor = loop.load("table", builder.add(place, offset))
            value = loop.load(sums, builder.add(first, ir.Constant(I64, d)))
            applied = factor * value if applied is None else loop.lanes.fma(factor, value, applied)
    assert applied is not None
    return loop.load("b", builder.add(loop.values["b_start"], i)) - applied


@intrinsic
def relax_row(
    typing,
    count,
    skip,
    sums_a,
    sums_b,
    table,
    stride,
    x_start,
    b,
    b_start,
    steps,
    u,
    u_start,
    out,
    out_start,
    largest,
):
    """Set out = u + steps (b - A u) in a row, and keep the largest |b - A u| of each lane in `largest`."""
    signature = types.void(
        count,
        skip,
        sums_a,
        sums_b,
        table,
        stride,
        x_start,
        b,
        b_start,
        steps,
        u,
        u_start,
        out,
        out_start,
        largest,
    )
    names = [*ROW, "steps", "u", "u_start", "out", "out_start", "largest"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, b.dtype)
        zero = ir.Constant(I64, 0)

        def body(i: ir.Value) -> None:
            residual = _residual(loop, i)
            known = loop.lanes.load(loop.values["largest"], zero)
            known.max_ordered(residual.magnitude()).store(loop.values["largest"], zero)
            before = loop.load("u", builder.add(loop.values["u_start"], i))
            after = loop.lanes.fma(loop.load("steps", i), residual, before)
            loop.store(after, "out", builder.add(loop.values["out_start"], i))

        loop.run(body)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def residual_row(typing, count, skip, sums_a, sums_b, table, stride, x_start, b, b_start, out):
    """Set out = b - A u in a row."""
    signature = types.void(count, skip, sums_a, sums_b, table, stride, x_start, b, b_start, out)
    names = [*ROW, "out"]

    def codegen(context, builder, signature, args):
        loop = VectorLoop(context, builder, signature, args, names, b.dtype)
        loop.run(lambda i: loop.store(_residual(loop, i), "out", i))
        return context.get_dummy_value()

    return signature, codegen


@subroutine(nogil=True)
def row_factors(table_z, table_y, k, j, factors):
    """Set the weights of the nine rows around row (k, j) of the tables: Kz My + Mz Ky, then Mz My."""
    for dz in range(3):
        kz, mz = table_z[STIFFNESS + dz, k], table_z[MASS + dz, k]
        for dy in range(3):
            ky, my = table_y[STIFFNESS + dy, j], table_y[MASS + dy, j]
            factors[3 * dz + dy] = kz * my + mz * ky
            factors[9 + 3 * dz + dy] = mz * my


@subroutine(nogil=True)
def jacobi_steps(weight, diagonal, count, steps):
    """Set steps = weight / diagonal of A in a row, and 0 at fixed nodes, whose rows of A are zero."""
    for i in range(count):
        if diagonal[i] > 0:
            steps[i] = weight / diagonal[i]
        else:
            steps[i] = 0


@subroutine(nogil=True)
def diagonal_row(factors, table_x, x, count, diagonal):
    """Set the diagonal of A in a row from the row's weights."""
    mass, stiffness = table_x[MASS + 1, x : x + count], table_x[STIFFNESS + 1, x : x + count]
    for i in range(count):
        diagonal[i] = factors[4] * mass[i] + factors[13] * stiffness[i]


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
def relax(
    u, below, here, above, pitch, tables, k, j, x, count, b, place, weight, by_cells, sigma, sigma_layout, out, work
):  # fmt: skip
    """Set a row of out = u + weight (b - A u) / diagonal; keep the largest residuals in work[LARGEST].

    below, here, above: places in u of the node before the row, in three planes. k, j, x: places in the tables.
    """
    table_z, table_y, table_x = tables
    steps, diagonal, factors = work[STEPS], work[DIAGONAL], work[FACTORS]
    if by_cells:
        cells = sigma_layout[0] + k * sigma_layout[1] + j * sigma_layout[2] + x
        apply_by_cells(
            u, below, here, above, pitch, tables, k, j, x, count, sigma, cells, sigma_layout[1], sigma_layout[2], work
        )  # fmt: skip
        jacobi_steps(weight, diagonal, count, steps)
        applied, before, result = work[APPLIED], u[here + 1 : here + 1 + count], out[place : place + count]
        target, largest = b[place : place + count], work[LARGEST, 0]
        for i in range(count):
            residual = target[i] - applied[i]
            result[i] = before[i] + steps[i] * residual
            largest = max(largest, abs(residual))
        work[LARGEST, 0] = largest
        return
    known_a, known_b = factors[4], factors[13]
    row_factors(table_z, table_y, k, j, factors)
    if factors[4] != known_a or factors[13] != known_b:
        diagonal_row(factors, table_x, x, count, diagonal)
        jacobi_steps(weight, diagonal, count, steps)
    skip = here % (LINE // u.itemsize)
    combine_rows(
        count + 2 + skip,
        u,
        below - skip,
        here - skip,
        above - skip,
        pitch,
        factors,
        work[SUMS_A],
        work[SUMS_B],
    )
    relax_row(
        count, skip, work[SUMS_A], work[SUMS_B], table_x, table_x.shape[1], x, b, place, steps, u, here + 1, out,
        place, work[LARGEST],
    )  # fmt: skip


@subroutine(nogil=True)
def residual(
    u, below, here, above, pitch, tables, k, j, x, count, b, place, by_cells, sigma, sigma_layout, out, work
):  # fmt: skip
    """Set out = b - A u in a row; the arguments are those of `relax`."""
    table_z, table_y, table_x = tables
    if by_cells:
        cells = sigma_layout[0] + k * sigma_layout[1] + j * sigma_layout[2] + x
        apply_by_cells(
            u, below, here, above, pitch, tables, k, j, x, count, sigma, cells, sigma_layout[1], sigma_layout[2], work
        )  # fmt: skip
        applied, target = work[APPLIED], b[place : place + count]
        for i in range(count):
            out[i] = target[i] - applied[i]
        return
    factors = work[RESIDUAL_FACTORS]
    row_factors(table_z, table_y, k, j, factors)
    skip = here % (LINE // u.itemsize)
    combine_rows(
        count + 2 + skip,
        u,
        below - skip,
        here - skip,
        above - skip,
        pitch,
        factors,
        work[SUMS_A],
        work[SUMS_B],
    )
    residual_row(count, skip, work[SUMS_A], work[SUMS_B], table_x, table_x.shape[1], x, b, place, out)


@subroutine(nogil=True)
def first_steps(tables, k, j, x, count, weight, by_cells, sigma, sigma_layout, work):
    """Set work[STEPS] = weight / diagonal of A in a row."""
    table_z, table_y, table_x = tables
    steps, diagonal, factors = work[STEPS], work[DIAGONAL], work[FACTORS]
    if not by_cells:
        known_a, known_b = factors[4], factors[13]
        row_factors(table_z, table_y, k, j, factors)
        if factors[4] == known_a and factors[13] == known_b:
            return
        diagonal_row(factors, table_x, x, count, diagonal)
    else:
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
    jacobi_steps(weight, diagonal, count, steps)
