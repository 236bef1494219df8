"""Flows with exact solutions and small problems for the tests of the Navier-Stokes model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ridgeline.config.expressions import parse
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    FlowRate,
    ScalarSide,
    TransportedScalar,
    VelocitySide,
)
from ridgeline.models.navier_stokes.sources import Sponge, source_names

PI = np.pi


def all_sides(kind, value=None, steady=True):
    return {name: VelocitySide(kind, value, steady) for name in SIDES}


def walsh(viscosity, u0=1.0, v0=0.3):
    """Return velocity(x, y, z, t) and pressure(x, y, z, t) of Walsh's eddies, translated by (u0, v0)."""

    def velocity(x, y, z, t):
        e = np.exp(-25 * viscosity * t)
        x, y = x - u0 * t, y - v0 * t
        u = -np.cos(5 * y) + np.sin(3 * x) * np.cos(4 * y)
        v = -np.sin(5 * x) - 0.75 * np.cos(3 * x) * np.sin(4 * y)
        return np.stack([u0 + e * u, v0 + e * v, 0 * x])

    def pressure(x, y, z, t):
        e = np.exp(-50 * viscosity * t) / 64
        x, y = x - u0 * t, y - v0 * t
        c, s = np.cos, np.sin
        return e * (
            16 * c(6 * x) + 8 * c(8 * x - 4 * y) - 32 * c(2 * (x - 2 * y)) + 9 * c(8 * y)
            - 8 * c(4 * (2 * x + y)) + 32 * c(2 * (x + 2 * y)) - 4 * s(3 * (x - 3 * y)) + 32 * s(5 * (x - y))
            + 36 * s(3 * x - y) - 32 * s(5 * (x + y)) + 36 * s(3 * x + y) - 4 * s(3 * (x + 3 * y))
        )  # fmt: skip

    return velocity, pressure


def ethier_steinman(viscosity):
    """Return velocity and pressure of Ethier and Steinman's flow in the cube [-1, 1]^3."""
    a, d = PI / 4, PI / 2

    def velocity(x, y, z, t):
        e = np.exp(-viscosity * d * d * t)

        def one(x, y, z):
            return -a * e * (np.exp(a * x) * np.sin(a * y + d * z) + np.exp(a * z) * np.cos(a * x + d * y))

        return np.stack([one(x, y, z), one(y, z, x), one(z, x, y)])

    def pressure(x, y, z, t):
        e = np.exp(-2 * viscosity * d * d * t)

        def one(x, y, z):
            pair = np.sin(a * x + d * y) * np.cos(a * z + d * x) * np.exp(a * (y + z))
            return np.exp(2 * a * x) + 2 * pair

        return -a * a / 2 * e * (one(x, y, z) + one(y, z, x) + one(z, x, y))

    return velocity, pressure


def kovasznay(reynolds):
    """Return velocity and pressure of Kovasznay's steady flow behind a grid; period 1 in y."""
    k = reynolds / 2 - np.sqrt(reynolds**2 / 4 + 4 * PI**2)

    def velocity(x, y, z, t):
        u = 1 - np.exp(k * x) * np.cos(2 * PI * y)
        v = k / (2 * PI) * np.exp(k * x) * np.sin(2 * PI * y)
        return np.stack([u, v, 0 * x])

    def pressure(x, y, z, t):
        return (1 - np.exp(2 * k * x)) / 2

    return velocity, pressure


def periodic_mesh(elements, lengths):
    return BoxMesh.box(elements, lengths, periodic=(True,) * 3)


def walsh_case(per_side, order, dt, viscosity=0.05, dealias=0, **more):
    """Return grid, problem, velocity and pressure: one element across z, per_side x per_side of them in x and y."""
    width = 2 * PI / per_side
    mesh = periodic_mesh((1, per_side, per_side), (width, 2 * PI, 2 * PI))
    problem = FlowProblem(viscosity, dt, all_sides("periodic"), dealias_points=dealias, **more)
    return ElementGrid(mesh, order), problem, *walsh(viscosity)


def ethier_case(per_side, order, dt, viscosity=0.1, mapping=None, dealias=0, **more):
    """Return grid, problem, velocity and pressure: the cube with the exact velocity at all sides."""
    velocity, pressure = ethier_steinman(viscosity)
    mesh = BoxMesh.box((per_side,) * 3, (2.0,) * 3, (-1.0,) * 3, mapping=mapping)
    sides = all_sides("inflow", velocity, False)
    problem = FlowProblem(viscosity, dt, sides, dealias_points=dealias, **more)
    return ElementGrid(mesh, order), problem, velocity, pressure


def history(grid, velocity, dt, time=0.0, levels=2):
    """Return the exact velocity at time - dt, ..., as a start at full order needs it."""
    return [velocity(*grid.coordinates, time - back * dt) for back in range(1, levels + 1)]


def _sides(**kinds):
    """Return six sides: walls but for those named."""
    return {name: kinds.get(name, VelocitySide("wall")) for name in SIDES}


def make_start(grid, problem):
    """Return velocity and scalars [3 + S, E, n, n, n], smooth, of which the solver makes what fits the sides."""
    mesh = grid.mesh
    z, y, x = (
        place * 2 * PI / (edge[-1] - edge[0]) if periodic else place
        for place, edge, periodic in zip(grid.coordinates[::-1], mesh.edges, mesh.periodic)
    )
    velocity = [np.sin(2 * x) * np.cos(y) + 0.3, -np.cos(x) * np.sin(y + z), 0.2 * np.cos(z + y)]
    return np.stack([*velocity, *(np.cos(x + i) * np.sin(y) for i in range(len(problem.scalars)))])


