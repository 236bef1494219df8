"""Benchmarks that are run one after the other, each as a process, so that one that fails does not end the others."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.table import Row, show

ROOT = Path(__file__).resolve().parents[2]
GRACE = 10.0  # seconds in which a part that took too long may end by itself
LINES = 15  # of a part that failed


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


def run_parts(
    title: str,
    commands: Mapping[str, Sequence[str] | str],
    folder: Path,
    minutes: float,
    facts: dict[str, str],
) -> int:
    """Run commands one after the other, show their figures with a goal, and return the exit status.

    Parameters
    ----------
    title : of the table
    commands : by name; a text says why a part is not run. A command writes its figures to folder/NAME.json
    folder : for the output and the figures of the parts
    minutes : longest time of a part
    facts : what is printed above the table
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    ends: dict[str, str] = {}
    for name, command in commands.items():
        if isinstance(command, str):
            ends[name] = f"not run: {command}"
        else:
            figures, output = folder / f"{name}.json", folder / f"{name}.txt"
            figures.unlink(missing_ok=True)  # of an earlier session
            begin = time.monotonic()
            ends[name] = run_part(command, output, minutes * 60)
            ends[name] += f" in {time.monotonic() - begin:.0f} s"
            rows += rows_of(figures)
            if not ends[name].startswith("done"):
                print(*output.read_text(errors="replace").splitlines()[-LINES:], sep="\n", flush=True)
        print(f"{name}: {ends[name]}", flush=True)
    show(title, rows, facts)
    return int(any(not end.startswith(("done", "not run")) for end in ends.values()))
