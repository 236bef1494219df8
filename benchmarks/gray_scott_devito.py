"""Gray-Scott beside Devito, on one thread, two threads and two ranks, in turn in one run.

    python benchmarks/gray_scott_devito.py --peers PYTHON [--sizes 32 64 128 256] [--rounds N] [--json FILE]

All have float64 and no noise. The figure is the time of the best of the rounds. --peers names the Python of an
environment that has Devito, or is "install" for a temporary one. Devito has no periodic sides here, which spares it
work. It has as many threads as ours has threads and ranks together.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gray_scott_ranks import advance
from harness.machine import describe
from harness.peer import peer_python
from harness.ranks import wait_asleep
from harness.table import Row, show, write_json
from reaction_diffusion import DU, DV, F, K
from reaction_diffusion_peers import DEVITO, Peer
from ridgeline.runtime.mpiexec import find_mpiexec

CELLS = 6e7  # cell updates of a call, about
PLACES = ((1, 1), (1, 2), (2, 1))  # ranks and threads
STEPS_PER_SWEEP = (1, 2)
GOALS = {32: 1.2, 64: 1.2, 128: 1.8, 256: 1.8}


def serve(n: int, steps: int, threads: int, steps_per_sweep: int) -> None:
    """Advance by `steps` for each line of input of rank 0, and answer with the seconds of a step."""
    from ridgeline.parallel.job import prepare_rank

    prepare_rank(threads)
    from mpi4py import MPI

    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    comm = MPI.COMM_WORLD
    settings = {"Du": DU, "Dv": DV, "F": F, "k": K, "noise": 0.0, "steps_per_sweep": steps_per_sweep}
    run = {"model": "gray_scott", "steps": 1, "precision": "float64"}
    document = {"run": run, "grid": {"shape": [n] * 3}, "model": settings}
    model = create("gray_scott")
    model.setup(case_class("gray_scott").model_validate(document), Context(comm, "cpu", threads))
    model.compile()
    model.initialize()
    shape = next(iter(model.state().values())).local.shape
    model.set_fields({"U": np.full(shape, 1.0), "V": np.full(shape, 0.1)})
    advance(model, steps)
    if comm.rank == 0:
        print("ready", flush=True)
    while True:
        called = bool(sys.stdin.readline()) if comm.rank == 0 else True
        wait_asleep(comm)
        if not comm.bcast(called):
            return
        begin = time.perf_counter()
        advance(model, steps)
        comm.Barrier()
        if comm.rank == 0:
            print((time.perf_counter() - begin) / steps, flush=True)


def rows(n: int, ranks: int, threads: int, rounds: int, peers: str) -> Iterator[Row]:
    """Yield the rows of one size on some ranks and threads."""
    steps = max(4, round(CELLS / n**3))
    launch = [*find_mpiexec(), "-n", str(ranks)] if ranks > 1 else []
    calls = {
        f"{each} step{'s' * (each > 1)} per sweep": Peer(
            [*launch, sys.executable, __file__, "--serve", *map(str, (n, steps, threads, each))], threads
        )
        for each in STEPS_PER_SWEEP
    }
    program = DEVITO.replace("process_time", "perf_counter")
    calls["Devito"] = Peer.of_program(peers, program, n, steps, ranks * threads)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls) if number % 2 == 0 else reversed(list(calls)):
            samples[name].append(calls[name]())
    for call in calls.values():
        call.end()
    of_devito = samples.pop("Devito")
    best = min(samples, key=lambda name: min(samples[name]))
    where = f"{n}^3, {ranks} rank{'s' * (ranks > 1)} x {threads} thread{'s' * (threads > 1)}"
    for name, times in samples.items():
        rates = [n**3 / min(each) / 1e6 for each in (times, of_devito)]
        goal = GOALS.get(n) if name == best else None
        yield Row(
            f"{name} over Devito: {where}",
            min(of_devito) / min(times),
            f">= {goal}" if goal else "",
            float(np.median(np.array(of_devito) / times)),
            f"{rates[0]:.4g} against {rates[1]:.4g} million cells/s",
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[32, 64, 128, 256], help="cells in each direction"
    )
    parser.add_argument("--rounds", type=int, default=9, help="turns of each program (9)")
    parser.add_argument("--peers", metavar="PYTHON", help="path of a Python that has Devito, or 'install'")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--serve", type=int, nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    if not options.peers:
        parser.error("--peers is required: the Python of an environment that has Devito, or 'install'.")
    found = []
    with peer_python(options.peers, ("devito",)) as peers:
        for n in options.sizes:
            for ranks, threads in PLACES:
                for row in rows(n, ranks, threads, options.rounds, str(peers)):
                    print(row.line(), flush=True)
                    found.append(row)
    show("Gray-Scott beside Devito", found, describe())
    if options.json:
        write_json(
            options.json,
            found,
            describe(),
            " ".join(["python", "benchmarks/gray_scott_devito.py", *sys.argv[1:]]),
        )


if __name__ == "__main__":
    main()
