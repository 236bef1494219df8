"""One level of cell-centred multigrid on one rank: its fields, coefficients, tables and exchanges."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloExchange, HaloPlan, HostPacker
from ridgeline.blocks.multigrid.agglomeration import Agglomeration
from ridgeline.blocks.multigrid.axis_tables import (
    Sides,
    local_factors,
    local_interpolation,
    local_restriction,
)
from ridgeline.blocks.multigrid.cell_kernels import (
    Prolongation,
    Restriction,
    Smoothing,
    cell_residual,
    smooth_lines,
    smooth_points,
)
from ridgeline.blocks.multigrid.cell_rows import CellEquation
from ridgeline.blocks.multigrid.levels import GridLevel
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.aligned import CACHE_LINE, aligned_zeros

Array = NDArray[Any]

JUMP = 8.0  # faces next to each other whose beta differs by more are not averaged


def contiguous_field(block: Block, dtype: np.dtype[Any]) -> BlockArray:
    """Return a field of zeros whose memory has no gaps, so that kernels see it as one array [z, y, x] with ghosts."""
    nz, ny, nx = (n + 2 * block.ghost for n in block.shape_local)
    memory = zeros_around((nz, ny, nx), dtype, block.ghost).reshape(-1)
    return BlockArray(block, memory, block.ghost * (ny * nx + nx + 1), nx, ny * nx)


def zeros_around(shape: tuple[int, ...], dtype: DTypeLike, ghost: int) -> Array:
    """Return zeros whose number `ghost` begins a cache line, as then all owned cells of rows of full lines do."""
    line = CACHE_LINE // np.dtype(dtype).itemsize
    size, skipped = prod(shape), -ghost % line
    return aligned_zeros(size + skipped, dtype)[skipped:].reshape(shape)


def whole(field: BlockArray) -> Array:
    """Return the memory of a contiguous field as an array [nz+2g, ny+2g, nx+2g]."""
    shape = [n + 2 * field.block.ghost for n in field.block.shape_local]
    return field.flat.reshape(shape)


class GhostFill:
    """Fill the ghosts of contiguous fields: from other ranks, then around periodic axes that are not cut.

    The second part reads any number of times around the axis, so an axis may have fewer cells than ghost layers.

    Parameters
    ----------
    comm : the ranks that own the block
    sets : fields that are filled at a time
    layers : for each set the layers that `fill` fills; all if None
    along_x : the same around x, where copies are slow, if x is periodic and not cut

    Attributes
    ----------
    messages, bytes_sent : int
        What this rank sent in the last `fill`.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        sets: list[tuple[BlockArray, ...]],
        layers: tuple[int, ...] | None = None,
        along_x: tuple[int, ...] | None = None,
    ) -> None:
        block = sets[0][0].block
        self._sets, self._layers, self.along_x = sets, layers or (block.ghost,) * len(sets), along_x
        self._around = [axis for axis in range(3) if block.periodic[axis] and block.process_grid[axis] == 1]
        self._exchanges: list[HaloExchange] = []
        for fields, thickness in zip(sets, self._layers if block.n_ranks > 1 else ()):
            plan = HaloPlan(
                *(block, len(fields), fields[0].flat.itemsize, True, (False, False, False)), layers=thickness
            )
            packer = HostPacker(plan, [fields])
            compile_on_nodes(comm, packer.compile)
            self._exchanges.append(HaloExchange(comm, packer, "pack"))
        self.messages = self.bytes_sent = 0

    def fill(self, index: int) -> None:
        """Fill the ghosts of a set. Communicates with neighbours."""
        if self._exchanges:
            exchange = self._exchanges[index]
            exchange.exchange(0)
            self.messages, self.bytes_sent = exchange.messages_sent, exchange.bytes_sent
        for axis in self._around:
            layers = self._layers if axis != 2 or self.along_x is None else self.along_x
            self._copy_around(index, axis, layers[index])

    def complete(self, index: int) -> None:
        """Fill the layers along x that `fill` left out. Local."""
        if 2 in self._around and self.along_x is not None:
            self._copy_around(index, 2, self._layers[index])

    def _copy_around(self, index: int, axis: int, layers: int) -> None:
        for field in self._sets[index]:
            ghost, n = field.block.ghost, field.block.shape_local[axis]
            moved = np.moveaxis(whole(field), axis, 0)
            for layer in range(layers):
                moved[ghost - 1 - layer] = moved[ghost + (n - 1 - layer) % n]
                moved[ghost + n + layer] = moved[ghost + layer % n]

    def free(self) -> None:
        """Free what belongs to MPI."""
        for exchange in self._exchanges:
            exchange.free()


