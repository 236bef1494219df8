"""A step of Fourier pseudo-spectral turbulence on a machine: transforms, packing, row and column exchange.

A rank holds N^3 / P points of each variable. In a substep V variables go to physical space and D products come back,
of which L leave the planes. For a velocity these are 3, 5 and 4 (GESTS paper, Secs. 2.1, 3.1 and 4.3). So V + D
variables are transformed in x and z and go through the row exchange, V + L in y and through the column exchange. Each
exchange packs and unpacks what it moves.

Fluid particles add interpolation, ghost planes and migration. The transforms of the flows that they take velocities
from are among those of the solver (`SpectralStep.further`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.fourier.pencil import ProcessGrid, Truncation
from ridgeline.limits.allocation import Allocation, FigureAbsent, between
from ridgeline.limits.exchange_costs import RankGroup, all_to_all, host_copies, neighbours, without_latency
from ridgeline.limits.prediction import Kind, Part, Prediction, exchange_kind, optimistic, traffic
from ridgeline.models.turbulence.estimate import estimate, paper_bound
from ridgeline.models.turbulence.fluid_particles.estimate import output_bytes_of_particles
from ridgeline.models.turbulence.fluid_particles.work import (
    field_traffic,
    fields_loaded,
    particle_messages,
    point_flops,
    point_traffic,
)
from ridgeline.models.turbulence.spectral_work import (
    SUBSTEPS,
    Variables,
    least_memory_traffic,
    wave_flops,
    wave_traffic,
)
from ridgeline.runtime.errors import DecompositionError

if TYPE_CHECKING:
    from ridgeline.models.turbulence.config import TurbulenceCase

MOST_COUNTED = 512  # points in a direction, and ranks, up to which modes are counted one by one
INTERPOLATION = "codes.interpolation"


@dataclass(frozen=True)
class SpectralStep:
    """What the ranks do in a step. shape: (N_z, N_y, N_x); grid: (P_r, P_c); itemsize: bytes of a real number.

    columns, lines: shares of (k_x) and of (k_x, k_z) that have a retained mode: 1 where all are moved, as in GESTS.
    batch: variables of one call of the column exchange, Q. further: fields that go to physical space in a step beside
    those of the substeps, as fluid particles need them.
    """

    shape: tuple[int, int, int]
    grid: ProcessGrid
    itemsize: int = 4
    variables: Variables = Variables(n_scalars=0)  # noqa: RUF009 - frozen
    substeps: int = 2
    batch: int = 1
    columns: float = 1.0
    lines: float = 1.0
    further: int = 0

    @property
    def volume(self) -> float:
        """Bytes of a variable on one rank."""
        return math.prod(self.shape) * self.itemsize / (self.grid[0] * self.grid[1])

    @property
    def row_variables(self) -> int:
        """Variables through the row exchange, and through transforms in x and z, in a step: V + D."""
        return self.substeps * sum(self.variables.counts.of_rows) + self.further

    @property
    def column_variables(self) -> int:
        """Variables through the column exchange, and through transforms in y, in a step: V + L."""
        return self.substeps * sum(self.variables.counts.of_columns) + self.further

    @property
    def column_calls(self) -> int:
        """Calls of the column exchange in a step."""
        each = sum(math.ceil(count / self.batch) for count in self.variables.counts.of_columns)
        return self.substeps * each + math.ceil(self.further / self.batch)

    @property
    def row_volume(self) -> float:
        """Bytes of a rank through the row exchange in a step; none where a rank has whole planes."""
        return self.row_variables * self.columns * self.volume if self.grid[0] > 1 else 0.0

    @property
    def column_volume(self) -> float:
        """Bytes of a rank through the column exchange in a step."""
        return self.column_variables * self.lines * self.volume

    def transforms(self, place: Allocation) -> float:
        """Return seconds of all transforms, at the machine's rates for their lengths. Raises FigureAbsent."""
        nz, ny, nx = self.shape
        x = self.row_variables * self.volume / rate(place, nx, "contiguous")
        z = self.row_variables * self.columns * self.volume / rate(place, nz, "strided")
        y = self.column_variables * self.lines * self.volume / rate(place, ny, "strided")
        return 2 * (x + y + z)

    def packing(self, place: Allocation) -> float:
        """Return seconds of packing and unpacking: each reads and writes what is exchanged. Raises FigureAbsent."""
        place.figure("codes.copies")
        return traffic(place, 4 * (self.row_volume + self.column_volume), "codes.copies")

    def other(self, place: Allocation) -> float:
        """Return seconds of products, derivatives and time stepping. Raises FigureAbsent."""
        passes = place.figure("codes.other_passes") * self.substeps * self.variables.fields / (2 * 3)
        return passes * self.volume / place.bandwidth()

    def row_exchange(self, place: Allocation) -> float:
        """Return seconds of the exchanges between P_r consecutive ranks. Raises FigureAbsent."""
        return all_to_all(place, RankGroup(self.grid[0]), self.row_volume, self.row_variables)

    def column_exchange(self, place: Allocation) -> float:
        """Return seconds of the exchanges between P_c ranks, P_r apart. Raises FigureAbsent."""
        group = RankGroup(self.grid[1], self.grid[0])
        return all_to_all(place, group, self.column_volume, self.column_calls)