def channel(**more):
    """Inflow with a profile that varies in time, outflow with backflow, walls, symmetry; two scalars."""
    bend = lambda x, y, z: (x + 0.05 * np.sin(2 * y), y + 0.03 * np.sin(x), z)  # noqa: E731
    mesh = BoxMesh.box((2, 2, 3), (1.0, 1.0, 2.0), mapping=bend)

    def inlet(x, y, z, t):
        return 4 * y * (1 - y) * (1 + t), 0.1 * np.sin(y), 0.0

    sides = _sides(
        x_min=VelocitySide("inflow", inlet, False),
        x_max=VelocitySide("outflow"),
        y_max=VelocitySide("moving-wall", lambda x, y, z, t: (0.5, 0.0, 0.0)),
        z_min=VelocitySide("symmetry"),
        z_max=VelocitySide("symmetry"),
    )
    hot = {name: ScalarSide("adiabatic") for name in SIDES}
    hot["x_min"] = ScalarSide("fixed", lambda x, y, z, t: y + t, False)
    hot["y_min"] = ScalarSide("flux", lambda x, y, z, t: 1.0 + x)
    warm = {name: ScalarSide("fixed", lambda x, y, z, t: 2.0) for name in SIDES}
    scalars = (
        TransportedScalar(0.05, hot, lambda x, y, z, t: np.sin(x) + t),
        TransportedScalar(0.02, warm, None, (0.5, 0.0, -1.0)),
    )
    return ElementGrid(mesh, 4), FlowProblem(0.02, 2e-3, sides, dealias_points=6, scalars=scalars, **more)


def duct(**more):
    """A flow rate held along a periodic duct, with a filter."""
    mesh = BoxMesh.box((2, 2, 2), (2.0, 2.0, 2.0), distribution=("geometric-walls",) * 2 + ("uniform",),
                           parameter=(2.0, 2.0, 1.0), periodic=(False, False, True))  # fmt: skip
    sides = _sides(x_min=VelocitySide("periodic"), x_max=VelocitySide("periodic"))
    more |= {"flow_rate": FlowRate(0, 0.7), "filter_weight": 0.1, "filter_modes": 2}
    return ElementGrid(mesh, 5), FlowProblem(0.5, 5e-3, sides, dealias_points=8, **more)


def forced(**more):
    """A constant force in a periodic box, of second order in time."""
    sides = all_sides("periodic")
    mesh = periodic_mesh((2, 2, 2), (2 * PI,) * 3)
    return ElementGrid(mesh, 5), FlowProblem(0.1, 2e-3, sides, time_order=2, force=(0.1, -0.2, 0.3), **more)


def convection(mapping=None, **more):
    """Two scalars that act on the flow and one that does not, gravity that leans, walls all round."""
    mesh = BoxMesh.box((1, 2, 2), (1.0, 1.0, 2.0), mapping=mapping)
    hot = {name: ScalarSide("adiabatic") for name in SIDES}
    hot["x_min"] = ScalarSide("fixed", lambda x, y, z, t: 2.0 + y)
    hot["x_max"] = ScalarSide("fixed", lambda x, y, z, t: 1.0)
    scalars = (
        TransportedScalar(0.05, hot, lambda x, y, z, t: np.sin(x) + t, (0.1, -0.6, 0.0), 0.7, 1.5),
        TransportedScalar(0.02, hot, None, (0.0, 1.0, 1.0)),
        TransportedScalar(0.03, hot, expansion=-0.4, reference=0.2),
    )
    gravity = (0.5, -3.0, 0.0)
    problem = FlowProblem(0.02, 5e-3, _sides(), dealias_points=6, scalars=scalars, gravity=gravity, **more)
    return ElementGrid(mesh, 4), problem


def sources(mapping=None, **more):
    """Formulas of everything that they may hold, steady and not, in sources and in two sponges."""
    grid, problem = convection(mapping)
    names = source_names(3)
    pull = tuple(
        parse(text, names) for text in ("0.3*sin(3*y)", "scalar_0 - u*abs(v) + t", "x*cos(t) - scalar_2**2")
    )
    hot, cold, passive = problem.scalars
    scalars = (
        hot,
        replace(cold, source=parse("x*z - 0.1*scalar_1", names)),
        replace(passive, source=parse("2")),
    )
    sponges = (
        Sponge(parse("20*(x > 1)*(x - 1)**2"), tuple(map(parse, ("0.4*y", "0", "t*x"))), (parse("1 + y"),)),
        Sponge(parse("3*exp(-t)"), (), (parse("0"), parse("z"))),
    )
    return grid, replace(problem, source=pull, sponges=sponges, scalars=scalars, **more)


def variable(base, **more):
    """Another problem with a viscosity of place, time and a scalar, a diffusivity of place and a flux of the flow."""
    grid, problem = EVERYTHING[base](**more)
    names = source_names(len(problem.scalars))
    first, second, *others = problem.scalars
    cooled = ScalarSide("flux", parse("1 + x - 0.3*scalar_0*abs(scalar_1) + 0.2*u", names), False)
    first = replace(first, sides={**first.sides, "y_min": cooled, "z_max": cooled})
    second = replace(second, diffusivity_formula=parse("0.02 + 0.01*x*y", names))
    nu = parse("0.02*(1 + 0.3*sin(x)*y + 0.2*sin(scalar_0) + 0.1*t)", names)
    return grid, replace(problem, viscosity_formula=nu, scalars=(first, second, *others))


EVERYTHING = {
    "channel": channel,
    "duct": duct,
    "forced": forced,
    "convection": convection,
    "sources": sources,
    "variable": lambda **more: variable("channel", **more),
}
