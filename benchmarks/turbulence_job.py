"""One case of the turbulence benchmark on some ranks: all candidates in turn, round after round, in one MPI job.

Started by `turbulence.py`; what each rank runs: mpiexec -n P python benchmarks/turbulence_job.py SETTINGS.
SETTINGS is a JSON object: n, dtype, seconds, min_rounds: the case; runs: [[scheme, dealias, [P_r, P_c]], ...] on all
ranks; alone: whether the first of runs is also timed on one rank while the others sleep; efforts, limit, folder:
see FullTransforms; fluidsim: a Python that has it, or null. Rank 0 prints seconds by candidate and round, and what
there is to say.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.peer import Peer
from harness.ranks import wait_asleep

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.contract import Model

MAX_ROUNDS = 60
FLUIDSIM_SCHEMES = ("RK2", "RK4")
STREAM_BYTES = 2**27  # per array and rank
STREAM_REPEATS = 8


def settings_of_case(n: int, dtype: str, scheme: str, dealias: str, grid: list[int]) -> dict[str, Any]:
    """Return the settings of the benchmark's flow: random, so that no mode is zero or subnormal; no output."""
    return {
        "run": {"model": "turbulence", "steps": 1, "precision": dtype},
        "grid": {
            "shape": [n, n, n],
            "decomposition": "slabs" if grid[0] == 1 else "pencils",
            "process_grid": grid,
        },
        "model": {"viscosity": 1e-3, "scheme": scheme, "dealias": dealias, "dt": 1e-4},
        "initial": {"kind": "spectrum", "spectrum": "power-law"},
    }


def make_model(comm: "MPI.Comm", n: int, dtype: str, run: tuple[str, str, list[int]]) -> tuple["Model", Any]:
    """Return a model that is ready to step, and its context."""
    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    case = case_class("turbulence").model_validate(settings_of_case(n, dtype, *run))
    context = Context(comm, "cpu", 1)
    model = create("turbulence")
    model.setup(case, context)
    model.compile()
    model.initialize()
    model.step(1)
    return model, context


class Job:
    """The candidates of one case: names and functions that take one step and return its seconds."""

    def __init__(self, comm: "MPI.Comm", settings: dict[str, Any]) -> None:
        self.comm = comm
        self.settings = settings
        self.candidates: dict[str, Callable[[], float]] = {}
        self.models: dict[str, tuple[Model, Any]] = {}
        self.said: dict[str, Any] = {"methods": {}}
        self.fluidsim: Peer | None = None
        n, dtype = settings["n"], settings["dtype"]
        for scheme, dealias, grid in settings["runs"]:
            name = f"{scheme} {dealias} {grid[0]}x{grid[1]}"
            self.models[name] = make_model(comm, n, dtype, (scheme, dealias, grid))
            self.candidates[name] = self._together(self.models[name][0])
            self.said["methods"][name] = str(self.models[name][0].describe()["method"])
        if settings["alone"]:
            self._add_alone(n, dtype)
        self._add_transforms(n, dtype)
        if settings["fluidsim"] and comm.size == 1:
            self._add_fluidsim(settings["fluidsim"], n)

    def _together(self, model: "Model") -> Callable[[], float]:
        def call() -> float:
            self.comm.Barrier()
            start = time.perf_counter()
            model.step(1)
            self.comm.Barrier()
            return time.perf_counter() - start

        return call

    def _add_alone(self, n: int, dtype: str) -> None:
        """Add the first run on rank 0 alone; the other cores idle."""
        from mpi4py import MPI

        scheme, dealias, _ = self.settings["runs"][0]
        model = None
        if self.comm.rank == 0:
            model, _ = make_model(MPI.COMM_SELF, n, dtype, (scheme, dealias, [1, 1]))
        wait_asleep(self.comm)

        def call() -> float:
            seconds = 0.0
            if model is not None:
                time.sleep(0.005)  # until the others sleep
                start = time.perf_counter()
                model.step(1)
                seconds = time.perf_counter() - start
            wait_asleep(self.comm)
            return seconds

        self.candidates["alone"] = call

    def _add_fluidsim(self, python: str, n: int) -> None:
        """Add FluidSim's schemes, or say why they cannot run."""
        try:
            script = Path(__file__).with_name("turbulence_fluidsim.py")
            peer = Peer(python, script, [str(n), *FLUIDSIM_SCHEMES])
        except (OSError, RuntimeError) as error:
            self.said["fluidsim"] = f"not run: {error}"
            return
        self.said["fluidsim"] = peer.says
        self.fluidsim = peer
        for scheme in FLUIDSIM_SCHEMES:
            self.candidates[f"fluidsim {scheme.lower()}"] = partial(peer.seconds, scheme)

    def _add_transforms(self, n: int, dtype: str) -> None:
        """Add FFTW's full transforms: each rank does 16/P of a step's, concurrently."""
        from turbulence_transforms import FullTransforms

        efforts, limit = tuple(self.settings["efforts"]), self.settings["limit"]
        folder = Path(self.settings["folder"])
        transforms = None
        for rank in range(self.comm.size):  # planning measures: one at a time, and all find the same plans
            if self.comm.rank == rank:
                transforms = FullTransforms(n, dtype, efforts, limit, folder)
            wait_asleep(self.comm)
        assert transforms is not None
        self.said["transforms"] = transforms.describe()
        share = 2 / self.comm.size

        def call() -> float:
            self.comm.Barrier()
            start = time.perf_counter()
            transforms.substep()
            self.comm.Barrier()
            return share * (time.perf_counter() - start)

        self.candidates["transforms"] = call

    def measure(self) -> dict[str, list[float]]:
        """Return seconds per step of all candidates by round; every other round goes backwards."""
        for _, context in self.models.values():
            context.regions.reset()
        samples: dict[str, list[float]] = {name: [] for name in self.candidates}
        end = time.monotonic() + self.settings["seconds"]
        rounds = 0
        while self.comm.bcast(
            rounds < self.settings["min_rounds"] or (time.monotonic() < end and rounds < MAX_ROUNDS)
        ):
            names = list(self.candidates)
            for name in names if rounds % 2 == 0 else reversed(names):
                samples[name].append(self.candidates[name]())
            rounds += 1
        return samples

    def phases(self, rounds: int) -> dict[str, dict[str, float]]:
        """Return mean seconds per step of each run by phase, of rank 0."""
        return {
            name: {phase: context.regions.seconds(phase) / rounds for phase in model.phases}
            for name, (model, context) in self.models.items()
        }


def stream_triad(comm: "MPI.Comm", dtype: str) -> float:
    """Return the best rate of STREAM's triad in B/s, all ranks at once, ordinary or streaming stores."""
    from ridgeline.limits.stream import StreamArrays

    arrays = StreamArrays(STREAM_BYTES, 1, dtype)
    best = 0.0
    for i in range(2 * STREAM_REPEATS):
        comm.Barrier()
        start = time.perf_counter()
        arrays.run("triad", streaming=i % 2 == 1)
        comm.Barrier()
        best = max(best, comm.size * arrays.bytes_moved("triad") / (time.perf_counter() - start))
    return best


def main() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    settings = json.loads(sys.argv[1])
    triad = stream_triad(comm, settings["dtype"])
    job = Job(comm, settings)
    samples = job.measure()
    if comm.rank == 0:
        rounds = len(samples["transforms"])
        result = {"samples": samples, "phases": job.phases(rounds), "triad": triad, **job.said}
        print(json.dumps(result), flush=True)
    if job.fluidsim is not None:
        job.fluidsim.close()


if __name__ == "__main__":
    from ridgeline.parallel.job import job

    with job(debug=True):
        main()
