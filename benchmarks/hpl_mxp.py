"""HPL-MxP against our own HPL at the same N, ranks and threads, in one job, and against float32 matrix products.

    python benchmarks/hpl_mxp.py                    # some five minutes, 4 GB of memory; two cores with nothing else
    python benchmarks/hpl_mxp.py --sizes 8000       # one size
    python benchmarks/hpl_mxp.py --quick            # does it run?

What each figure means and its target: benchmarks/README.md.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json

SETUPS = ((2, 1), (1, 2))  # ranks, threads of each
STORAGES = ("float16", "bfloat16")
TARGET = ">= 1.7"


def rows_of(where: str, job: dict[str, Any]) -> Iterator[Row]:
    """Return the rows of one job: rates of both and of products, the ratio, what narrow storage costs."""
    rounds = job["rounds"]
    mxp, hpl = (np.array([one[name]["rate"] for one in rounds]) for name in ("mxp", "hpl"))
    best = rounds[int(mxp.argmax())]["mxp"]
    factor, solve, refine = best["seconds"]
    passed = all(one[name]["passed"] for one in rounds for name in ("mxp", "hpl"))
    verdict = "all passed" if passed else "a test FAILED"
    note = (
        f"{mxp.max() / 1e9:.1f} against {hpl.max() / 1e9:.1f} GFLOP/s; factorisation {factor:.2f} s, solve "
        f"{solve:.3f} s, refinement {refine:.3f} s in {best['iterations']} iterations; {verdict}"
    )
    median = float(np.median(mxp / hpl))
    yield Row(
        f"HPL-MxP over HPL: {where}", float(mxp.max() / hpl.max()) if passed else None, TARGET, median, note
    )
    for name, kind, rates in (("HPL-MxP", "float32", mxp), ("HPL", "float64", hpl)):
        limits = np.array([one["products"][kind] for one in rounds])
        note = f"{limits.max() / 1e9:.1f} GFLOP/s by {job['blas']['words']}"
        share = float(rates.max() / limits.max())
        yield Row(
            f"{name}, share of {kind} products: {where}", share, "", float(np.median(rates / limits)), note
        )
    for storage, found in job["narrow"].items():
        note = f"scaled backward error {found['scaled_residual']:.2g}, {'passed' if found['passed'] else 'FAILED'}"
        yield Row(f"iterations with {storage}: {where}", found["iterations"], "<= 50", note=note)


def run_jobs(settings: argparse.Namespace) -> Iterator[Row]:
    """Run a job for each size and number of ranks and threads; return the rows."""
    script = str(Path(__file__).with_name("hpl_mxp_job.py"))
    for n in settings.sizes:
        for ranks, threads in SETUPS:
            where = f"N = {n}, {ranks} rank{'s' * (ranks > 1)} x {threads} thread{'s' * (threads > 1)}"
            asked = {
                "n": n,
                "threads": threads,
                "rounds": settings.rounds,
                "storages": STORAGES if n == min(settings.sizes) else (),
                "hpl_nb": settings.hpl_nb,
                "mxp_nb": settings.mxp_nb,
            }
            try:
                yield from rows_of(where, run_job(script, ranks, asked))
            except JobFailed as error:
                yield Row(where, None, note=f"failed: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[8000, 20000], help="numbers of unknowns N (8000 20000)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="number of rounds, in each of which both programs take turns (3)",
    )
    parser.add_argument("--hpl-nb", type=int, default=0, help="NB of HPL (chosen for N)")
    parser.add_argument("--mxp-nb", type=int, default=0, help="NB of HPL-MxP (chosen for N)")
    parser.add_argument("--quick", action="store_true", help="run N = 1500 in one round")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    if settings.quick:
        settings.sizes, settings.rounds = [1500], 1
    os.environ.update(
        {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "2", "NUMBA_THREADING_LAYER": "workqueue"}
    )
    rows = []
    for row in run_jobs(settings):
        rows.append(row)
        print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show("HPL-MxP", rows, machine)
    command = ("python benchmarks/hpl_mxp.py " + " ".join(sys.argv[1:])).strip()
    print(markdown(rows, machine, command))
    if settings.json:
        write_json(Path(settings.json), rows, machine, command)


if __name__ == "__main__":
    main()
