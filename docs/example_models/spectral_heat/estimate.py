"""What a run needs, before it runs: no MPI, no allocation."""

import math

import numpy as np

from ridgeline.api import Estimate, PencilGrid, Work


def pencil_grid(case, n_ranks: int, rank: int) -> PencilGrid:
    """Return the points and modes of a rank: slabs, which divide only y. All modes but Nyquist's are kept."""
    return PencilGrid(case.grid.shape, "none", (1, n_ranks), rank)


def estimate(case, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    grid = pencil_grid(case, n_ranks, 0)
    real = np.dtype(case.run.precision).itemsize
    points, modes, outputs = math.prod(case.grid.shape), grid.truncation.n_modes, case.outputs()
    return Estimate(
        process_grid=grid.process_grid,
        block=grid.block,
        # The modes with their rates and factors, a field of points, and two buffers of the exchange.
        memory_per_rank=float(real * (4 * grid.lines.n_modes + 3 * math.prod(grid.block))),
        output_bytes=float(outputs * points * real),
        outputs=outputs,
        checkpoint_bytes=float(2 * real * modes),
        work=Work(points, 2 * modes, 4 * real * modes, 0, 0),
    )
