"""Cell-centred multigrid: cells per second of a V-cycle, its share of STREAM, convergence, 1 and 2 ranks.

    python benchmarks/multigrid.py [--size N] [--rounds N] [--ranks N ...] [--json FILE]

What each figure means: benchmarks/README.md. One MPI job per number of ranks runs everything in turn.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.machine import describe
from harness.ranks import JobFailed, run_job
from harness.table import Row, markdown, show, write_json


def rows_of(n_ranks: int, job: dict[str, Any]) -> Iterator[Row]:
    """Return the rows of a job."""
    where = f"{job['size']}^3 on {n_ranks} rank{'s' * (n_ranks > 1)}"
    yield Row(f"STREAM triad: {where}", job["triad"] / 1e9, unit="GB/s")
    for case in job["cases"]:
        best, cells = min(case["seconds"]), job["size"] ** 3
        rate = case["bytes"] / best
        yield Row(
            f"V-cycle, {case['name']}: {where}",
            cells / best / 1e6,
            unit="Mcells/s",
            note=f"{case['passes']} passes over the finest level and one for the residual, "
            f"factor {case['factor']:.3f}, {case['messages']} messages",
        )
        yield Row(f"V-cycle, {case['name']}, share of triad: {where}", rate / job["triad"])
        finest, coarse = case["phases"][0], case["phases"][1:]
        for name, seconds in zip(("down", "up", "exchange", "check"), finest):
            note = "best of the rounds, of the slowest rank"
            yield Row(f"{case['name']}, finest level, {name}: {where}", seconds * 1e3, unit="ms", note=note)
        yield Row(
            f"{case['name']}, coarser levels: {where}",
            sum(map(sum, coarse)) * 1e3,
            unit="ms",
            note="by level: " + ", ".join(f"{sum(level) * 1e3:.2f}" for level in coarse),
        )


def main() -> int:
    """Run the jobs and print their table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", type=int, default=256, help="Cells in each direction.")
    parser.add_argument("--rounds", type=int, default=10, help="Timed rounds.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="Numbers of ranks.")
    parser.add_argument("--json", type=Path, help="Write the rows to this file.")
    options = parser.parse_args()
    machine, rows, failed = describe(), [], False
    best: dict[str, dict[int, float]] = {}
    for n_ranks in options.ranks:
        settings = {"size": options.size, "rounds": options.rounds}
        try:
            job = run_job(str(Path(__file__).with_name("multigrid_job.py")), n_ranks, settings)
        except JobFailed as error:
            rows.append(Row(f"{options.size}^3 on {n_ranks} ranks", None, note=str(error)))
            failed = True
            continue
        rows += rows_of(n_ranks, job)
        for case in job["cases"]:
            best.setdefault(case["name"], {})[n_ranks] = min(case["seconds"])
    for name, seconds in best.items():
        if {1, 2} <= set(seconds):
            rows.append(Row(f"V-cycle, {name}: 2 ranks over 1", seconds[1] / seconds[2], ">= 1.7"))
    show("Cell-centred multigrid", rows, machine)
    command = " ".join(["python benchmarks/multigrid.py", *sys.argv[1:]])
    print(markdown(rows, machine, command))
    if options.json:
        write_json(options.json, rows, machine, command)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
