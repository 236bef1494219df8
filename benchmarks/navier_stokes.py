"""Benchmarks of spectral-element Navier-Stokes steps: Taylor-Green, with STREAM of the same run as denominator.

    python benchmarks/navier_stokes.py [--quick] [--points N] [--ranks P ...] [--seconds S] [--json FILE]

What each figure means and its target: benchmarks/README.md. `--quick` shows that everything runs.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, columns_markdown, markdown, show, write_json
from harness.timing import Timings
from ridgeline.parallel.job import prepare_rank
from ridgeline.runtime.machine import cores_available

JOB = str(Path(__file__).with_name("navier_stokes_job.py"))
PASSIVE, BUOYANT = "p=7 passive scalar", "p=7 buoyant scalar"
RUNS = ("p=7", "p=15", "p=7 curved", PASSIVE, BUOYANT)
POINTS = 56  # 8^3 elements of order 7: what Nek5000's figure was taken with
# Microseconds per unique point and step of Nek5000, 8^3 elements of order 7, Taylor-Green, with one pressure and
# one velocity iteration a step, measured on 2 cores where STREAM's triad gave 21 GB/s on one rank, 31 on two.
NEK5000 = {1: 1.71, 2: 0.95}
NEK_NOTE = "Nek5000 quoted: triad 21 GB/s (1 rank), 31 (2)"


def rows(ranks: int, result: dict[str, Any]) -> Iterator[Row]:
    """Return the figures of one job."""
    timings = Timings({name: np.array(values) for name, values in result["samples"].items()})
    triad = result["triad"]
    where = f"{ranks} rank{'s' * (ranks > 1)}"
    for name, counted in result["counted"].items():
        seconds = timings.best(name)
        median = float(np.median(timings.samples[name]))
        bytes_ = sum(region["bytes"] for region in counted["regions"].values())
        flops = sum(region["flops"] for region in counted["regions"].values())
        iterations = ", ".join(f"{key} {value:.2f}" for key, value in counted["iterations"].items())
        note = (
            f"{seconds * 1e3:.4g} ms a step, {counted['points']} points; iterations: {iterations}; "
            f"{bytes_ / seconds / 1e9:.3g} GB/s and {flops / seconds / 1e9:.3g} GFLOP/s counted; "
            f"triad {triad / 1e9:.3g} GB/s"
        )
        target = ">= 0.5" if "curved" not in name else ""
        yield Row(
            f"overall efficiency (counted bytes / time / triad), {name}: {where}",
            bytes_ / seconds / triad, target, bytes_ / median / triad, note,
        )  # fmt: skip
        ours = seconds / counted["points"] * 1e6
        yield Row(
            f"time per unique point and step, {name}: {where}",
            ours,
            unit="us",
            median=median / counted["points"] * 1e6,
        )
        if name == "p=7" and ranks in NEK5000:
            quoted = NEK5000[ranks]
            yield Row(
                f"speed over Nek5000's as quoted, {name}: {where}", quoted / ours, ">= 1.5",
                note=f"{quoted} us against {ours:.3g} us; {NEK_NOTE}; here {triad / 1e9:.3g}; {iterations}",
            )  # fmt: skip
    if {PASSIVE, BUOYANT} <= {*timings.samples}:
        yield Row(
            f"time of a step whose scalar acts on the flow over that of a passive one, p=7: {where}",
            timings.ratio(BUOYANT, PASSIVE), "<= 1.03", timings.median_ratio(BUOYANT, PASSIVE),
            f"{timings.best(BUOYANT) * 1e3:.4g} ms against {timings.best(PASSIVE) * 1e3:.4g} ms",
        )  # fmt: skip
    if "alone" in timings.samples:
        name = next(iter(result["counted"]))
        yield Row(
            f"speed of {ranks} ranks over 1, {name}", timings.ratio("alone", name),
            ">= 1.8" if ranks == 2 else "", timings.median_ratio("alone", name),
            f"{timings.best('alone') * 1e3:.4g} ms against {timings.best(name) * 1e3:.4g} ms",
        )  # fmt: skip


def breakdown(ranks: int, result: dict[str, Any]) -> list[dict[str, str]]:
    """Return, for each run, milliseconds a step and fraction of the triad of each region."""
    triad = result["triad"]
    table = []
    for name, counted in result["counted"].items():
        cells = {"run": f"{name}, {ranks} rank{'s' * (ranks > 1)}"}
        for region, row in counted["regions"].items():
            seconds = row["seconds"]
            rate = row["bytes"] / seconds / triad if seconds else 0.0
            gflops = row["flops"] / seconds / 1e9 if seconds else 0.0
            cells[region] = f"{seconds * 1e3:.3g} ms, {gflops:.3g} GFLOP/s, {rate:.2f} of triad"
        table.append(cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="use a small mesh and short times")
    parser.add_argument(
        "--points", type=int, help=f"approximate number of points in each direction ({POINTS})"
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="numbers of ranks (1 2)")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), help="runs to measure (all)")
    parser.add_argument("--seconds", type=float, default=20.0, help="duration for each number of ranks (20)")
    parser.add_argument("--json", type=Path, metavar="FILE", default=Path("navier_stokes_benchmark.json"))
    arguments = parser.parse_args()

    prepare_rank()
    machine = describe()
    found: list[Row] = []
    table: list[dict[str, str]] = []
    for ranks in (n for n in arguments.ranks if n <= cores_available()):
        job = {
            "runs": arguments.runs,
            "points": arguments.points or (28 if arguments.quick else POINTS),
            "seconds": 1.0 if arguments.quick else arguments.seconds,
            "min_rounds": 2 if arguments.quick else 10,
            "alone": ranks > 1,
        }
        try:
            result = run_job(JOB, ranks, job)
        except JobFailed as failure:
            found.append(Row(f"job on {ranks} ranks", None, note=f"failed: {failure}"))
            continue
        for row in rows(ranks, result):
            print(row.line(), file=sys.stderr, flush=True)
            found.append(row)
        table += breakdown(ranks, result)
    command = " ".join(["python", "benchmarks/navier_stokes.py", *sys.argv[1:]])
    show("Spectral-element Navier-Stokes", found, machine)
    print()
    print(markdown(found, machine, command))
    if table:
        print()
        print(columns_markdown(table))
    write_json(arguments.json, found, machine, command, breakdown=table)


if __name__ == "__main__":
    main()
