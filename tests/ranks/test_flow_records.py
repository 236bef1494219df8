"""Probes and forces on sides: values that are known, on any ranks, in boxes and bent boxes."""

import numpy as np
import pytest
from mpi4py import MPI

from navier_stokes_flows import TIGHT, advance, begin
from navier_stokes_tools import EVERYTHING, all_sides
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import annulus, wavy
from ridgeline.elements.mesh import SIDES, BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.problem import FlowProblem, FlowState
from ridgeline.models.navier_stokes.sampling import PlacedPoints
from ridgeline.models.navier_stokes.side_fluxes import SideFluxes
from ridgeline.models.navier_stokes.side_forces import SideForces

RANKS = (1, 2, 3)
TIMEOUT = 120
LENGTHS = (1.0, 2.0, 3.0)  # z, y, x
ORIGIN = (0.5, -1.0, 0.0)
WAVY = wavy(ORIGIN, LENGTHS, 0.03)


def make(comm, order=5, elements=(2, 3, 2), mapping=None, periodic=(False, False, False)):
    mesh = BoxMesh.box(elements, LENGTHS, ORIGIN, periodic=periodic, mapping=mapping)
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    return grid, ElementGeometry(grid)


def inside(count, seed=1):
    low, size = np.array(ORIGIN[::-1]), np.array(LENGTHS[::-1])
    return low + size * np.random.default_rng(seed).random((count, 3))


@pytest.mark.parametrize("mapping", [None, WAVY])
def test_values_at_places(comm, mapping):
    """The coordinates are polynomials of the elements, bent or not: at a place they are the place."""
    grid, geometry = make(comm, mapping=mapping)
    places = inside(40)
    placed = PlacedPoints(comm, grid, places)
    assert not len(placed.missing)
    np.testing.assert_allclose(placed.values(list(geometry.coordinates)).T, places, atol=1e-12)


def test_polynomials_at_places(comm):
    grid, geometry = make(comm)
    places = inside(20)

    def field(x, y, z):
        return x**5 - 2 * x * y**3 + z**4

    found = PlacedPoints(comm, grid, places).values([field(*geometry.coordinates)])
    np.testing.assert_allclose(found[0], field(*places.T), atol=1e-10)


@pytest.mark.parametrize("mapping", [None, WAVY])
def test_a_place_that_elements_share_has_one_owner(comm, mapping):
    grid, _ = make(comm, mapping=mapping)
    number = np.broadcast_to((grid.first + np.arange(grid.n_elements))[:, None, None, None], grid.shape)
    corner = grid.mesh.places(np.array([[0, 1, 1]]), np.array([-1.0, 1.0]))[:, 0, 1, 0, 0]
    whole, _ = make(comm.Split(comm.rank), mapping=mapping)
    holders = np.abs(whole.coordinates - corner[:, None, None, None, None]).sum(axis=0) < 1e-9
    first = np.flatnonzero(holders.any(axis=(1, 2, 3)))
    assert len(first) == 8
    assert PlacedPoints(comm, grid, corner[None]).values([number])[0, 0] == first[0]


def test_places_outside_are_missing(comm):
    grid, _ = make(comm, periodic=(True, True, True))
    places = inside(6)
    places[[1, 4]] += [3.0, 0.0, 0.0]
    assert PlacedPoints(comm, grid, places).missing.tolist() == [1, 4]


def forces(comm, grid, geometry, viscosity, sides, velocity, pressure, **more):
    scalars = np.empty((0, *grid.shape))
    flow = FlowState(0.0, np.ascontiguousarray(velocity), np.ascontiguousarray(pressure), scalars)
    problem = FlowProblem(viscosity, np.nan, all_sides("wall"))
    found = SideForces(comm, geometry, SideFluxes(comm, geometry, problem, sides), sides, **more)
    row = found.row(flow)
    assert tuple(row) == found.columns
    return row


def vector(row, name):
    return np.array([row[f"{name}_{axis}"] for axis in "xyz"])


def test_force_of_poiseuille_flow(comm):
    """The walls take what drives the flow, a force 3 nu U/h^2 in the volume, in equal parts."""
    grid, geometry = make(comm, periodic=(True, False, True))
    y = geometry.coordinates[1]
    u = np.stack([1.5 * (1 - y * y), 0 * y, 0 * y])
    row = forces(comm, grid, geometry, 0.1, ("y_min", "y_max"), u, 0 * y, about=(0, 0, 0.5), dynamic=2.0)
    drive = 3 * 0.1 * 6.0
    for side, height in (("y_min", -1.0), ("y_max", 1.0)):
        np.testing.assert_allclose(vector(row, f"{side}_force"), [drive / 2, 0, 0], atol=1e-12)
        np.testing.assert_allclose(vector(row, f"{side}_coefficient"), [drive / 4, 0, 0], atol=1e-12)
        np.testing.assert_allclose(
            vector(row, f"{side}_torque"), [0, drive / 4, -height * drive / 2], atol=1e-12
        )


