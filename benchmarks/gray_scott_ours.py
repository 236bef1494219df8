"""Our Gray-Scott sweep on the arrays that the C peers use."""

from collections.abc import Callable

import numpy as np

from gray_scott_peers import Fields, step_coefficients
from ridgeline.blocks.sweep import make_scratch, make_sweep, tiling
from ridgeline.jit.barrier import make_barrier
from ridgeline.jit.random import PHILOX_7, round_keys
from ridgeline.models.gray_scott.engine_cpu import held_sides
from ridgeline.models.gray_scott.kernels import GRAY_SCOTT, numbers


def ours(
    fields: Fields,
    n_threads: int,
    steps: int = 1,
    noise: float = 0.0,
    tile_rows: int | None = None,
    seed: int = 7,
    step: int = 3,
) -> Callable[[Fields], None]:
    """Return the sweep of `steps` steps over a whole block of this shape, dtype and ghost width >= steps.

    tile_rows: None takes what the model would.
    """
    dtype, block = fields.dtype, fields.u.block
    plan = tiling(dtype, 2, block.shape_local, steps)
    rows = plan.tile_rows if tile_rows is None else tile_rows
    scratch = make_scratch(dtype, 2, block.shape_local, steps, rows, n_threads)
    sweep = make_sweep(GRAY_SCOTT, PHILOX_7, n_threads > 1)
    keys = round_keys(seed, PHILOX_7.rounds) if noise else None
    c = numbers(step_coefficients(str(dtype), noise), dtype, steps)
    sides = held_sides(dtype)
    nz, ny, nx = block.shape_local
    boxes, barrier = np.array([(0, nz, 0, ny, 0, nx)]), make_barrier(n_threads)
    layout = fields.u.origin, fields.u.row_pitch, fields.u.plane_pitch

    def run(fields: Fields) -> None:
        sweep(
            (fields.u.flat, fields.v.flat), layout, boxes, block.offset_global, block.shape_global,
            block.periodic, step, steps, 1, keys, c, sides, rows, plan.streaming, n_threads, barrier, scratch,
            (fields.u_new.flat, fields.v_new.flat),
        )  # fmt: skip

    return run
