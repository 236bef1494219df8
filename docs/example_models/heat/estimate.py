"""What a run of the heat model needs, before it runs: no MPI, no allocation."""

import math

import numpy as np

from ridgeline.api import Block, Estimate, Work, check_process_grid, choose_process_grid

FLOPS_PER_CELL = 9


def estimate(case, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    shape, grid = case.grid.shape, case.grid.process_grid
    if grid == "auto":
        grid = choose_process_grid(shape, n_ranks)
    check_process_grid(shape, grid, n_ranks)
    itemsize = np.dtype(case.run.precision).itemsize
    cells = math.prod(shape)
    block = Block.of_rank(shape, grid, 0).shape_local
    cut = [axis for axis in range(3) if grid[axis] > 1]
    sent = sum(2 * itemsize * cells // shape[axis] * grid[axis] for axis in cut)
    outputs = case.outputs()
    return Estimate(
        process_grid=grid,
        block=block,
        memory_per_rank=float(2 * itemsize * math.prod(n + 2 for n in block)),
        output_bytes=float(outputs * cells * itemsize),
        outputs=outputs,
        checkpoint_bytes=float(cells * itemsize),
        work=Work(cells, FLOPS_PER_CELL * cells, 2 * itemsize * cells, sent, 2 * n_ranks * len(cut)),
    )
