"""Benchmark of N-body gravity: particles times substeps per second, by phase, and of several ranks over one.

    python benchmarks/n_body.py [--quick] [--json FILE]

What each figure means: benchmarks/README.md. Two states are timed. Early, particles are spread evenly; late, they are
in halos, and the short range has more pairs.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json
from harness.timing import Timings
from ridgeline.runtime.machine import cores_available

STATES = {"early": 0, "late": 22}  # steps of the 24 from redshift 49 to today that are taken first
UNIT = "M particle-substeps/s"


def rows_of_one(result: dict[str, Any], state: str, steps: int, cells: int) -> list[Row]:
    """Return the figures of one rank: rate, that of each phase, and the share of the peak."""
    samples = np.array(result["samples"]["together"])
    what = f"{state}, {cells}^3 particles, one core"
    pushed = result["pushed"] * steps
    found = [
        Row(
            f"all, {what}",
            pushed / samples.min() / 1e6,
            median=pushed / float(np.median(samples)) / 1e6,
            unit=UNIT,
        )
    ]
    total = samples.sum()
    for phase, seconds in result["phases"].items():
        if seconds > 0.002 * total:
            rate, share = pushed * len(samples) / seconds / 1e6, 100 * seconds / total
            found.append(Row(f"{phase}, {what}", rate, note=f"{share:.3g} % of a step", unit=UNIT))
    if state == "early":
        share = result["flops"] * steps / samples.min() / result["peak"]
        note = f"least flops: each near pair once; peak {result['peak'] / 1e9:.3g} GFLOP/s"
        found.append(Row(f"share of the peak, {what}", share, note=note))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="use a small box and short times")
    parser.add_argument("--seconds", type=float, help="duration for each state and number of ranks (30)")
    parser.add_argument("--cells", type=int, help="number of cells and of particles along an edge (48)")
    parser.add_argument("--json", type=Path, metavar="FILE", default=Path("n_body_benchmark.json"))
    arguments = parser.parse_args()

    job = str(Path(__file__).with_name("n_body_job.py"))
    machine, found = describe(), []
    cells = arguments.cells or (16 if arguments.quick else 48)
    steps, rounds = (1, 2) if arguments.quick else (2, 3)
    seconds = arguments.seconds or (1 if arguments.quick else 30)
    for state, before in STATES.items():
        settings = {
            "cells": cells, "steps": steps, "before": before, "seconds": seconds, "min_rounds": rounds,
        }  # fmt: skip
        try:
            found += rows_of_one(run_job(job, 1, settings), state, steps, cells)
            for n in range(2, min(cores_available(), 4) + 1, 2):
                samples = run_job(job, n, settings)["samples"]
                timings = Timings({name: np.array(times) for name, times in samples.items()})
                ratio, median = timings.ratio("alone", "together"), timings.median_ratio("alone", "together")
                words = f"speed of {n} ranks over one, {state}, {cells}^3 particles"
                found.append(Row(words, ratio, ">= 1.7" if n == 2 and state == "early" else "", median))
        except JobFailed as problem:
            found.append(Row(f"{state}, {cells}^3 particles", None, note=str(problem)))
    command = " ".join(["python", "benchmarks/n_body.py", *sys.argv[1:]])
    show("N-body gravity", found, machine)
    print()
    print(markdown(found, machine, command))
    write_json(arguments.json, found, machine, command)


if __name__ == "__main__":
    main()
