"""What a run of the wind model needs and does, counted before it runs. No MPI, no device, no allocation."""

from __future__ import annotations

import math

import numpy as np

from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.wind.problem import GHOST
from ridgeline.models.wind.settings import WindCase
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.errors import DecompositionError

# Flops and passes of a step of Godunov's method, as the kernels count them, without the linear solvers.
FACE_FLOPS, ADVECTION_FLOPS, TENDENCY_FLOPS, SCALAR_FLOPS = 700, 300, 200, 30
COMMON_VALUES, FIELD_VALUES = 30, 13
DIRECT_CELLS = 4_000_000  # above which "direct" is refused: its products of matrices are on one rank


def process_grid(case: WindCase, n_ranks: int) -> Triple:
    """Return the process grid of the case. Raises DecompositionError if it does not fit the ranks or the grid."""
    shape = case.grid.shape
    if case.grid.process_grid == "auto":
        return choose_process_grid(shape, n_ranks, GHOST)
    grid = case.grid.process_grid
    check_process_grid(shape, grid, n_ranks)
    for axis, n, p in zip("zyx", shape, grid, strict=True):
        if n // p < GHOST:
            raise DecompositionError(
                f"grid.process_grid = {list(grid)} leaves blocks of {n // p} cells in {axis}, but at least {GHOST} "
                f"are needed. Use fewer ranks in {axis} or a larger grid.shape."
            )
    return grid


def least_work(case: WindCase, bytes_exchanged: float, messages: float) -> Work:
    """Return the least work of one step: advection, tendencies and projections, without the linear solvers."""
    cells, fields = math.prod(case.grid.shape), 3 + len(case.transported())
    flops = FACE_FLOPS + ADVECTION_FLOPS * fields + TENDENCY_FLOPS + SCALAR_FLOPS * (fields - 3)
    values = COMMON_VALUES + FIELD_VALUES * fields
    stages = 1 if case.model.advection == "godunov" else 2
    moved = 8.0 * values * cells * stages
    return Work(cells, float(flops * cells * stages), moved, bytes_exchanged, messages)


def estimate(case: WindCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    shape, grid = case.grid.shape, process_grid(case, n_ranks)
    largest = Block.of_rank(shape, grid, 0, case.boundary.periodic(), GHOST)
    fields, cells = 3 + len(case.transported()), math.prod(shape)
    arrays = 4 * fields + 3 + (fields if case.model.advection == "method-of-lines" else 0)
    arrays += 3 if case.subgrid.kind != "none" else 0
    own = math.prod(largest.shape_local)
    # Both multigrid solvers hold about 8 arrays of the finest level, and a seventh of that below it.
    solvers = 18.0 * 8 * own if case.model.solver == "multigrid" else (6.0 * cells + 4.0 * own) * 8
    memory = arrays * BlockArray.bytes_of(largest, np.float64) + 5 * 8.0 * own + solvers
    refusals = []
    if case.model.solver == "direct" and cells > DIRECT_CELLS:
        refusals.append(
            f'model.solver = "direct" is for at most {DIRECT_CELLS} cells, but the grid has {cells}. Use "multigrid".'
        )
    outputs = case.outputs()
    faces = messages = 0.0
    for n, p, wraps in zip(shape, grid, case.boundary.periodic(), strict=True):
        if p > 1:
            pairs = p if wraps else p - 1
            faces += 2.0 * pairs * cells / n
            messages += 2.0 * pairs * n_ranks / p
    stages = 1 if case.model.advection == "godunov" else 2
    exchanged = 8.0 * GHOST * faces * (3 * fields + 6) * stages
    return Estimate(
        process_grid=grid,
        block=largest.shape_local,
        memory_per_rank=float(memory),
        output_bytes=float(outputs * len(case.output.variables) * cells * 8),
        outputs=outputs,
        checkpoint_bytes=float((fields + 1) * cells * 8),
        work=least_work(case, exchanged, 5.0 * messages * stages),
        refusals=tuple(refusals),
    )
