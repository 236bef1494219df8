"""What it costs to time every step: of regions, of the clock of the steps and of their distribution.

    python benchmarks/step_clock.py             # Gray-Scott 64^3, one rank and one thread; half a minute
    python benchmarks/step_clock.py --quick     # does it run?

The step is the model's own, timed as a run times it. The cost is that of the same clock around a step that enters the
same regions as often and does nothing in them. Sorting of samples into bins is part of it. Two whole runs, with and
without a clock, could not be told apart by so little.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

from mpi4py import MPI

from harness.machine import describe
from harness.table import Row, markdown, show
from ridgeline.models import create
from ridgeline.models.gray_scott.config import GrayScottCase
from ridgeline.runtime.context import Context
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.step_clock import StepClock

TARGET = "<= 0.01"
ROUNDS = 7


def clocked(
    advance: Callable[[int], int], regions: Regions, phases: tuple[str, ...], calls: int
) -> StepClock:
    """Return the clock of that many calls of one sweep each."""
    clock, step = StepClock(regions, phases), 0
    for _ in range(calls):
        step += clock.time(advance, step, 1)
    clock.distribution.sort()
    return clock


def step_of(n: int, calls: int) -> tuple[float, float, dict[str, int], tuple[str, ...]]:
    """Return seconds of a step of Gray-Scott, the best and the median; regions entered a step; the phases."""
    settings = {
        "run": {"model": "gray_scott", "steps": 1},
        "grid": {"shape": [n, n, n]},
        "model": {"steps_per_sweep": 1},
    }
    model, context = create("gray_scott"), Context(MPI.COMM_SELF, "cpu", 1)
    model.setup(GrayScottCase.model_validate(settings), context)
    model.compile()
    model.initialize()
    context.regions.reset()
    clock = clocked(model.step, context.regions, model.phases, calls)
    entered = {name: context.regions.table[name].calls // calls for name in model.phases}
    row = clock.distribution.to_dict()["total"]
    return row["min"], row["percentiles"]["50"], entered, model.phases


def cost_of(entered: dict[str, int], phases: tuple[str, ...], calls: int) -> float:
    """Return the seconds a step of clock, regions and distribution around nothing, the best of some rounds."""
    regions = Regions()

    def nothing(_: int) -> int:
        for name, times in entered.items():
            for _ in range(times):
                with regions(name):
                    pass
        return 1

    def plain(_: int) -> int:
        for _, times in entered.items():
            for _ in range(times):
                pass
        return 1

    def seconds(run: Callable[[], object]) -> float:
        begin = time.perf_counter()
        run()
        return (time.perf_counter() - begin) / calls

    def unclocked() -> None:
        for _ in range(calls):
            plain(1)

    with_clock = min(seconds(lambda: clocked(nothing, regions, phases, calls)) for _ in range(ROUNDS))
    return with_clock - min(seconds(unclocked) for _ in range(ROUNDS))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few steps: does it run?")
    parser.add_argument("--size", type=int, default=64, help="points in each direction (default 64)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows for machines")
    options = parser.parse_args()
    calls = 200 if options.quick else 20_000
    best, median, entered, phases = step_of(options.size, calls)
    cost = cost_of(entered, phases, calls)
    note = (
        f"{1e6 * cost:.2f} us of {1e6 * best:.0f} us (median {1e6 * median:.0f} us); "
        f"{1 + sum(entered.values())} regions a step"
    )
    name = f"clock, regions and distribution over a Gray-Scott step of {options.size}^3, 1 rank x 1 thread"
    rows = [Row(name, cost / best, TARGET, cost / median, note)]
    machine = describe()
    show("cost of timing every step", rows, machine)
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine, "rows": [vars(row) for row in rows]}, indent=2)
        )
    print(markdown(rows, machine, " ".join(["python", *sys.argv])))


if __name__ == "__main__":
    main()
