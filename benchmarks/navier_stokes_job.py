"""One case of the Navier-Stokes benchmark on some ranks: all runs in turn, round after round, in one MPI job.

Started by `navier_stokes.py`; what each rank runs: mpiexec -n P python benchmarks/navier_stokes_job.py SETTINGS.
SETTINGS is a JSON object: runs: names out of RUNS; points: about how many in each direction; seconds, min_rounds: how
long; alone: whether the first run is also timed on one rank while the others sleep. Rank 0 prints, by name, seconds
of every step, counted bytes and flops of a step, iterations, unique points, and the triad of the same run.
"""

import json
import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.ranks import wait_asleep
from turbulence_job import stream_triad

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.contract import Model

MAX_ROUNDS = 200
WARM_UP = 25  # steps: the spaces of last solutions fill, and iterations settle
# Name of a run: order, mapping, scalar and its expansion. Taylor-Green at Re = 1600 in a periodic box.
RUNS: dict[str, tuple[int, str, float | None]] = {
    "p=7": (7, "none", None),
    "p=15": (15, "none", None),
    "p=7 curved": (7, "wavy", None),
    "p=7 passive scalar": (7, "none", 0.0),
    "p=7 buoyant scalar": (7, "none", 1.0),
}
# Chosen so that a step takes 1 iteration for the pressure and 1 for the velocity, as Nek5000's figure is quoted.
TOLERANCES = {"pressure": 1e-8, "velocity": 1e-10}


def settings_of_case(name: str, points: int) -> dict[str, Any]:
    """Return the settings of a run without output."""
    order, mapping, expansion = RUNS[name]
    scalars = []
    if expansion is not None:  # in a stable stratification
        scalars = [{"diffusivity": 1 / 1600, "mean_gradient": [0, 0, 1], "expansion": expansion}]
    elements = max(1, round(points / order))
    return {
        "run": {"model": "navier_stokes", "steps": 1},
        "grid": {
            "elements": [elements] * 3,
            "order": order,
            "lengths": [2 * math.pi] * 3,
            "periodic": [True] * 3,
            "mapping": mapping,
            "mapping_amplitude": 0.02,
        },
        "model": {
            "viscosity": 1 / 1600,
            "dt": 1e-3,
            "gravity": [0, 0, -1 if expansion else 0],
            "pressure": {"tolerance": TOLERANCES["pressure"]},
            "velocity": {"tolerance": TOLERANCES["velocity"]},
        },
        "initial": {"kind": "taylor_green"},
        "scalar": scalars,
    }


def make_model(
    comm: "MPI.Comm", settings: dict[str, Any], device: str = "cpu", warm_up: int = WARM_UP
) -> tuple["Model", Any]:
    """Return a model whose solvers have settled, and its case."""
    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    case = case_class("navier_stokes").model_validate(settings)
    model = create("navier_stokes")
    model.setup(case, Context(comm, device, 1))
    model.compile()
    model.initialize()
    for _ in range(warm_up):
        model.step(1)
    return model, case


class Run:
    """A model that takes steps, and what they counted and took."""

    def __init__(
        self, comm: "MPI.Comm", settings: dict[str, Any], device: str = "cpu", warm_up: int = WARM_UP
    ) -> None:
        self.comm = comm
        self.model, self.case = make_model(comm, settings, device, warm_up)
        self._before = self._counters()

    def _counters(self) -> dict[str, Any]:
        return {
            "regions": {
                name: (region.seconds, region.flops, region.bytes)
                for name, region in self.model.regions().items()
            },
            "solves": {name: (solve.solves, solve.iterations) for name, solve in self.model.solves().items()},
        }

    def step(self) -> float:
        """Take a step and return its seconds."""
        self.comm.Barrier()
        start = time.perf_counter()
        self.model.step(1)
        self.comm.Barrier()
        return time.perf_counter() - start

    def counted(self, rounds: int) -> dict[str, Any]:
        """Return per step: seconds, flops and bytes by region (all ranks), iterations by solve. Collective."""
        after = self._counters()
        regions = {}
        for name, values in after["regions"].items():
            before = self._before["regions"].get(name, (0.0, 0.0, 0.0))
            mine = [(a - b) / rounds for a, b in zip(values, before)]
            seconds, flops, bytes_ = (self.comm.allreduce(value) for value in mine)
            regions[name] = {"seconds": seconds / self.comm.size, "flops": flops, "bytes": bytes_}
        solves = {}
        for name, (count, iterations) in after["solves"].items():
            b_count, b_iterations = self._before["solves"].get(name, (0, 0))
            solves[name] = (iterations - b_iterations) / max(count - b_count, 1)
        points = math.prod(self.case.grid.points())
        return {"regions": regions, "iterations": solves, "points": points}


def main() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    settings = json.loads(sys.argv[1])
    triad = stream_triad(comm, "float64")
    points = settings["points"]
    runs = {name: Run(comm, settings_of_case(name, points)) for name in settings["runs"]}
    candidates: dict[str, Callable[[], float]] = {name: run.step for name, run in runs.items()}
    if settings["alone"]:
        single = Run(MPI.COMM_SELF, settings_of_case(settings["runs"][0], points)) if comm.rank == 0 else None
        wait_asleep(comm)

        def alone() -> float:
            seconds = 0.0
            if single is not None:
                time.sleep(0.005)  # until the others sleep
                seconds = single.step()
            wait_asleep(comm)
            return seconds

        candidates["alone"] = alone
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    end = time.monotonic() + settings["seconds"]
    rounds = 0
    while comm.bcast(rounds < settings["min_rounds"] or (time.monotonic() < end and rounds < MAX_ROUNDS)):
        names = list(candidates)
        for name in names if rounds % 2 == 0 else reversed(names):
            samples[name].append(candidates[name]())
        rounds += 1
    counted = {name: run.counted(rounds) for name, run in runs.items()}
    if comm.rank == 0:
        print(json.dumps({"samples": samples, "counted": counted, "triad": triad}), flush=True)


if __name__ == "__main__":
    from ridgeline.parallel.job import job

    with job(debug=True):
        main()
