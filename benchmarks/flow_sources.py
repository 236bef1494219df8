"""Sources of Navier-Stokes: CPU time of a term beside NumPy's, and of a step, at about 10^6 points on one rank.

    python benchmarks/flow_sources.py

The denominators are taken in turn with the figures, in one run: what engines did before formulas were compiled,
`rates -= mass * formula(x, y, z, t)`, and a step of the flow in a periodic box of order 7 with all its solves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

from ridgeline.config.expressions import parse
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine, ElementKernels
from ridgeline.models.navier_stokes.problem import FlowProblem, VelocitySide
from ridgeline.models.navier_stokes.sources import Sponge, source_names, values_of

ROUNDS = 5
STEPS = 3
ELEMENTS = (12, 13, 13)
TEXTS = ("sin(3*x)*exp(-t)*y + z**2", "sin(3*x)*y + z**2", "-0.5*u*abs(u)", "x*u + v*w + t")


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    """Print a table of the terms, then the time of a step."""
    grid = ElementGrid(BoxMesh.box(ELEMENTS, (1.0,) * 3, periodic=(True,) * 3), 7)
    sides = {name: VelocitySide("periodic") for name in SIDES}
    problem = FlowProblem(0.01, 1e-4, sides, dealias_points=12)
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    x, y, _ = grid.coordinates
    wave = 2 * np.pi
    engine.start(
        np.stack(
            [
                np.sin(wave * x) * np.cos(wave * y),
                -np.cos(wave * x) * np.sin(wave * y),
                0.1 * np.cos(wave * y),
            ]
        )
    )
    fields, mass = engine.fields.copy(), engine.geometry.mass
    rates = np.zeros_like(fields)
    print(f"{grid.n_points} points of {len(fields)} fields")
    values = values_of(grid.coordinates, 0.7, fields)
    for text in (*TEXTS, "sponge 5*y**2 to y"):
        more: dict[str, object] = {}
        if text.startswith("sponge"):
            strength, target = parse("5*y**2"), parse("y")
            more["sponges"] = (Sponge(strength, (target, target, target)),)
        else:
            more["source"] = (parse(text, source_names(0)), None, None)
        kernels = ElementKernels(grid, engine.geometry, FlowProblem(0.01, 1e-4, sides, **more))  # type: ignore[arg-type]
        terms = FlowProblem(0.01, 1e-4, sides, **more).source_terms  # type: ignore[arg-type]

        def with_numpy(terms: list = terms) -> None:
            for term in terms:
                rates[term.field] -= mass * term.evaluate(values, fields)

        ours, before = [], []
        for _ in range(ROUNDS):
            ours.append(seconds(lambda kernels=kernels: kernels.subtract_sources(fields, 0.7, rates)))
            before.append(seconds(with_numpy))
        print(
            f"{text:28} {1e3 * min(ours):7.2f} ms, NumPy {1e3 * min(before):7.2f} ms, "
            f"ratio {min(before) / min(ours):6.2f}, {len(terms)} fields"
        )
    for text in ("0.01*(1 + y*z)", "0.01*(1 + u**2)"):
        varies = FlowProblem(
            0.01, 1e-4, sides, dealias_points=12, viscosity_formula=parse(text, source_names(0))
        )
        kernels = ElementKernels(grid, engine.geometry, varies)
        ours, advection = [], []
        for _ in range(ROUNDS):
            ours.append(
                seconds(lambda kernels=kernels: kernels.subtract_variable_diffusion(fields, 0.7, rates))
            )
            advection.append(seconds(lambda kernels=kernels: kernels.advection(fields, fields, rates)))
        print(f"viscosity {text:18} {1e3 * min(ours):7.2f} ms, advection {1e3 * min(advection):7.2f} ms")
    engine.advance()
    steps = [seconds(engine.advance) for _ in range(STEPS)]
    print(f"a step without sources       {1e3 * min(steps):7.1f} ms, iterations {engine.last_iterations}")


if __name__ == "__main__":
    main()
