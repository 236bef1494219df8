"""How many steps a launch on a GPU advances: as set, by rule, or as the faster of one and two, timed before the run.

Two steps a launch move fewer bytes and compute more, so that which is faster is the GPU's business. On several GPUs
two steps also send half as many messages, and more of them. A run that is long enough times both, in its own fields
before they hold its start. On several GPUs these have ghosts of two layers, but one step a launch sends one: so each
is timed as it would run. Results do not depend on the choice, bit for bit. It is kept for later runs, where the CPU's
are (`sweep_choice`), by the same rules (`parallel/autotuner.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from numba import cuda

from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.estimate import (
    launch_is_timed,
    least_work,
    possible_steps,
    steps_per_sweep,
)
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.models.gray_scott.sweep_choice import SweepChoice, mean_steps
from ridgeline.parallel.autotuner import choose
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.partition import Triple

BYTES_PER_CALL = 4e10  # that a timed call moves on a GPU, about: some 10 ms
MOST_LAUNCHES = 1000  # of a timed call: small grids wait for launches, not for memory


def choose_launch(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Let the engine take the steps per launch that are set or fastest; return the choice. Collective.

    What its fields hold is lost if anything is timed. Raises ConfigError as `estimate.steps_per_sweep`.
    """
    chosen, steps = case.model.steps_per_sweep, steps_per_sweep(case, grid)
    if launch_is_timed(case, grid):
        choice = _time_launches(case, grid, engine, context)
    elif isinstance(chosen, int):
        choice = SweepChoice(steps, None, "as set")
    elif chosen == "rule":
        choice = SweepChoice(steps, None, "by rule")
    elif len(possible_steps(case, grid)) == 1:
        choice = SweepChoice(steps, None, "by rule, since blocks are thin")
    else:
        choice = SweepChoice(steps, None, "by rule, since the run is short")
    engine.take_steps(choice.steps)
    return choice


def _time_launches(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Return the faster of one and two steps a launch; compiles both."""
    engine.take_steps(2)
    in_turn_per_node(context.comm, engine.compile)
    work = least_work(case.grid.shape, np.dtype(case.run.precision).itemsize, case.model.noise > 0, 0, 0)
    step_bytes = work.bytes_memory / math.prod(grid)
    launches = min(MOST_LAUNCHES, max(2, round(BYTES_PER_CALL / step_bytes)))
    steps = {"1 step a launch": 1, "2 steps a launch": 2}
    candidates = {name: partial(_launch, engine, n, launches) for name, n in steps.items()}
    lengths = {name: mean_steps(case, n) for name, n in steps.items()}
    exchange = f"in {grid} through {engine.way}; " if context.comm.size > 1 else ""
    key = (
        f"launch; {engine.device.name}; {exchange}"
        f"{case.grid.shape} {case.grid.boundary} {case.run.precision}; "
        f"{case.settled().model.random_numbers if case.model.noise else 'no noise'}; "
        f"steps {', '.join(f'{each:.3g}' for each in lengths.values())}"
    )
    of_call = {name: launches * length for name, length in lengths.items()}
    trial = choose(candidates, key, context.comm, of_call)
    return SweepChoice(steps[trial.taken], None, trial.source, trial)


def _launch(engine: CudaEngine, steps: int, launches: int) -> Mapping[str, float]:
    """Advance by some launches and wait for the device."""
    engine.take_steps(steps)
    for _ in range(launches):
        engine.advance(0, steps)
    cuda.synchronize()
    return {}
