"""Steps of a launch on GPUs: as set, by rule, or as the faster of one and two, timed before the run.

Two steps move fewer bytes and compute more. On several GPUs they also send half as many messages, with more in each.
Both are timed in the run's own fields, before these hold its initial state, and each with the exchange that it would
run with.
"""

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from numba import cuda

from ridgeline.blocks.sweep_choice import SweepChoice, mean_steps
from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.estimate import launch_is_timed, least_work, possible_steps, steps_per_sweep
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.parallel.autotuner import choose
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.parallel.partition import Triple

BYTES_PER_CALL = 4e10  # that a timed call moves on a GPU, about: some 10 ms
MOST_LAUNCHES = 1000  # of a timed call: small grids wait for launches, not for memory


def choose_launch(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Set the engine's steps per launch to what is set or is fastest, and return the choice. Collective.

    What its fields hold is lost if anything is timed. Raises ConfigError as `estimate.steps_per_sweep` does.
    """
    if launch_is_timed(case, grid):
        choice = _time_launches(case, grid, engine, context)
    else:
        is_thin = len(possible_steps(case, grid)) == 1
        reason = "because the blocks are thin" if is_thin else "because the run is short"
        choice = SweepChoice.untimed(case.model.steps_per_sweep, steps_per_sweep(case, grid), reason)
    engine.set_steps_per_sweep(choice.steps)
    return choice


def _time_launches(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Return the faster of one and two steps a launch; compiles both."""
    engine.set_steps_per_sweep(2)
    compile_on_nodes(context.comm, engine.compile)
    work = least_work(case.grid.shape, np.dtype(case.run.precision).itemsize, case.model.noise > 0, 0, 0)
    step_bytes = work.bytes_memory / math.prod(grid)
    launches = min(MOST_LAUNCHES, max(2, round(BYTES_PER_CALL / step_bytes)))

    def launch(steps: int) -> Mapping[str, float]:
        engine.set_steps_per_sweep(steps)
        for _ in range(launches):
            engine.advance(0, steps)
        cuda.synchronize()
        return {}

    steps = {"1 step per launch": 1, "2 steps per launch": 2}
    candidates = {name: partial(launch, n) for name, n in steps.items()}
    lengths = {name: mean_steps(case, n) for name, n in steps.items()}
    exchange = f"in {grid} through {engine.transport}; " if context.comm.size > 1 else ""
    key = (
        f"launch; {engine.device.name}; {exchange}"
        f"{case.grid.shape} {case.grid.boundary} {case.run.precision}; "
        f"{case.settled().model.random_numbers if case.model.noise else 'no noise'}; "
        f"steps {', '.join(f'{each:.3g}' for each in lengths.values())}"
    )
    steps_per_call = {name: launches * length for name, length in lengths.items()}
    trial = choose(candidates, key, context.comm, steps_per_call)
    return SweepChoice(steps[trial.taken], None, trial.source, trial)
