"""The sweep on CPUs: one fused pass over the fields of a block, one or several time steps at a time.

    sweep = make_sweep(rule, generator, n_threads > 1)
    scratch = make_scratch(dtype, n_fields, shape_local, steps, tile_rows, n_threads)
    team = make_barrier(n_threads)
    sweep(fields, layout, boxes, offset_global, shape_global, periodic, step, steps, sweeps,
          keys, coefficients, sides, tile_rows, streaming, n_threads, team, scratch, out)

advances the cells of some boxes from `fields` at time step `step` to `out` at `step + steps`. What it computes in a
cell is the `CellRule`, which reads the cell and its six neighbours. With sweeps > 1 the next one goes from `out` to
`fields`, and so on; team[0, MADE] then says how many were made, which are fewer if the call takes LONGEST_CALL.

- fields, out: tuples of `BlockArray.flat` of one layout, float64 or float32. Fields hold valid ghosts `steps` wide
  around the box, edges and corners included if steps > 1, except those that the sweep sets itself, just before it
  reads them: those beyond sides that are not periodic, and those of directions that are whole rings (periodic, the
  box as long as the grid). In z it reads the planes at the other end instead. Nothing else outside the boxes is
  written, so that boxes may be swept while the ghosts of others are still on the way.
- layout = (origin, row_pitch, plane_pitch) of all arrays; origin is the first element of a cache line.
- boxes: (n, 6) int64, local cells z0 <= k < z1, y0 <= j < y1, x0 <= i < x1 of each. Several sweeps need one box, all
  cells of a block without neighbours on other ranks. The fastest boxes have global y0 and y1 that are multiples of 8,
  and x0 and x1 that are multiples of a vector.
- offset_global: global index (z, y, x) of local cell 0; shape_global; periodic: three bools.
- generator: of the noise; keys: `random.round_keys(seed, generator.rounds)` of each noisy field, one after the other,
  or None for no noise (these are two compilations).
- coefficients: (steps, rule.coefficients), those of each step of every sweep, in the precision of the fields.
- sides: a plain tuple of `Sides`, the ghosts beyond sides that are not periodic.
- tile_rows, a multiple of 4 (best of 8), and streaming (stores bypass the caches): see `tiling`; they change nothing
  but the speed.
- n_threads: threads that share a box, at most `numba.get_num_threads()`. They wait for each other between sweeps.

A cell's new value is the same bit for bit for any box, alignment, thread count, vector width, tile and number of
fused steps, because the same expressions are always evaluated in the same order. Fused multiply-adds are only where
the rule has them, and random numbers are drawn by global index.

Loops: a thread takes a range of planes (or of rows, if there are few planes) and cuts it into tiles of rows. It runs
through the planes of each tile, so that three planes of a tile stay in the second-level cache. With steps = S > 1 the
front is followed by S - 1 more planes, each one step further and one plane behind. Their intermediate values are kept
in rings of three planes in `scratch`. Each tile computes the S - s cells around it that step s needs a second time
(overlapped wavefront blocking; Wellein et al., COMPSAC 2009).
"""

from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import boolean, int64, prange, types, uint64
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.sweep_rows import CellRule, row_functions
from ridgeline.jit.barrier import SPARE, monotonic_seconds, wait_for_team
from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.jit.llvm import host_vector_bytes, store_fence
from ridgeline.jit.random import PHILOX_7, Generator
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.aligned import CACHE_LINE, aligned_zeros

PREFETCH_ROWS = 2  # rows ahead, in the next plane
LONGEST_CALL = 0.02  # seconds after which no further sweep of a call begins
# What a call keeps beside the count of its first thread: whether it ends, and the sweeps that were made.
STOPS, MADE = SPARE, SPARE + 2
RING = 3  # planes of an intermediate step that the next one reads

Flat = NDArray[np.generic]  # `BlockArray.flat`


class Sides(NamedTuple):
    """Ghosts beyond sides z-, z+, y-, y+, x-, x+ that are not periodic: a + b * (the cell inside), or a if b is 0.

    Attributes
    ----------
    values : flat array of all a, in the precision of the fields
    places : (n_fields, 6, 4) int64, where a is in `values`: that of local cell 0 in the first step of a sweep, and
        distances between steps, between rows of the side and between the cells of a row. A row is along the last of
        the two directions of the side, in the order z, y, x. Distances of 0 stand for what does not vary. -1 is for
        sides whose ghosts are not read
    weights : (n_fields, 6), all b
    """

    values: NDArray[Any]
    places: NDArray[np.int64]
    weights: NDArray[Any]


