"""HPL against DGEMM and against LAPACK's LU of the same BLAS, in the same run.

    python benchmarks/hpl.py                       # some ten minutes, 7 GB of memory; two cores with nothing else
    python benchmarks/hpl.py --n 8000              # one size
    python benchmarks/hpl.py --quick               # does it run?

What each figure means and its target: benchmarks/README.md. One MPI job per size and division of the cores.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json

DIVISIONS = ((2, 1), (1, 2), (1, 1))  # ranks, threads of each
LARGE = 20000  # unknowns from which the higher target holds


def rows_of(n: int, nb: int, ranks: int, threads: int, rounds: int) -> Iterator[Row]:
    """Return the rows of one job."""
    plural = "s" * (threads > 1)
    where = f"N = {n}, NB = {nb}, {ranks} rank{'s' * (ranks > 1)} x {threads} thread{plural}"
    script = str(Path(__file__).with_name("hpl_job.py"))
    try:
        job = run_job(script, ranks, {"n": n, "nb": nb, "threads": threads, "rounds": rounds})
    except JobFailed as error:
        yield Row(where, None, note=f"failed: {error}")
        return
    rates = {name: np.array(found) for name, found in job["rates"].items()}
    best = {name: found.max() for name, found in rates.items()}
    cores = ranks * threads
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in job["phases"].items())
    yield Row(
        f"HPL, share of DGEMM: {where}",
        best["hpl"] / best["dgemm"],
        (">= 0.90" if n >= LARGE else ">= 0.80") if cores > 1 else "",
        float(np.median(rates["hpl"] / rates["dgemm"])),
        f"{best['hpl'] / 1e9:.1f} of {best['dgemm'] / 1e9:.1f} GFLOP/s; s: {phases}; {job['blas']}",
    )
    yield Row(
        f"HPL over lu_factor on {cores} thread{'s' * (cores > 1)}: {where}",
        best["hpl"] / best["lapack"],
        ">= 1.0",
        float(np.median(rates["hpl"] / rates["lapack"])),
        f"{best['hpl'] / 1e9:.1f} against {best['lapack'] / 1e9:.1f} GFLOP/s",
    )
    yield Row(f"scaled residual: {where}", job["residual"], "<= 16")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--n", type=int, nargs="+", default=[8000, LARGE], help="numbers of unknowns (8000 20000)"
    )
    parser.add_argument("--nb", type=int, default=256, help="columns of a block (256)")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of rounds, in each of which all programs take turns (3)"
    )
    parser.add_argument("--quick", action="store_true", help="run N = 1000 in one round")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    if settings.quick:
        settings.n, settings.rounds = [1000], 1
    os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"})
    rows = []
    for n in settings.n:
        for ranks, threads in DIVISIONS:
            if (ranks, threads) == (1, 1) and n >= LARGE:
                continue  # a minute a round, and no target
            for row in rows_of(n, settings.nb, ranks, threads, settings.rounds):
                rows.append(row)
                print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show("HPL", rows, machine)
    command = ("python benchmarks/hpl.py " + " ".join(sys.argv[1:])).strip()
    print(markdown(rows, machine, command))
    if settings.json:
        write_json(Path(settings.json), rows, machine, command)


if __name__ == "__main__":
    main()
