"""How many steps a launch on a GPU advances: as set, by rule, or as the faster of one and two, timed before the run.

Two steps a launch move fewer bytes and compute more, so that which is faster is the GPU's business. A run on one GPU
that is long enough times both, in its own fields before they hold its start. Results do not depend on the choice, bit
for bit. It is kept for later runs, where the CPU's are (`sweep_choice`), by the same rules (`parallel/choices.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from numba import cuda

from ridgeline.models.contract import Context
from ridgeline.models.gray_scott.config import GrayScottCase
from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
from ridgeline.models.gray_scott.estimate import least_work, steps_per_sweep
from ridgeline.models.gray_scott.sweep_choice import SweepChoice, choices_file, mean_steps
from ridgeline.parallel.choices import choose
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.parallel.partition import Triple
from ridgeline.version import VERSION

BYTES_TIMED = (
    2e13  # that a run moves at least before it times anything: some 5 s of an H100's or H200's memory
)
BYTES_PER_CALL = 4e10  # that a timed call moves, about: some 10 ms
MOST_LAUNCHES = 1000  # of a timed call: small grids wait for launches, not for memory


def choose_launch(case: GrayScottCase, grid: Triple, engine: CudaEngine, context: Context) -> SweepChoice:
    """Let the engine take the steps per launch that are set or fastest; return the choice. Collective.

    What its fields hold is lost if anything is timed. Raises ConfigError as `estimate.steps_per_sweep`.
    """
    chosen, steps = case.model.steps_per_sweep, steps_per_sweep(case, grid)
    work = least_work(case.grid.shape, np.dtype(case.run.precision).itemsize, case.model.noise > 0, 0, 0)
    choice = None
    if isinstance(chosen, int):
        choice = SweepChoice(steps, None, "as set")
    elif chosen == "rule":
        choice = SweepChoice(steps, None, "by rule")
    elif math.prod(grid) > 1:
        choice = SweepChoice(steps, None, "by rule, since ranks share the grid")
    elif work.bytes_memory * case.run.steps < BYTES_TIMED:
        choice = SweepChoice(steps, None, "by rule, since the run is short")
    if choice is None:
        choice = _time_launches(case, engine, work.bytes_memory, context)
    engine.take_steps(choice.steps)
    return choice


def _time_launches(
    case: GrayScottCase, engine: CudaEngine, step_bytes: float, context: Context
) -> SweepChoice:
    """Return the faster of one and two steps a launch; compiles both."""
    engine.take_steps(2)
    in_turn_per_node(context.comm, engine.compile)
    launches = min(MOST_LAUNCHES, max(2, round(BYTES_PER_CALL / step_bytes)))
    steps = {"1 step a launch": 1, "2 steps a launch": 2}
    candidates = {name: partial(_launch, engine, n, launches) for name, n in steps.items()}
    lengths = {name: mean_steps(case, n) for name, n in steps.items()}
    key = (
        f"{VERSION}; {engine.device.name}; {case.grid.shape} {case.grid.boundary} {case.run.precision}; "
        f"{case.settled().model.random_numbers if case.model.noise else 'no noise'}; "
        f"steps {', '.join(f'{each:.3g}' for each in lengths.values())}"
    )
    work = {name: launches * length for name, length in lengths.items()}
    trial = choose(candidates, key, context.comm, choices_file(), work)
    source = "as timed in an earlier run" if trial.earlier_run else "as timed now"
    return SweepChoice(steps[trial.taken], None, source, trial)


def _launch(engine: CudaEngine, steps: int, launches: int) -> Mapping[str, float]:
    """Advance by some launches and wait for the device."""
    engine.take_steps(steps)
    for _ in range(launches):
        engine.advance(0, steps)
    cuda.synchronize()
    return {}