def rate(place: Allocation, length: int, kind: str) -> float:
    """Return the B/s that transforms of a length read and write on a rank. kind: "strided" or "contiguous".

    Linear in the logarithm of the length between those of the machine file. Raises FigureAbsent.
    """
    rows = [row for row in place.machine.transform if getattr(row, kind) is not None]
    if not rows:
        raise FigureAbsent("transform")
    found = between([row.length.value for row in rows], [getattr(row, kind).value for row in rows], length)
    per_node = place.figure("device.count") if place.on_devices else 1.0
    return found * per_node / place.ranks_per_node


def spectral_parts(step: SpectralStep, place: Allocation, whole: float | None = None) -> tuple[Part, ...]:
    """Return the parts of a step, on one rank.

    whole: bytes of memory traffic of its computation, for machines without rates of transforms. Their file has one
    share of the bandwidth for all of it, codes.turbulence.
    """
    if whole is not None and not place.machine.transform:
        parts = [
            Part.of("transforms and products", "node", lambda: traffic(place, whole, "codes.turbulence"))
        ]
    else:
        parts = [
            Part.of("transforms", "node", lambda: step.transforms(place)),
            Part.of("packing", "node", lambda: step.packing(place)),
            Part.of("other computation", "node", lambda: step.other(place)),
        ]
    row_kind: Kind = "node" if step.grid[0] <= place.ranks_per_node else "network"
    copied = step.row_volume + (step.column_volume if place.ranks > 1 else 0.0)
    if place.on_devices:
        parts.append(Part.of("host-device copies", "node", lambda: host_copies(place, copied)))
    return (
        *parts,
        Part.of("row exchange", row_kind, lambda: step.row_exchange(place)),
        Part.of("column exchange", exchange_kind(place), lambda: step.column_exchange(place)),
    )


