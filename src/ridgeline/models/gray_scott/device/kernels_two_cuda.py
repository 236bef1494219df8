"""Two steps of Gray-Scott in one launch on NVIDIA GPUs: memory is read and written once for both.

    sweep = make_two_step_sweep(dtype, row_pitch, tile, generator, cut)
    launch = two_step_launch(box, y_offset, tile, multiprocessors)
    sweep[launch.grid, launch.block, stream](
        u, v, (origin, plane_pitch), shape_global, place, launch.planes, rings, step, key, coefficients, out_u, out_v)

advances the cells of a box from (u, v) at time step `step` to (out_u, out_v) at `step + 2`. The bits are those of two
launches of the sweep in `kernels_cuda`, and so are the arguments, but for these:

- place = (*box, *offset_global), or () where one block is the whole grid, which saves arguments.
- rings: the grid's extent in each periodic direction, otherwise 0.
- cut: for each direction, whether other ranks have a part of it. Along a direction that is cut a box may have any
  cells, and u and v hold valid ghosts: of faces in two layers, of edges in one. Along the others a box has all cells,
  and ghosts are as the sweep of one step needs and leaves them: one layer, of faces only. Launches of one and of two
  steps may therefore follow each other.

A thread block has a tile of 4 `along_y` rows of `along_x` cells. Plane by plane it computes the first of the two
steps there ("the step between"), and the second step on those cells whose neighbours it has. Beyond a cut it computes
the step between for ghosts, as their owner does. Beyond a periodic boundary of its own block it computes the cells at
the other end again; the threads of the tile are placed where those lie. Beyond a fixed boundary ghosts stay what they
are.

A thread takes the four rows of an aligned group at one x in both steps, and each step draws one Philox block for
them. It marches in z with three planes of its column of the present fields in registers, and three of the step
between. Planes of the step between also lie in shared memory, in two buffers by turns: one barrier a plane.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.blocks.overlap import CellRange
from ridgeline.jit.cuda_device import barrier, device_function, kernel, load, store
from ridgeline.jit.cuda_random import how_drawn, numbers
from ridgeline.jit.random import PHILOX_7, WORDS, Generator
from ridgeline.models.gray_scott.device.kernels_cuda import (
    BoxLaunch,
    DeviceKernel,
    column,
    planes_of_chunks,
    points,
    put,
    store_column,
)
from ridgeline.models.gray_scott.physics import Coefficients
from ridgeline.parallel.partition import Triple

SHARED_BYTES = 48 * 1024  # of a thread block that does not ask for more


class TwoStepTile(NamedTuple):
    """Threads of a thread block, which change nothing but the speed."""

    along_x: int  # cells of a row, two of which are not of the second step
    along_y: int  # groups of four rows, at least 3; one group's worth of rows is not of the second step
    blocks: int = 1  # that fit on a multiprocessor

    @property
    def written(self) -> tuple[int, int]:
        """Rows, and cells of each, to which a thread block brings the second step."""
        return WORDS * (self.along_y - 1), self.along_x - 2

    @property
    def between(self) -> int:
        """Cells of a field in shared memory: two planes, between rows that no result depends on."""
        return 2 * self.along_x * (WORDS * self.along_y + 1)

    def shared_bytes(self, dtype: DTypeLike) -> int:
        """Return the shared memory of a thread block; SHARED_BYTES is the most that it can have."""
        return 2 * self.between * np.dtype(dtype).itemsize


def default_tile(dtype: DTypeLike, shape: Triple) -> TwoStepTile:
    """Return the tile for fields of `dtype`, no larger than a box of `shape` can use."""
    _, ny, nx = shape
    along_x, along_y, blocks = 32, 8 if np.dtype(dtype) == np.float64 else 10, 2
    narrow = 1 << (nx + 1).bit_length()
    return TwoStepTile(min(along_x, narrow), min(along_y, -(-ny // WORDS) + 2), blocks)


def two_step_launch(
    box: CellRange, y_offset: int, tile: TwoStepTile, multiprocessors: int, waves: int = 1
) -> BoxLaunch:
    """Return how to launch the sweep over a box that is not empty; y_offset is the global y of local row 0.

    Tiles are counted from the end: the last one has the box's last group, and one more for the row behind it.
    waves: how often thread blocks fill the device, at least, so that other streams get their turn.
    """
    z0, z1, y0, y1, x0, x1 = box
    rows, cells = tile.written
    behind = -(-(y1 + y_offset) // WORDS) * WORDS
    columns, tiles = -(-(x1 - x0) // cells), -(-(behind + WORDS - 1 - y0 - y_offset) // rows)
    device = multiprocessors * tile.blocks
    least = -(-waves * device // (columns * tiles)) if waves > 1 else 1
    planes = planes_of_chunks(z1 - z0, columns * tiles, device, beyond=2, least=least)
    return BoxLaunch((columns, tiles, -(-(z1 - z0) // planes)), (tile.along_x, tile.along_y, 1), planes)


def bytes_per_cell(tile: TwoStepTile, planes: int, dtype: DTypeLike) -> float:
    """Return the memory traffic of two steps on large grids, in bytes a cell, if no cell is found in a cache twice.

    A tile reads one more cell all around and two more planes at both ends of the `planes` that it marches through.
    It writes what is left when two cells are cut from each side of what it reads; rows in whole groups.
    """
    rows, cells = tile.written
    read = (WORDS * tile.along_y + 2) * (tile.along_x + 2) * (planes + 4) / planes
    return 2.0 * np.dtype(dtype).itemsize * (read / (rows * cells) + 1)


@device_function
def _area(place, shape):
    """Return the box, and the global index of local cell 0."""
    if len(place) == 0:
        return 0, shape[0], 0, shape[1], 0, shape[2], 0, 0, 0
    return place


@device_function
def _place(row, ny, periodic):
    """Return (j, row, rows) of a thread's four rows in the tile's order, the first of which is `row`.

    j says which rows of the grid they are, row is the tile's row of that at j, and rows is how many of them belong to
    no other thread. They have 32 bits, like all that a thread keeps on its march, and take one register instead of
    two.
    """
    if not periodic:
        return np.int32(min(max(row, -WORDS), ny)), np.int32(row), np.int32(WORDS)
    j = row
    if row < 0:
        j = (ny - 1) // WORDS * WORDS
        row = j - ny
    elif row >= ny:
        j, row = 0, ny
    return np.int32(j), np.int32(row), np.int32(min(WORDS, ny - j))


@device_function
def _column_of(i, nx, periodic):
    """Return the x of the cells of a thread that is at x = i in the tile's order."""
    if not periodic:
        return np.int32(min(i, nx))
    return np.int32(nx - 1 if i < 0 else (i if i < nx else 0))


