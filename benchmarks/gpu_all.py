"""All that is to be asked of GPUs, in one command: their tests, then each benchmark, then the figures with a goal.

    make bench-gpu                                         # all, on every GPU of this node
    python benchmarks/gpu_all.py [--only PART ...] [--gpus G] [--folder DIR] [--minutes M]

Each part is a process of its own: one that fails, or takes longer than --minutes, does not end the others. What it
prints goes to DIR/PART.txt, its figures to DIR/PART.json. So a session that is cut off has what was done, and --only
goes on from there. Exit status: 1 if a part failed, 8 without a GPU. With NUMBA_ENABLE_CUDASIM=1 the parts run at
their smallest sizes, which shows, without a GPU, that everything runs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.table import Row, show
from ridgeline.runtime.devices import describe_devices, simulated
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.machine import cores_available
from ridgeline.runtime.mpiexec import find_mpiexec

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("build", "gpu")
MINUTES = 10.0
GRACE = 10.0  # seconds in which a part that took too long may end by itself
LINES = 15  # of a part that failed


@dataclass(frozen=True)
class Part:
    """One process. command: `{json}` stands for the file of its figures, {gpus} and {threads} for these numbers.

    small: what is added to the command where kernels are simulated; None: it does not run there.
    least: GPUs without which it has nothing to measure.
    """

    command: tuple[str, ...]
    small: tuple[str, ...] | None = None
    least: int = 1


def _script(name: str, *options: str, small: Sequence[str] | None = None) -> Part:
    command = (sys.executable, str(ROOT / "benchmarks" / name), "--json", "{json}", *options)
    return Part(command, None if small is None else tuple(small))


def _bench(*options: str, small: Sequence[str] | None = None, least: int = 1) -> Part:
    command = (sys.executable, "-m", "ridgeline", "bench", *options, "--device", "cuda", "-n", "{gpus}")
    return Part((*command, "--json", "{json}"), None if small is None else tuple(small), least)


def _trace(steps: str) -> Part:
    script = str(ROOT / "benchmarks" / "gpu_trace.py")
    command = ("{mpiexec}", "-n", "{gpus}", sys.executable, script, "--steps-per-launch", steps)
    return Part((*command, "--file", f"{{folder}}/trace_{steps}.json"), ("--size", "6", "--steps", "4"), 2)


PARTS: dict[str, Part] = {
    "tests": Part((sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "cuda", "{tests}")),
    "gray-scott": _script("gpu.py", small=("--sizes", "8", "--seconds", "0.001")),
    "gray-scott-runs": _script("gray_scott.py", "--only", "gpu"),
    "reaction-diffusion": _script(
        "reaction_diffusion.py", "--device", "cuda", "--size", "512", small=("--size", "8", "--seconds", "0.01")
    ),
    "turbulence": _script("gpu_turbulence.py", small=("--sizes", "8", "--seconds", "0.001")),
    "nekbone": _script("gpu_nekbone.py", small=("--nx1", "3", "--seconds", "0.001")),
    "navier-stokes": _script("gpu_navier_stokes.py", small=("--runs", "p=7")),
    "hpl": _bench("hpl", "--order", "auto", "--threads", "{threads}", small=("--order", "24", "--nb", "8")),
    "hpl-mxp": _bench(
        "hpl-mxp", "--order", "auto", "--storage", "float16", "--threads", "{threads}",
        small=("--order", "24", "--nb", "8"),
    ),
    "node": _script(
        "gpu_node.py", "--gpus", "{gpus}", small=("--size", "8", "--elements", "1", "--cores", "1", "--steps", "2")
    ),
    "transpose": _bench("transpose", "--lines", "full", "-q", "1", "-q", "4", least=2),
    "latency": _bench("latency", least=2),
    "bandwidth": _bench("bandwidth", least=2),
    "alltoall": _bench("alltoall", least=2),
    "allreduce": _bench("allreduce", least=2),
    "trace": _trace("1"),
    "trace-two-steps": _trace("2"),
}  # fmt: skip


def arguments_of(names: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="PART", help=f"run only these parts: {', '.join(names)}"
    )
    parser.add_argument("--gpus", type=int, help="number of GPUs, each with one rank (all GPUs of this node)")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help=f"folder for the output of the parts ({FOLDER})"
    )
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help=f"longest time of a part in minutes ({MINUTES:g})"
    )
    return parser


def command_of(name: str, part: Part, gpus: int, folder: Path) -> list[str]:
    """Return the command of a part."""
    places = {
        "json": folder / f"{name}.json",
        "folder": folder,
        "gpus": gpus,
        "threads": max(1, cores_available() // gpus),
        "tests": ROOT / "tests",
    }
    words = []
    for word in part.command:
        words += find_mpiexec() if word == "{mpiexec}" else [word.format(**places)]
    return words if part.small is None or not simulated() else [*words, *part.small]


def run_part(command: Sequence[str], output: Path, seconds: float) -> str:
    """Run a command whose words go to a file; return "done", or how it ended otherwise."""
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file, start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return f"ended after {seconds / 60:g} minutes"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return "done" if code == 0 else f"failed with {code}"


def rows_of(path: Path) -> list[Row]:
    """Return the figures with a goal of a file, and those that could not be measured, [] if it has no rows."""
    if not path.exists():
        return []
    found: list[dict[str, Any]] = json.loads(path.read_text()).get("rows", [])
    rows = [
        Row(row["name"], row["figure"], row["target"], row["median"], row["note"], row["unit"])
        for row in found
        if "target" in row
    ]
    return [row for row in rows if row.target or row.figure is None]


def run(arguments: argparse.Namespace, parts: dict[str, Part]) -> int:
    """Run parts one after the other, show what came out, and return the exit status."""
    gpus = arguments.gpus or len(describe_devices())
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    ends: dict[str, str] = {}
    for name in arguments.only or parts:
        part = parts[name]
        if gpus < part.least:
            ends[name] = f"not run: it requires {part.least} GPUs"
        elif simulated() and part.small is None:
            ends[name] = "not run: kernels are simulated"
        else:
            figures, output = folder / f"{name}.json", folder / f"{name}.txt"
            figures.unlink(missing_ok=True)  # of an earlier session
            begin = time.monotonic()
            ends[name] = run_part(command_of(name, part, gpus, folder), output, arguments.minutes * 60)
            ends[name] += f" in {time.monotonic() - begin:.0f} s"
            rows += rows_of(figures)
            if not ends[name].startswith("done"):
                print(*output.read_text(errors="replace").splitlines()[-LINES:], sep="\n", flush=True)
        print(f"{name}: {ends[name]}", flush=True)
    show("GPUs: figures with a goal", rows, {"GPUs": str(gpus), "folder": str(folder)})
    return int(any(not end.startswith(("done", "not run")) for end in ends.values()))


def main() -> int:
    arguments = arguments_of(list(PARTS)).parse_args()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # a part has a session of its own
    try:
        return run(arguments, PARTS)
    except DeviceError as error:
        print(f"no device: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
