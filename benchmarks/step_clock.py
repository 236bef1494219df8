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
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

from mpi4py import MPI

from harness.machine import describe
from harness.table import Row, markdown, show
from ridgeline.models import create
from ridgeline.models.gray_scott.settings import GrayScottCase
from ridgeline.runtime.context import Context
from ridgeline.runtime.regions import Regions
from ridgeline.simulation.step_times import AT_ONCE, StepClock

TARGET = "<= 0.01"
ENTERED = {"compute": 2, "exchange": 2}  # regions that a step of Gray-Scott enters, and how often


def step_of(n: int, calls: int) -> tuple[float, float]:
    """Return seconds of a step of Gray-Scott, the best and the median."""
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
    clock = StepClock(context.regions, model.phases)
    for step in range(calls):
        with clock:
            steps = model.step(1)
        clock.record(step + steps, steps)
    entered = {name: context.regions.table[name].calls // calls for name in model.phases}
    if entered != ENTERED:
        raise SystemExit(f"error: a step of Gray-Scott enters {entered}, not {ENTERED}. Change `cost_of`.")
    row = clock.distribution.to_dict()["total"]
    return row["min"], row["percentiles"]["50"]


def cost_of(batches: int) -> tuple[float, float]:
    """Return the seconds a step of clock, regions and distribution around nothing: of the best batch, the median.

    A batch has as many calls as are sorted into bins together, so that each sorts once.
    """
    regions = Regions()
    clock = StepClock(regions, tuple(ENTERED))

    def nothing(_: int) -> int:
        compute, exchange = regions("compute"), regions("exchange")
        with compute:
            pass
        with exchange:
            pass
        with compute:
            pass
        with exchange:
            pass
        return 1

    seconds = []
    for _ in range(batches):
        begin = time.perf_counter()
        for step in range(AT_ONCE):
            with clock:
                steps = nothing(1)
            clock.record(step + steps, steps)
        seconds.append((time.perf_counter() - begin) / AT_ONCE)
    return min(seconds), sorted(seconds)[batches // 2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only test that it runs, with few steps")
    parser.add_argument("--size", type=int, default=64, help="number of points in each direction (64)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    options = parser.parse_args()
    best, median = step_of(options.size, 200 if options.quick else 20_000)
    cost, middle = cost_of(10 if options.quick else 1000)
    note = (
        f"{1e6 * cost:.2f} us of {1e6 * best:.0f} us, medians {1e6 * middle:.2f} us of {1e6 * median:.0f} us; "
        f"{sum(ENTERED.values())} regions a step"
    )
    name = f"clock, regions and distribution over a Gray-Scott step of {options.size}^3, 1 rank x 1 thread"
    rows = [Row(name, cost / best, TARGET, middle / median, note)]
    machine = describe()
    show("cost of timing every step", rows, machine)
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine, "rows": [vars(row) for row in rows]}, indent=2)
        )
    print(markdown(rows, machine, " ".join(["python", *sys.argv])))


if __name__ == "__main__":
    main()
