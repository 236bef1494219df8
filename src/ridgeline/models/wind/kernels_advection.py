"""Advection by Godunov's method: face velocities, and the change of a field by the fluxes through the faces.

Both kernels go over tiles of the block. A tile keeps the traced states and the upwind states of its faces in a
workspace that fits into a core's cache, so that fields pass through memory once for each kernel. The states of one
further layer of cells around a tile are computed again by its neighbours.

With dt = 0 the states are those of the present time: the method of lines.

Workspaces have the rows of a tile with one layer around, at [array, cell]; the face of a cell is the lower one.
"""

import numpy as np
from numba import float64, int64, prange, types
from numpy.typing import NDArray

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.models.wind.kernels import (
    FIELD,
    LAYOUT,
    riemann_row,
    side_row,
    trace_row,
    upwind_row,
)
from ridgeline.parallel.partition import Triple

TILE = (8, 8, 64)  # most cells of a tile in z, y and x
FACE_ARRAYS, ADVECTION_ARRAYS = 17, 10  # of a workspace
# Numbers that both kernels read.
RATIOS, PER_WIDTH, HALF_DT, SMALL_SPEED, KEPT, ADDED = 0, 3, 6, 7, 8, 9


def make_tiles(shape: Triple) -> NDArray[np.int64]:
    """Return the tiles of a block, (n, 6): first cells and ends in z, y and x."""
    ranges = [
        [(first, min(first + size, n)) for first in range(0, n, size)]
        for n, size in zip(shape, TILE, strict=True)
    ]
    return np.array([(*z, *y, *x) for z in ranges[0] for y in ranges[1] for x in ranges[2]], np.int64)


def workspace(shape: Triple, arrays: int, n_threads: int) -> NDArray[np.float64]:
    """Return the memory of tiles, (n_threads, arrays, cells)."""
    cells = 1
    for n, size in zip(shape, TILE, strict=True):
        cells *= min(n, size) + 2
    row = min(shape[2], TILE[2]) + 2
    return np.zeros((n_threads, arrays, cells + 2 * row), np.float64)


@subroutine
def bounds_of(tiles, number):
    """Return a tile's first cells and ends in z, y and x."""
    k0, k1, j0, j1, i0, i1 = (
        tiles[number, 0], tiles[number, 1], tiles[number, 2], tiles[number, 3], tiles[number, 4], tiles[number, 5],
    )  # fmt: skip
    return k0, k1, j0, j1, i0, i1


@subroutine
def other_field(axis, turn):
    """Return the first (turn 1) or the second (turn 2) of the velocities that are not the one across an axis."""
    if turn == 1:
        return 1 if axis == 2 else 0
    return 1 if axis == 0 else 2


@subroutine
def trace_tile(axis, q, along, beside, layout, tile, widen, ratio, reconstruction, low, high):
    """Trace the states at both faces across an axis, in the cells of a tile and some of those around it.

    along : the velocities at the lower faces of cells, or in the cells
    beside : between the velocities at a cell's lower and upper face: the pitch of the axis for faces, 0 for cells
    widen : for z and y, whether the layers around the tile are traced as well
    """
    origin, row, plane = layout
    k0, k1, j0, j1, i0, i1 = tile
    ex, ey = i1 - i0 + 2, j1 - j0 + 2
    pitch = plane if axis == 0 else row if axis == 1 else 1
    for k in range(k0 - widen[0], k1 + widen[0]):
        for j in range(j0 - widen[1], j1 + widen[1]):
            w = ((k - k0 + 1) * ey + (j - j0 + 1)) * ex
            at = origin + k * plane + j * row + i0 - 1
            trace_row(
                q,
                at,
                pitch,
                along,
                at,
                along,
                at + beside,
                ratio,
                reconstruction,
                low[w : w + ex],
                high[w : w + ex],
            )


