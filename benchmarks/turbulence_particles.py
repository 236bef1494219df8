"""What fluid particles add to a step of turbulence, and a particle's seconds by part.

    python benchmarks/turbulence_particles.py [--quick] [--json FILE]

Two models of one MPI job take their steps in turn: one with particles, one without. What the figures mean and their
target: benchmarks/README.md.
"""

import argparse
import json
import sys
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from harness.machine import describe
from harness.ranks import run_job
from harness.table import Row, markdown, show, write_json
from ridgeline.parallel.job import prepare_rank

if TYPE_CHECKING:
    from mpi4py import MPI

WARM = 2  # steps before those that count
COMMAND = "python benchmarks/turbulence_particles.py"


def settings_of(n: int, dtype: str, scheme: str, count: int) -> dict[str, Any]:
    """Return the settings of a random flow with particles, with no output."""
    return {
        "run": {"model": "turbulence", "steps": 1, "precision": dtype},
        "grid": {"shape": [n, n, n]},
        "model": {"viscosity": 5e-3, "scheme": scheme, "courant": 0.5},
        "initial": {"kind": "spectrum"},
        "particles": {"count": count},
    }


def measure(comm: "MPI.Comm", settings: dict[str, Any]) -> dict[str, Any]:
    """Return seconds of steps without and with particles, and of their parts, of the slowest rank. Collective.

    CPU seconds are of the same steps: on a machine that others use too they say what the wall clock cannot.
    """
    from ridgeline.models.turbulence.fluid_particles.tracers import PARTS
    from ridgeline.parallel.allreduce import allreduce_max

    case = settings["case"]
    alone, _ = model_of(comm, {**case, "particles": {"count": 0}})
    model, context = model_of(comm, case)
    parts: Any = model._particles.tracers.regions

    def seconds() -> list[float]:
        return [context.regions.seconds("particles"), *(parts.seconds(name) for name in PARTS)]

    def timed(each: Any) -> tuple[float, float]:
        comm.Barrier()
        begin, cpu = perf_counter(), process_time()
        each.step(1)
        cpu = process_time() - cpu
        comm.Barrier()
        return perf_counter() - begin, cpu

    rows = []
    for _ in range(WARM + settings["steps"]):
        before = timed(alone)
        first = seconds()
        after = timed(model)
        each = [now - then for now, then in zip(seconds(), first)]
        rows.append(allreduce_max(comm, [*before, *after, *each]).tolist())
    names = ("without", "without, CPU", "with", "with, CPU", "particles", *PARTS)
    return {"seconds": [dict(zip(names, row)) for row in rows[WARM:]]}


def model_of(comm: "MPI.Comm", case: dict[str, Any]) -> tuple[Any, Any]:
    """Return a model at step 0, and its context. Collective."""
    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    model, context = create("turbulence"), Context(comm, "cpu", 1)
    model.setup(case_class("turbulence").model_validate(case), context)
    model.compile()
    model.initialize()
    return model, context


def rows_of(found: dict[str, Any], words: str, count: int, ranks: int, target: str) -> list[Row]:
    """Return what is shown of a job: the share of particles, and nanoseconds of each part."""
    steps = found["seconds"]

    def both(name: str) -> tuple[float, float]:
        ordered = sorted(step[name] for step in steps)
        return ordered[0], ordered[len(ordered) // 2]

    rows = []
    for clock, aim in (("", target), (", CPU", "")):
        (least, middle), (least_alone, middle_alone) = both("with" + clock), both("without" + clock)
        note = f"a step {1e3 * least:.3g} ms, without particles {1e3 * least_alone:.3g} ms"
        added = least / least_alone - 1, middle / middle_alone - 1
        rows.append(Row(f"{words}: added by particles{clock}", added[0], aim, added[1], note))
    solver = both("without")
    for part in [name for name in steps[0] if "with" not in name]:
        # One step in many sorts: its share is that of all steps.
        least, middle = both(part) if part != "sort" else 2 * (sum(s[part] for s in steps) / len(steps),)
        note = f"{middle / solver[1]:.3f} of a step without particles"
        each = [1e9 * value * ranks / count for value in (least, middle)]
        rows.append(Row(f"{words}: {part}, a particle on a core", each[0], "", each[1], note, unit="ns"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="run 32^3 points, 10^4 particles and 3 steps")
    parser.add_argument("--size", type=int, default=128, help="points in each direction (128)")
    parser.add_argument("--count", type=int, default=10**6, help="number of particles (10^6)")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--schemes", nargs="+", default=["rk2", "rk4"])
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    n, count, steps = (32, 10**4, 3) if options.quick else (options.size, options.count, options.steps)
    rows: list[Row] = []
    for scheme in options.schemes:
        for dtype in options.dtypes:
            job = {"case": settings_of(n, dtype, scheme, count), "steps": steps}
            found = run_job(__file__, options.ranks, job)
            target = "<= 0.15" if (scheme, dtype, n, count) == ("rk2", "float64", 128, 10**6) else ""
            words = f"{scheme}, {n}^3, {dtype}, {count:.3g} particles, {options.ranks} ranks"
            rows += rows_of(found, words, count, options.ranks, target)
    machine = describe()
    show("Fluid particles", rows, machine)
    print(markdown(rows, machine, COMMAND))
    if options.json:
        write_json(options.json, rows, machine, COMMAND)


def job_main(text: str) -> None:
    """Run what a rank runs."""
    prepare_rank()
    from ridgeline.parallel.job import job

    with job() as comm:
        found = measure(comm, json.loads(text))
        if comm.rank == 0:
            print(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        job_main(sys.argv[1])
    else:
        main()