class Sweep(Protocol):
    """A compiled sweep. The docstring of this file says what its arguments are."""

    def __call__(
        self,
        fields: tuple[Flat, ...],
        layout: Triple,
        boxes: NDArray[np.int64],
        offset_global: Triple,
        shape_global: Triple,
        periodic: tuple[bool, bool, bool],
        step: int,
        steps: int,
        sweeps: int,
        keys: NDArray[np.uint64] | None,
        coefficients: NDArray[Any],
        sides: tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]],
        tile_rows: int,
        streaming: bool,
        n_threads: int,
        team: NDArray[np.int64],
        scratch: tuple[Flat, ...],
        out: tuple[Flat, ...],
        /,
    ) -> None: ...


@subroutine
def _inside(i, n):
    """Return the global index of a cell up to one period outside."""
    return i + n if i < 0 else (i - n if i >= n else i)


@subroutine
def _set_side(flat, ghost, inside, count, sides, field, side, step, row, first):
    """Set `count` ghosts beyond a side from the cells inside; row, first: of the first one, as in `Sides.places`."""
    values, places, weights = sides
    where, weight = places[field, side], weights[field, side]
    if where[0] < 0:
        return
    at, pitch = where[0] + step * where[1] + row * where[2] + first * where[3], where[3]
    for i in range(count):
        value = values[at + i * pitch]
        flat[ghost + i] = value if weight == 0 else value + weight * flat[inside + i]


@subroutine
def _copy_ghosts(flat, first, last, width):
    """Set `width` periodic ghosts at both ends of the row flat[first:last]."""
    for n in range(width):
        flat[first - 1 - n] = flat[last - 1 - n]
        flat[last + n] = flat[first + n]


@subroutine
def _copy_rows(flat, plane, pitch, ny, first, last, width, before, behind):
    """Set `width` periodic ghost rows of a plane before its first row, and behind its last one."""
    for n in range(width):
        if before:
            ghost, row = plane - (n + 1) * pitch, plane + (ny - 1 - n) * pitch
            for i in range(first, last):
                flat[ghost + i] = flat[row + i]
        if behind:
            ghost, row = plane + (ny + n) * pitch, plane + n * pitch
            for i in range(first, last):
                flat[ghost + i] = flat[row + i]