@device_function
def _kept(outside, j, ny, present, new):
    """Return a column of the step between, where ghosts beyond a fixed boundary keep what they are."""
    if not outside and j >= 0 and j + WORDS <= ny:
        return new
    return (
        present[0] if outside or j < 0 or j >= ny else new[0],
        present[1] if outside or j < -1 or j >= ny - 1 else new[1],
        present[2] if outside or j < -2 or j >= ny - 2 else new[2],
        present[3] if outside or j < -3 or j >= ny - 3 else new[3],
    )


@device_function
def _followed(values, rows, north):
    """Return a column with `north` behind its first `rows` cells, where the grid's last group is not whole."""
    return (
        values[0],
        north if rows == 1 else values[1],
        north if rows == 2 else values[2],
        north if rows == 3 else values[3],
    )


@device_function
def _share(between, at, pitch, rows, values):
    """Store the first `rows` of four values into a plane of the tile."""
    if rows > 0:
        store(between, at, values[0])
    if rows > 1:
        store(between, at + pitch, values[1])
    if rows > 2:
        store(between, at + 2 * pitch, values[2])
    if rows > 3:
        store(between, at + 3 * pitch, values[3])


@cache
def make_two_step_sweep(
    dtype: DTypeLike,
    row_pitch: int,
    tile: TwoStepTile,
    generator: Generator = PHILOX_7,
    cut: tuple[bool, bool, bool] = (False, False, False),
) -> DeviceKernel:
    """Return the sweep (see the module) for fields of `dtype` whose rows lie `row_pitch` cells apart.

    What depends on `cut` is compiled only where it is needed: each thread has all the registers that there are.
    """
    real, drawn, pitch = np.dtype(dtype).type, how_drawn(dtype, generator), row_pitch
    along_x, along_y, blocks = tile
    rows_written, cells_written = tile.written
    cells = WORDS * along_x * along_y  # of a plane of the tile
    both = tile.between
    cut_z, cut_y, cut_x = cut

    @kernel(along_x * along_y, blocks)
    def sweep(u, v, layout, shape, place, planes, rings, step, key, coefficients, out_u, out_v):
        between_u = cuda.shared.array(both, real)  # a line each: the simulator knows them by their lines
        between_v = cuda.shared.array(both, real)
        origin, plane = layout
        nz, ny, nx = shape
        z0, z1, begin_y, end_y, x0, x1, oz, oy, ox = _area(place, shape)
        wrap = 0 if cut_z else rings[0], 0 if cut_y else rings[1], 0 if cut_x else rings[2]
        du, dv, feed, loss, noise, dt = coefficients
        c = Coefficients(du, dv, feed, loss, noise, dt, real(1.0), real(-6.0))
        # Where the thread is in the tile's order, the grid's (x, j) whose cells it has, and where these are stored:
        # all differ beyond a periodic end. Rows are global ones, since groups are aligned to those.
        first_row = -(-(end_y + oy) // WORDS) * WORDS - (cuda.gridDim.y - cuda.blockIdx.y) * rows_written
        i = np.int32(x0 + cuda.blockIdx.x * cells_written + cuda.threadIdx.x - 1)
        j, row, rows = _place(first_row + WORDS * cuda.threadIdx.y, ny, rings[1] > 0)
        x, outside = _column_of(i + ox, nx, rings[2] > 0), rings[2] == 0 and (i + ox < 0 or i + ox >= nx)
        base = (
            origin
            + (min(max(row - oy, -WORDS), end_y) if cut_y else j) * pitch
            + (min(i, x1) if cut_x else x)
        )
        draw_x, draw_group = (
            np.uint32(max(x, 0)),
            np.uint32(max(j, 0) // WORDS),
        )  # no cell keeps what ghosts beyond a fixed boundary draw
        # In shared memory, and what of the second step is this thread's.
        slot = np.int32((row - first_row + 1) * along_x + cuda.threadIdx.x)
        inner = cuda.threadIdx.x > 0 and cuda.threadIdx.x < along_x - 1 and i < x1
        y0 = np.int32(max(first_row + WORDS - 1, begin_y + oy))
        y1 = np.int32(min(first_row + WORDS * along_y - 1, end_y + oy))
        mine = inner and row < y1 and row + rows > y0
        at_edge = (wrap[2] > 0 and (i == 0 or i == nx - 1)) or (wrap[1] > 0 and (j == 0 or j + WORDS >= ny))
        plain = row >= y0 and row + WORDS <= y1 and not at_edge

        begin = z0 + cuda.blockIdx.z * planes
        end = min(begin + planes, z1)
        k = begin - 1
        at = base + ((nz - 1) * plane if k < 0 and wrap[0] > 0 else k * plane)
        below = at if k < 0 and wrap[0] == 0 and not cut_z else at - plane
        u_b, v_b = column(u, below, pitch), column(v, below, pitch)
        u_c, v_c = column(u, at, pitch), column(v, at, pitch)
        m_b, m_c, n_b, n_c = u_c, u_c, v_c, v_c
        now = 0  # where the present plane of the step between begins
        while k <= end:
            z = k + oz
            if rings[0] > 0 and (z < 0 or z >= nz):
                z = nz - 1 if z < 0 else 0
            ahead = at + plane
            if not cut_z:
                # The first plane itself and not its ghosts: these lack the row behind the last, a neighbour of that.
                ahead = base if z == nz - 1 and wrap[0] > 0 else (at if z == nz else ahead)
            u_a, v_a = column(u, ahead, pitch), column(v, ahead, pitch)
            u_s, v_s = load(u, at - pitch), load(v, at - pitch)
            u_n, v_n = load(u, at + WORDS * pitch), load(v, at + WORDS * pitch)
            r = numbers(draw_x, draw_group, max(z, 0), step, key, drawn, real)
            m_a, n_a = points(u, v, at, pitch, u_c, v_c, u_s, v_s, u_n, v_n, u_b, v_b, u_a, v_a, r, c)
            beyond = outside or z < 0 or z >= nz
            m_a, n_a = _kept(beyond, j, ny, u_c, m_a), _kept(beyond, j, ny, v_c, n_a)
            _share(between_u, now + slot, along_x, rows, m_a)
            _share(between_v, now + slot, along_x, rows, n_a)
            if k > begin and mine:
                to = base + (k - 1) * plane
                old = cells - now + slot
                m_s, n_s = load(between_u, old - along_x), load(between_v, old - along_x)
                m_n, n_n = load(between_u, old + WORDS * along_x), load(between_v, old + WORDS * along_x)
                if rows < WORDS:
                    m_n, n_n = load(between_u, old + rows * along_x), load(between_v, old + rows * along_x)
                    m_c, n_c = _followed(m_c, rows, m_n), _followed(n_c, rows, n_n)
                r = numbers(draw_x, draw_group, k - 1 + oz, step + 1, key, drawn, real)
                p, q = points(
                    between_u,
                    between_v,
                    old,
                    along_x,
                    m_c,
                    n_c,
                    m_s,
                    n_s,
                    m_n,
                    n_n,
                    m_b,
                    n_b,
                    m_a,
                    n_a,
                    r,
                    c,
                )
                if not plain or k == 1 or k == wrap[0]:
                    put(out_u, out_v, to, p, q, k - 1, j, i, y0, y1, wrap, pitch, plane)
                else:
                    store_column(out_u, to, pitch, p)
                    store_column(out_v, to, pitch, q)
            barrier()
            now = cells - now
            u_b, u_c, v_b, v_c = u_c, u_a, v_c, v_a
            m_b, m_c, n_b, n_c = m_c, m_a, n_c, n_a
            at = ahead
            k += 1

    compiled: DeviceKernel = sweep
    return compiled
