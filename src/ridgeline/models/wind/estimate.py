"""What a run of the wind model needs and does, counted before it runs. No MPI, no device, no allocation.

The solves of the projections are counted with the cycles that they are expected to take. The kernels of advection
compute in caches, so that a step takes longer than its memory traffic: `seconds_beside` has the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
from ridgeline.blocks.halo import HaloPlan
from ridgeline.blocks.multigrid.levels import COARSEST_CELLS, plan_levels
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.wind.problem import GHOST
from ridgeline.models.wind.settings import WindCase
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.errors import DecompositionError

# Flops a cell as the kernels count them, and values that a step with n fields reads or writes, without the solves.
FACE_FLOPS, ADVECTION_FLOPS, TENDENCY_FLOPS, SCALAR_FLOPS = 700, 300, 200, 30
CLOSURE_FLOPS, EDDY_FLOPS = 250, 30  # of a closure and its stresses twice a step, and for each field
COMMON_VALUES, FIELD_VALUES = 30, 13
CLOSURE_VALUES, EDDY_VALUES = 38, 8
DEVICE_LAYERS = 4  # that multigrid on a GPU takes from a neighbour
DIRECT_CELLS = 4_000_000  # above which "direct" is refused: its products of matrices are on one rank

# The solves of a step. A cycle at cells has two passes of 3 values and the residual of 2, one at nodes 3 values for
# each step of smoothing, coarser levels included in neither; around a solve the right side and the solution are
# copied, their means are removed, and the velocities read and corrected.
SOLVES = "mac", "nodal", "diffusion"
CELL_VALUES, VARYING_VALUES, NODE_VALUES = 8.0, 8.0, 3.0
SOLVE_VALUES = 20.0
CELL_FLOPS, NODE_FLOPS, SOLVE_FLOPS = 60.0, 110.0, 30.0
# What a cycle leaves of the residual, as measured on cubic cells. The nodal solve begins with the last pressure.
FACTORS = {"mac": 0.10, "nodal": 0.05, "diffusion": 0.02}
# Steps of smoothing of a nodal cycle for the ratio of a cell's widths (`blocks.multigrid.nodes`).
RATIOS, SMOOTHINGS = (1.0, 2.0, 4.0, 10.0), (2.0, 3.0, 5.0, 6.0)
# What does not follow from memory traffic, measured on one core of a Xeon of 2.8 GHz: operations a second of kernels
# whose tiles are in its cache, and seconds of Python and calls of a step, a field of a step, a solve, and of each
# level that a cycle visits.
CORE_FLOPS = 7e9
STEP_SECONDS, FIELD_SECONDS, SOLVE_SECONDS, LEVEL_SECONDS = 8e-4, 2e-4, 4e-4, 1.2e-4


def process_grid(case: WindCase, n_ranks: int) -> Triple:
    """Return the process grid of the case. Raises DecompositionError if it does not fit the ranks or the grid."""
    shape = case.grid.shape
    if case.grid.process_grid == "auto":
        least = GHOST if case.run.device == "cpu" else DEVICE_LAYERS
        return choose_process_grid(shape, n_ranks, least)
    grid = case.grid.process_grid
    check_process_grid(shape, grid, n_ranks)
    for axis, n, p in zip("zyx", shape, grid, strict=True):
        if n // p < GHOST:
            raise DecompositionError(
                f"grid.process_grid = {list(grid)} leaves blocks of {n // p} cells in {axis}, but at least {GHOST} "
                f"are needed. Use fewer ranks in {axis} or a larger grid.shape."
            )
    return grid


class StepSolves(NamedTuple):
    """The solves of a step by name: how many there are, and the cycles of each."""

    number: dict[str, int]
    cycles: dict[str, float]

    def work(self, case: WindCase) -> tuple[float, float, float]:
        """Return values of memory and flops a cell of the solves of a step, and the seconds of their calls."""
        levels = plan_levels(whole_block(case), case.grid.spacing(), thickness=4)
        # Cells of all levels over those of the finest one.
        share = sum(math.prod(level.shape_global) for level in levels) / math.prod(case.grid.shape)
        widths = case.grid.spacing()
        smoothings = float(np.interp(max(widths) / min(widths), RATIOS, SMOOTHINGS))
        varies = case.subgrid.kind != "none"
        cells = CELL_VALUES, CELL_FLOPS
        of_cycle = {
            "mac": cells,
            "nodal": (NODE_VALUES * smoothings, NODE_FLOPS * smoothings / 2),
            "diffusion": (CELL_VALUES + varies * VARYING_VALUES, CELL_FLOPS * (1 + varies)),
        }
        values = flops = seconds = 0.0
        for name, number in self.number.items():
            cycles = self.cycles[name]
            values += number * (cycles * of_cycle[name][0] * share + SOLVE_VALUES)
            flops += number * (cycles * of_cycle[name][1] * share + SOLVE_FLOPS)
            seconds += number * (SOLVE_SECONDS + cycles * len(levels) * LEVEL_SECONDS)
        return values, flops, seconds


def step_solves(case: WindCase, counted: Mapping[str, float] | None = None) -> StepSolves:
    """Return the solves of a step. counted: cycles of a solve by name; otherwise they follow from model.tolerance."""
    m, stages = case.model, 1 if case.model.advection == "godunov" else 2
    number = {"mac": stages, "nodal": stages}
    if m.diffusion == "crank-nicolson":
        scalars = [each.diffusivity for each in case.scalar]
        scalars += [case.temperature.diffusivity] if case.temperature.enabled else []
        diffused = 3 * (m.viscosity > 0) + sum(each > 0 for each in scalars)
        number["diffusion"] = stages * (
            3 + len(case.transported()) if case.subgrid.kind != "none" else diffused
        )
    cycles = {name: math.log(m.tolerance) / math.log(FACTORS[name]) for name in number}
    if m.solver == "direct":
        cycles = dict.fromkeys(number, 1.0)
    return StepSolves(
        number, cycles | {name: each for name, each in (counted or {}).items() if name in number}
    )


def whole_block(case: WindCase) -> Block:
    """Return the grid as one block."""
    return Block.of_rank(case.grid.shape, (1, 1, 1), 0, case.boundary.periodic(), GHOST)


def flow_counts(case: WindCase) -> tuple[float, float]:
    """Return values of memory and flops a cell and step, without the solves."""
    fields, stages = 3 + len(case.transported()), 1 if case.model.advection == "godunov" else 2
    flops = float(FACE_FLOPS + ADVECTION_FLOPS * fields + TENDENCY_FLOPS + SCALAR_FLOPS * (fields - 3))
    values = COMMON_VALUES + FIELD_VALUES * fields
    if case.subgrid.kind != "none":
        flops += 2 * (CLOSURE_FLOPS + EDDY_FLOPS * fields) / stages
        values += CLOSURE_VALUES + EDDY_VALUES * fields
    return float(values * stages), flops * stages


def least_work(
    case: WindCase, bytes_exchanged: float, messages: float, cycles: Mapping[str, float] | None = None
) -> Work:
    """Return the work of one step, solves included: as counted, with the expected cycles where none are given."""
    cells = math.prod(case.grid.shape)
    values, flops = flow_counts(case)
    of_solves = step_solves(case, cycles).work(case)
    moved = 8.0 * (values + of_solves[0]) * cells
    return Work(cells, (flops + of_solves[1]) * cells, moved, bytes_exchanged, messages)


def seconds_beside(case: WindCase, n_ranks: int) -> float:
    """Return the seconds of a step that do not follow from memory traffic: arithmetic in caches, and calls."""
    cells = math.prod(case.grid.shape) / n_ranks
    fields, stages = 3 + len(case.transported()), 1 if case.model.advection == "godunov" else 2
    _, solve_flops, calls = step_solves(case).work(case)
    arithmetic = (flow_counts(case)[1] + solve_flops) * cells / (CORE_FLOPS * case.run.threads)
    return arithmetic + stages * (STEP_SECONDS + FIELD_SECONDS * fields) + calls


def device_bytes(case: WindCase, block: Block) -> dict[str, float]:
    """Return the bytes of one block on its GPU by what they are for, without the context and the kernels' code."""
    fields = 3 + len(case.transported())
    arrays = 4 * fields + (fields if case.model.advection == "method-of-lines" else 0)
    arrays += 3 + 1 + (3 if case.subgrid.kind != "none" else 0)
    field = float(BlockArray.bytes_of(block, np.float64))
    # Multigrid holds 4 arrays at cells and 4 at nodes on each level, which together are about 8/7 of the finest, and
    # the projections 3 more.
    parts = {
        "fields": arrays * field,
        "states at faces": 9 * field,
        "linear solvers": (8 * 8 / 7 + 3) * field,
    }
    if items := HaloPlan(block, fields, 8, corners=True, wrap=(False, False, False)).buffer_items:
        parts["halo buffers"] = (
            2 * 2.5 * items * 8
        )  # of the fields, the tendencies, and velocities, pressure and solvers
    return parts


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
    if case.model.diffusion == "crank-nicolson" and case.subgrid.kind != "none":
        # A solver for each set of sides: at most three have x, b, faces, reaction and a copy, and levels below them.
        solvers += 3 * 10.0 * 8 * own
    memory = arrays * BlockArray.bytes_of(largest, np.float64) + 5 * 8.0 * own + solvers
    on_device = device_bytes(case, largest) if case.run.device == "cuda" else {}
    if on_device:  # the host holds a copy of the fields and the pressure, and the coarse levels
        memory = (fields + 1.0) * BlockArray.bytes_of(largest, np.float64) + on_device.get(
            "halo buffers", 0.0
        )
    refusals = []
    if case.model.solver == "direct" and cells > DIRECT_CELLS:
        refusals.append(
            f'model.solver = "direct" is for at most {DIRECT_CELLS} cells, but the grid has {cells}. Use "multigrid".'
        )
    if on_device and (
        cells <= COARSEST_CELLS or any(n // p < DEVICE_LAYERS for n, p in zip(shape, grid) if p > 1)
    ):
        refusals.append(
            f'run.device = "cuda" needs more than {COARSEST_CELLS} cells, and blocks of at least {DEVICE_LAYERS} '
            f"cells in directions that are divided, but {list(shape)} cells are divided by {list(grid)}. Use more "
            f'cells, fewer ranks or run.device = "cpu".'
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
        seconds_beside=seconds_beside(case, n_ranks),
        refusals=tuple(refusals),
        device_memory=on_device,
    )
