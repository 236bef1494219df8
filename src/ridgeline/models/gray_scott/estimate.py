"""What a Gray-Scott run needs and does, counted before it runs. No MPI, no device, no allocation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.blocks import sweep_plan
from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
from ridgeline.blocks.halo import HaloPlan
from ridgeline.blocks.sweep_plan import is_worth_timing, steps_by_rule, thinnest_block
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.runtime.errors import ConfigError

FIELDS = 2
# Operations per cell, fused multiply-adds counted as two: 2 x 5 additions of neighbours, 3 multiplications and an
# addition for the reaction terms (u v^2 dt, 1 - u), 6 fused multiply-adds and 2 additions for the update; negations
# are free.
FLOPS_PER_CELL = 10 + 4 + 12 + 2
FLOPS_NOISE = 2  # one more fused multiply-add

MOST_STEPS_OF_LAUNCH = 2  # of a sweep on GPUs
# Launches of one and two steps are timed if a run moves more bytes than this on each GPU: some 5 s of the memory of
# an H100 or H200.
BYTES_TIMED = 2e13

# Rows of padding before and behind a field on a GPU: a group of four rows may start up to 3 rows, and read 4, outside
# the block.
PAD_ROWS = 4
SETS = 2  # of fields on a GPU: those of the present step, and those that a sweep writes


def process_grid(case: GrayScottCase, n_ranks: int) -> tuple[int, int, int]:
    """Return the process grid of the case. Raises DecompositionError if it does not fit the ranks or the grid."""
    if case.grid.process_grid == "auto":
        return choose_process_grid(case.grid.shape, n_ranks)
    check_process_grid(case.grid.shape, case.grid.process_grid, n_ranks)
    return case.grid.process_grid


def possible_steps(case: GrayScottCase, grid: tuple[int, int, int]) -> range:
    """Return the numbers of steps that a sweep may have with these blocks, up to the most that is ever faster.

    On GPUs directions that are not cut do not bound them, because the sweep itself wraps these.
    """
    if case.run.device == "cuda":
        thinnest = thinnest_block(case.grid.shape, grid, (False, False, False))
        return sweep_plan.possible_steps(thinnest, MOST_STEPS_OF_LAUNCH)
    wraps = case.grid.boundary == "periodic"
    return sweep_plan.possible_steps(thinnest_block(case.grid.shape, grid, (wraps, wraps, wraps)))


def steps_per_sweep(case: GrayScottCase, grid: tuple[int, int, int]) -> int:
    """Return how many time steps one sweep advances: as set, or by a rule that is usually fastest.

    Raises ConfigError where the blocks of several GPUs are too thin for the steps that are set.
    """
    chosen, on_gpu = case.model.steps_per_sweep, case.run.device == "cuda"
    if isinstance(chosen, int):
        if on_gpu and chosen not in possible_steps(case, grid):
            axis, n, p = next(
                (a, n, p) for a, n, p in zip("zyx", case.grid.shape, grid) if p > 1 and n // p < chosen
            )
            raise ConfigError(
                f'model.steps_per_sweep = {chosen} cannot be used here. It must be "auto", "rule" or 1 with '
                f'run.device = "cuda", because grid.process_grid = {list(grid)} cuts the {n} cells in {axis} into '
                f"blocks of {n // p} cell, and a neighbour receives {chosen} layers of each block. Use fewer ranks "
                f"or a larger grid.shape."
            )
        return chosen
    if on_gpu:
        return 1
    itemsize = np.dtype(case.run.precision).itemsize
    return steps_by_rule(case.grid.shape, grid, itemsize, possible_steps(case, grid))


def ghost_width(case: GrayScottCase, grid: tuple[int, int, int]) -> int:
    """Return the layers of ghosts: as many as a sweep may have steps, but one on a single GPU.

    Raises ConfigError as `steps_per_sweep` does.
    """
    steps = steps_per_sweep(case, grid)
    if case.run.device == "cpu":
        return steps
    if math.prod(grid) == 1:
        return 1
    return MOST_STEPS_OF_LAUNCH if launch_is_timed(case, grid) else steps


def launch_is_timed(case: GrayScottCase, grid: tuple[int, int, int]) -> bool:
    """Return whether a run on GPUs times one and two steps a launch, instead of following the rule."""
    step = least_work(case.grid.shape, np.dtype(case.run.precision).itemsize, case.model.noise > 0, 0, 0)
    is_long = step.bytes_memory * case.planned_steps() >= BYTES_TIMED * math.prod(grid)
    is_free = case.model.steps_per_sweep == "auto" and case.run.device == "cuda"
    return is_free and is_long and len(possible_steps(case, grid)) > 1


def sweep_is_timed(case: GrayScottCase, grid: tuple[int, int, int]) -> bool:
    """Return whether a run on CPUs times variants of its sweep, instead of following the rule."""
    is_free = case.model.steps_per_sweep == "auto" and case.run.device == "cpu"
    return is_free and is_worth_timing(case, case.grid.shape, grid)


def least_work(
    shape: tuple[int, int, int], itemsize: int, noisy: bool, bytes_exchanged: float, messages: float
) -> Work:
    """Return the least work of one step, in which each of the two fields is read once and written once."""
    points = shape[0] * shape[1] * shape[2]
    flops = FLOPS_PER_CELL + (FLOPS_NOISE if noisy else 0)
    return Work(
        points, float(flops * points), float(2 * FIELDS * itemsize * points), bytes_exchanged, messages
    )


def effective_bytes(shape: tuple[int, int, int], itemsize: int, variables: int = 1) -> float:
    """Return the least bytes that a sweep over a block of `shape` cells moves, as the Frontier paper counts them.

    Source: Godoy et al., SC-W 2023, Eqs. 4a and 4b, with L = n + 2 cells per direction, ghosts included. Every cell
    is fetched once, except the corners and edges, which no 7-point stencil reads. Every inner cell is written once.
    With unequal sides there are 8 corners and 4 (Lx + Ly + Lz - 6) edge cells (12 (L - 2) in a cube).
    """
    lengths = [n + 2 for n in shape]
    fetched = lengths[0] * lengths[1] * lengths[2] - 8 - 4 * (sum(lengths) - 6)
    written = shape[0] * shape[1] * shape[2]
    return float(variables * itemsize * (fetched + written))


def exchange_plan(block: Block, dtype: DTypeLike, n_fields: int, layers: int) -> HaloPlan:
    """Return the exchange between GPUs of a block's faces in 1 layer, or in 2 with the edges that two steps need.

    Directions in which the block is periodic with itself are left out, because the sweep wraps them.
    """
    wrap = (False, False, False)
    return HaloPlan(block, n_fields, np.dtype(dtype).itemsize, wrap=wrap, layers=layers, star=layers > 1)


def device_bytes(block: Block, dtype: DTypeLike, n_fields: int) -> dict[str, float]:
    """Return the bytes of one block on its GPU by what they are for, without the context and the kernels' code.

    A block with ghosts of two layers has the exchanges of one and of two layers, so that its launches may have one
    step or two.
    """
    itemsize = np.dtype(dtype).itemsize
    field = (
        BlockArray.bytes_of(block, dtype) + 2 * PAD_ROWS * BlockArray.row_pitch_of(block, dtype) * itemsize
    )
    parts = {"fields": float(SETS * n_fields * field)}
    items = sum(
        exchange_plan(block, dtype, n_fields, layers).buffer_items for layers in range(1, block.ghost + 1)
    )
    if items:
        parts["halo buffers"] = float(2 * items * itemsize)
    return parts


def _edges(case: GrayScottCase, grid: tuple[int, int, int]) -> tuple[int, int]:
    """Return the cells and messages of the edges that all GPUs send for a launch of two steps.

    An edge along x lies between faces across z and y, and there are four of each kind. It is sent if z or y is cut,
    but not beyond a fixed boundary.
    """
    wraps = case.grid.boundary == "periodic"
    sides = [2 * (p if wraps else p - 1) for p in grid]  # of all blocks in a direction that have a neighbour
    cells = messages = 0
    for a, b, along in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
        if grid[a] > 1 or grid[b] > 1:
            cells += sides[a] * sides[b] * case.grid.shape[along]
            messages += sides[a] * sides[b] * grid[along]
    return cells, messages


def estimate(case: GrayScottCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    grid = process_grid(case, n_ranks)
    shape = case.grid.shape
    itemsize = np.dtype(case.run.precision).itemsize
    ghost = ghost_width(case, grid)
    widest = possible_steps(case, grid)[-1] if sweep_is_timed(case, grid) else ghost
    largest = Block.of_rank(shape, grid, 0, ghost=widest)
    nz, ny, nx = largest.shape_local
    allocated = BlockArray.bytes_of(largest, case.run.precision)
    # On CPUs there is a copy of each field in the old and in the new state, and output makes a contiguous copy of one
    # field. Beside a GPU the host holds one copy of each field, and what is sent and received.
    on_device = device_bytes(largest, case.run.precision, FIELDS) if case.run.device == "cuda" else {}
    copies = FIELDS * allocated + on_device.get("halo buffers", 0.0) if on_device else 2 * FIELDS * allocated
    memory = copies + nz * ny * nx * itemsize
    outputs = case.outputs()
    cells = shape[0] * shape[1] * shape[2]
    steps = steps_per_sweep(case, grid)
    faces = [2.0 * steps * cells / shape[d] * grid[d] if grid[d] > 1 else 0.0 for d in range(3)]
    edges, edge_messages = _edges(case, grid) if on_device and steps > 1 else (0, 0)
    work = least_work(
        shape,
        itemsize,
        case.model.noise > 0,
        FIELDS * itemsize * (sum(faces) + edges) / steps,
        (sum(2.0 * n_ranks for d in range(3) if grid[d] > 1) + edge_messages) / steps,
    )
    return Estimate(
        process_grid=grid,
        block=largest.shape_local,
        memory_per_rank=float(memory),
        output_bytes=float(outputs * len(case.output.variables) * cells * itemsize),
        outputs=outputs,
        checkpoint_bytes=float(FIELDS * cells * itemsize),
        work=work,
        device_memory=on_device,
    )
