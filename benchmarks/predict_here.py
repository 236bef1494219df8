"""Predicted against measured on this machine: the four models and HPCG, always on all cores.

Each code runs once, smaller, for the share of the bandwidth that it reaches, molecular dynamics for that of the peak:
as one rank on all cores, Navier-Stokes, molecular dynamics and HPCG as a rank a core, for threads of HPCG wait for
each other on its coarse levels. With that share, and this machine's file, its time on a larger grid is predicted, as
one rank and as a rank a core; then it runs so. No other constant is fitted. Sizes are beyond the caches. Times are
those of the best step of three runs.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.table import Row
from predict_rows import with_figures
from ridgeline.config.load import load_case
from ridgeline.config.machine_file import MachineFile, MachineSection
from ridgeline.limits.peak import measure_peak_here
from ridgeline.limits.prediction import Allocation, Prediction
from ridgeline.limits.stream import measure_stream
from ridgeline.models import case_class
from ridgeline.models.prediction import predict_case
from ridgeline.runtime.machine import cores_available
from ridgeline.study.prediction import machine_here, predict_benchmark

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
RUNS = 3
QUIET = ("output.every=0", "output.series_every=0", "checkpoint.every=0")


@dataclass(frozen=True)
class Code:
    """A code with a small and a large size, as settings. share: its key among codes of the machine file."""

    name: str
    share: str
    small: tuple[str, ...]
    large: tuple[str, ...]
    case: str = ""  # of the examples; none for HPCG
    threaded: bool = True  # whether a rank may have several threads
    by_threads: bool = True  # whether the share is of one rank on all cores, else of a rank a core


def cube(n: int) -> tuple[str, ...]:
    return (f"grid.shape=[{n},{n},{n}]",)


def lattice(n: int) -> tuple[str, ...]:
    return (f"grid.cells=[{n},{n},{n}]",)


def elements(n: int) -> tuple[str, ...]:
    return (f"grid.elements=[{n},{n},{n}]",)


def box(n: int) -> tuple[str, ...]:
    return tuple(f"{name}={n}" for name in ("nx", "ny", "nz"))


def codes(quick: bool) -> tuple[Code, ...]:
    """Return the codes with their sizes; quick: so small that they lie in caches."""
    share = 2 if quick else 1
    return (
        Code("Gray-Scott", "gray_scott", cube(192 // share), cube(256 // share), "gray_scott"),
        Code("turbulence", "turbulence", cube(96 // share), cube(128 // share), "turbulence_decay"),
        Code(
            "Navier-Stokes",
            "navier_stokes",
            elements(6 // share),
            elements(8 // share),
            "taylor_green_elements",
            threaded=False,
            by_threads=False,
        ),
        Code(
            "molecular dynamics",
            "molecular_dynamics",
            lattice(20 // share),
            lattice(32 // share),
            "lennard_jones_melt",
            threaded=False,
            by_threads=False,
        ),
        Code("HPCG", "hpcg", box(48 // share), box(64 // share), by_threads=False),
    )


def ridgeline(*words: str, folder: str) -> None:
    """Run the command line; its output is shown only if it fails."""
    command = [sys.executable, "-m", "ridgeline", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode not in (0, 9):  # 9: HPCG says that a run so short is not valid
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr}")


def best_of(
    runs: int, code: Code, size: tuple[str, ...], ranks: int
) -> tuple[float, dict[str, float] | None]:
    """Return what `measured` does, of the run with the shortest time."""
    return min((measured(code, size, ranks) for _ in range(runs)), key=lambda found: found[0])


def measured(code: Code, size: tuple[str, ...], ranks: int) -> tuple[float, dict[str, float] | None]:
    """Return the seconds of a step or an iteration, and the iterations of its solves."""
    threads = str(cores_available() // ranks)
    with tempfile.TemporaryDirectory() as folder:
        sizes = [word for one in size for word in ("--set", one)]
        if not code.case:
            options = [word for one in size for word in ("--" + one.split("=")[0], one.split("=")[1])]
            words = [
                "bench",
                "hpcg",
                "-n",
                str(ranks),
                "--threads",
                threads,
                *options,
                "--rt",
                "0",
                "--no-stream",
            ]
            ridgeline(*words, "--json", "hpcg.json", folder=folder)
            result = json.loads(Path(folder, "hpcg.json").read_text())
            return float(result["extra"]["seconds_per_iteration"]), None
        quiet = [word for one in (*QUIET, "run.steps=20", 'output.path="r.bp"') for word in ("--set", one)]
        case = str(EXAMPLES / code.case / "settings.toml")
        ridgeline("run", case, "-n", str(ranks), "--threads", threads, *sizes, *quiet, folder=folder)
        report = json.loads(Path(folder, "r.bp.run.json").read_text())
    solves = report.get("solves", {})
    if not solves:
        return report["step"]["best"]["total"], None
    mean = {name: one["iterations"] / one["solves"] for name, one in solves.items()}
    return float(report["step"]["best"]["total"]), {name: max(1.0, count) for name, count in mean.items()}


def predicted(
    code: Code, size: tuple[str, ...], machine: MachineFile, ranks: int, iterations: dict[str, float] | None
) -> Prediction:
    place = Allocation.of(machine, 1, ranks)
    if not code.case:
        return predict_benchmark("hpcg", size, place)
    loaded = load_case(EXAMPLES / code.case / "settings.toml", case_class, [*size, *QUIET])
    return predict_case(loaded.case, place, iterations)


def this_machine(say: Callable[[str], None]) -> MachineFile:
    """Return this machine's file, or what STREAM and the peak's kernel say if it has none."""
    found = machine_here()
    if found is not None:
        return found
    say(
        "no machine file here (`ridgeline bench machine-file` writes it): bandwidth and peak are measured, exchanges "
        "are not predicted"
    )
    cores = cores_available()
    figures = {
        "node.memory_bandwidth": measure_stream(None, cores).best,
        "node.peak": measure_peak_here(1.0, n_threads=cores),
    }
    return with_figures(MachineFile(machine=MachineSection(name="here")), figures)


def compare(quick: bool) -> Iterator[Row]:
    """Yield the error of each code's prediction. quick: one run of each, small: does it work?"""
    runs = 1 if quick else RUNS
    notes: list[str] = []
    machine = this_machine(notes.append)
    for note in notes:
        print(note)
    for code in codes(quick):
        most = cores_available()
        fewest = 1 if code.threaded else most
        known = 1 if code.by_threads else most
        seconds, iterations = best_of(runs, code, code.small, known)
        one = with_figures(machine, {f"codes.{code.share}": 1.0})
        share = predicted(code, code.small, one, known, iterations).seconds / seconds
        calibrated = with_figures(machine, {f"codes.{code.share}": share})
        for ranks in sorted({fewest, most}):
            seconds, iterations = best_of(runs, code, code.large, ranks)
            found = predicted(code, code.large, calibrated, ranks, iterations)
            note = f"predicted {found.seconds:.4g} s, measured {seconds:.4g} s; share {share:.3g}"
            note += f"; without {', '.join(found.lacks)}" if found.lacks else ""
            name = f"{code.name}, {' '.join(code.large)}, {ranks} rank{'s' * (ranks > 1)}: error"
            yield Row(name, abs(found.seconds / seconds - 1), "<= 0.25", note=note)
