"""What a run needs and does, counted before it runs. No MPI, no device, no allocation."""

from __future__ import annotations

import ast
import math

import numpy as np

from ridgeline.blocks.block import Block, BlockArray, check_process_grid, choose_process_grid
from ridgeline.blocks.halo import HaloPlan
from ridgeline.blocks.sweep_plan import is_worth_timing, possible_steps, steps_by_rule, thinnest_block
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.reaction_diffusion.formulas import Species
from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase
from ridgeline.runtime.errors import ConfigError


def process_grid(case: ReactionDiffusionCase, n_ranks: int) -> tuple[int, int, int]:
    """Return the process grid of the case. Raises DecompositionError if it does not fit the ranks or the grid."""
    if case.grid.process_grid == "auto":
        return choose_process_grid(case.grid.shape, n_ranks)
    check_process_grid(case.grid.shape, case.grid.process_grid, n_ranks)
    return case.grid.process_grid


def exchanged(case: ReactionDiffusionCase) -> tuple[bool, bool, bool]:
    """Return whether blocks exchange ghosts across the ends of z, y and x.

    The one cell of a plane or of a line has no neighbours, and thus no ghosts to exchange.
    """
    z, y, x = (wraps and n > 1 for n, wraps in zip(case.grid.shape, case.boundary.periodic(), strict=True))
    return z, y, x


def most_steps(case: ReactionDiffusionCase, grid: tuple[int, int, int]) -> float:
    """Return how many steps a sweep may have at most with these blocks."""
    if case.model.scheme != "euler" or case.run.device == "cuda":
        return 1
    return thinnest_block(case.grid.shape, grid, exchanged(case))


def steps_per_sweep(case: ReactionDiffusionCase, grid: tuple[int, int, int]) -> int:
    """Return how many time steps one sweep advances: as set, or by rule.

    Raises ConfigError where blocks are too thin for the steps that are set.
    """
    chosen, most = case.model.steps_per_sweep, most_steps(case, grid)
    if not isinstance(chosen, int):
        itemsize = np.dtype(case.run.precision).itemsize
        return steps_by_rule(case.grid.shape, grid, itemsize, possible_steps(most))
    if chosen > most:
        raise ConfigError(
            f'model.steps_per_sweep = {chosen} cannot be used here. It must be "auto", "rule" or at most {most}, the '
            f"fewest cells of a block in a direction that is periodic or cut (grid.process_grid = {list(grid)})."
        )
    return chosen


def sweep_is_timed(case: ReactionDiffusionCase, grid: tuple[int, int, int]) -> bool:
    """Return whether a run times variants of its sweep, instead of following the rule."""
    is_free = case.model.steps_per_sweep == "auto" and len(case.stages()) == 1 and case.run.device == "cpu"
    return is_free and is_worth_timing(case, case.grid.shape, grid)


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
    widest = possible_steps(most_steps(case, grid))[-1] if sweep_is_timed(case, grid) else steps
    largest = Block.of_rank(shape, grid, 0, ghost=widest)
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
