"""What a run needs, before it runs: no MPI, no allocation."""

import math

from ridgeline.api import Block, Estimate, Work, choose_process_grid

STATE = 48  # bytes of a position and a velocity
FLOPS = 3 * 6  # two kicks and a drift of three components


def estimate(case, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    shape, outputs = case.grid.shape, case.outputs()
    grid, n = choose_process_grid(shape, n_ranks), math.prod(shape)
    return Estimate(
        process_grid=grid,
        block=Block.of_rank(shape, grid, 0).shape_local,
        # A rank may have all particles: they meet at the origin.
        memory_per_rank=float(2 * STATE * n),
        output_bytes=float(outputs * n * 24 * len(case.output.variables)),
        outputs=outputs,
        checkpoint_bytes=float(STATE * n),
        work=Work(n, FLOPS * n, 2 * STATE * n, 0, 0),
    )
