"""Fluxes at sides from residuals: their order, their balances, and the engine's equal to those of the reference."""

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_tools import EVERYTHING, all_sides, make_start
from ridgeline.elements.mappings import annulus
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.engine_cpu import CpuEngine
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    FlowRate,
    FlowState,
    HelmholtzSolver,
    PressureSolver,
    VelocitySide,
)
from ridgeline.models.navier_stokes.reference import ReferenceSolver
from ridgeline.models.navier_stokes.side_fluxes import SideFluxes
from ridgeline.models.navier_stokes.side_forces import SideForces

TIGHT = {
    "pressure": PressureSolver(tolerance=1e-12, projection=4),
    "velocity": HelmholtzSolver(tolerance=1e-13, projection=2),
}
RATE, SHARE = -1 / 3, 4 / 3  # u = RATE r + SHARE/r: the cylinder r = 1 turns at the rate 1, r = 2 is at rest


def couette(order):
    """Flow between cylinders, from the exact one to the steady one of the elements: a step decays as exp(-0.2)."""
    box = (1.0, 1.0, 1.0), (0.0, 1.0, 0.0)
    mesh = BoxMesh.box((1, 2, 6), *box, periodic=(True, False, True), mapping=annulus(box[1], box[0], 0))
    grid = ElementGrid(mesh, order)
    x, y, z = grid.coordinates
    rate = RATE + SHARE / (x * x + y * y)
    sides = all_sides("periodic")
    sides["y_min"] = VelocitySide("moving-wall", lambda x, y, z, t: (-y, x, 0 * x))
    sides["y_max"] = VelocitySide("wall")
    problem = FlowProblem(1.0, 0.02, sides, time_order=2, dealias_points=8)
    flow = ReferenceSolver(grid, problem, np.stack([-y * rate, x * rate, 0 * z]))
    for _ in range(40):
        flow.step()
    return flow


def by_gradients(flow, side):
    """Return the torque about z of the pressure and of the gradients at a side."""
    elements = flow.elements
    normal = elements.normal_area(side)
    gradient = np.stack([elements.face(side, elements.gradient(u)) for u in flow.u])
    strain = np.einsum("ij...,j...->i...", gradient + gradient.swapaxes(0, 1), normal)
    force = elements.face(side, flow.p) * normal - flow.problem.viscosity * strain
    return np.cross(elements.at(side), force, axis=0).sum(axis=(1, 2, 3))[2]


def test_torques_of_cylinders_converge_faster_than_those_of_gradients():
    exact = {"y_min": -4 * np.pi * SHARE, "y_max": 4 * np.pi * SHARE}
    errors, before = {}, {}
    for order in (3, 4, 5):
        flow = couette(order)
        found = {side: flow.side_force(side)[1, 2] for side in exact}
        errors[order] = max(abs(found[side] / exact[side] - 1) for side in exact)
        before[order] = max(abs(by_gradients(flow, side) / exact[side] - 1) for side in exact)
        assert abs(found["y_min"] + found["y_max"]) < 5e-5 * exact["y_max"], (
            order
        )  # 8e-3 by gradients at order 3
    assert errors[3] < before[3] / 50
    assert errors[5] < 1e-8 < 1e-4 < before[5]
    assert errors[3] / errors[5] > (before[3] / before[5]) ** 1.7


def test_walls_of_a_duct_take_what_drives_the_flow():
    """An exact balance at any order, with corners, where the points of two walls take the gradients, which are 0."""
    mesh = BoxMesh.box((1, 1, 1), (2.0, 2.0, 1.0), periodic=(False, False, True))
    sides = {name: VelocitySide("periodic" if name[0] == "x" else "wall") for name in all_sides("wall")}
    walls = ("y_min", "y_max", "z_min", "z_max")
    for order in (2, 5):
        grid = ElementGrid(mesh, order)
        problem = FlowProblem(1.0, 0.2, sides, time_order=2, flow_rate=FlowRate(0, 1.0))
        flow = ReferenceSolver(grid, problem, np.zeros((3, *grid.shape)))
        for _ in range(40):
            flow.step()
        drag = sum(flow.side_force(name)[0] for name in walls)
        np.testing.assert_allclose(drag, [4.0 * flow.held_force, 0, 0], atol=1e-10, err_msg=f"{order=}")
    assert drag[0] == pytest.approx(56.9083 / 2, rel=5e-3)  # f Re of laminar flow, Shah and London 1978


@pytest.mark.parametrize("name", EVERYTHING)
def test_forces_of_the_engine_are_those_of_the_reference(name):
    grid, problem = EVERYTHING[name](**TIGHT)
    sides = [side for side, condition in problem.sides.items() if condition.kind != "periodic"]
    start = make_start(grid, problem)
    reference = ReferenceSolver(grid, problem, start[:3], start[3:])
    engine = CpuEngine(MPI.COMM_SELF, grid, problem)
    engine.start(start)
    heated = [[n for n, side in scalar.sides.items() if side.kind == "fixed"] for scalar in problem.scalars]
    fluxes = SideFluxes(MPI.COMM_SELF, engine.geometry, problem, sides, heated)
    forces = SideForces(MPI.COMM_SELF, engine.geometry, fluxes, sides)
    for step in range(4):
        flow = FlowState(engine.time, engine.u, engine.p, engine.fields[3:])
        row = forces.row(flow, engine.last_step())
        if step:
            for number, names in enumerate(heated):
                heat = fluxes.heat(number, flow, engine.last_step())
                for side in names:
                    expected = reference.side_heat(number, side)
                    assert heat[side].value.sum() == pytest.approx(expected, abs=1e-9), f"{side} {step}"
            for side in sides:
                found = [[row[f"{side}_{kind}_{axis}"] for axis in "xyz"] for kind in ("force", "torque")]
                np.testing.assert_allclose(
                    found, reference.side_force(side), atol=1e-8, err_msg=f"{side} {step}"
                )
        else:
            assert engine.last_step() is None
        reference.step()
        engine.advance()
