"""Gray-Scott as formulas beside the built-in model, plain C, Devito, py-pde and NumPy, in turn in one run.

    python benchmarks/reaction_diffusion_peers.py [--sizes 64 128 256] [--rounds N] [--peers PYTHON] [--json FILE]

All have float64, no noise and one thread. The figure is CPU time, the least of the rounds, because other programs may
use the machine meanwhile. --peers names the Python of an environment that has Devito and py-pde, or is "install" for
a temporary one. Devito and C have no periodic sides here, which spares them work.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gray_scott_peers import Fields, c_plain
from gray_scott_ranks import advance
from harness.c_library import CUnavailable
from harness.machine import describe
from harness.peer import peer_python
from harness.table import Row, show, write_json
from reaction_diffusion import DU, DV, F, K, model_of
from ridgeline.parallel.job import prepare_rank

CELLS = 6e7  # cell updates of a call, about, so that calls take tenths of a second at least
LARGEST_OF_PDE, ROUNDS_OF_PDE = 64, 2  # py-pde compiles in every call
CONSTANTS = {"du": DU / 6, "dv": DV / 6, "f": F, "fk": F + K}
# A peer in another process reads a line for each call, and answers with the CPU time of a step.
SERVE = """
def serve(call):
    call(); print("ready", flush=True)
    for _ in sys.stdin:
        print(call(), flush=True)
"""
DEVITO = (
    """
import json, os, sys, time
os.environ["DEVITO_LOGGING"] = "ERROR"
import numpy as np
from devito import Eq, Grid, Operator, TimeFunction, solve
n, steps, c = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
grid = Grid(shape=(n, n, n), extent=(n - 1.0,) * 3, dtype=np.float64)
u, v = (TimeFunction(name=name, grid=grid, space_order=2, time_order=1) for name in "uv")
u.data[:], v.data[:] = 1.0, 0.1
reaction = u * v * v
equations = [
    Eq(u.forward, u + c["du"] * u.laplace - reaction + c["f"] * (1 - u)),
    Eq(v.forward, v + c["dv"] * v.laplace + reaction - c["fk"] * v),
]
step = Operator(equations, subs=grid.spacing_map, opt=("advanced", {"openmp": True}))
step.apply(time_M=20, dt=1.0, autotune="aggressive")
def call():
    begin = time.process_time()
    step.apply(time_M=steps - 1, dt=1.0)
    return (time.process_time() - begin) / steps
"""
    + SERVE
    + "serve(call)\n"
)
PY_PDE = (
    """
import json, sys, time
import pde
n, steps = int(sys.argv[1]), int(sys.argv[2])
grid = pde.CartesianGrid([[0, n]] * 3, n, periodic=True)
state = pde.FieldCollection([pde.ScalarField(grid, 1.0), pde.ScalarField(grid, 0.1)], labels=["u", "v"])
equation = pde.PDE(
    {"u": "du*laplace(u) - u*v**2 + f*(1 - u)", "v": "dv*laplace(v) + u*v**2 - fk*v"},
    bc="periodic", consts=json.loads(sys.argv[3]))
def run(count):
    begin = time.process_time()
    equation.solve(state, t_range=count, dt=1.0, tracker=None, backend="numba")
    return time.process_time() - begin
run(1)
base = min(run(1) for _ in range(2))  # compiling, which it does in every call
def call():
    return (run(1 + steps) - base) / steps
