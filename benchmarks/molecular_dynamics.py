"""Benchmark of the Lennard-Jones melt: speed beside LAMMPS, of several ranks over one, and share of the peak.

    python benchmarks/molecular_dynamics.py [--quick] [--lammps install] [--json FILE]

What each figure means and its target: benchmarks/README.md. Both sides of a ratio take blocks of 100 steps in turn in
one run, after the same 100 steps from the lattice, whose figures must be the same to ten digits.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from harness.machine import describe
from harness.peer import peer_python
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json
from harness.timing import Timings
from ridgeline.runtime.machine import cores_available

DIGITS = 10


def differences(figures: dict[str, dict[str, float]]) -> list[str]:
    """Return the figures of step 100 in which a peer's digits are others than ours."""
    ours = figures["ridgeline"]
    return [
        f"{name} {key} {row[key]:.{DIGITS}g}, ours {ours[key]:.{DIGITS}g}"
        for name, row in figures.items()
        for key in ("Temp", "E_pair", "TotEng", "Press")
        if f"{row[key]:.{DIGITS}g}" != f"{ours[key]:.{DIGITS}g}"
    ]


def rows_of_one(result: dict[str, Any], steps: int, cells: int) -> list[Row]:
    """Return the figures of one rank: rate, share of the peak, ratios to LAMMPS."""
    timings = Timings({name: np.array(times) for name, times in result["samples"].items()})
    block = result["atoms"] * steps
    what = f"{cells}^3 cells, float64, one core"

    def rate(name: str) -> float:
        return float(block / timings.best(name) / 1e6)

    wrong = differences(result["figures"])
    note = f"{rate('alone'):.3g} M atom-steps/s; " + ("; ".join(wrong) or "step 100 to ten digits the same")
    found = []
    for suffix, target in (("opt", ">= 1"), ("none", "")):
        name = f"lammps {suffix}"
        words = "-sf opt" if suffix == "opt" else "without a package"
        if name not in timings.samples:
            why = result.get("lammps", "no LAMMPS: pass --lammps install")
            found.append(Row(f"speed over LAMMPS' {words}, {what}", None, target, note=why))
            continue
        said = f"{note}; {result['lammps']} {rate(name):.3g}"
        found.append(ratio_row(f"speed over LAMMPS' {words}, {what}", timings, name, "alone", target, said))
    share = result["flops"] * steps / timings.best("alone") / result["peak"]
    peak = f"least flops: each pair once; peak {result['peak'] / 1e9:.3g} GFLOP/s"
    found.append(Row(f"share of the peak, {what}", share, note=peak))
    half = f"half lists {rate('newton'):.3g} M atom-steps/s"
    found.append(ratio_row(f"full lists over half lists, {what}", timings, "newton", "alone", note=half))
    mixed = f"mixed precision {rate('mixed'):.3g} M atom-steps/s"
    found.append(
        ratio_row(
            f"mixed precision over float64, {cells}^3 cells, one core", timings, "alone", "mixed", note=mixed
        )
    )
    return found


def rows_of_several(result: dict[str, Any], n: int, cells: int) -> list[Row]:
    """Return the figures of n ranks: speed over one, and over ranks that wait for ghosts."""
    timings = Timings({name: np.array(times) for name, times in result["samples"].items()})
    target = ">= 1.85" if n == 2 else ""
    what = f"{n} ranks, {cells}^3 cells"
    return [
        ratio_row(f"speed over one rank, {what}", timings, "alone", "together", target),
        ratio_row(
            f"ghosts travel while forces are computed, over waiting, {what}", timings, "waiting", "together"
        ),
    ]


def ratio_row(figure: str, timings: Timings, slow: str, fast: str, target: str = "", note: str = "") -> Row:
    """Return by how much `fast` is faster than `slow`: of the best times, and the median of rounds."""
    return Row(figure, timings.ratio(slow, fast), target, timings.median_ratio(slow, fast), note)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="use a small box and short times")
    parser.add_argument("--seconds", type=float, help="duration for each number of ranks (60)")
    parser.add_argument(
        "--cells", type=int, nargs="+", help="numbers of lattice cells in each direction (20 40)"
    )
    parser.add_argument("--lammps", metavar="PYTHON", help="path of a Python that has it, or 'install'")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", default=Path("molecular_dynamics_benchmark.json")
    )
    arguments = parser.parse_args()

    job = str(Path(__file__).with_name("molecular_dynamics_job.py"))
    machine, found = describe(), []
    steps, rounds = (20, 2) if arguments.quick else (100, 5)
    seconds = arguments.seconds or (1 if arguments.quick else 60)
    with peer_python(arguments.lammps, ("lammps", "mpich")) as lammps:
        for cells in arguments.cells or ((8,) if arguments.quick else (20, 40)):
            settings = {
                "cells": cells,
                "steps": steps,
                "seconds": seconds,
                "min_rounds": rounds,
                "lammps": lammps,
            }
            try:
                found += rows_of_one(run_job(job, 1, settings), steps, cells)
                for n in range(2, min(cores_available(), 4) + 1, 2):
                    found += rows_of_several(run_job(job, n, settings), n, cells)
            except JobFailed as problem:
                found.append(Row(f"{cells}^3 cells", None, note=str(problem)))
    command = " ".join(["python", "benchmarks/molecular_dynamics.py", *sys.argv[1:]])
    show("Molecular dynamics", found, machine)
    print()
    print(markdown(found, machine, command))
    write_json(arguments.json, found, machine, command)


if __name__ == "__main__":
    main()
