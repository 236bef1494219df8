"""Each engine on the GPUs of a node against all cores of the same node: seconds of a step, in runs of their own.

    python benchmarks/gpu_node.py [--size N] [--elements N] [--gpus G] [--cores C] [--json FILE]

Gray-Scott and turbulence have N^3 points, Navier-Stokes as many elements in each direction as are asked for. The
cases are those of `examples`, with outputs off. A rank takes a GPU, or a core. One run of each kind, after its own
warm-up; set-up and compilation do not count. With NUMBA_ENABLE_CUDASIM=1, --size 8, --elements 1, --cores 1 and
--steps 2 it shows, without a GPU, that everything runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.device import measure_on_device
from harness.ranks import JobFailed
from harness.table import Row
from ridgeline.runtime.devices import DeviceInfo, describe_devices
from ridgeline.runtime.machine import cores_available

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
STEPS = {"gray_scott": 400, "taylor_green": 40, "taylor_green_elements": 60}
DEFAULT_SIZE, DEFAULT_ELEMENTS = 256, 24


def settings_of(example: str, size: int, elements: int, steps: int) -> list[str]:
    """Return what replaces the settings of an example."""
    extent = (
        f"grid.elements={[elements] * 3}"
        if example == "taylor_green_elements"
        else f"grid.shape={[size] * 3}"
    )
    step = {"gray_scott": 1.0, "taylor_green": 1e-3, "taylor_green_elements": 1e-3}[example]
    off = ["output.every=0", "output.initial=false", "checkpoint.every=0"]
    if example != "gray_scott":
        off.append("output.series_every=0")
    if example == "taylor_green":
        off.append("output.spectra_every=0")
    return [extent, f"run.steps={steps}", f"model.dt={step}", *off]


def seconds_per_step(example: str, settings: list[str], device: str, ranks: int) -> float:
    """Run an example on so many ranks and return the seconds of a step, as its report says. Raises JobFailed."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-node-") as folder:
        report = Path(folder, "report.json")
        command = [
            sys.executable, "-m", "ridgeline", "run", str(EXAMPLES / example / "settings.toml"), "-n", str(ranks),
            "--device", device, "--json", str(report), *(word for each in settings for word in ("--set", each)),
        ]  # fmt: skip
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise JobFailed(lines[-1])
        return float(json.loads(report.read_text())["seconds_per_step"])


def against_cores(
    example: str, settings: list[str], gpus: int, cores: int, points: str, device: DeviceInfo
) -> Row:
    """Return how many times as fast the GPUs are."""
    name = f"speed of {gpus} GPU{'s' * (gpus > 1)} over {cores} cores: {example}, {points}"
    try:
        on_gpus = seconds_per_step(example, settings, "cuda", gpus)
        on_cores = seconds_per_step(example, settings, "cpu", cores)
    except JobFailed as error:
        return Row(name, None, note=f"failed: {error}")
    note = f"{on_gpus * 1e3:.4g} ms a step on {device.name}, {on_cores * 1e3:.4g} ms on cores"
    return Row(name, on_cores / on_gpus, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--size", type=int, default=DEFAULT_SIZE, help="number of points in each direction (256)"
    )
    parser.add_argument(
        "--elements", type=int, default=DEFAULT_ELEMENTS, help="number of elements in each direction (24)"
    )
    parser.add_argument("--gpus", type=int, help="number of GPUs to use, each with one rank (all)")
    parser.add_argument("--cores", type=int, help="number of cores to use, each with one rank (all)")
    parser.add_argument("--steps", type=int, help="number of steps of every run (400, 40, 60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()

    def rows_of(copy: float, device: DeviceInfo) -> Iterator[Row]:
        del copy
        gpus, cores = arguments.gpus or len(describe_devices()), arguments.cores or cores_available()
        for example, steps in STEPS.items():
            settings = settings_of(example, arguments.size, arguments.elements, arguments.steps or steps)
            points = settings[0].partition("=")[2]
            yield against_cores(example, settings, gpus, cores, points, device)

    measure_on_device("GPUs against the node they sit in", "gpu_node.py", rows_of, arguments.json)


if __name__ == "__main__":
    main()
