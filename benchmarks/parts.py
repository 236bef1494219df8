#!/usr/bin/env python3
"""What parts of the fields cost: a plane in three precisions beside the whole field, in bytes and in seconds.

    python benchmarks/parts.py            # some minutes; prints a section for RESULTS.md
    python benchmarks/parts.py --quick    # does it run?

A Gray-Scott run on one rank writes one variable to the folder of temporary files, by the recorders of a run. Beside
each output, the same number of bytes is written to one file by one call, without anything else. The last rows predict
1024^3 in float64 from the rates of the largest size; they are not measured.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from mpi4py import MPI

from harness.machine import describe
from harness.table import columns_markdown
from ridgeline.config.load import load_case
from ridgeline.models import case_class, create
from ridgeline.models.contract import Context

VARIABLE = "V"
EVERY = 10  # steps between outputs, for the share of a run
LARGE = 1024
WHOLE = "whole field"
PRECISIONS = ("float64", "float32", "float16")
CASE = """
[run]
model = "gray_scott"
steps = 1000000
precision = "{precision}"

[grid]
shape = [{n}, {n}, {n}]

[output]
path = "{folder}/whole.bp"
variables = ["{variable}"]
every = 1

[checkpoint]
every = 0
"""
PART = """
[[output.part]]
name = "{precision}"
path = "{folder}/{precision}.bp"
plane = "z=mid"
precision = "{precision}"
variables = ["{variable}"]
every = 1
"""


def seconds_of(call: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    begin = perf_counter()
    call()
    return perf_counter() - begin


def bytes_under(path: Path) -> int:
    """Return the bytes of the files in a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def measure(n: int, precision: str, repetitions: int, folder: Path) -> tuple[float, list[dict[str, Any]]]:
    """Return the median seconds of a step, and for each output its name, bytes and median seconds."""
    kinds = {"folder": folder, "variable": VARIABLE}
    settings = folder / "case.toml"
    parts = "".join(PART.format(precision=kind, **kinds) for kind in PRECISIONS)
    settings.write_text(CASE.format(n=n, precision=precision, **kinds) + parts)
    case = load_case(settings, case_class).case
    model = create("gray_scott")
    model.setup(case, Context(MPI.COMM_SELF))
    model.compile()
    model.initialize()
    model.step(1)
    found = []
    for recorder in model.recorders(case, MPI.COMM_SELF):
        record = recorder.open({}, None)
        record.write(0)  # allocates and creates
        steps, writes = [], []
        for step in range(1, repetitions + 1):
            steps.append(seconds_of(partial(model.step, 1)))
            writes.append(seconds_of(partial(record.write, step)))
        record.close()
        size = bytes_under(Path(recorder.path)) // (repetitions + 1)
        block = np.zeros(size, np.uint8)
        plain = [seconds_of(partial(block.tofile, folder / "plain")) for _ in range(repetitions + 1)][1:]
        found.append(
            {
                "output": recorder.name.replace("part ", "plane, ").replace("data set", WHOLE),
                "bytes": size,
                "seconds": float(np.median(writes)),
                "plain": float(np.median(plain)),
                "step": float(np.median(steps)),
            }
        )
        shutil.rmtree(recorder.path)
        (folder / "plain").unlink()
    model.close()
    return float(np.median([each["step"] for each in found])), found


def rows_of(n: int, precision: str, step: float, found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the rows of a table, from what was measured."""
    return [
        {
            "grid": f"{n}^3, {precision}",
            "output": each["output"],
            "bytes on disk": f"{each['bytes']:,}".replace(",", " "),
            "seconds": f"{each['seconds']:.3g}",
            "plain write, seconds": f"{each['plain']:.3g}",
            "share of a run": f"{100 * each['seconds'] / (each['seconds'] + EVERY * step):.2g} %",
        }
        for each in found
    ]


def predict(n: int, precision: str, step: float, found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return rows of the same outputs at LARGE^3 in float64, at the rates of n^3: none of this is measured."""
    scale = LARGE / n
    word = 8 / np.dtype(precision).itemsize
    rows = []
    for each in found:
        larger = scale**3 * word if each["output"] == WHOLE else scale**2
        rows.append({**each, "bytes": round(each["bytes"] * larger)})
        rows[-1] |= {name: each[name] * larger for name in ("seconds", "plain")}
    predicted = rows_of(LARGE, "float64", step * scale**3 * word, rows)
    return [{**row, "grid": f"{row['grid']}, predicted"} for row in predicted]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="measure one small size")
    arguments = parser.parse_args()
    sizes = [(32, "float64", 2)] if arguments.quick else [(256, "float64", 9), (512, "float32", 5)]
    rows: list[dict[str, str]] = []
    for n, precision, repetitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            step, found = measure(n, precision, repetitions, Path(folder))
        print(f"{n}^3: a step takes {step:.3g} s", file=sys.stderr, flush=True)
        rows += rows_of(n, precision, step, found)
    rows += predict(n, precision, step, found)
    print(", ".join(f"{key} {value}" for key, value in describe().items()))
    print(f"\nA share is that of a run that writes every {EVERY} steps.\n")
    print(columns_markdown(rows))


if __name__ == "__main__":
    main()