@subroutine
def set_hats(axis, is_normal, q, at, velocity, layout, shape, tile, widen, codes, small, low, high, out):
    """Set the upwind states at the faces of a tile across an axis, from traced states.

    is_normal : whether the field is the velocity across the faces, which then chooses the side itself
    at : which memory velocity is in: 0 a field of the block, 1 the workspace
    widen : for z and y, whether the layers around the tile are wanted as well
    codes : (2,) of the field at the lower and the upper side of this axis, 0 where the block does not touch it
    """
    origin, row, plane = layout
    k0, k1, j0, j1, i0, i1 = tile
    n = i1 - i0 + 2
    ex, ey = n, j1 - j0 + 2
    pitch = plane if axis == 0 else row if axis == 1 else 1
    step = ey * ex if axis == 0 else ex if axis == 1 else 1
    cells = shape[axis]
    for k in range(k0 - widen[0] + (axis == 0), k1 + widen[0]):
        for j in range(j0 - widen[1] + (axis == 1), j1 + widen[1]):
            skip = 1 if axis == 2 else 0
            w = ((k - k0 + 1) * ey + (j - j0 + 1)) * ex + skip
            m = n - skip
            start = origin + k * plane + j * row + i0 - 1 + skip
            left, right, to = high[w - step : w - step + m], low[w : w + m], out[w : w + m]
            if is_normal:
                riemann_row(left, right, small, to)
            elif at:
                upwind_row(velocity[w : w + m], left, right, small, to)
            else:
                upwind_row(velocity[start : start + m], left, right, small, to)
            if axis == 2:
                for last in range(2):
                    face = cells * last
                    if codes[last] and i0 <= face <= i1:
                        here = start + face - i0
                        f = face - i0
                        side_row(
                            codes[last], last, q[here - 1 : here], q[here : here + 1],
                            left[f : f + 1], right[f : f + 1], to[f : f + 1],
                        )  # fmt: skip
            else:
                index = k if axis == 0 else j
                for last in range(2):
                    if codes[last] and index == cells * last:
                        below, above = q[start - pitch : start - pitch + m], q[start : start + m]
                        side_row(codes[last], last, below, above, left, right, to)


@subroutine
def add_transverse(axis, velocity, at, corrected, layout, tile, per_width, hat, out, first):
    """Add the derivative of a field along an axis times the velocity to the change of the tile's cells.

    corrected : the axis whose states are corrected, along which the cells around the tile are wanted as well
    """
    origin, row, plane = layout
    k0, k1, j0, j1, i0, i1 = tile
    n = i1 - i0 + 2
    ex, ey = n, j1 - j0 + 2
    pitch = plane if axis == 0 else row if axis == 1 else 1
    step = ey * ex if axis == 0 else ex if axis == 1 else 1
    m = n - 1 if axis == 2 else n
    # The faces above the outermost layer along the axis are not computed, and nobody needs them.
    for k in range(k0 - (corrected == 0), k1 + (corrected == 0)):
        for j in range(j0 - (corrected == 1), j1 + (corrected == 1)):
            w = ((k - k0 + 1) * ey + (j - j0 + 1)) * ex
            start = origin + k * plane + j * row + i0 - 1
            low, high, to = hat[w : w + m], hat[w + step : w + step + m], out[w : w + m]
            if at:
                here, above = velocity[w : w + m], velocity[w + step : w + step + m]
            else:
                here, above = velocity[start : start + m], velocity[start + pitch : start + pitch + m]
            if first:
                for i in range(m):
                    to[i] = (0.5 * (here[i] + above[i])) * ((high[i] - low[i]) * per_width)
            else:
                for i in range(m):
                    to[i] += (0.5 * (here[i] + above[i])) * ((high[i] - low[i]) * per_width)


@subroutine
def correct_states(axis, tendency, layout, tile, half_dt, change, low, high):
    """Add half_dt (tendency - change) to the traced states of the cells on both sides of a tile's faces."""
    origin, row, plane = layout
    k0, k1, j0, j1, i0, i1 = tile
    n = i1 - i0 + 2
    ex, ey = n, j1 - j0 + 2
    for k in range(k0 - (axis == 0), k1 + (axis == 0)):
        for j in range(j0 - (axis == 1), j1 + (axis == 1)):
            skip = 0 if axis == 2 else 1
            m = n - 2 * skip
            w = ((k - k0 + 1) * ey + (j - j0 + 1)) * ex + skip
            start = origin + k * plane + j * row + i0 - 1 + skip
            force, slow = tendency[start : start + m], change[w : w + m]
            below, above = low[w : w + m], high[w : w + m]
            for i in range(m):
                added = half_dt * (force[i] - slow[i])
                below[i] += added
                above[i] += added