class CellGrid:
    """What one rank holds of one level.

    Parameters
    ----------
    comm : the ranks that own the level, in the order of its process grid
    level : the level
    coords : this rank's coordinates in the finest process grid
    sides : of each axis
    taus : of the steps of a smoothing
    lines : whether lines along z are relaxed
    dtype : float32 or float64
    """

    def __init__(
        self,
        comm: MPI.Comm,
        level: GridLevel,
        coords: Triple,
        sides: Sides,
        taus: Array,
        lines: bool,
        dtype: np.dtype[Any],
    ) -> None:
        self.comm, self.level, self.coords, self.sides = comm, level, coords, sides
        self.lines, self.taus, self.dtype = lines, taus.astype(dtype), dtype
        self.steps = len(taus)
        self.ghost = 2 * self.steps
        block, nodal = level.block(coords, self.ghost), level.block(coords, self.ghost, nodes=True)
        assert block is not None
        assert nodal is not None
        self.block, self.nodal_block = block, nodal
        self.x, self.b = (contiguous_field(block, dtype) for _ in range(2))
        # Rows that are whole rings need no ghosts along x but the two next to their ends, which are copies.
        self._wraps = int(block.periodic[2] and block.process_grid[2] == 1)
        # The finer level reads `steps` layers of corrections, and the first step reads b in all layers but one.
        x_layers = self.ghost if level.aggregates is None else self.steps
        self.fill = GhostFill(
            comm, [(self.x,), (self.b,)], (x_layers, self.ghost - 1), (1, 0) if self._wraps else None
        )
        nz, ny, nx = whole(self.x).shape
        self._ring = zeros_around((self.steps - 1, 4, *((nz, nx) if lines else (ny, nx))), dtype, self.ghost)
        self._has_neighbour = np.array(
            [
                [
                    block.neighbour(towards(axis, end)) is not None and not (lines and axis == 0)
                    for end in (-1, 1)
                ]
                for axis in range(3)
            ],
            np.int64,
        )
        self._computed_beyond = self._has_neighbour.copy()
        if self._wraps:
            self._computed_beyond[2] = 0
        self._nothing = np.zeros((1, 1, 1), dtype)
        self.variable = False
        self.alpha = dtype.type(0)
        self.reaction: BlockArray | None = None
        self.faces: tuple[BlockArray, ...] | None = None
        self._coefficient_fills: list[GhostFill] = []
        self.factors = local_factors(level, block, sides, 1.0, dtype)
        self.coarse: GridLevel | None = None

    def join(self, coarse: GridLevel, coarse_grid: CellGrid | None) -> None:
        """Prepare the transfers to the next coarser level; coarse_grid: this rank's part of it, if it has one."""
        self.coarse, self.coarse_grid = coarse, coarse_grid
        natural = coarse.natural_block(self.coords, self.ghost)
        assert natural is not None
        self.natural = natural
        self.move: Agglomeration | None = None
        if coarse.is_agglomerated:
            self.move = Agglomeration(self.comm, coarse, self.coords, self.steps, self.dtype)
            self._move_nodes = Agglomeration(
                self.comm, coarse, self.coords, self.steps, self.dtype, nodes=True
            )
            self.restricted, self.correction = (contiguous_field(natural, self.dtype) for _ in range(2))
            if coarse_grid is not None:
                coarse_grid.fill.along_x = None  # the natural blocks may be cut along x, and take all ghosts
        else:
            assert coarse_grid is not None
            self.restricted, self.correction = coarse_grid.b, coarse_grid.x
        self._places, shares, self._ranges = local_restriction(coarse, self.level, self.block, natural)
        self._shares = shares.astype(self.dtype)
        cells = int(self._ranges[2, 1] - self._ranges[2, 0])
        self._pairs = cells - natural.shape_local[2] if coarse.coarsened[2] else 0
        self._near, self._other, weight = local_interpolation(
            coarse, self.level, self.block, natural, self.sides
        )
        self._weight = weight.astype(self.dtype)

    # ---- passes ----

    def equation(self) -> CellEquation:
        """Return the arguments of kernels that are the equation."""
        if not self.variable:
            nothing = self._nothing
            return CellEquation(
                0, self._is_uniform(), self.alpha, nothing, nothing, nothing, nothing, self.factors
            )
        assert self.reaction is not None
        assert self.faces is not None
        fz, fy, fx = map(whole, self.faces)
        return CellEquation(1, self._is_uniform(), self.alpha, whole(self.reaction), fz, fy, fx, self.factors)

    def _is_uniform(self) -> int:
        """Return whether rows are whole rings of cells of one width."""
        ghost, n = self.ghost, self.block.shape_local[2]
        along = self.factors[2, :2, ghost : ghost + n]
        return int(self._wraps and bool((along == along[0, 0]).all()))

    def smooth(self, from_zero: bool, restricts: bool, prolongs: bool) -> None:
        """Smooth x once, after adding the correction or before restricting the residual."""
        kernel = smooth_lines if self.lines else smooth_points
        layers = self.steps if restricts else 0
        kernel(
            *(whole(self.x), whole(self.b), int(from_zero), self.equation()),
            Smoothing(self.taus, self._ring, self.ghost, layers, self._computed_beyond, self._wraps),
            Prolongation(
                *(int(prolongs), whole(self.correction), self._near, self._other, self._weight, self.steps),
                *(int(self._ranges[2, 0]), self._pairs),
            ),
            Restriction(
                *(
                    int(restricts),
                    whole(self.restricted),
                    self._places,
                    self._shares,
                    self._ranges,
                    self._pairs,
                )
            ),
        )

    def residual(self, out: Array | None = None) -> float:
        """Return max |b - A x| of this rank's cells, and set out = b - A x if it is given. x has its ghosts."""
        largest = np.zeros(1, self.dtype)
        keeps = out is not None
        cell_residual(
            *(whole(self.x), whole(self.b), self.equation(), self.ghost),
            *(int(keeps), out if keeps else self._nothing, largest),
        )
        return float(largest[0])

    # ---- coefficients ----

    def set_constant(self, alpha: float, beta: float) -> None:
        """Use constant coefficients."""
        self.variable, self.alpha = False, self.dtype.type(alpha)
        self.factors = local_factors(self.level, self.block, self.sides, beta, self.dtype)

    def allocate_coefficients(self) -> None:
        """Make room for coefficients that vary, at the first time."""
        self.factors = local_factors(self.level, self.block, self.sides, 1.0, self.dtype)
        if self.faces is None:
            self.reaction = contiguous_field(self.block, self.dtype)
            self.faces = tuple(contiguous_field(self.nodal_block, self.dtype) for _ in range(3))
            self._coefficient_fills = [
                GhostFill(self.comm, [(self.reaction,)]),
                GhostFill(self.comm, [self.faces]),
            ]

    def finish_coefficients(self) -> None:
        """Fill the ghosts of the coefficients. Communicates with neighbours."""
        for fill in self._coefficient_fills:
            fill.fill(0)
        self.variable = True

    def coarsen_coefficients(self) -> None:
        """Set the next coarser level's coefficients: means over aggregates, and over the faces on a coarser face.

        Collective over the ranks of this level.
        """
        assert self.coarse is not None
        assert self.reaction is not None
        assert self.faces is not None
        target = self.coarse_grid
        if target is not None:
            target.allocate_coefficients()
        reaction = self._means(whole(self.reaction), None)
        faces = [self._means(whole(face), axis) for axis, face in enumerate(self.faces)]
        if self.move is None:
            assert target is not None
            assert target.reaction is not None
            assert target.faces is not None
            target.reaction.owned[...] = reaction
            for field, values in zip(target.faces, faces):
                field.owned[...] = values
        else:
            self.move.gather(reaction, None if target is None else target.reaction)
            for axis, values in enumerate(faces):
                merged = None if target is None or target.faces is None else target.faces[axis]
                self._move_nodes.gather(values, merged)
        if target is not None:
            target.finish_coefficients()

    def _means(self, values: Array, face_axis: int | None) -> Array:
        """Return means over the aggregates of this rank; along face_axis the values between their centres.

        Values at faces have the shape of the natural block of nodes, and zeros where there is no face.
        """
        assert self.coarse is not None
        assert self.coarse.aggregates is not None
        nodal = self.coarse.natural_block(self.coords, 0, nodes=True)
        assert nodal is not None
        if face_axis is not None:
            values = self._across_faces(values, face_axis, nodal.shape_local[face_axis])
        for axis in range(3):
            if axis != face_axis:
                begin, end = self._ranges[axis]
                shares = self._shares[axis, begin:end]
                values = _pair_means(values, axis, shares, begin, self.natural.shape_local[axis])
        if face_axis is None:
            return values
        padded = np.zeros(nodal.shape_local, self.dtype)
        padded[tuple(slice(n) for n in values.shape)] = values
        return padded

    def _across_faces(self, values: Array, axis: int, count: int) -> Array:
        """Return beta from centre to centre of coarser cells across their faces: the harmonic mean over the way.

        The way crosses the coarser face, and half of the faces inside aggregates of two on both sides. Where these
        differ by more than JUMP the coarser face alone counts, because beta of a coarser cell that is too small makes
        corrections too large, and cycles then diverge.
        """
        assert self.coarse is not None
        assert self.coarse.aggregates is not None
        starts, periodic = self.coarse.aggregates[axis], self.level.periodic[axis]
        sizes, along = np.diff(starts), [-1 if a == axis else 1 for a in range(3)]
        faces = self.natural.offset_global[axis] + np.arange(count)
        places = starts[faces] + self.ghost - self.block.offset_global[axis]
        here = np.take(values, places, axis)
        if not self.coarse.coarsened[axis]:
            return here
        at_side = ((faces == 0) | (faces == len(sizes))) & (not periodic)
        length = np.where(at_side, 0.5, 1.0).astype(self.dtype).reshape(along)
        # Faces that do not exist hold zeros, and their results are not used.
        with np.errstate(divide="ignore", invalid="ignore"):
            resistance, low, high = length / here, here, here
            for shift, cells in ((-1, faces - 1), (1, faces)):
                inside = (cells >= 0) & (cells < len(sizes)) | periodic
                has_face = inside & (sizes[cells % len(sizes)] == 2)
                inner = np.take(values, np.where(has_face, places + shift, places), axis)
                half = np.where(has_face, 0.5, 0.0).astype(self.dtype).reshape(along)
                length, resistance = length + half, resistance + half / inner
                low, high = np.minimum(low, inner), np.maximum(high, inner)
            return np.where(high <= JUMP * low, length / resistance, here)

    def dense_matrix(self) -> Array:
        """Return the equation of a level that one rank owns, each row times the cell's volume, float64 [n, n]."""
        shape, ghost = self.block.shape_local, self.ghost
        n = self.block.shape_local[0] * shape[1] * shape[2]
        volume = np.einsum("i,j,k->ijk", *self.level.widths)
        number = np.arange(n).reshape(shape)
        matrix = np.zeros((n, n))
        diagonal = np.full(shape, float(self.alpha))
        if self.variable and self.reaction is not None:
            diagonal = self.reaction.owned.astype(np.float64)
        for axis in range(3):
            along = [1, 1, 1]
            along[axis] = shape[axis]
            for end in (0, 1):
                factor = (
                    self.factors[axis, end, ghost : ghost + shape[axis]].astype(np.float64).reshape(along)
                )
                coupling = np.broadcast_to(factor, shape)
                if self.variable and self.faces is not None:
                    corner = tuple(slice(ghost + (end if a == axis else 0), None) for a in range(3))
                    face = whole(self.faces[axis])[corner][: shape[0], : shape[1], : shape[2]]
                    coupling = coupling * face
                diagonal = diagonal + coupling
                neighbour = np.roll(number, 1 if end == 0 else -1, axis)
                inside = np.ones(shape, bool)
                if not self.block.periodic[axis]:
                    np.moveaxis(inside, axis, 0)[0 if end == 0 else -1] = False
                np.add.at(matrix, (number[inside], neighbour[inside]), -(coupling * volume)[inside])
        matrix[number.ravel(), number.ravel()] += (diagonal * volume).ravel()
        return matrix

    def free(self) -> None:
        """Free what belongs to MPI."""
        for fill in (self.fill, *self._coefficient_fills):
            fill.free()


