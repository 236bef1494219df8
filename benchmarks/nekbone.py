"""Nekbone at nx1 = 8, 10, 12, 16 on 1 and 2 ranks, with STREAM and the Fortran program's figures beside it.

    python benchmarks/nekbone.py                    # some five minutes on a quiet machine
    python benchmarks/nekbone.py --quick            # does it run?

Each row is one job of `ridgeline bench nekbone`, repeated, the fastest counted, STREAM in the same jobs. Fortran:
the public Nekbone, gfortran -O3 -march=native, one rank of a machine that copies 30 GB/s with streaming stores.
DOF/s: points (copies counted) times iterations over seconds; their goal is per GB/s of STREAM copy, at nx1 = 8.
"""

import argparse
import json
import os
import subprocess
import sys

FORTRAN = {8: 7.9, 10: 8.0, 12: 9.2, 16: 11.7}  # GFLOP/s per core
TARGET = 2.0  # times as fast, per core
DOF_TARGET = 6e6  # DOF/s per GB/s of STREAM


def run(ranks: int, nx1: int, elements: int, iterations: int) -> dict:
    options = ["--nx1", nx1, "--elements", elements, "--iterations", iterations, "--json", "-"]
    command = [sys.executable, "-m", "ridgeline", "bench", "nekbone", "-n", ranks, *options]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise SystemExit(f"nx1 = {nx1} on {ranks} ranks failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nx1", type=int, nargs="+", default=[8, 10, 12, 16])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--elements",
        type=int,
        default=1000,
        help="number of elements per rank (1000, as in Nekbone's example)",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="use few elements and iterations, and one repeat"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the rows to this file")
    settings = parser.parse_args()
    elements, iterations, repeats = settings.elements, 100, settings.repeats
    if settings.quick:
        elements, iterations, repeats = 64, 10, 1
    rows = []
    print(
        "| nx1 | ranks | Tot MFlops | MFlops per rank | over Fortran | target | GB/s | STREAM copy GB/s | "
        "DOF/s per GB/s | target | residual |"
    )
    print("|---" * 11 + "|")
    for nx1 in settings.nx1:
        for ranks in settings.ranks:
            jobs = [run(ranks, nx1, elements, iterations) for _ in range(repeats)]
            figure = max((job["rows"][0] for job in jobs), key=lambda row: row["rate"])
            copy = max(job["extra"]["stream"]["streaming"]["copy"] for job in jobs)
            ratio = figure["rate_per_rank"] / 1e9 / FORTRAN[nx1] if nx1 in FORTRAN else float("nan")
            points = figure["points"] * iterations / figure["seconds"] / (copy / 1e9)
            rows.append({**figure, "stream_copy": copy, "over_fortran": ratio, "dof_per_gb": points})
            print(
                f"| {nx1} | {ranks} | {figure['rate'] / 1e6:.4e} | {figure['rate_per_rank'] / 1e6:.4e} | "
                f"{ratio:.2f} | >= {TARGET} | {figure['bandwidth'] / 1e9:.1f} | {copy / 1e9:.1f} | "
                f"{points:.2e} | >= {DOF_TARGET:.0e} | {figure['last_residual']:.3e} |",
                flush=True,
            )
    if settings.json:
        with open(settings.json, "w") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
