"""Spectral-element Navier-Stokes on a GPU: is it right, how long is a step, and what share of copy has each region.

    python benchmarks/gpu_navier_stokes.py [--points N ...] [--runs NAME ...] [--seconds S] [--json FILE]

For one session on a machine with a GPU: the CPU's fields after some steps, then steps of the runs of
`navier_stokes.py`. Bytes are those that regions count, the least a pass must move. Seconds of regions are the
device's, between events, and each belongs to the innermost region. One rank. With NUMBA_ENABLE_CUDASIM=1 it shows,
without a GPU, that everything runs.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.device import measure_on_device
from harness.table import Row
from navier_stokes_job import RUNS, Run, make_model, settings_of_case
from ridgeline.runtime.devices import DeviceInfo, simulated

DEFAULT_POINTS = (112, 224)  # in each direction: of 1.4e6 and 1.1e7 in all
CHECK_POINTS, CHECK_STEPS = 28, 5
LEAST_STEPS = 10
TOLERANCE = 1e-7  # of solves whose own tolerances are 1e-8 and 1e-10


def correctness(runs: list[str]) -> Iterator[Row]:
    """Compare the velocity after some steps with the CPU's."""
    from mpi4py import MPI

    steps = 1 if simulated() else CHECK_STEPS
    for name in runs:
        fields = []
        for device in ("cpu", "cuda"):
            settings = small(name) if simulated() else settings_of_case(name, CHECK_POINTS)
            model, _ = make_model(MPI.COMM_SELF, settings, device, warm_up=steps)
            state = model.state()
            fields.append(np.stack([state[f"velocity_{axis}"].local for axis in "xyz"]))
        error = float(np.abs(fields[1] - fields[0]).max() / np.abs(fields[0]).max())
        title = f"largest difference from the CPU's velocity after {steps} steps: {name}"
        yield Row(title, error, f"<= {TOLERANCE:g}")


def small(name: str) -> dict[str, Any]:
    """Return the settings of a run that the simulator can take: eight elements of order 2, no multigrid."""
    settings = settings_of_case(name, 2 * RUNS[name][0])
    settings["grid"]["order"] = 2
    settings["model"]["pressure"] |= {"preconditioner": "jacobi", "tolerance": 1e-3}
    settings["model"]["velocity"]["tolerance"] = 1e-6
    return settings


def speed(name: str, points: int, copy: float, seconds: float) -> Iterator[Row]:
    """Measure steps, and the regions of a step."""
    from mpi4py import MPI

    settings = small(name) if simulated() else settings_of_case(name, points)
    run = Run(MPI.COMM_SELF, settings, "cuda", **({"warm_up": 1} if simulated() else {}))
    samples: list[float] = []
    least = 1 if simulated() else LEAST_STEPS
    while len(samples) < least or (sum(samples) < seconds and not simulated()):
        samples.append(run.step())
    counted = run.counted(len(samples))
    best, regions = min(samples), counted["regions"]
    moved = sum(region["bytes"] for region in regions.values())
    case = f"{name}, {counted['points']} points"
    iterations = ", ".join(f"{key} {value:.2f}" for key, value in counted["iterations"].items())
    note = f"{best * 1e3:.4g} ms; {counted['points'] / best / 1e6:.4g} million points/s; iterations: {iterations}"
    yield Row(f"counted bytes / time / device copy, a step: {case}", moved / best / copy, note=note)
    for region, row in regions.items():
        if row["seconds"]:
            note = f"{row['seconds'] * 1e3:.3g} ms, {row['flops'] / row['seconds'] / 1e9:.3g} GFLOP/s"
            yield Row(f"the same, {region}: {case}", row["bytes"] / row["seconds"] / copy, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--points",
        type=int,
        nargs="+",
        default=DEFAULT_POINTS,
        help="approximate number of points in each direction",
    )
    parser.add_argument("--runs", nargs="+", choices=list(RUNS), default=["p=7", "p=15", "p=7 curved"])
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of the timed steps of a run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    def rows_of(copy: float, device: DeviceInfo) -> Iterator[Row]:
        del device
        yield from correctness(arguments.runs)
        for name in arguments.runs:
            for points in arguments.points:
                yield from speed(name, points, copy, arguments.seconds)

    measure_on_device("Navier-Stokes on a GPU", "gpu_navier_stokes.py", rows_of, arguments.json)


if __name__ == "__main__":
    main()
