"""A case of turbulence on a machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.fourier.pencil import ProcessGrid, Truncation
from ridgeline.models.turbulence.estimate import estimate, paper_bound
from ridgeline.models.turbulence.fluid_particles.estimate import output_bytes_of_particles
from ridgeline.models.turbulence.fluid_particles.work import field_traffic, fields_loaded
from ridgeline.models.turbulence.spectral_work import (
    SUBSTEPS,
    Variables,
    least_memory_traffic,
    wave_flops,
    wave_traffic,
)
from ridgeline.runtime.errors import DecompositionError
from ridgeline.study.prediction.allocation import Allocation
from ridgeline.study.prediction.prediction import Part, Prediction, optimistic, traffic
from ridgeline.study.prediction.turbulence_particles import (
    bounds_of_particles,
    notes_of_particles,
    particle_parts,
)
from ridgeline.study.prediction.turbulence_step import SpectralStep, spectral_parts

if TYPE_CHECKING:
    from ridgeline.models.turbulence.config import TurbulenceCase

MOST_COUNTED = 512  # points in a direction, and ranks, up to which modes are counted one by one


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


def predict_turbulence(case: TurbulenceCase, place: Allocation) -> Prediction:
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
        outputs = case.run.steps // case.output.every + case.output.initial if case.output.every else 0
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
