#!/usr/bin/env python3
"""Run all tests: first the files that may share the cores, several at the same time, then the others one by one.

Arguments are passed on to both calls of pytest. The last lines repeat what both counted, and their sum. Exit code: 0
if both passed. The first call keeps compiled kernels, which the second one loads.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST = 4  # processes: each has threads of its own
NOTHING_COLLECTED = 5  # of pytest: a word of -k that only files of the other part have


def run_part(part: str, options: list[str]) -> tuple[int, dict[str, int], float]:
    """Run one part; return pytest's exit code, its counts and the seconds."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ridgeline-tests-") as folder:
        path = Path(folder, "counts.json")
        command = [sys.executable, "-m", "pytest", "--part", part, "--counts", str(path), *options]
        print(f"$ {' '.join(command)}", flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        counts: dict[str, int] = json.loads(path.read_text()) if path.exists() else {"error": 1}
    return code, counts, time.monotonic() - begin


def line(what: str, counts: dict[str, int], seconds: float) -> str:
    """Return counts as pytest writes them."""
    words = ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "no tests"
    return f"{what}: {words} in {seconds:.2f}s"


def main() -> int:
    """Run both parts and tell."""
    processes = min(MOST, len(os.sched_getaffinity(0)))
    results = {
        f"together, {processes} at a time": run_part(
            "together", ["-n", str(processes), "--dist", "loadfile", *sys.argv[1:]]
        ),
        "alone": run_part("alone", sys.argv[1:]),
    }
    total: dict[str, int] = {}
    for _, counts, _ in results.values():
        for kind, count in counts.items():
            total[kind] = total.get(kind, 0) + count
    codes = [code for code, _, _ in results.values()]
    print()
    for what, (_, counts, seconds) in results.items():
        print(line(what, counts, seconds))
    print(line("all tests", total, sum(seconds for _, _, seconds in results.values())))
    failures = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    return failures[0] if failures else 0 if 0 in codes else NOTHING_COLLECTED


if __name__ == "__main__":
    sys.exit(main())