def large_process_grid(case: TurbulenceCase, place: Allocation) -> ProcessGrid:
    """Return (P_r, P_c) of a case whose modes are too many to count: the smallest P_r that fits and divides a node's

    ranks, 1 for slabs. Raises DecompositionError if none fits.
    """
    nz, ny, _ = case.grid.shape
    chosen = case.grid.process_grid
    slabs = case.grid.decomposition == "slabs"
    rows = [1] if slabs else [r for r in range(1, nz + 1) if place.ranks % r == 0]
    grids = [(r, place.ranks // r) for r in sorted(rows, key=lambda r: (place.ranks_per_node % r != 0, r))]
    if chosen != "auto":
        grids = [grid for grid in [chosen] if grid[0] * grid[1] == place.ranks and grid[0] <= nz]
    for grid in grids:
        if grid[1] <= ny:
            return grid
    raise DecompositionError(
        f"grid.shape = {list(case.grid.shape)} with grid.process_grid = {chosen} does not fit {place.ranks} ranks; "
        f"use fewer --nodes or --ranks-per-node"
    )


def wave_parts(
    case: TurbulenceCase, place: Allocation, truncation: Truncation, share: float
) -> tuple[Part, ...]:
    """Return the part of a step that is the factor of rotation and stratification; none without them.

    share: of the truncation's modes that a rank has, in the grid of the case.
    """
    if not case.waves:
        return ()
    scheme, n_coupled = case.model.scheme, case.waves.n_coupled
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    moved = share * itemsize * wave_traffic(truncation, scheme, n_coupled)
    flops = share * wave_flops(truncation, scheme, n_coupled)
    return (Part.of("waves", "node", lambda: traffic(place, moved, "codes.turbulence", flops)),)


def particle_parts(
    case: TurbulenceCase, place: Allocation, grid: ProcessGrid, n_modes: float
) -> tuple[Part, ...]:
    """Return the parts of particles, on one rank of those among which they are spread evenly; none without them.

    n_modes: of a field, on all ranks. What migrates is the most that can (`particle_messages`).
    """
    if not case.particles.count:
        return ()
    sent = particle_messages(case, grid)

    def interpolation() -> float:
        flops = point_flops(case, n_modes) / place.ranks
        return traffic(place, point_traffic(case) / place.ranks, INTERPOLATION, flops)

    def exchange() -> float:
        volume, messages = sent.ghost_bytes + sent.moved_bytes, sent.ghost_messages + sent.moved_messages
        return neighbours(place, volume / place.ranks, messages / place.ranks)

    return (
        Part.of("interpolation at particles", "node", interpolation),
        Part.of("ghosts and migration", exchange_kind(place), exchange),
    )


def bounds_of_particles(case: TurbulenceCase, place: Allocation) -> tuple[str, ...]:
    """Return why the time of particles is a lower bound, a sentence each."""
    if not case.particles.count:
        return ()
    bounds = [*optimistic(place, INTERPOLATION)]
    if case.particles.interpolation == "fourier" and place.ranks > 1:
        bounds.append('the exchange of all modes for particles.interpolation = "fourier" is not predicted')
    return tuple(bounds)


def notes_of_particles(case: TurbulenceCase, place: Allocation) -> tuple[str, ...]:
    """Return the notes on the time of particles."""
    return without_latency(place) if case.particles.count else ()


def predict(case: TurbulenceCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the prediction of a case. Raises DecompositionError for ranks that do not fit it.

    Beyond 512 points in a direction, shares of retained modes are those of a smaller grid of the same proportions.
    Beyond 512 points or 512 ranks, the memory is that of Eq. 9.
    """
    shape, itemsize = case.grid.shape, np.dtype(case.run.precision).itemsize
    variables, substeps = Variables(len(case.scalar)), SUBSTEPS[case.model.scheme]
    batch = case.batch
    factor = -(-max(shape) // MOST_COUNTED)
    nz, ny, nx = (max(4, n // factor // 2 * 2) for n in shape)
    truncation = Truncation((nz, ny, nx), case.model.dealias)
    notes: tuple[str, ...] = ()
    if factor == 1 and place.ranks <= MOST_COUNTED:
        needed = estimate(case, place.ranks)
        grid: ProcessGrid = (needed.process_grid[0], needed.process_grid[1])
        memory, output = needed.memory_per_rank, needed.output_bytes
    else:
        grid = large_process_grid(case, place)
        memory = paper_bound(shape, place.ranks, batch, 2 * itemsize)
        outputs = case.output.count(case.run.steps)
        output = float(outputs * len(case.output.variables) * math.prod(shape) * itemsize)
        without = ", without particles" if case.particles.count else ""
        notes = (f"the memory is that of the GESTS paper's Eq. 9{without}",)
    step = SpectralStep(
        shape,
        grid,
        itemsize,
        variables,
        substeps,
        batch,
        columns=truncation.n_columns / (nx // 2),
        lines=truncation.n_lines / (nz * (nx // 2)),
        further=fields_loaded(case),
    )
    share = math.prod(shape) / (nz * ny * nx) / place.ranks
    moved = least_memory_traffic(truncation, grid[0] > 1, variables, case.model.scheme)
    moved += field_traffic(case, truncation, grid[0] > 1)
    waves = wave_parts(case, place, truncation, share)
    bounds = () if place.machine.transform else optimistic(place, "codes.turbulence")
    particles = particle_parts(case, place, grid, share * place.ranks * truncation.n_modes)
    return Prediction(
        case=f"turbulence, {' x '.join(map(str, shape))} points",
        place=place,
        parts=(*spectral_parts(step, place, 2 * itemsize * share * moved), *waves, *particles),
        steps=case.run.steps,
        memory_per_rank=memory,
        output_bytes=output + output_bytes_of_particles(case),
        process_grid=grid,
        bounds=bounds + bounds_of_particles(case, place),
        notes=notes + notes_of_particles(case, place),
    )
