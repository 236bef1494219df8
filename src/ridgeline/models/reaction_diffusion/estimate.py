"""What a run needs and does, counted before it runs. No MPI, no device, no allocation."""

from __future__ import annotations

import ast
import math

import numpy as np

from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
from ridgeline.blocks.halo import HaloPlan
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.reaction_diffusion.formulas import Species
from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase
from ridgeline.runtime.errors import ConfigError

# Bytes of a row from which on the rule takes two steps per sweep, as in Gray-Scott (docs/theory-sweep.md).
LONG_ROW = 4096


def process_grid(case: ReactionDiffusionCase, n_ranks: int) -> tuple[int, int, int]:
    """Return the process grid of the case. Raises DecompositionError if it does not fit the ranks or the grid."""
    if case.grid.process_grid == "auto":
        return choose_process_grid(case.grid.shape, n_ranks)
    check_process_grid(case.grid.shape, case.grid.process_grid, n_ranks)
    return case.grid.process_grid


def steps_per_sweep(case: ReactionDiffusionCase, grid: tuple[int, int, int]) -> int:
    """Return how many time steps one sweep advances: as set, or by rule.

    Raises ConfigError where blocks are too thin for the steps that are set: ghosts are as wide as the steps, and come
    from direct neighbours only.
    """
    periodic = case.boundary.periodic()
    thinnest = [
        n // p
        for n, p, wraps in zip(case.grid.shape, grid, periodic, strict=True)
        if p > 1 or (wraps and n > 1)
    ]
    most = min(thinnest, default=math.inf)
    chosen = case.model.steps_per_sweep
    if case.model.scheme != "euler" or case.run.device == "cuda":
        return 1
    if isinstance(chosen, int):
        if chosen > most:
            raise ConfigError(
                f'model.steps_per_sweep = {chosen} cannot be used here. It must be "auto" or at most {most}, the '
                f"fewest cells of a block in a direction that is periodic or cut (grid.process_grid = {list(grid)})."
            )
        return chosen
    row = case.grid.shape[2] // grid[2] * np.dtype(case.run.precision).itemsize
    return 2 if row >= LONG_ROW and most >= 2 and case.grid.shape[0] > 1 else 1


def device_bytes(case: ReactionDiffusionCase, block: Block) -> dict[str, float]:
    """Return the bytes of one block on its GPU by what they are for, without the context and the kernels' code."""
    dtype, n_fields = np.dtype(case.run.precision), len(case.species)
    parts = {"fields": 2.0 * n_fields * BlockArray.bytes_of(block, dtype)}
    if items := HaloPlan(block, n_fields, dtype.itemsize).buffer_items:
        parts["halo buffers"] = 2.0 * items * dtype.itemsize
    return parts


def flops_per_cell(species: tuple[Species, ...], directions: int) -> int:
    """Return the operations of a cell as the formulas are written: an operation for each operator and function."""
    total = 0
    for each in species:
        total += 2 + _operations(each.rate.tree) + (2 if each.noise else 0)
        if each.of_place:
            total += directions * 6 + 2 * sum(_operations(formula.tree) for formula in each.diffusivity)
        else:
            total += 2 * directions + 3
    return total


def _operations(tree: ast.expr) -> int:
    kinds = ast.BinOp | ast.UnaryOp | ast.Compare | ast.Call | ast.BoolOp | ast.IfExp
    return sum(isinstance(node, kinds) for node in ast.walk(tree))


def least_work(case: ReactionDiffusionCase, bytes_exchanged: float, messages: float) -> Work:
    """Return the least work of one step, in which each stage reads and writes each species once.

    Stages after the first also read what they combine with.
    """
    cells = math.prod(case.grid.shape)
    directions = sum(n > 1 for n in case.grid.shape)
    flops = flops_per_cell(case.species, directions)
    itemsize = np.dtype(case.run.precision).itemsize
    stages = len(case.stages())
    moved = (3.0 * stages - 1.0) * len(case.species) * itemsize * cells
    return Work(cells, float(flops * cells * stages), moved, bytes_exchanged, messages)


def estimate(case: ReactionDiffusionCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    grid = process_grid(case, n_ranks)
    shape = case.grid.shape
    steps = steps_per_sweep(case, grid)
    itemsize = np.dtype(case.run.precision).itemsize
    largest = Block.of_rank(shape, grid, 0, ghost=steps)
    n_fields, cells = len(case.species), math.prod(shape)
    on_device = device_bytes(case, largest) if case.run.device == "cuda" else {}
    # Beside a GPU the host holds one copy of each species, and what is sent and received.
    sets = 1 if on_device else 2
    memory = sets * n_fields * BlockArray.bytes_of(largest, case.run.precision)
    memory += int(on_device.get("halo buffers", 0))
    outputs = case.outputs()
    periodic = case.boundary.periodic()
    stages = len(case.stages())
    faces = messages = 0.0
    for n, p, wraps in zip(shape, grid, periodic, strict=True):
        if p > 1:
            pairs = p if wraps else p - 1
            faces += 2.0 * pairs * cells / n
            messages += 2.0 * pairs * n_ranks / p / steps
    return Estimate(
        process_grid=grid,
        block=largest.shape_local,
        memory_per_rank=float(memory + math.prod(largest.shape_local) * itemsize),
        output_bytes=float(outputs * len(case.output.variables) * cells * itemsize),
        outputs=outputs,
        checkpoint_bytes=float(n_fields * cells * itemsize),
        work=least_work(case, n_fields * itemsize * faces * stages, messages * stages),
        device_memory=on_device,
    )
