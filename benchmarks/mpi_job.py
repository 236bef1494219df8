"""One MPI job of benchmarks/mpi.py: seconds in C, mpi4py and numba-mpi, in turn. Prints them as JSON on rank 0.

mpiexec -n 2 python benchmarks/mpi_job.py '{"seconds": 10, ...}'
"""

import json
import sys
import time

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.bench.language.languages import find_languages, with_persistent
from ridgeline.bench.language.loops import Loops
from ridgeline.bench.language.pingpong import verify
from ridgeline.parallel.payload import check, content


def rounds(comm: MPI.Comm, loops: list[Loops], seconds: float, run) -> dict[str, list[float]]:
    """Return run(way) of every round on rank 0, the ways in turn, every other round backwards. Collective."""
    samples: dict[str, list[float]] = {way.name: [] for way in loops}
    for way in loops:
        run(way)
    end, turn = time.perf_counter() + seconds, 0
    while comm.bcast(turn < 5 or time.perf_counter() < end):
        for way in loops if turn % 2 == 0 else reversed(loops):
            samples[way.name].append(run(way))
        turn += 1
    return samples


def latencies(
    comm: MPI.Comm, loops: list[Loops], size: int, batch: int, seconds: float
) -> dict[str, list[float]]:
    """Return the seconds of a message one way, of every language and round. Collective over two ranks."""
    partner, first = 1 - comm.rank, comm.rank == 0
    outbox, inbox = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    for number, way in enumerate(loops):
        verify(way, comm.rank, partner, first, outbox, inbox, number)
    found = rounds(
        comm, loops, seconds, lambda way: way.ping_pong(partner, first, outbox, inbox, batch) / (2 * batch)
    )
    check(inbox, partner, comm.rank, len(loops) - 1)
    return found


def bandwidths(
    comm: MPI.Comm, loops: list[Loops], size: int, window: int, batch: int, seconds: float
) -> dict[str, list[float]]:
    """Return the seconds of a message in windows of them, of every language and round. Collective over two ranks."""
    partner, sends = 1 - comm.rank, comm.rank == 0
    buffer: NDArray[np.uint8] = np.zeros(size, np.uint8)

    def verified(sequence: int) -> None:
        if not sends:
            check(buffer, 0, 1, sequence)

    for number, way in enumerate(loops):
        buffer[:] = content(size, 0, 1, number) if sends else 0
        way.windows(partner, sends, buffer, window, 1)
        verified(number)
    messages = window * batch
    found = rounds(
        comm, loops, seconds, lambda way: way.windows(partner, sends, buffer, window, batch) / messages
    )
    verified(len(loops) - 1)
    return found


def main() -> None:
    settings = json.loads(sys.argv[1])
    comm = MPI.COMM_WORLD.Dup()
    found = find_languages(comm)
    result = {"missing": found.missing, "how": found.how, "bandwidth": {}}
    result["latency"] = latencies(comm, found.loops, settings["size"], settings["batch"], settings["seconds"])
    for size in settings["sizes"]:
        batch = max(1, settings["bytes"] // (size * settings["window"]))
        times = bandwidths(
            comm, with_persistent(found.loops), size, settings["window"], batch, settings["seconds"]
        )
        result["bandwidth"][str(size)] = times
    if comm.rank == 0:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