@subroutine
def _share(first, last, part, parts, unit, offset):
    """Return part `part` of the range, cut where the global index (local + offset) is a multiple of `unit`."""
    n = last - first
    a = first + n * part // parts
    b = first + n * (part + 1) // parts
    if part > 0:
        a = max(first, (a + offset) // unit * unit - offset)
    if part < parts - 1:
        b = max(first, (b + offset) // unit * unit - offset)
    return a, b


def _signature(T: Any, n_fields: int, noisy: bool) -> tuple[Any, ...]:
    """Return the types of a sweep's arguments, with or without noise."""
    triple, flags = types.UniTuple(int64, 3), types.UniTuple(boolean, 3)
    keys = uint64[:, ::1] if noisy else types.none
    fields = types.UniTuple(T[::1], n_fields)
    where = (triple, int64[:, ::1], triple, triple, flags, int64, int64, int64)
    sides = types.Tuple((T[::1], int64[:, :, ::1], T[:, ::1]))
    how = (int64, boolean, int64, int64[:, ::1])
    return (fields, *where, keys, T[:, ::1], sides, *how, fields, fields)


@cache
def make_sweep(
    rule: CellRule, generator: Generator = PHILOX_7, threaded: bool = True, vector_bytes: int = 0
) -> Sweep:
    """Return the compiled sweep (see the module) for vectors of 16, 32 or 64 bytes; 0: this CPU's.

    threaded: whether it starts a parallel region, which takes some 20 microseconds; otherwise n_threads must be 1.
    """
    vector_bytes = vector_bytes or host_vector_bytes()
    groups_streaming, groups_ordinary, long_row, short_row = (
        f"{kind} {vector_bytes} {generator.name}" for kind in ("streaming", "ordinary", "long", "short")
    )
    served = generator.rows
    update_row_groups, update_one_row = row_functions(rule)
    n_fields = len(rule.stencil)

    # What is inlined here, into one kernel for one thread and one for several, is compiled once.
    @subroutine(inline="always")
    def sweep_box(
        thread,
        fields,
        layout,
        box,
        offset_global,
        shape_global,
        periodic,
        step,
        steps,
        keys,
        coefficients,
        sides,
        tile_rows,
        streaming,
        n_threads,
        scratch,
        out,
    ):
        origin, row_pitch, plane_pitch = layout
        z0, z1, y0, y1, x0, x1 = box[0], box[1], box[2], box[3], box[4], box[5]
        oz, oy, ox = offset_global
        nz, ny, nx = shape_global
        pz, py, px = periodic
        lanes = vector_bytes // fields[0].itemsize
        line = CACHE_LINE // fields[0].itemsize
        by_planes = z1 - z0 >= 2 * n_threads
        halo = steps - 1
        # Whole rings: their ghosts are copies.
        ring_z, ring_y, around = pz and z1 - z0 == nz, py and y1 - y0 == ny, px and x1 - x0 == nx
        # Scratch rows run over the box and its halo, aligned as the fields are.
        x_first = (x0 - halo) // line * line - line
        scratch_pitch = _scratch_pitch(x0, x1, steps, line)
        scratch_plane = scratch_pitch * (tile_rows + 2 * halo)
        za, zb, ya, yb = z0, z1, y0, y1
        if by_planes:
            za, zb = _share(z0, z1, thread, n_threads, 1, 0)
        else:
            ya, yb = _share(y0, y1, thread, n_threads, 4, oy)
        mine = thread * halo * RING * scratch_plane
        unit = served if tile_rows % served == 0 else 4  # one tile should have all rows of a Philox block
        tile = ya
        while tile < yb and za < zb:
            tile_end = min(yb, (tile + oy + max(4, tile_rows)) // unit * unit - oy)
            for front in range(za - halo, zb + halo):
                for stage in range(steps):
                    k = front - stage
                    grow = halo - stage
                    if k < za - grow or k >= zb + grow or (not pz and not 0 <= k + oz < nz):
                        continue
                    last_stage = stage == halo
                    # Where this stage reads: index of cell (row 0, x 0) of planes k-1, k, k+1.
                    if stage == 0:
                        source, pitch = fields, row_pitch
                        below, centre, above = k - 1, k, k + 1
                        if ring_z:
                            below, centre, above = _inside(below, nz), _inside(centre, nz), _inside(above, nz)
                        below = origin + below * plane_pitch
                        centre = origin + centre * plane_pitch
                        above = origin + above * plane_pitch
                    else:
                        source, pitch = scratch, scratch_pitch
                        ring = mine + (stage - 1) * RING * scratch_plane
                        ring += (halo - tile) * scratch_pitch - x_first
                        below = ring + (k + RING - 1 + halo) % RING * scratch_plane
                        centre = ring + (k + RING + halo) % RING * scratch_plane
                        above = ring + (k + RING + 1 + halo) % RING * scratch_plane
                    if last_stage:
                        target, out_pitch = out, row_pitch
                        into = origin + k * plane_pitch
                    else:
                        target, out_pitch = scratch, scratch_pitch
                        ring = mine + stage * RING * scratch_plane
                        into = ring + (k + RING + halo) % RING * scratch_plane
                        into += (halo - tile) * scratch_pitch - x_first
                    ja, jb, ia, ib = tile - grow, tile_end + grow, x0 - grow, x1 + grow
                    if not py:
                        ja, jb = max(ja, -oy), min(jb, ny - oy)
                    if around:
                        ia, ib = x0, x1
                    if not px:
                        ia, ib = max(ia, -ox), min(ib, nx - ox)
                    beside = 0 if around or halo == 0 else 1
                    # Full vectors free of periodic ghosts are [ma, mb).
                    ma = -(-max(ia, -ox) // lanes) * lanes
                    mb = max(ma, min(ib, nx - ox) // lanes * lanes)
                    if ring_y and stage == 0:
                        # A sweep of one step reads ghost rows of this plane alone. The first of several steps also
                        # updates ghost rows, and thus reads those of the planes on both sides.
                        is_first = k == za - halo or (not pz and k + oz == 0)
                        planes = (centre, below, above)
                        for n in range(1 if halo == 0 else 3):
                            if n == 2 or halo == 0 or is_first:
                                for f in range(n_fields):
                                    _copy_rows(
                                        source[f], planes[n], pitch, ny, ia - beside, ib + beside, steps,
                                        ja <= y0, jb >= y1,
                                    )  # fmt: skip
                    # Ghosts beyond the sides of the grid in z and y, from the cells of this plane.
                    for f in range(n_fields):
                        first, count = centre + ja * pitch + ia, ib - ia
                        if not py and ja + oy == 0:
                            _set_side(source[f], first - pitch, first, count, sides, f, 2, stage, k, ia)
                        if not py and jb + oy == ny:
                            last = centre + jb * pitch + ia
                            _set_side(source[f], last, last - pitch, count, sides, f, 3, stage, k, ia)
                        if not pz and (k + oz == 0 or k + oz == nz - 1):
                            for j in range(ja, jb):
                                i = j * pitch + ia
                                if k + oz == 0:
                                    _set_side(
                                        source[f], below + i, centre + i, count, sides, f, 0, stage, j, ia
                                    )
                                if k + oz == nz - 1:
                                    _set_side(
                                        source[f], above + i, centre + i, count, sides, f, 1, stage, j, ia
                                    )
                    z_global = _inside(k + oz, nz)
                    j = ja
                    while j < jb:
                        y_global = _inside(j + oy, ny)
                        groups = 0
                        if y_global % 4 == 0 and ma < mb:
                            groups = min(jb - j, ny - y_global) // 4
                        rows = max(1, 4 * groups)
                        if around and stage == 0:
                            for f in range(n_fields):
                                for i in range(j, j + rows):
                                    row = centre + i * pitch
                                    _copy_ghosts(fields[f], row + x0, row + x1, 1)
                        if not px:
                            for f in range(n_fields):
                                for i in range(j, j + rows):
                                    row = centre + i * pitch
                                    if ia + ox == 0:
                                        at = row + ia
                                        _set_side(source[f], at - 1, at, 1, sides, f, 4, stage, k, i)
                                    if ib + ox == nx:
                                        at = row + ib
                                        _set_side(source[f], at, at - 1, 1, sides, f, 5, stage, k, i)
                        if groups > 0:
                            ahead = above + (j + PREFETCH_ROWS) * pitch
                            indices = (
                                below + j * pitch, centre + j * pitch, above + j * pitch, pitch,
                                into + j * out_pitch, out_pitch, ma, mb, ahead,
                                ox, y_global, z_global, nx, step + stage, groups, stage,
                            )  # fmt: skip
                            if last_stage and streaming:
                                update_row_groups(
                                    groups_streaming, source, indices, coefficients, keys, target
                                )
                            else:
                                update_row_groups(
                                    groups_ordinary, source, indices, coefficients, keys, target
                                )
                        for i in range(j, j + rows):
                            to = into + i * out_pitch
                            indices = (
                                below + i * pitch, centre + i * pitch, above + i * pitch, pitch,
                                to, out_pitch, ia, ib, 0,
                                ox, y_global + i - j, z_global, nx, step + stage, 0, stage,
                            )  # fmt: skip
                            if groups == 0:
                                update_one_row(long_row, source, indices, coefficients, keys, target)
                            else:
                                for first, last in ((ia, min(ma, ib)), (mb, ib)):
                                    if first < last:
                                        part = (*indices[:6], first, last, *indices[8:])
                                        update_one_row(short_row, source, part, coefficients, keys, target)
                            if around and grow > 0:
                                for f in range(n_fields):
                                    _copy_ghosts(target[f], to + x0, to + x1, grow)
                        j += rows
            tile = tile_end

    @subroutine(inline="always")
    def make_sweeps(
        thread,
        fields,
        layout,
        boxes,
        offset_global,
        shape_global,
        periodic,
        step,
        steps,
        sweeps,
        keys,
        coefficients,
        sides,
        tile_rows,
        streaming,
        n_threads,
        team,
        scratch,
        out,
    ):
        deadline = monotonic_seconds(team) + LONGEST_CALL if thread == 0 else 0.0
        n = 0
        while n < sweeps:
            old, new = (fields, out) if n % 2 == 0 else (out, fields)
            for box in boxes:
                sweep_box(
                    thread, old, layout, box, offset_global, shape_global, periodic, step + n * steps, steps,
                    keys, coefficients, sides, tile_rows, streaming, n_threads, scratch, new,
                )  # fmt: skip
            store_fence()
            # Two places take turns, because a thread may still read one when the next sweep has ended.
            place = team[0, STOPS + n % 2 : STOPS + n % 2 + 1]
            n += 1
            if n == sweeps:
                break
            if thread == 0:
                place[0] = monotonic_seconds(team) > deadline
            wait_for_team(team, thread)
            if place[0]:
                break
        if thread == 0:
            team[0, MADE] = n

    @kernel(_signature, nogil=True, error_model="numpy")
    def sweep_alone(
        fields,
        layout,
        boxes,
        offset_global,
        shape_global,
        periodic,
        step,
        steps,
        sweeps,
        keys,
        coefficients,
        sides,
        tile_rows,
        streaming,
        n_threads,
        team,
        scratch,
        out,
    ):
        make_sweeps(
            0, fields, layout, boxes, offset_global, shape_global, periodic, step, steps, sweeps, keys,
            coefficients, sides, tile_rows, streaming, n_threads, team, scratch, out,
        )  # fmt: skip

    @kernel(_signature, parallel=True, nogil=True, error_model="numpy")
    def sweep_in_parallel(
        fields,
        layout,
        boxes,
        offset_global,
        shape_global,
        periodic,
        step,
        steps,
        sweeps,
        keys,
        coefficients,
        sides,
        tile_rows,
        streaming,
        n_threads,
        team,
        scratch,
        out,
    ):
        for thread in prange(n_threads):
            make_sweeps(
                thread, fields, layout, boxes, offset_global, shape_global, periodic, step, steps, sweeps, keys,
                coefficients, sides, tile_rows, streaming, n_threads, team, scratch, out,
            )  # fmt: skip

    compiled: Sweep = sweep_in_parallel if threaded else sweep_alone
    return compiled


@subroutine
def _scratch_pitch(x0, x1, steps, line):
    first = (x0 - steps + 1) // line * line - line
    last = -(-(x1 + steps - 1) // line) * line + line
    return last - first


class Tiling(NamedTuple):
    """How the sweep cuts its work, which changes nothing but the speed."""

    tile_rows: int
    streaming: bool

    def words(self) -> str:
        """Return the tiling in words."""
        return f"tiles of {self.tile_rows} rows, {'streaming' if self.streaming else 'ordinary'} stores"


def tiling(
    dtype: DTypeLike,
    n_fields: int,
    shape_local: Triple,
    steps: int,
    l2_bytes: int = 1 << 20,
    l3_bytes: int = 32 << 20,
) -> Tiling:
    """Return the tiling for a block of `shape_local` cells on a core with these caches.

    l2_bytes: second-level cache of one core; l3_bytes: this rank's share of the last-level cache.
    """
    itemsize = np.dtype(dtype).itemsize
    nz, ny, nx = shape_local
    row_bytes = n_fields * (nx + 2 * steps) * itemsize
    # Three planes of a tile per step in less than half the cache, because prefetched lines and the ends of other rows
    # need space too. Low tiles would compute too much of their halo twice, so that a few rows are kept in any case.
    rows = int(0.45 * l2_bytes) // (RING * steps * row_bytes) - 2 * steps
    rows = min(max(rows, 16), ny + 7) // 8 * 8
    return Tiling(rows, 2 * nz * ny * row_bytes > l3_bytes)


def make_scratch(
    dtype: DTypeLike, n_fields: int, shape_local: Triple, steps: int, tile_rows: int, n_threads: int
) -> tuple[NDArray[np.floating], ...]:
    """Allocate the scratch of each field for boxes within a block of `shape_local` cells."""
    line = CACHE_LINE // np.dtype(dtype).itemsize
    pitch = shape_local[2] + 2 * steps + 4 * line
    size = n_threads * (steps - 1) * RING * pitch * (tile_rows + 2 * steps) + line
    return tuple(aligned_zeros(size, dtype) for _ in range(n_fields))
