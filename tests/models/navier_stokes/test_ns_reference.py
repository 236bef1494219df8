"""The plain solver against exact solutions: order in time, and what is exact in it."""

import numpy as np

from navier_stokes_tools import ethier_case, history, periodic_mesh
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models.navier_stokes.problem import (
    FlowProblem,
    FlowRate,
    VelocitySide,
    bubble_filter,
    vorticity_order,
)
from ridgeline.models.navier_stokes.reference import ReferenceSolver


def error(solver, velocity, pressure):
    """Return the root mean square errors of velocity and pressure over the volume."""
    elements = solver.elements
    x, y, z = elements.at()
    exact = pressure(x, y, z, solver.time)
    exact = exact - (exact * elements.mass).sum() / elements.volume

    def norm(f):
        return np.sqrt((f**2 * elements.mass).sum() / elements.volume)

    return norm(solver.u - velocity(x, y, z, solver.time)), norm(solver.p - exact)


def test_third_order_in_time_between_walls_of_given_velocity():
    found = []
    for dt in (0.1, 0.05):
        grid, problem, velocity, pressure = ethier_case(1, 9, dt, viscosity=1.0, dealias=14)
        solver = ReferenceSolver(
            grid, problem, velocity(*grid.coordinates, 0.0), history=history(grid, velocity, dt)
        )
        for _ in range(round(0.4 / dt)):
            solver.step()
        found.append(error(solver, velocity, pressure))
    orders = np.log2(np.array(found[0]) / np.array(found[1]))
    assert orders[0] > 2.8, found
    assert orders[1] > 2.8, found


def test_poiseuille_flow_is_steady_and_its_flow_rate_held():
    mesh = BoxMesh.box((1, 2, 1), (1.0, 2.0, 1.0), (0.0, -1.0, 0.0), periodic=(True, False, True))
    sides = {name: VelocitySide("wall" if name[0] == "y" else "periodic") for name in SIDES}
    grid = ElementGrid(mesh, 4)
    _, y, _ = grid.coordinates
    velocity = np.stack([1.5 * (1 - y**2), 0 * y, 0 * y])
    solver = ReferenceSolver(grid, FlowProblem(0.1, 0.05, sides, flow_rate=FlowRate(0, 1.0)), velocity)
    for _ in range(5):
        solver.step()
    np.testing.assert_allclose(solver.u, velocity, atol=1e-12)
    np.testing.assert_allclose(solver.p, 0.0, atol=1e-11)


def test_a_uniform_wind_passes_a_periodic_box_unchanged():
    mesh = periodic_mesh((1, 2, 2), (1.0, 2.0, 2.0))
    grid = ElementGrid(mesh, 3)
    wind = np.ones((3, *grid.shape)) * np.array([1.0, -2.0, 0.5])[:, None, None, None, None]
    sides = {name: VelocitySide("periodic") for name in SIDES}
    solver = ReferenceSolver(grid, FlowProblem(0.1, 0.01, sides, force=(0.0, 0.0, 3.0)), wind)
    for _ in range(4):
        solver.step()
    wind[2] += 3.0 * 0.04
    np.testing.assert_allclose(solver.u, wind, atol=1e-12)


def test_the_filter_leaves_ends_and_low_modes_alone():
    points = gauss_lobatto(8)[0]
    f = bubble_filter(points, 0.3, 2)
    np.testing.assert_allclose(f[0], np.eye(8)[0], atol=1e-13)
    np.testing.assert_allclose(f[-1], np.eye(8)[-1], atol=1e-13)
    for degree in range(6):
        np.testing.assert_allclose(f @ points**degree, points**degree, atol=1e-12)
    highest = np.polynomial.legendre.legval(points, [0] * 7 + [1])
    highest -= np.polynomial.legendre.legval(points, [0] * 5 + [1])
    np.testing.assert_allclose(f @ highest, 0.7 * highest, atol=1e-12)


def test_the_boundary_vorticity_is_extrapolated_as_stability_allows():
    assert vorticity_order(3, 0.1, 1e-3, 0.1) == 3
    assert vorticity_order(3, 0.1, 1e-1, 0.05) == 2
    assert vorticity_order(2, 0.1, 1.0, 0.05) == 2
    assert vorticity_order(1, 0.1, 1.0, 0.05) == 1
