"""How long a user waits for the first step, and for the commands that compute nothing.

    python benchmarks/start.py                              # everything, some minutes of processor time
    python benchmarks/start.py --only warm --models wind    # one model, kernels in the cache

Every command is a new process. `import` and `commands` compute nothing. `warm` and `cold` are `ridgeline run` of the
case that `ridgeline init` writes, until a callback after its first step, on 1 and 2 ranks: with the kernels in the
cache, and with an empty cache, as in the first run of all. A run after an upgrade lies between the two. `make` is
`make run` from an environment that exists. The figure is processor time, user and system: of the rank that takes most
until its first step, or of the whole command if it has no steps. It hardly depends on other work of the machine. The
note says the seconds of the clock.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness.machine import describe
from harness.table import Row, markdown, show, write_json
from ridgeline.models import available

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("import", "commands", "warm", "cold", "make")
RANKS = (1, 2)
RUN = ["-m", "ridgeline"]
# Some write their bytecode anew at each start because this variable is set; users do not.
NOT_INHERITED = ("PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR", "RIDGELINE_SHARED_KERNELS")
STAMP = """
import json, os, time

def stamp(now):
    name = f"stamp-{now.comm.rank}.json"
    if now.step == 1:
        with open(name + ".new", "w") as file:
            json.dump([time.time(), time.process_time()], file)
        os.replace(name + ".new", name)
"""
CALLBACK = """
[[callback]]
function = "stamp.py:stamp"
every = 1
"""


class Commands:
    """Runs commands in a folder with a kernel cache of its own."""

    def __init__(self, folder: Path, repeats: int) -> None:
        self.folder, self.repeats = folder, repeats
        self.environment = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        self.environment["RIDGELINE_CACHE_DIR"] = str(folder / "cache")
        (folder / "stamp.py").write_text(STAMP)

    def run(self, *command: str) -> tuple[float, float]:
        """Return the seconds of the clock and the processor time of a command and its children."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
        subprocess.run(
            command, cwd=self.folder, env=self.environment, check=True, capture_output=True, text=True
        )
        seconds, after = time.time() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def row(
        self, name: str, target: str, measure: Callable[[], tuple[float, float]], repeats: int = 0
    ) -> Row:
        """Return the best and the median processor time of repeated measurements, or why there is none."""
        repeats = repeats or self.repeats
        try:
            clock, processor = zip(*(measure() for _ in range(repeats)), strict=True)
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
            return Row(name, None, target, note=f"failed: {lines[-1]}")
        note = f"best of {repeats}; {min(clock):.2f} s of the clock"
        return Row(name, min(processor), target, statistics.median(processor), note, unit="s")

    def first_step(self, model: str, ranks: int, cold: bool) -> tuple[float, float]:
        """Return seconds of the clock and the largest processor time of a rank until the first step is done."""
        for name in ("cache", "out") if cold else ("out",):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for old in self.folder.glob("stamp-*.json"):
            old.unlink()
        end = (
            "run.end_time=1e-9"
            if "end_time" in (self.folder / f"{model}.toml").read_text()
            else "run.steps=1"
        )
        start = time.time()
        self.run(
            sys.executable, *RUN, "run", f"{model}.toml", "-n", str(ranks), "--threads", "1", "--set", end
        )
        stamps = [json.loads(path.read_text()) for path in self.folder.glob("stamp-*.json")]
        return max(clock for clock, _ in stamps) - start, max(processor for _, processor in stamps)


def imports(commands: Commands, models: Sequence[str]) -> Iterator[Row]:
    """`import ridgeline`, and what its parts import."""
    for statement in (
        "pass",
        "import ridgeline",
        "import ridgeline.cli.main",
        "from ridgeline import Simulation",
    ):
        yield commands.row(
            f"python -c '{statement}'", "", lambda text=statement: commands.run(sys.executable, "-c", text)
        )


def without_run(commands: Commands, models: Sequence[str]) -> Iterator[Row]:
    """Commands that compute nothing, or little."""
    lines = ["--version", "validate --help", "bench stream --help", "bench stream --seconds 0.1"]
    for line in [*lines, *(f"check {model}.toml" for model in models)]:
        target = "<= 0.4" if line == "--version" else ""
        yield commands.row(
            f"ridgeline {line}", target, lambda line=line: commands.run(sys.executable, *RUN, *line.split())
        )


def warm(commands: Commands, models: Sequence[str]) -> Iterator[Row]:
    """`ridgeline run` to its first step, with the kernels in the cache."""
    for model in models:
        for ranks in RANKS:
            name = f"{model}, {ranks} ranks, warm"
            commands.row(name, "", lambda m=model, n=ranks: commands.first_step(m, n, False), 1)
            yield commands.row(name, "<= 3", lambda m=model, n=ranks: commands.first_step(m, n, False))


def cold(commands: Commands, models: Sequence[str]) -> Iterator[Row]:
    """`ridgeline run` to its first step, with an empty kernel cache."""
    for model in models:
        for ranks in RANKS:
            name = f"{model}, {ranks} ranks, no kernels"
            row = commands.row(name, "", lambda m=model, n=ranks: commands.first_step(m, n, True), 1)
            count = len(list((commands.folder / "cache").rglob("*.kernel")))
            yield Row(row.name, row.figure, note=f"{count} kernels; {row.note}", unit=row.unit)


def make(commands: Commands, models: Sequence[str]) -> Iterator[Row]:
    """`make run` from an environment that exists, with the kernels in the cache."""
    if not (ROOT / ".venv" / ".run").exists():
        yield Row("make run", None, note="not run: `make run` has not made the environment .venv yet")
        return
    yield commands.row("make run", "", lambda: commands.run("make", "-C", str(ROOT), "run"), 2)


MEASURED = dict(zip(NAMES, (imports, without_run, warm, cold, make), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="measure only these")
    parser.add_argument("--models", nargs="+", choices=available(), default=available(), help="models (all)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command; cold ones run once (5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="ridgeline-start-") as path:
        commands = Commands(Path(path), arguments.repeats)
        for model in arguments.models:
            commands.run(sys.executable, *RUN, "init", model)
            with open(Path(path) / f"{model}.toml", "a") as case:
                case.write(CALLBACK)
        for name in arguments.only:
            for row in MEASURED[name](commands, arguments.models):
                rows.append(row)
                print(row.line(), file=sys.stderr, flush=True)
    machine = describe()
    show("Start", rows, machine)
    command = " ".join(["python benchmarks/start.py", *sys.argv[1:]])
    print(markdown(rows, machine, command))
    if arguments.json:
        write_json(arguments.json, rows, machine, command)


if __name__ == "__main__":
    main()
