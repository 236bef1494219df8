"""What a Gray-Scott run needs and does, before it runs: no MPI, no allocation."""

from __future__ import annotations

import math

import numpy as np

from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.gray_scott.config import GrayScottCase
from ridgeline.models.gray_scott.device.memory import device_bytes
from ridgeline.runtime.errors import ConfigError

FIELDS = 2
# Per cell, fused multiply-adds counted as two: 2 x 5 additions of neighbours, 3 multiplications and an addition for
# the reaction terms (u v^2 dt, 1 - u), 6 fused multiply-adds and 2 additions for the update; negations are free.
FLOPS_PER_CELL = 10 + 4 + 12 + 2
FLOPS_NOISE = 2  # one more fused multiply-add


def process_grid(case: GrayScottCase, n_ranks: int) -> tuple[int, int, int]:
    """Return the process grid of the case; DecompositionError if it does not fit the ranks or the grid."""
    if case.grid.process_grid == "auto":
        return choose_process_grid(case.grid.shape, n_ranks)
    check_process_grid(case.grid.shape, case.grid.process_grid, n_ranks)
    return case.grid.process_grid


# Two steps per pass pay where rows are long: three planes of long rows crowd the caches in any case, so that a
# sweep waits for memory (docs/theory-sweep.md). Shorter rows stay in cache and one step is as fast.
LONG_ROW = 4096  # bytes


MOST_STEPS = 3  # of a sweep that are timed: 4 were never faster

# Ways to cut the sweeps are timed if a run takes much longer than that, some 5 s of a core's time, and if its fields
# do not stay in a second-level cache whatever is chosen.
CELL_STEPS_TIMED = 5_000_000_000  # cells * steps of a thread
CELLS_TIMED = 32**3  # of a block


def possible_steps(case: GrayScottCase, grid: tuple[int, int, int]) -> range:
    """Return the steps of a sweep that the blocks allow, of those that are worth a thought.

    Ghosts are as wide as the steps, and come from direct neighbours only. So the thinnest block in a direction that
    is cut or periodic bounds them.
    """
    periodic = case.grid.boundary == "periodic"
    thinnest = [n // p for n, p in zip(case.grid.shape, grid) if p > 1 or periodic]
    return range(1, 1 + max(1, min([MOST_STEPS, *thinnest])))


def steps_per_sweep(case: GrayScottCase, grid: tuple[int, int, int]) -> int:
    """Return how many time steps one sweep advances: as set, or by rule what is usually fastest.

    Raises ConfigError for several steps on several GPUs.
    """
    chosen, on_gpu = case.model.steps_per_sweep, case.run.device == "cuda"
    if isinstance(chosen, int):
        if on_gpu and chosen > 1 and math.prod(grid) > 1:
            raise ConfigError(
                f'model.steps_per_sweep: got {chosen}; need "auto", "rule" or 1 with run.device = "cuda" on '
                f"{math.prod(grid)} ranks: a launch of two steps needs the whole grid on one GPU (-n 1)"
            )
        return chosen
    if on_gpu:
        return 1
    row = case.grid.shape[2] // grid[2] * np.dtype(case.run.precision).itemsize
    return min(2 if row >= LONG_ROW else 1, possible_steps(case, grid)[-1])


def ghost_width(case: GrayScottCase, grid: tuple[int, int, int]) -> int:
    """Return the layers of ghosts: one for each step of a sweep on CPUs, one on GPUs. Raises as `steps_per_sweep`."""
    steps = steps_per_sweep(case, grid)
    return steps if case.run.device == "cpu" else 1


def sweep_is_timed(case: GrayScottCase, grid: tuple[int, int, int]) -> bool:
    """Say whether a run takes the fastest of ways that are timed, and not that of the rule."""
    cells = math.prod(Block.of_rank(case.grid.shape, grid, 0).shape_local)
    worth = cells > CELLS_TIMED and cells * case.run.steps >= CELL_STEPS_TIMED * case.run.threads
    return worth and case.model.steps_per_sweep == "auto" and case.run.device == "cpu"


def least_work(
    shape: tuple[int, int, int], itemsize: int, noisy: bool, bytes_exchanged: float, messages: float
) -> Work:
    """Return the least work of one step: each of the two fields is read once and written once."""
    points = shape[0] * shape[1] * shape[2]
    flops = FLOPS_PER_CELL + (FLOPS_NOISE if noisy else 0)
    return Work(
        points, float(flops * points), float(2 * FIELDS * itemsize * points), bytes_exchanged, messages
    )


def effective_bytes(shape: tuple[int, int, int], itemsize: int, variables: int = 1) -> float:
    """Return the least bytes that one sweep over a block of `shape` computed cells must move, as the Frontier paper
    counts them.

    Source: Godoy et al., SC-W 2023, Eqs. 4a and 4b, with L = n + 2 cells per direction, ghosts included. Every cell
    is fetched once but the corners and edges, which no 7-point stencil reads. Every inner cell is written once. For
    unequal sides, 8 corners and 4 (Lx + Ly + Lz - 6) edge cells (12 (L - 2) in a cube).
    """
    lengths = [n + 2 for n in shape]
    fetched = lengths[0] * lengths[1] * lengths[2] - 8 - 4 * (sum(lengths) - 6)
    written = shape[0] * shape[1] * shape[2]
    return float(variables * itemsize * (fetched + written))


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
    # One copy of each field in the old and the new state, and the contiguous copy that output makes of one. Beside a
    # GPU the host holds one copy, and what is sent and received.
    on_device = device_bytes(largest, case.run.precision, FIELDS) if case.run.device == "cuda" else {}
    copies = FIELDS * allocated + on_device.get("halo buffers", 0.0) if on_device else 2 * FIELDS * allocated
    memory = copies + nz * ny * nx * itemsize
    outputs = case.run.steps // case.output.every if case.output.every else 0
    outputs += 1 if case.output.every and case.output.initial else 0
    cells = shape[0] * shape[1] * shape[2]
    faces = [2.0 * ghost * cells / shape[d] * grid[d] if grid[d] > 1 else 0.0 for d in range(3)]
    work = least_work(
        shape,
        itemsize,
        case.model.noise > 0,
        FIELDS * itemsize * sum(faces) / ghost,
        sum(2.0 * n_ranks for d in range(3) if grid[d] > 1) / ghost,
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
