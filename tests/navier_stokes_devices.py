"""Tiny flows on which the engines of CPUs and GPUs are compared; tests of one rank and of several take them."""

from dataclasses import replace

import numpy as np

from navier_stokes_tools import all_sides, make_start, periodic_mesh
from ridgeline.config.expressions import parse
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    FlowRate,
    HelmholtzSolver,
    PressureSolver,
    ScalarSide,
    TransportedScalar,
    VelocitySide,
)
from ridgeline.models.navier_stokes.restart import EngineState
from ridgeline.models.navier_stokes.sources import Sponge, source_names
from ridgeline.models.navier_stokes.time_stepping import StepControl

SOLVERS = {
    "pressure": PressureSolver(tolerance=0.3, preconditioner="jacobi", projection=2, restart=20),
    "velocity": HelmholtzSolver(tolerance=1e-4, projection=2),
}


def sides(**kinds):
    """Return six sides: walls but for those named."""
    return {name: kinds.get(name, VelocitySide("wall")) for name in SIDES}


def box(n_elements=(1, 1, 2)):
    """Periodic, forced and filtered; steps by the Courant number."""
    control = StepControl(0.2, change=1.1)
    more = {"force": (0.5, -0.2, 0.1), "filter_weight": 0.2, "control": control, "dealias_points": 4}
    mesh = periodic_mesh(n_elements, (1.0,) * 3)
    solvers = SOLVERS | {"pressure": replace(SOLVERS["pressure"], tolerance=1e-4)}
    return ElementGrid(mesh, 2), FlowProblem(0.1, np.nan, all_sides("periodic"), **more, **solvers)


def cavity(n_elements=(1, 1, 2)):
    """Curved, with a moving lid, sources and sponges; a scalar, fixed here, heated there, acts on it; multigrid."""
    mesh = BoxMesh.box(n_elements, (1.0,) * 3, mapping=lambda x, y, z: (x + 0.05 * np.sin(2 * y), y, z))
    hot = {name: ScalarSide("adiabatic") for name in SIDES}
    hot["x_min"] = ScalarSide("fixed", lambda x, y, z, t: 2.0 + y)
    names = source_names(1)
    hot["y_min"] = ScalarSide("flux", parse("1 + x - 0.5*scalar_0*abs(u + 1)", names))
    source = parse("20*t*sin(3*z) + (0.3 < x < 0.8) - v*scalar_0", names)
    pull = parse("x*y", names), parse("cos(t) - u", names), None
    sponges = (
        Sponge(parse("5*z"), tuple(map(parse, ("t", "0", "x")))),
        Sponge(parse("1 + t"), (), (parse("y"),)),
    )
    scalar = TransportedScalar(0.05, hot, source, expansion=0.7, reference=1.5)
    lid = sides(y_max=VelocitySide("moving-wall", lambda x, y, z, t: (0.5, 0.0, 0.0)))
    more = {"scalars": (scalar,), "gravity": (0.0, -1.0, 0.0), "source": pull, "sponges": sponges}
    schwarz = PressureSolver(tolerance=1e-2, precision="float64", projection=2, restart=10)
    return ElementGrid(mesh, 2), FlowProblem(0.1, 0.02, lid, **more, **SOLVERS | {"pressure": schwarz})


def channel(n_elements=(1, 1, 2)):
    """An inflow that varies in time, an outflow with backflow, symmetry; second order, and flexible CG."""

    def inlet(x, y, z, t):
        return 4 * y * (1 - y) * (1 + t), 0.1 * np.sin(y), 0.0

    ends = {"x_min": VelocitySide("inflow", inlet, False), "x_max": VelocitySide("outflow")}
    ends |= {name: VelocitySide("symmetry") for name in ("z_min", "z_max")}
    solvers = SOLVERS | {"pressure": PressureSolver("cg", 0.3, preconditioner="jacobi", projection=0)}
    problem = FlowProblem(0.1, 0.02, sides(**ends), time_order=2, **solvers)
    return ElementGrid(BoxMesh.box(n_elements, (1.0,) * 3), 2), problem


def duct(n_elements=(1, 1, 2)):
    """A flow rate that is held, and a scalar with a mean gradient and a source."""
    mesh = BoxMesh.box(n_elements, (1.0,) * 3, periodic=(False, False, True))
    ends = {name: VelocitySide("periodic") for name in ("x_min", "x_max")}
    closed = {name: ScalarSide("periodic" if name in ends else "adiabatic") for name in SIDES}
    scalar = TransportedScalar(0.1, closed, parse("2 - y"), mean_gradient=(0.5, 0.0, -0.2))
    more = {"flow_rate": FlowRate(0, 0.7), "scalars": (scalar,)}
    return ElementGrid(mesh, 2), FlowProblem(0.1, 0.02, sides(**ends), **more, **SOLVERS)


FLOWS = {"box": box, "cavity": cavity, "channel": channel, "duct": duct}


def begun(kind, comm, whole, problem):
    """Return an engine of a kind on this rank's elements of a grid, which is about to make its first step."""
    grid = ElementGrid(whole.mesh, whole.order, comm.size, comm.rank)
    engine = kind(comm, grid, problem)
    x, y, z = grid.coordinates
    waves = np.stack([np.sin(3 * x + 2 * y + z + c) for c in range(3 + len(problem.scalars))])
    engine.start(0.3 * make_start(grid, problem) + 0.2 * waves)
    return engine


def resumed(kind, engine):
    """Return an engine of a kind that goes on from a checkpoint of another."""
    saved = {key: array.local.copy() for key, array in EngineState(engine).arrays().items()}
    other = kind(engine.comm, engine.grid, engine.problem)
    state = EngineState(other)
    for key, array in state.arrays().items():
        array.local[...] = saved[key]
    state.restored()
    return other


def agree(found, expected):
    """The same solves, steps and fields, but for rounding."""
    assert found.solves == expected.solves
    assert found.step_index == expected.step_index
    assert abs(found.time - expected.time) < 1e-12
    for level, of_expected in zip(found.host_levels(), expected.host_levels()):
        np.testing.assert_allclose(level, of_expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.p, expected.p, rtol=0, atol=1e-10 * max(1, abs(expected.p).max()))
    fixed = [
        i
        for i, scalar in enumerate(found.problem.scalars)
        if any(side.kind == "fixed" for side in scalar.sides.values())
    ]
    # What forces and heat fluxes on sides follow from.
    mine, theirs = (
        step._replace(scalars=step.scalars[fixed]) for step in (found.last_step(), expected.last_step())
    )
    for part, of_expected in zip(mine, theirs):
        largest = np.abs(of_expected).max(initial=1.0)
        np.testing.assert_allclose(part, of_expected, rtol=1e-8, atol=1e-10 * largest)
    assert abs(found.u).max() > 0.1