def test_force_of_kovasznay_flow(comm):
    """At x_max of its box: int p - 2 nu du/dx, and -nu (du/dy + dv/dx) along y."""
    nu, order = 0.025, 12
    k = 1 / (2 * nu) - np.sqrt(1 / (4 * nu * nu) + 4 * np.pi**2)
    mesh = BoxMesh.box((1, 3, 2), (1.0, 1.5, 1.0), (0.0, -0.5, -0.5))
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    geometry = ElementGeometry(grid)
    x, y, _ = geometry.coordinates
    e, c, s = np.exp(k * x), np.cos(2 * np.pi * y), np.sin(2 * np.pi * y)
    u = np.stack([1 - e * c, k / (2 * np.pi) * e * s, 0 * x])
    row = forces(comm, grid, geometry, nu, ("x_max",), u, (1 - e * e) / 2)
    wake = np.exp(0.5 * k)
    pressure = 1.5 * (1 - wake**2) / 2
    # Over 1.5 periods from y = -0.5: int cos = 0 and int sin = -1/pi.
    shear = -nu * wake * (2 * np.pi + k**2 / (2 * np.pi)) * (-1 / np.pi)
    np.testing.assert_allclose(vector(row, "x_max_pressure_force"), [pressure, 0, 0], atol=1e-9)
    np.testing.assert_allclose(vector(row, "x_max_force"), [pressure, shear, 0], atol=1e-7)


@pytest.mark.parametrize("mapping", [None, WAVY])
def test_forces_on_all_sides_balance_the_stress_inside(comm, mapping):
    """Gauss: the forces add up to - int div sigma, the torques to - int r x div sigma, as sigma is symmetric."""
    grid, geometry = make(comm, 13, (2, 3, 3), mapping)
    x, y, z = geometry.coordinates
    nu, about = 0.3, (1.0, -2.0, 0.5)
    row = forces(comm, grid, geometry, nu, SIDES, np.stack([y * y, z * z, x * x]), x * y, about=about)
    outward = np.stack([y - 2 * nu, x - 2 * nu, -2 * nu + 0 * z])
    arm = geometry.coordinates - np.reshape(about, (3, 1, 1, 1, 1))
    for name, density in (("force", outward), ("torque", np.cross(arm, outward, axis=0))):
        total = comm.allreduce((density * geometry.mass).sum(axis=(1, 2, 3, 4)))
        np.testing.assert_allclose(sum(vector(row, f"{side}_{name}") for side in SIDES), total, atol=2e-7)


def test_torque_of_circular_couette_flow(comm):
    """u = a r + b/r around z: the torque on both cylinders is 4 pi nu b per length, and no force."""
    a, b, nu = 0.7, 0.4, 0.2
    box = (1.0, 1.0, 1.0), (0.0, 1.0, 0.0)
    mesh = BoxMesh.box((1, 2, 8), *box, periodic=(False, False, True), mapping=annulus(box[1], box[0], 0))
    grid = ElementGrid(mesh, 9, comm.size, comm.rank)
    geometry = ElementGeometry(grid)
    x, y, z = geometry.coordinates
    r = np.hypot(x, y)
    rate = a + b / r**2
    pressure = a * a * r * r / 2 + 2 * a * b * np.log(r) - b * b / (2 * r * r)
    row = forces(
        comm, grid, geometry, nu, ("y_min", "y_max"), np.stack([-y * rate, x * rate, 0 * z]), pressure
    )
    for side, sign in (("y_min", -1), ("y_max", 1)):
        np.testing.assert_allclose(vector(row, f"{side}_force"), 0, atol=1e-8)
        np.testing.assert_allclose(vector(row, f"{side}_torque")[2], sign * 4 * np.pi * nu * b, rtol=1e-7)


@pytest.mark.parametrize("name", ["channel", "duct"])
def test_forces_of_a_step_are_those_of_one_rank(comm, name):
    """Bent elements with all kinds of sides, and walls that meet at corners with a flow rate and a filter."""
    whole, problem = EVERYTHING[name](**TIGHT)
    sides = [side for side, condition in problem.sides.items() if condition.kind != "periodic"]
    rows = []
    for group in (MPI.COMM_SELF, comm):
        engine = begin(group, whole, problem)
        advance(engine, 3)
        flow = FlowState(engine.time, engine.u, engine.p, engine.fields[3:])
        heated = [[n for n, side in s.sides.items() if side.kind != "periodic"] for s in problem.scalars]
        fluxes = SideFluxes(group, engine.geometry, problem, sides, heated)
        found = SideForces(group, engine.geometry, fluxes, sides)
        row = found.row(flow, engine.last_step())
        for number in range(len(problem.scalars)):
            for side, heat in fluxes.heat(number, flow, engine.last_step()).items():
                row[f"heat {number} {side}"] = group.allreduce(heat.value.sum())
        rows.append(row)
        differences = {
            side: found.figures(flow, engine.last_step())[f"{side}_force_difference"] for side in sides
        }
    assert rows[1] == pytest.approx(rows[0], rel=1e-9, abs=1e-8)
    corrected = {side for side, difference in differences.items() if difference.value > 0}
    assert corrected == {side for side in sides if problem.sides[side].kind != "outflow"}


def test_rows_have_the_same_bits_on_any_ranks(comm):
    """Each rank computes all of it alone, too."""
    rows = []
    for group in (comm, comm.Split(comm.rank)):
        grid, geometry = make(group, mapping=WAVY)
        x, y, z = geometry.coordinates
        u, p = np.stack([np.sin(y), np.cos(z * x), x]), np.exp(-x)
        row = forces(group, grid, geometry, 0.1, SIDES, u, p)
        placed = PlacedPoints(group, grid, inside(20)).values([*u, p])
        rows.append((row, placed.tolist()))
    assert rows[0] == rows[1]
