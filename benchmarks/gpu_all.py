"""All that is to be asked of GPUs, in one command: their tests, then each benchmark, then the figures with a goal.

    make bench-gpu                                         # all, on every GPU of this node
    python benchmarks/gpu_all.py [--only PART ...] [--gpus G] [--folder DIR] [--minutes M]

Each part is a process of its own: one that fails, or takes longer than --minutes, does not end the others. What it
prints goes to DIR/PART.txt, its figures to DIR/PART.json. So a session that is cut off has what was done, and --only
goes on from there. Exit status: 1 if a part failed, 8 without a GPU. With NUMBA_ENABLE_CUDASIM=1 the parts run at
their smallest sizes, which shows, without a GPU, that everything runs.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.parts import run_parts
from ridgeline.runtime.devices import describe_devices, simulated
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.machine import cores_available
from ridgeline.runtime.mpiexec import find_mpiexec

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("build", "gpu")
MINUTES = 10.0


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
    "wind": _script("gpu_wind.py", small=("--sizes", "8", "--seconds", "0.001")),
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


def run(arguments: argparse.Namespace, parts: dict[str, Part]) -> int:
    """Run parts one after the other, show what came out, and return the exit status."""
    gpus = arguments.gpus or len(describe_devices())
    folder = arguments.folder.resolve()
    commands: dict[str, list[str] | str] = {}
    for name in arguments.only or parts:
        if gpus < parts[name].least:
            commands[name] = f"it requires {parts[name].least} GPUs"
        elif simulated() and parts[name].small is None:
            commands[name] = "kernels are simulated"
        else:
            commands[name] = command_of(name, parts[name], gpus, folder)
    facts = {"GPUs": str(gpus), "folder": str(folder)}
    return run_parts("GPUs: figures with a goal", commands, folder, arguments.minutes, facts)


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