"""
    + SERVE
    + "serve(call)\n"
)


def timed(step: Callable[[], object], steps: int) -> float:
    """Return the CPU time of a step."""
    begin = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - begin) / steps


def timed_model(model: Any, steps: int) -> float:
    """Return the CPU time of a step of a model, which may make several in a call."""
    return timed(lambda: advance(model, steps), 1) / steps


class Peer:
    """A process that says "ready", and then answers each call with the seconds of a step."""

    def __init__(self, command: list[str], threads: int = 1) -> None:
        pools = dict.fromkeys(("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | pools | {"DEVITO_LANGUAGE": "openmp"},
        )
        assert self._process.stdout
        while (line := self._process.stdout.readline().strip()) != "ready":
            if not line and self._process.poll() is not None:
                raise RuntimeError("the peer ended; see its message")

    @classmethod
    def of_program(cls, python: str, program: str, n: int, steps: int, threads: int = 1) -> "Peer":
        """Start a program of this file in another environment."""
        return cls([python, "-c", program, str(n), str(steps), json.dumps(CONSTANTS)], threads)

    def __call__(self) -> float:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def end(self) -> None:
        """Let the program end."""
        self._process.communicate()


def ours(n: int, steps_per_sweep: int) -> Any:
    """Return Gray-Scott as formulas."""
    species = [
        {"name": "U", "diffusivity": DU / 6, "rate": "F*(1 - U) - U*V**2", "initial": 1},
        {"name": "V", "diffusivity": DV / 6, "rate": "U*V**2 - (F + k)*V", "initial": 0.1},
    ]
    model = {
        "dt": 1.0,
        "parameters": {"F": F, "k": K},
        "species": species,
        "steps_per_sweep": steps_per_sweep,
    }
    run = {"model": "reaction_diffusion", "steps": 1}
    return model_of(
        "reaction_diffusion", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, ("cpu", 1)
    )


def built_in(n: int, steps_per_sweep: int) -> Any:
    """Return Gray-Scott as built in."""
    model = {"Du": DU, "Dv": DV, "F": F, "k": K, "noise": 0.0, "steps_per_sweep": steps_per_sweep}
    run = {"model": "gray_scott", "steps": 1, "precision": "float64"}
    return model_of("gray_scott", {"run": run, "grid": {"shape": [n] * 3}, "model": model}, ("cpu", 1))


def with_numpy(n: int) -> Callable[[], None]:
    """Return a step of a NumPy program, as one writes it by hand: ghosts, slices, and few temporaries."""
    fields = [np.full((n + 2,) * 3, value) for value in (1.0, 0.1)]
    c = CONSTANTS

    def laplacian(a: np.ndarray) -> np.ndarray:
        for axis in range(3):
            first, last = (np.moveaxis(a, axis, 0)[place] for place in (0, -1))
            first[...], last[...] = np.moveaxis(a, axis, 0)[-2], np.moveaxis(a, axis, 0)[1]
        total = -6.0 * a[1:-1, 1:-1, 1:-1]
        for axis in range(3):
            for begin in (0, 2):
                place = [slice(1, -1)] * 3
                place[axis] = slice(begin, begin + n)
                total += a[tuple(place)]
        return total

    def step() -> None:
        u, v = (a[1:-1, 1:-1, 1:-1] for a in fields)
        spread_u, spread_v = (laplacian(a) for a in fields)
        reaction = u * v**2
        u += c["du"] * spread_u - reaction + c["f"] * (1 - u)
        v += c["dv"] * spread_v + reaction - c["fk"] * v

    return step


def candidates(n: int, peers: str | None) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield each program with a call that returns the CPU time of a step."""
    steps = max(4, round(CELLS / n**3))
    for name, make in (("formulas", ours), ("built-in", built_in)):
        for steps_per_sweep in (1, 2):
            model = make(n, steps_per_sweep)
            words = name if steps_per_sweep == 1 else f"{name}, 2 steps per sweep"
            many = steps // steps_per_sweep * steps_per_sweep
            yield words, partial(timed_model, model, many)
    try:
        sweep, fields = c_plain("float64", 1, True), Fields.allocate((n, n, n), "float64")
        both = [fields, fields.swapped()]
        yield "plain C", lambda: timed(lambda: [sweep(each) for each in both], steps // 2) / 2
    except CUnavailable as error:
        print(f"plain C is not run: {error}")
    by_hand = with_numpy(n)
    yield "NumPy", lambda: timed(by_hand, max(1, steps // 20))
    if peers:
        yield "Devito", Peer.of_program(peers, DEVITO, n, steps)
    if peers and n <= LARGEST_OF_PDE:
        yield "py-pde", Peer.of_program(peers, PY_PDE, n, steps)


def rows(n: int, rounds: int, peers: str | None) -> Iterator[Row]:
    """Yield the rows of one size."""
    calls = dict(candidates(n, peers))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for number in range(rounds):
        order = list(calls) if number % 2 == 0 else list(reversed(calls))
        for name in order:
            if name != "py-pde" or number < ROUNDS_OF_PDE:
                samples[name].append(calls[name]())
    for call in calls.values():
        if isinstance(call, Peer):
            call.end()
    best = min(min(samples[name]) for name in ("formulas", "formulas, 2 steps per sweep"))
    targets = {"Devito": ">= 1", "py-pde": ">= 5", "built-in": ">= 0.95"}
    for name, times in samples.items():
        ours = min(samples["formulas"]) if name == "built-in" else best
        ratio = np.array(times) / np.array(samples["formulas"][: len(times)])
        rate = f"{n**3 / min(times) / 1e6:.4g} million cells/s"
        target = targets.get(name, "") if name != "Devito" or n >= 128 else ""
        yield Row(f"{name} time / formulas, {n}^3", min(times) / ours, target, float(np.median(ratio)), rate)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[64, 128, 256], help="cells in each direction"
    )
    parser.add_argument("--rounds", type=int, default=9, help="turns of each program (9)")
    parser.add_argument(
        "--peers", metavar="PYTHON", help="path of a Python that has Devito and py-pde, or 'install'"
    )
    parser.add_argument("--json", type=Path, help="file for the rows")
    options = parser.parse_args()
    prepare_rank(1)
    found = []
    with peer_python(options.peers, ("devito", "py-pde")) as peers:
        for n in options.sizes:
            for row in rows(n, options.rounds, peers):
                print(row.line(), flush=True)
                found.append(row)
    command = " ".join(["python", "benchmarks/reaction_diffusion_peers.py", *sys.argv[1:]])
    show("Gray-Scott as formulas and its peers", found, describe())
    if options.json:
        write_json(options.json, found, describe(), command)


if __name__ == "__main__":
    main()