@kernel(
    lambda: (
        *[types.UniTuple(FIELD, 3)] * 2,
        *[LAYOUT] * 2,
        int64[:, :, ::1],
        float64[::1],
        int64,
        int64[:, ::1],
        float64[:, :, ::1],
        types.UniTuple(FIELD, 3),
    ),
    parallel=True,
    nogil=True,
)
def predict_faces(
    velocities, tendencies, layout, shape, codes, numbers, reconstruction, tiles, work, out_faces
):
    """Trace the velocities across faces by half a step, with transverse derivatives and tendencies.

    Parameters
    ----------
    velocities, tendencies : u, v and w, three layers of ghosts filled; one layer of the tendencies
    codes : (3, 3, 2) of each field at both sides of z, y and x: SIDE_VALUE, INSIDE, or 0 where this block has none
    numbers : (10,) dt/width and 1/width in z, y and x, dt/2, the least speed that chooses a side
    tiles : of `make_tiles`; work : `workspace` of FACE_ARRAYS
    out_faces : velocities across the lower faces in z, y and x, of the owned cells and one beyond

    Communication: none.  Cost: 6 values read and 3 written per cell, about 700 flops.
    """
    origin, row, plane = layout
    n_threads = work.shape[0]
    small, half_dt = numbers[SMALL_SPEED], numbers[HALF_DT]
    for thread in prange(n_threads):
        for number in range(thread, tiles.shape[0], n_threads):
            tile = bounds_of(tiles, number)
            k0, k1, j0, j1, i0, i1 = tile
            ex, ey = i1 - i0 + 2, j1 - j0 + 2
            space = work[thread]
            # Arrays: 2 a and 2 a + 1 the traced states of the normal velocity of axis a; 6 + a that velocity at its
            # faces; 9 and 10 those of the other fields; 11 + 2 a the states of both other fields at faces of axis a.
            for axis in range(3):
                along = velocities[2 - axis]
                slot = 11 + 2 * axis
                for turn in range(3):  # the normal velocity first, because it chooses the sides
                    field = 2 - axis if turn == 0 else other_field(axis, turn)
                    low = space[2 * axis] if turn == 0 else space[9]
                    high = space[2 * axis + 1] if turn == 0 else space[10]
                    q = velocities[field]
                    # Another velocity's states correct the faces across its own axis alone.
                    widen = (
                        int(turn == 0 or axis == 0 or field == 2), int(turn == 0 or axis == 1 or field == 1)
                    )  # fmt: skip
                    trace_tile(
                        axis, q, along, 0, layout, tile, widen, numbers[RATIOS + axis], reconstruction, low, high
                    )  # fmt: skip
                    to = space[6 + axis] if turn == 0 else space[slot + turn - 1]
                    set_hats(
                        axis, turn == 0, q, 1, space[6 + axis], layout, shape, tile, widen, codes[field, axis],
                        small, low, high, to,
                    )  # fmt: skip
            for axis in range(3):
                field = 2 - axis
                low, high, change = space[2 * axis], space[2 * axis + 1], space[9]
                first = True
                for other in range(3):
                    if other != axis:
                        # Which of both other fields at those faces is the normal velocity of this axis.
                        second = 1 if other_field(other, 2) == field else 0
                        hat = space[11 + 2 * other + second]
                        add_transverse(
                            other, space[6 + other], 1, axis, layout, tile, numbers[PER_WIDTH + other], hat, change,
                            first,
                        )  # fmt: skip
                        first = False
                correct_states(axis, tendencies[field], layout, tile, half_dt, change, low, high)
                to = space[10]
                set_hats(
                    axis, True, velocities[field], 1, to, layout, shape, tile, (int(axis == 0), int(axis == 1)),
                    codes[field, axis], small, low, high, to,
                )  # fmt: skip
                faces = out_faces[axis]
                for k in range(k0, k1 + (axis == 0)):
                    for j in range(j0, j1 + (axis == 1)):
                        w = ((k - k0 + 1) * ey + (j - j0 + 1)) * ex + 1
                        at = origin + k * plane + j * row + i0
                        m = i1 - i0 + (axis == 2)
                        result, target = to[w : w + m], faces[at : at + m]
                        for i in range(m):
                            target[i] = result[i]