def mirror_beyond_sides(x: BlockArray, block: Block, sides: Sides, layers: int) -> None:
    """Fill ghosts beyond sides by the mirror image (Neumann) or its negative (Dirichlet). Others are filled before.

    A block may be thinner than the layers: the mirror image then lies in the ghosts on its other side.
    """
    ghost = x.block.ghost
    for axis, pair in enumerate(sides):
        if pair == "periodic":
            continue
        n, moved = block.shape_local[axis], np.moveaxis(x.ghosted, axis, 0)
        for end in (0, 1):
            if block.neighbour(towards(axis, 2 * end - 1)) is not None:
                continue
            sign = -1 if pair[end] == "dirichlet" else 1
            for layer in range(min(layers, block.shape_global[axis])):
                inside, beyond = ghost + layer, ghost - 1 - layer
                if end == 1:
                    inside, beyond = ghost + n - 1 - layer, ghost + n + layer
                moved[beyond] = sign * moved[inside]


def _pair_means(values: Array, axis: int, shares: Array, begin: int, n: int) -> Array:
    """Return n means over aggregates along an axis: pairs from cell `begin` on, then single cells."""
    pairs = len(shares) - n
    cells = np.moveaxis(values, axis, 0)[begin : begin + len(shares)]
    if pairs == 0:
        return np.moveaxis(cells, 0, axis)
    shares = shares.reshape(-1, 1, 1)
    out = np.empty((n, *cells.shape[1:]), values.dtype)
    np.multiply(cells[0 : 2 * pairs : 2], shares[0 : 2 * pairs : 2], out=out[:pairs])
    out[:pairs] += cells[1 : 2 * pairs : 2] * shares[1 : 2 * pairs : 2]
    out[pairs:] = cells[2 * pairs :] * shares[2 * pairs :]
    return np.moveaxis(out, 0, axis)


def towards(axis: int, end: int) -> Triple:
    """Return the direction of the lower (-1) or the upper (1) end of an axis."""
    return end * (axis == 0), end * (axis == 1), end * (axis == 2)
