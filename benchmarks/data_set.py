#!/usr/bin/env python3
"""What the checksums of a data set cost, and how fast its stores are beside a plain write.

    python benchmarks/data_set.py            # some minute; prints a section for RESULTS.md
    python benchmarks/data_set.py --quick    # does it run?
    mpiexec -n 2 python benchmarks/data_set.py --stores    # bytes per second of each store on these ranks

Written into memory (/dev/shm) where there is such a file system, so that no disk hides the cost. The checksums are
measured on one rank. A plain write puts each rank's block into a file of its own and forces it to the disk.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from mpi4py import MPI

from harness.machine import describe
from harness.table import Row, markdown, show
from harness.timing import interleave
from ridgeline.io import bp_sums
from ridgeline.io.bp import BPWriter
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Variable

STEPS = 4
MEMORY = Path("/dev/shm")


def write(folder: Path, fields: dict[str, np.ndarray]) -> None:
    """Write a data set of STEPS steps, and delete it."""
    path = folder / "fields.bp"
    variables = [Variable(name, a.dtype, a.shape, (0, 0, 0), a.shape) for name, a in fields.items()]
    with BPWriter(path, MPI.COMM_SELF, variables, {}) as out:
        for step in range(STEPS):
            out.write(step, float(step), fields)
    shutil.rmtree(path)


def nothing(*_: object) -> str:
    """Return no checksum; a mock in its place would take longer than a small one."""
    return ""


def write_without(folder: Path, fields: dict[str, np.ndarray]) -> None:
    """Write the same without computing or writing checksums."""
    replaced = ((bp_sums, "digest"), (bp_sums.SumsWriter, "add"))
    with ExitStack() as stack:
        for place, name in replaced:
            stack.enter_context(mock.patch.object(place, name, nothing))
        write(folder, fields)


def checksums(sizes: tuple[int, ...], seconds: float) -> Iterator[Row]:
    """Yield a row for each number of cells in each direction, two fields of float64."""
    place = MEMORY if MEMORY.is_dir() else None
    for n in sizes:
        fields = {name: np.random.default_rng(0).random((n, n, n)) for name in "UV"}
        with tempfile.TemporaryDirectory(dir=place) as folder:
            timings = interleave(
                {
                    "with": partial(write, Path(folder), fields),
                    "without": partial(write_without, Path(folder), fields),
                },
                seconds,
            )
        size = sum(array.nbytes for array in fields.values())
        rates = [STEPS * size / timings.best(name) / 1e9 for name in ("with", "without")]
        yield Row(
            f"writing with checksums over without: {size / 2**20:.3g} MiB a step",
            timings.ratio("with", "without"),
            "<= 1.05",
            timings.median_ratio("with", "without"),
            f"{rates[0]:.2f} against {rates[1]:.2f} GB/s, {STEPS} steps",
        )


def stores(folder: Path, n: int, rounds: int) -> Iterator[str]:
    """Yield a line for each store: ranks, MiB of a step, GB/s, and GB per second of CPU time of the busiest rank.

    The stores write a step each in turn, and the best of some rounds counts. Collective.
    """
    comm = MPI.COMM_WORLD
    first, end = (n * (comm.rank + k) // comm.size for k in (0, 1))
    block = np.random.default_rng(comm.rank).random((end - first, n, n))
    variable = Variable("U", block.dtype, (n, n, n), (first, 0, 0), block.shape)

    def plain(step: int) -> None:
        with (folder / f"plain.{comm.rank}.{step}").open("wb") as file:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())

    writers = {
        store: open_writer(folder / f"fields.{store}", comm, [variable], {}) for store in ("bp", "zarr")
    }
    best = dict.fromkeys((*writers, "plain"), np.array([np.inf, np.inf]))
    for step in range(rounds):
        for store in best:
            comm.Barrier()
            begin = np.array([MPI.Wtime(), time.process_time()])
            if store == "plain":
                plain(step)
            else:
                writers[store].write(step, 0.0, {"U": block})
            taken = np.array([MPI.Wtime(), time.process_time()]) - begin
            comm.Allreduce(MPI.IN_PLACE, taken, MPI.MAX)
            best[store] = np.minimum(best[store], taken)
    for writer in writers.values():
        writer.close()
    size = 8 * n**3
    for store, taken in best.items():
        wall, cpu = size / taken / 1e9
        yield f"| {store} | {comm.size} | {size / 2**20:.0f} | {wall:.2f} | {cpu:.2f} |"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="measure one size for a short time")
    parser.add_argument("--stores", action="store_true", help="compare the stores, on all ranks")
    arguments = parser.parse_args()
    if arguments.stores:
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as here:
            for line in stores(Path(MPI.COMM_WORLD.bcast(here)), 32 if arguments.quick else 256, 5):
                if MPI.COMM_WORLD.rank == 0:
                    print(line, flush=True)
            MPI.COMM_WORLD.Barrier()
        return
    rows = []
    for row in checksums((32,), 0.5) if arguments.quick else checksums((32, 128, 256), 12.0):
        rows.append(row)
        print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show("Data sets", rows, machine)
    print()
    print(markdown(rows, machine, " ".join(["python", "benchmarks/data_set.py", *sys.argv[1:]])))


if __name__ == "__main__":
    main()