@kernel(
    lambda: (
        *[FIELD] * 2,
        types.UniTuple(FIELD, 3),
        *[LAYOUT] * 2,
        int64[:, ::1],
        float64[::1],
        int64,
        int64[:, ::1],
        float64[:, :, ::1],
        FIELD,
    ),
    parallel=True,
    nogil=True,
)
def advect(q, tendency, faces, layout, shape, codes, numbers, reconstruction, tiles, work, out):
    """out = kept q + added (tendency - div(u q)), with q at the faces traced by half a step.

    Parameters
    ----------
    q, tendency : a field with three layers of ghosts filled; one layer of the tendency
    faces : velocities across the lower faces in z, y and x, one layer of ghosts filled
    codes : (3, 2) of the field, as in `predict_faces`
    numbers : (10,) as in `predict_faces`, kept and added
    tiles : of `make_tiles`; work : `workspace` of ADVECTION_ARRAYS

    Communication: none.  Cost: 5 values read and 1 written per cell, about 300 flops.
    """
    origin, row, plane = layout
    n_threads = work.shape[0]
    small, half_dt, kept, added = numbers[SMALL_SPEED], numbers[HALF_DT], numbers[KEPT], numbers[ADDED]
    per_z, per_y, per_x = numbers[PER_WIDTH], numbers[PER_WIDTH + 1], numbers[PER_WIDTH + 2]
    for thread in prange(n_threads):
        for number in range(thread, tiles.shape[0], n_threads):
            tile = bounds_of(tiles, number)
            k0, k1, j0, j1, i0, i1 = tile
            ex, ey = i1 - i0 + 2, j1 - j0 + 2
            space = work[thread]
            # Arrays: 2 a and 2 a + 1 the traced states of axis a; 6 + a the upwind states there; 9 the change.
            for axis in range(3):
                pitch = plane if axis == 0 else row if axis == 1 else 1
                low, high, along = space[2 * axis], space[2 * axis + 1], faces[axis]
                trace_tile(
                    axis, q, along, pitch, layout, tile, (1, 1), numbers[RATIOS + axis], reconstruction, low, high
                )  # fmt: skip
                set_hats(
                    axis, False, q, 0, along, layout, shape, tile, (1, 1), codes[axis], small, low, high,
                    space[6 + axis],
                )  # fmt: skip
            for axis in range(3):
                low, high, change = space[2 * axis], space[2 * axis + 1], space[9]
                first = True
                for other in range(3):
                    if other != axis:
                        add_transverse(
                            other, faces[other], 0, axis, layout, tile, numbers[PER_WIDTH + other], space[6 + other],
                            change, first,
                        )  # fmt: skip
                        first = False
                correct_states(axis, tendency, layout, tile, half_dt, change, low, high)
            for axis in range(3):
                low, high = space[2 * axis], space[2 * axis + 1]
                # The states at the faces go where the upwind states were, which are not needed any more.
                set_hats(
                    axis, False, q, 0, faces[axis], layout, shape, tile, (int(axis == 0), int(axis == 1)),
                    codes[axis], small, low, high, space[6 + axis],
                )  # fmt: skip
            for k in range(k0, k1):
                for j in range(j0, j1):
                    w = ((k - k0 + 1) * ey + (j - j0 + 1)) * ex + 1
                    at, m = origin + k * plane + j * row + i0, i1 - i0
                    sz, sz2 = space[6, w : w + m], space[6, w + ey * ex : w + ey * ex + m]
                    sy, sy2 = space[7, w : w + m], space[7, w + ex : w + ex + m]
                    sx, sx2 = space[8, w : w + m], space[8, w + 1 : w + 1 + m]
                    fz, fz2 = faces[0][at : at + m], faces[0][at + plane : at + plane + m]
                    fy, fy2 = faces[1][at : at + m], faces[1][at + row : at + row + m]
                    fx, fx2 = faces[2][at : at + m], faces[2][at + 1 : at + 1 + m]
                    here, force, to = q[at : at + m], tendency[at : at + m], out[at : at + m]
                    for i in range(m):
                        change = -(fz2[i] * sz2[i] - fz[i] * sz[i]) * per_z
                        change -= (fy2[i] * sy2[i] - fy[i] * sy[i]) * per_y
                        change -= (fx2[i] * sx2[i] - fx[i] * sx[i]) * per_x
                        to[i] = kept * here[i] + added * (change + force[i])
