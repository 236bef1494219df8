"""Fused passes of the projections: divergences, gradients of what Poisson problems give, and corrections.

Fields are the flat memory of a `BlockArray`; a `layout` is its origin, plane pitch and row pitch. Velocities are
given along (z, y, x). `tables` are float arrays [rows, n] of one axis each, in the order (z, y, x), made by
`projection.py`.
"""

from __future__ import annotations

from numba import int64, types

from ridgeline.jit.kernel import kernel, subroutine

# Rows of the table of an axis, for nodes: a derivative takes the left cell times SLOPE_LEFT less the right one times
# SLOPE_RIGHT, and an integral over the two half cells takes them times HALF_LEFT and HALF_RIGHT.
SLOPE_LEFT, SLOPE_RIGHT, HALF_LEFT, HALF_RIGHT = range(4)
# Rows of the table of an axis, for cells: 1 / width, and 1 / distance of the centres around the lower face.
PER_WIDTH, PER_DISTANCE = range(2)


def _three(T):
    return types.UniTuple(T[::1], 3)


def _tables(T):
    return types.UniTuple(T[:, ::1], 3)


@subroutine(nogil=True)
def add_four_rows(field, place, plane, pitch, f00, f01, f10, f11, count, out):
    """Add four rows of cells, those around a row of nodes of which `place` is in the upper one, to `out`."""
    r11, r10 = field[place : place + count], field[place - pitch : place - pitch + count]
    place -= plane
    r01, r00 = field[place : place + count], field[place - pitch : place - pitch + count]
    for i in range(count):
        out[i] += (f00 * r00[i] + f01 * r01[i]) + (f10 * r10[i] + f11 * r11[i])


@kernel(lambda T: (_three(T), int64[::1], _tables(T), int64[::1], T[::1], int64[::1], T[:, ::1]), nogil=True)
def set_nodal_divergence(velocity, layout, tables, shape, out, out_layout, work):
    """Set out at the owned nodes to the integral of velocity . grad w, less what flows in through the sides.

    Words per node: reads 3, writes 1. The first ghosts of the velocity must be filled.
    """
    along_z, along_y, along_x = velocity
    tz, ty, tx = tables
    count = shape[2]
    normal, along = work[0], work[1]
    for k in range(shape[0]):
        for j in range(shape[1]):
            place = layout[0] + k * layout[1] + j * layout[2] - 1
            for i in range(count + 1):
                normal[i] = 0
                along[i] = 0
            zl, zr, yl, yr = tz[HALF_LEFT, k], tz[HALF_RIGHT, k], ty[HALF_LEFT, j], ty[HALF_RIGHT, j]
            add_four_rows(
                along_x, place, layout[1], layout[2], zl * yl, zl * yr, zr * yl, zr * yr, count + 1, normal
            )
            sl, sr = ty[SLOPE_LEFT, j], -ty[SLOPE_RIGHT, j]
            add_four_rows(
                along_y, place, layout[1], layout[2], zl * sl, zl * sr, zr * sl, zr * sr, count + 1, along
            )
            sl, sr = tz[SLOPE_LEFT, k], -tz[SLOPE_RIGHT, k]
            add_four_rows(
                along_z, place, layout[1], layout[2], sl * yl, sl * yr, sr * yl, sr * yr, count + 1, along
            )
            start = out_layout[0] + k * out_layout[1] + j * out_layout[2]
            target = out[start : start + count]
            slope_left, slope_right = tx[SLOPE_LEFT, :count], tx[SLOPE_RIGHT, :count]
            half_left, half_right = tx[HALF_LEFT, :count], tx[HALF_RIGHT, :count]
            for i in range(count):
                across = slope_left[i] * normal[i] - slope_right[i] * normal[i + 1]
                target[i] = across + (half_left[i] * along[i] + half_right[i] * along[i + 1])


