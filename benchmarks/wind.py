"""The wind model: cells per second and step, share of STREAM, V-cycles, time by phase, 1 and 2 ranks, weak scaling.

    python benchmarks/wind.py [--quick] [--only speed weak small ...] [--json FILE]

What each figure means: benchmarks/README.md. One MPI job for each number of ranks takes steps on its grids in turn.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, columns_markdown, markdown, show, write_json

JOB = str(Path(__file__).with_name("wind_job.py"))
PARTS = ("speed", "weak", "small")
SPEED = {False: [128, 64], True: [32]}  # cells in each direction, whether --quick is set
# Cells of a rank, [nz, ny, nx], and the ranks in y and x: z is never cut, as in runs of atmospheric boundary layers.
WEAK = {False: (64, 64, 64), True: (32, 24, 24)}
WEAK_RANKS = {1: (1, 1), 2: (2, 1), 4: (2, 2)}
SMALL = [[10, 16, 16], [16, 16, 16], [24, 24, 24]]


def grids(options: argparse.Namespace, n_ranks: int) -> dict[str, list[list[int]]]:
    """Return the grids of a job by the parts of the benchmark that they belong to."""
    found: dict[str, list[list[int]]] = {}
    if "speed" in options.only and n_ranks <= 2:
        found["speed"] = [[n] * 3 for n in SPEED[options.quick]]
    if "small" in options.only and n_ranks <= 2:
        found["small"] = SMALL[:1] if options.quick else SMALL
    if "weak" in options.only:
        nz, ny, nx = WEAK[options.quick]
        py, px = WEAK_RANKS[n_ranks]
        found["weak"] = [[nz, py * ny, px * nx]]
    return found


def name_of(layer: dict[str, Any], n_ranks: int) -> str:
    """Return grid and ranks in words."""
    return f"{' x '.join(map(str, layer['shape']))} on {n_ranks} rank{'s' * (n_ranks > 1)}"


def rows_of(layer: dict[str, Any], n_ranks: int, triad: float) -> Iterator[Row]:
    """Return the rows of steps on one grid."""
    where, best, cells = name_of(layer, n_ranks), min(layer["seconds"]), prod(layer["shape"])
    middle = sorted(layer["seconds"])[len(layer["seconds"]) // 2]
    cycles = ", ".join(f"{name} {count:.1f}" for name, count in layer["cycles"].items())
    yield Row(
        f"step: {where}",
        cells / best / 1e6,
        median=cells / middle / 1e6,
        unit="Mcells/s",
        note=f"{1e3 * best:.3g} ms; V-cycles: {cycles}; {layer['messages']:.0f} messages",
    )
    yield Row(
        f"share of triad: {where}",
        layer["bytes"] / best / triad,
        note=f"{layer['bytes'] / cells:.0f} B a cell and step counted, solvers included",
    )


def phase_row(layer: dict[str, Any], n_ranks: int) -> dict[str, str]:
    """Return the milliseconds of each phase of a step, the mean of all steps and ranks."""
    phases = {name: f"{1e3 * seconds:.3g}" for name, seconds in layer["phases"].items()}
    return {"ms of a step": name_of(layer, n_ranks), **phases}


def weak_rows(layers: dict[int, dict[str, Any]], cores: int) -> Iterator[Row]:
    """Return the efficiency of weak scaling: cells a second and core, over those of one rank."""
    if 1 not in layers:
        return
    one = prod(layers[1]["shape"]) / min(layers[1]["seconds"])
    for n_ranks, layer in layers.items():
        if n_ranks > 1:
            busy = min(n_ranks, cores)
            rate = prod(layer["shape"]) / min(layer["seconds"]) / busy
            shared = f"{n_ranks} ranks share {cores} cores" if n_ranks > cores else "one core for each rank"
            yield Row(
                f"weak scaling, efficiency of a core: {name_of(layer, n_ranks)}", rate / one, note=shared
            )


def main() -> int:
    """Run the jobs and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="Parts to run.")
    parser.add_argument("--rounds", type=int, help="Timed rounds; 8 by default, or 3 with --quick.")
    parser.add_argument(
        "--ranks", type=int, nargs="+", choices=WEAK_RANKS, default=[1, 2, 4], help="Numbers of ranks."
    )
    parser.add_argument("--quick", action="store_true", help="Use small grids, to see whether it runs.")
    parser.add_argument("--json", type=Path, help="Write the rows to this file.")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 8)
    machine, failed = describe(), False
    rows: list[Row] = []
    phases: list[dict[str, str]] = []
    weak: dict[int, dict[str, Any]] = {}
    best: dict[str, dict[int, float]] = {}
    for n_ranks in options.ranks:
        wanted = grids(options, n_ranks)
        shapes = [list(s) for s in dict.fromkeys(tuple(shape) for part in wanted.values() for shape in part)]
        if not shapes:
            continue
        try:
            job = run_job(JOB, n_ranks, {"shapes": shapes, "rounds": rounds})
        except JobFailed as error:
            rows.append(Row(f"{n_ranks} ranks", None, note=str(error)))
            failed = True
            continue
        rows.append(
            Row(f"STREAM triad: {n_ranks} rank{'s' * (n_ranks > 1)}", job["triad"] / 1e9, unit="GB/s")
        )
        for layer in job["layers"]:
            rows += rows_of(layer, n_ranks, job["triad"])
            phases.append(phase_row(layer, n_ranks))
            if layer["shape"] in wanted.get("weak", []):
                weak[n_ranks] = layer
            if layer["shape"] in wanted.get("speed", []):
                best.setdefault(str(layer["shape"][0]), {})[n_ranks] = min(layer["seconds"])
    for n, seconds in best.items():
        if {1, 2} <= set(seconds):
            rows.append(Row(f"step, {n}^3: 2 ranks over 1", seconds[1] / seconds[2], ">= 1.7"))
    rows += weak_rows(weak, len(os.sched_getaffinity(0)))
    show("Wind", rows, machine)
    command = " ".join(["python benchmarks/wind.py", *sys.argv[1:]])
    print(markdown(rows, machine, command))
    if phases:
        print()
        print(columns_markdown(phases))
    if options.json:
        write_json(options.json, rows, machine, command, phases=phases)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
