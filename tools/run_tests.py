#!/usr/bin/env python3
"""Run the tests of a tier: most of them several at a time, and then one by one those that are marked alone.

    run_tests.py [quick|gpu|all|slow] [options of pytest]

TIERS says which tests belong to a tier. The last lines name the slowest tests and folders, repeat what all calls of
pytest counted, and say how many minutes the tests took and how many kernels they compiled. Nothing fails because of
the time that it takes: machines differ by a factor of two. Exit code: 0 if all passed. Compiled kernels are kept for
later runs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from ridgeline.jit.kernel_folders import kernel_folder

ROOT = Path(__file__).resolve().parents[1]
MOST = 4  # processes: each has threads of its own
SLOWEST = 20  # tests and folders that are named at the end
NOTHING_COLLECTED = 5  # of pytest: a word of -k that only files of the other part have
TIERS = {
    "quick": "not full and not gpu and not slow",
    "gpu": "gpu and not slow",
    "all": "not slow",
    "slow": "slow",
}
PARTS = {"together": "not alone", "alone": "alone"}


@dataclass
class Part:
    """What a call of pytest came to."""

    code: int
    seconds: float
    counts: dict[str, int] = field(default_factory=lambda: {"error": 1})
    seconds_of: dict[str, float] = field(default_factory=dict)  # each test, with its fixtures


def run_part(marks: str, options: list[str]) -> Part:
    """Run the tests with some marks."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ridgeline-tests-") as folder:
        path = Path(folder, "summary.json")
        command = [sys.executable, "-m", "pytest", "-m", marks, "--summary", str(path), *options]
        print(f"$ {' '.join(command)}", flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        found = json.loads(path.read_text()) if path.exists() else {}
    return Part(code, time.monotonic() - begin, **found)


def count_kernels() -> int:
    """Return how many compiled kernels are kept."""
    return sum(1 for _ in kernel_folder().glob("*.kernel"))


def line(what: str, counts: dict[str, int], seconds: float) -> str:
    """Return counts as pytest writes them."""
    words = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no tests"
    return f"{what}: {words} in {seconds:.2f}s"


def main(arguments: list[str]) -> int:
    """Run the parts and tell."""
    tier = arguments.pop(0) if arguments and arguments[0] in TIERS else "quick"
    processes = min(MOST, len(os.sched_getaffinity(0)))
    several = ["-n", str(processes), "--dist", "loadfile"]
    kernels = count_kernels()
    parts = {
        part: run_part(f"({TIERS[tier]}) and {marks}", [*(several if part != "alone" else []), *arguments])
        for part, marks in PARTS.items()
    }
    total: dict[str, int] = {}
    for part in parts.values():
        for kind, count in part.counts.items():
            total[kind] = total.get(kind, 0) + count
    seconds_of = {test: seconds for part in parts.values() for test, seconds in part.seconds_of.items()}
    print("\nslowest tests, with their fixtures:")
    for test in sorted(seconds_of, key=seconds_of.__getitem__, reverse=True)[:SLOWEST]:
        print(f"{seconds_of[test]:7.2f}s {test}")
    print()
    folders: dict[str, float] = {}
    for test, seconds in seconds_of.items():
        folder = "/".join(test.split("::")[0].split("/")[:-1])
        folders[folder] = folders.get(folder, 0.0) + seconds
    print("\nslowest folders, with all their tests:")
    for folder in sorted(folders, key=folders.__getitem__, reverse=True)[:SLOWEST]:
        print(f"{folders[folder]:7.1f}s {folder}")
    print()
    for what, part in parts.items():
        print(line(what, part.counts, part.seconds))
    seconds = sum(part.seconds for part in parts.values())
    print(f"{seconds / 60:.1f} minutes, {count_kernels() - kernels} kernels compiled")
    print(line(f"all tests ({tier})", total, seconds))
    codes = [part.code for part in parts.values()]
    failures = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    return failures[0] if failures else 0 if 0 in codes else NOTHING_COLLECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
