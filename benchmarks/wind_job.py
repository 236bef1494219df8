"""One MPI job of benchmarks/wind.py: seconds of steps of a boundary layer on several grids, in turn. Prints JSON.

mpiexec -n 2 python benchmarks/wind_job.py '{"shapes": [[32, 32, 32]], "rounds": 5}'
"""

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from turbulence_job import stream_triad

if TYPE_CHECKING:
    from mpi4py import MPI

WARM_UP = 3  # steps
WIDTHS = (15.0, 20.0, 20.0)  # metres


def settings_of_case(shape: list[int]) -> dict[str, Any]:
    """Return the settings of a neutral layer over a rough ground, with temperature and Smagorinsky's closure."""
    return {
        "run": {"model": "wind", "steps": 1},
        "grid": {"shape": shape, "lengths": [n * h for n, h in zip(shape, WIDTHS)]},
        "model": {"courant": 0.5, "dt_max": 10.0},
        "boundary": {"z_min": {"kind": "surface"}, "z_max": {"kind": "slip"}},
        "surface": {"roughness": 0.1},
        "temperature": {"enabled": True},
        "subgrid": {"kind": "smagorinsky", "wall_damping": True},
        "rotation": {"parameter": 1e-4},
        "driving": {"kind": "geostrophic", "geostrophic_wind": [10.0, 0.0]},
        "initial": {
            "kind": "uniform", "velocity": [10.0, 0.0, 0.0], "perturbation": 0.5, "perturbation_height": 400.0,
        },
    }  # fmt: skip


class Layer:
    """A model that takes steps, and what they take."""

    def __init__(self, comm: "MPI.Comm", shape: list[int]) -> None:
        from ridgeline.models import case_class, create
        from ridgeline.runtime.context import Context

        self.comm, self.shape = comm, shape
        self.samples: list[float] = []
        self.context = Context(comm)
        self.model = create("wind")
        self.model.setup(case_class("wind").model_validate(settings_of_case(shape)), self.context)
        self.model.compile()
        self.model.initialize()
        for _ in range(WARM_UP):
            self.model.step(1)
        self.context.regions.reset()
        self._before = self.model.solves()

    def step(self) -> None:
        """Take a step, and keep the seconds of the slowest rank."""
        self.comm.Barrier()
        start = time.perf_counter()
        self.model.step(1)
        self.comm.Barrier()
        self.samples.append(time.perf_counter() - start)

    def report(self) -> dict[str, Any]:
        """Return seconds, counted work, cycles, and seconds of the phases of a step. Collective."""
        steps = len(self.samples)
        phases = {
            name: self.comm.allreduce(self.context.regions.seconds(name)) / self.comm.size / steps
            for name in type(self.model).phases
        }
        work = self.model.work()
        cycles = {}
        for name, count in self.model.solves().items():
            before = self._before[name]
            cycles[name] = (count.iterations - before.iterations) / (count.solves - before.solves)
        return {
            "shape": self.shape,
            "seconds": self.samples,
            "bytes": work.bytes_memory,
            "messages": work.messages,
            "process_grid": self.model.describe()["process_grid"],
            "cycles": cycles,
            "phases": {name: seconds for name, seconds in phases.items() if seconds},
        }


def main(settings: dict[str, Any]) -> None:
    """Take steps on all grids in turn, every other round backwards."""
    from mpi4py import MPI

    from ridgeline.parallel.communicator import ends_job_on_error

    comm = MPI.COMM_WORLD
    with ends_job_on_error(comm):
        triad = stream_triad(comm, "float64")
        layers = [Layer(comm, shape) for shape in settings["shapes"]]
        for turn in range(settings["rounds"]):
            for layer in layers if turn % 2 == 0 else reversed(layers):
                # A small grid takes a few steps, so that the grids before it are out of the caches.
                for _ in range(5 if max(layer.shape) <= 32 else 1):
                    layer.step()
        reports = [layer.report() for layer in layers]
        if comm.rank == 0:
            print(json.dumps({"triad": triad, "layers": reports}))


if __name__ == "__main__":
    from ridgeline.parallel.job import prepare_rank

    prepare_rank(1)
    main(json.loads(sys.argv[1]))
