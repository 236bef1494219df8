"""Benchmarks of reaction-diffusion with rates from formulas: ratios, each of times taken in turn in one run.

    python benchmarks/reaction_diffusion.py [--size N] [--threads N] [--seconds S] [--pde PYTHON] [--json FILE]

Gray-Scott written as formulas runs beside the built-in model, and three species beside STREAM. With --pde, which
names the Python of an environment that has py-pde and Numba, py-pde steps the same equations with its numba backend.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from harness.machine import describe
from harness.table import Row, show, write_json
from harness.timing import interleave
from ridgeline.parallel.job import prepare_rank

F, K, DU, DV = 0.02, 0.048, 0.2, 0.1
PDE_STEPS = 1000  # enough that compiling, which py-pde does in every call, is a small part
PDE = """
import json, sys, time
import numpy as np
import pde
n, steps = int(sys.argv[1]), int(sys.argv[2])
grid = pde.CartesianGrid([[0, n]] * 3, n, periodic=True)
state = pde.FieldCollection([pde.ScalarField(grid, 1.0), pde.ScalarField(grid, 0.1)], labels=["u", "v"])
equation = pde.PDE(
    {"u": "du*laplace(u) - u*v**2 + f*(1 - u)", "v": "dv*laplace(v) + u*v**2 - fk*v"},
    bc="periodic", consts=json.loads(sys.argv[3]))
def run(count):
    begin = time.perf_counter()
    equation.solve(state, t_range=count, dt=1.0, tracker=None, backend="numba")
    return time.perf_counter() - begin
run(1)
base = min(run(1) for _ in range(3))
print(json.dumps((min(run(1 + steps) for _ in range(3)) - base) / steps))
"""


def model_of(name: str, document: dict[str, Any], threads: int) -> Any:
    """Return a model at its initial state, on this process alone."""
    from mpi4py import MPI

    from ridgeline.models import case_class, create
    from ridgeline.runtime.context import Context

    model = create(name)
    model.setup(case_class(name).model_validate(document), Context(MPI.COMM_SELF, "cpu", threads))
    model.compile()
    model.initialize()
    return model


def with_formulas(n: int, dtype: str, noise: float, threads: int) -> Any:
    """Return Gray-Scott as formulas."""
    species = [
        {"name": "U", "diffusivity": DU / 6, "rate": "F*(1 - U) - U*V**2", "initial": 1, "noise": noise},
        {"name": "V", "diffusivity": DV / 6, "rate": "U*V**2 - (F + k)*V", "initial": 0.1},
    ]
    model = {"dt": 1.0, "parameters": {"F": F, "k": K}, "species": species, "steps_per_sweep": 1}
    run = {"model": "reaction_diffusion", "steps": 1, "precision": dtype}
    return model_of("reaction_diffusion", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, threads)


def built_in(n: int, dtype: str, noise: float, threads: int) -> Any:
    """Return Gray-Scott as built in."""
    model = {"Du": DU, "Dv": DV, "F": F, "k": K, "noise": noise, "steps_per_sweep": 1}
    run = {"model": "gray_scott", "steps": 1, "precision": dtype}
    return model_of("gray_scott", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, threads)


def three_species(n: int, dtype: str, threads: int) -> Any:
    """Return cyclic competition of three species."""
    names = "ABC"
    species = [
        {
            "name": a,
            "diffusivity": 0.1,
            "rate": f"{a}*(1 - A - B - C) - s*{a}*{names[i - 1]}",
            "initial": 0.25,
        }
        for i, a in enumerate(names)
    ]
    model = {"dt": 0.1, "parameters": {"s": 1.0}, "species": species, "steps_per_sweep": 1}
    run = {"model": "reaction_diffusion", "steps": 1, "precision": dtype}
    return model_of("reaction_diffusion", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, threads)


def rows(n: int, threads: int, seconds: float, pde: str | None) -> Iterator[Row]:
    """Yield the rows of the table."""
    from ridgeline.limits.stream import StreamArrays

    for dtype in ("float64", "float32"):
        for noise in (0.0, 0.1):
            how = n, dtype, noise, threads
            models = {"formulas": with_formulas(*how), "built-in": built_in(*how)}
            times = interleave({name: partial(model.step, 1) for name, model in models.items()}, seconds)
            rate = n**3 / times.best("formulas") / 1e6
            yield Row(
                f"built-in time / formulas, {n}^3 {dtype}{' with noise' if noise else ''}",
                times.ratio("built-in", "formulas"),
                ">= 0.95",
                times.median_ratio("built-in", "formulas"),
                f"{rate:.0f} million cells/s",
            )
            del models
    for dtype in ("float64", "float32"):
        three, arrays = three_species(n, dtype, threads), StreamArrays(2**27, threads)
        candidates = {"sweep": partial(three.step, 1), "copy": partial(arrays.run, "copy", True)}
        times = interleave(candidates, seconds)
        least = 6 * n**3 * (8 if dtype == "float64" else 4)
        bandwidth = arrays.bytes_moved("copy") / times.best("copy")
        share = least / times.best("sweep") / bandwidth
        yield Row(f"three species: least bytes/s over STREAM copy, {n}^3 {dtype}", share, ">= 0.8")
    if pde:
        ours = with_formulas(n, "float64", 0.0, threads)
        constants = json.dumps({"du": DU / 6, "dv": DV / 6, "f": F, "fk": F + K})
        environment = os.environ | {"NUMBA_NUM_THREADS": str(threads)}
        done = subprocess.run(
            [pde, "-c", PDE, str(n), str(PDE_STEPS), constants],
            capture_output=True,
            text=True,
            env=environment,
        )
        best = interleave({"ours": partial(ours.step, 1)}, seconds).best("ours")
        if done.returncode:
            yield Row("py-pde", None, note=done.stderr.strip().splitlines()[-1][:80])
        else:
            theirs = json.loads(done.stdout)
            rate = f"py-pde {n**3 / theirs / 1e6:.1f} million cells/s"
            yield Row(f"py-pde time / ours, {n}^3 float64", theirs / best, ">= 5", note=rate)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=128, help="cells in each direction (128)")
    parser.add_argument("--threads", type=int, default=1, help="threads of our sweeps and of py-pde (1)")
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of each comparison (5)")
    parser.add_argument("--pde", metavar="PYTHON", help="Python of an environment with py-pde")
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    prepare_rank(options.threads)
    found = []
    for row in rows(options.size, options.threads, options.seconds, options.pde):
        print(row.line(), flush=True)
        found.append(row)
    command = " ".join(["python", "benchmarks/reaction_diffusion.py", *sys.argv[1:]])
    show("reaction-diffusion", found, describe())
    if options.json:
        write_json(options.json, found, describe(), command)


if __name__ == "__main__":
    main()
