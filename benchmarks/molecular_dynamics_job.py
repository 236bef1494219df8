"""The Lennard-Jones melt on some ranks, alone on one, and by LAMMPS: blocks of steps in turn, in one MPI job.

Started by `molecular_dynamics.py`; what each rank runs: mpiexec -n P python benchmarks/molecular_dynamics_job.py
SETTINGS. SETTINGS is a JSON object: cells, steps of a block, seconds, min_rounds; lammps: a Python that has it, or
null. Rank 0 prints seconds of a block by candidate and round, figures of step 100, and counted work.
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
SUFFIXES = ("none", "opt")


def melted(comm: "MPI.Comm", cells: int, precision: str = "float64", **neighbour: bool) -> "Model":
    """Return a model after 100 steps. neighbour: settings that are no default."""
    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    document = {
        "run": {"model": "molecular_dynamics", "steps": 1, "precision": precision},
        "grid": {"cells": [cells] * 3},
        "neighbour": neighbour,
    }
    model = create("molecular_dynamics")
    model.setup(case_class("molecular_dynamics").model_validate(document), Context(comm, "cpu", 1))
    model.compile()
    model.initialize()
    for _ in range(100):
        model.step(1)
    return model


def timed(model: "Model", steps: int) -> float:
    """Take steps and return the seconds."""
    start = time.perf_counter()
    for _ in range(steps):
        model.step(1)
    return time.perf_counter() - start


def candidates(
    comm: "MPI.Comm", settings: dict[str, Any], said: dict[str, Any]
) -> dict[str, Callable[[], float]]:
    """Return functions that take a block of steps and return its seconds on rank 0."""
    from mpi4py import MPI

    cells, steps = settings["cells"], settings["steps"]
    together, waiting = melted(comm, cells), melted(comm, cells, overlap=False)
    said["figures"] = {"ridgeline": together.series()}
    work = together.work()
    said["flops"], said["atoms"] = work.flops, work.points

    def by_all(model: "Model") -> float:
        comm.Barrier()
        start = time.perf_counter()
        timed(model, steps)
        comm.Barrier()
        return time.perf_counter() - start

    def asleep(call: Callable[[], float]) -> float:
        """Call on rank 0 while the other ranks sleep."""
        seconds = 0.0
        if comm.rank == 0:
            time.sleep(0.005)
            seconds = call()
        wait_asleep(comm)
        return seconds

    found: dict[str, Callable[[], float]] = {}
    if comm.size > 1:
        found = {"together": partial(by_all, together), "waiting": partial(by_all, waiting)}
    if comm.rank == 0:
        others: dict[str, Any] = {"newton": {"newton": True}, "mixed": {"precision": "float32"}}
        for name, how in {"alone": {}, **(others if comm.size == 1 else {})}.items():
            found[name] = partial(asleep, partial(timed, melted(MPI.COMM_SELF, cells, **how), steps))
    else:
        found["alone"] = partial(asleep, lambda: 0.0)
    wait_asleep(comm)
    if settings["lammps"] and comm.size == 1:
        try:
            script = Path(__file__).with_name("molecular_dynamics_lammps.py")
            peer = Peer(settings["lammps"], script, [str(cells), *SUFFIXES])
        except (OSError, RuntimeError) as error:
            said["lammps"] = f"not run: {error}"
        else:
            says = json.loads(peer.says)
            said["lammps"] = f"LAMMPS {says['version']}"
            said["figures"] |= {f"lammps {suffix}": row for suffix, row in says["figures"].items()}
            for suffix in SUFFIXES:
                found[f"lammps {suffix}"] = partial(peer.seconds, f"{suffix} {steps}")
    return found


def measure(
    comm: "MPI.Comm", settings: dict[str, Any], calls: dict[str, Callable[[], float]]
) -> dict[str, list[float]]:
    """Return seconds of all candidates by round; every other round goes backwards."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    end, rounds = time.monotonic() + settings["seconds"], 0
    while comm.bcast(rounds < settings["min_rounds"] or (time.monotonic() < end and rounds < MAX_ROUNDS)):
        for name in list(calls) if rounds % 2 == 0 else reversed(list(calls)):
            samples[name].append(calls[name]())
        rounds += 1
    return samples


def main() -> None:
    from mpi4py import MPI

    from ridgeline.limits.peak import measure_peak_here

    comm, settings = MPI.COMM_WORLD, json.loads(sys.argv[1])
    said: dict[str, Any] = {"peak": measure_peak_here()}
    samples = measure(comm, settings, candidates(comm, settings, said))
    if comm.rank == 0:
        print(json.dumps({"samples": samples, **said}))


if __name__ == "__main__":
    from ridgeline.parallel.job import job

    with job(debug=True):
        main()