@kernel(
    lambda T: (T[::1], int64[::1], _tables(T), int64[::1], T, _three(T), int64[::1], T[:, ::1]), nogil=True
)
def add_cell_gradient(phi, phi_layout, tables, shape, factor, fields, layout, work):
    """Add factor times the mean of grad phi over each owned cell to three fields, along (z, y, x).

    Words per cell: reads 4, writes 3. The first ghosts of phi at the upper ends must be filled.
    """
    tz, ty, tx = tables
    count = shape[2]
    sums, across_z, across_y = work[0], work[1], work[2]
    for k in range(shape[0]):
        for j in range(shape[1]):
            place = phi_layout[0] + k * phi_layout[1] + j * phi_layout[2]
            p00, p01 = (
                phi[place : place + count + 1],
                phi[place + phi_layout[2] : place + phi_layout[2] + count + 1],
            )
            place += phi_layout[1]
            p10, p11 = (
                phi[place : place + count + 1],
                phi[place + phi_layout[2] : place + phi_layout[2] + count + 1],
            )
            for i in range(count + 1):
                low, high = p00[i] + p01[i], p10[i] + p11[i]
                sums[i] = low + high
                across_z[i] = high - low
                across_y[i] = (p01[i] - p00[i]) + (p11[i] - p10[i])
            place = layout[0] + k * layout[1] + j * layout[2]
            per_z, per_y = factor * tz[PER_WIDTH, k] / 4, factor * ty[PER_WIDTH, j] / 4
            per_x = tx[PER_WIDTH, :count]
            z, y, x = (
                fields[0][place : place + count],
                fields[1][place : place + count],
                fields[2][place : place + count],
            )
            for i in range(count):
                z[i] += per_z * (across_z[i] + across_z[i + 1])
            for i in range(count):
                y[i] += per_y * (across_y[i] + across_y[i + 1])
            for i in range(count):
                x[i] += factor / 4 * per_x[i] * (sums[i + 1] - sums[i])


@kernel(lambda T: (_three(T), int64[::1], _tables(T), int64[::1], T, T[::1], int64[::1]), nogil=True)
def set_face_divergence(faces, layout, tables, shape, factor, out, out_layout):
    """Set out at the owned cells to factor times the divergence of the velocities at faces.

    Words per cell: reads 3, writes 1.
    """
    tz, ty, tx = tables
    plane, pitch, count = layout[1], layout[2], shape[2]
    for k in range(shape[0]):
        for j in range(shape[1]):
            place = layout[0] + k * plane + j * pitch
            z, above = faces[0][place : place + count], faces[0][place + plane : place + plane + count]
            y, behind = faces[1][place : place + count], faces[1][place + pitch : place + pitch + count]
            x = faces[2][place : place + count + 1]
            per_z, per_y, per_x = tz[PER_WIDTH, k], ty[PER_WIDTH, j], tx[PER_WIDTH, :count]
            start = out_layout[0] + k * out_layout[1] + j * out_layout[2]
            target = out[start : start + count]
            for i in range(count):
                across = (above[i] - z[i]) * per_z + (behind[i] - y[i]) * per_y
                target[i] = factor * (across + (x[i + 1] - x[i]) * per_x[i])


@kernel(lambda T: (T[::1], int64[::1], _tables(T), int64[::1], _three(T), int64[::1]), nogil=True)
def subtract_face_gradient(phi, phi_layout, tables, shape, faces, layout):
    """Subtract the gradient of phi from the velocities at the faces of the owned cells, the last faces included.

    Words per cell: reads 4, writes 3. The first ghosts of phi must be filled; the last face of each axis is
    computed by both neighbours from the same numbers.
    """
    tz, ty, tx = tables
    plane, pitch, count = phi_layout[1], phi_layout[2], shape[2]
    for k in range(shape[0] + 1):
        for j in range(shape[1] + 1):
            here = phi_layout[0] + k * plane + j * pitch
            place = layout[0] + k * layout[1] + j * layout[2]
            if j < shape[1]:
                low, high, z = phi[here - plane : here - plane + count], phi[here : here + count], faces[0]
                target, per = z[place : place + count], tz[PER_DISTANCE, k]
                for i in range(count):
                    target[i] -= per * (high[i] - low[i])
            if k < shape[0]:
                low, high, y = phi[here - pitch : here - pitch + count], phi[here : here + count], faces[1]
                target, per = y[place : place + count], ty[PER_DISTANCE, j]
                for i in range(count):
                    target[i] -= per * (high[i] - low[i])
            if k < shape[0] and j < shape[1]:
                row, target = phi[here - 1 : here + count + 1], faces[2][place : place + count + 1]
                per_x = tx[PER_DISTANCE, : count + 1]
                for i in range(count + 1):
                    target[i] -= per_x[i] * (row[i + 1] - row[i])
