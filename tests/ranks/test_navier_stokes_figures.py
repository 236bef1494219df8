"""Figures of flows that are known in closed form, and the same on any number of ranks."""

import math

import numpy as np
import pytest

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import periodic_hill, wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.diagnostics import DiagnosedScalar, Diagnostics, locate_nonfinite

RANKS = (1, 2, 3, 4)
TIMEOUT = 120
NU = 0.02


def geometry_of(comm, order=8, elements=(2, 3, 2), lengths=(1.0, 2.0, 3.0), **more):
    grid = ElementGrid(BoxMesh.box(elements, lengths, **more), order, comm.size, comm.rank)
    return grid, ElementGeometry(grid)


def none(grid):
    return np.empty((0, *grid.shape))


@pytest.mark.parametrize("curved", [False, True])
def test_taylor_green(comm, curved):
    """u = (sin x cos y cos z, -cos x sin y cos z, 0): <u.u>/2 = 1/8, <w.w>/2 = 3/8, eps = 3 nu/4."""
    edge = (2 * np.pi,) * 3
    mapping = wavy((0, 0, 0), edge, 0.02) if curved else None
    grid, geometry = geometry_of(comm, 11, (2, 2, 2), edge, periodic=(True, True, True), mapping=mapping)
    x, y, z = grid.coordinates
    u = np.stack([np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x])
    found = Diagnostics(comm, grid, geometry, NU).series(
        u, none(grid), 0.1, 2.0, (0.5, 0, 0), {"pressure": 4}
    )
    near = 1e-3 if curved else 1e-7
    assert found["kinetic_energy"] == pytest.approx(1 / 8, rel=near)
    assert found["enstrophy"] == pytest.approx(3 / 8, rel=near)
    assert found["dissipation"] == pytest.approx(NU * 3 / 4, rel=near)
    assert found["divergence"] < (2e-2 if curved else 1e-4)
    assert abs(found["mean_velocity_x"]) < near
    assert (found["dt"], found["courant"], found["force_x"], found["iterations_pressure"]) == (
        0.1,
        0.2,
        0.5,
        4,
    )
    assert not any(name.startswith(("wall", "re_tau", "bulk")) for name in found)


def test_a_channel_between_two_walls(comm):
    """u = 6 U y(H - y)/H^2 across H = 2: tau = 6 U nu/H, D = 2 H, f Re = 96, h = H/2."""
    grid, geometry = geometry_of(comm, 4)
    _, y, _ = grid.coordinates
    bulk, height = 1.5, 2.0
    u = np.zeros((3, *grid.shape))
    u[0] = 6 * bulk * y * (height - y) / height**2
    figures = Diagnostics(comm, grid, geometry, NU, ("y_min", "y_max"), 0)
    force = (12 * NU * bulk / height**2, 0.0, 0.0)
    found = figures.series(u, none(grid), 0.0, 0.0, force)
    shear = 6 * bulk * NU / height
    for name in ("wall_shear", "wall_shear_y_min", "wall_shear_y_max"):
        assert found[name] == pytest.approx(shear, rel=1e-12)
    assert found["bulk_velocity"] == pytest.approx(bulk, rel=1e-12)
    assert figures.hydraulic_diameter == pytest.approx(2 * height)
    assert found["re_tau"] == pytest.approx(math.sqrt(shear) * height / 2 / NU)
    assert found["friction_factor"] == pytest.approx(8 * shear / bulk**2)
    assert found["f_re"] == pytest.approx(96.0)
    assert found["force_f_re"] == pytest.approx(96.0)
    assert found["dissipation"] == pytest.approx(12 * NU * bulk**2 / height**2)
    # Against the flow the shear turns round, and so does nothing else.
    assert figures.series(-u, none(grid), 0.0, 0.0)["wall_shear"] == pytest.approx(-shear)
    without = Diagnostics(comm, grid, geometry, NU, ("y_min", "y_max")).series(-u, none(grid), 0.0, 0.0)
    assert without["wall_shear"] == pytest.approx(shear)
    assert "friction_factor" not in without


@pytest.mark.parametrize(
    ("walls", "axis", "height", "expected"),
    [
        (("y_min", "y_max"), 0, None, True),
        (("y_min", "y_max", "z_min", "z_max"), 0, None, True),
        (("y_min", "y_max"), None, None, False),  # nothing drives or directs the flow
        ((), 0, None, False),
        (("x_min", "y_min", "y_max"), 0, None, False),  # a wall stands across it
        (("y_min", "y_max"), 0, 0.0, True),
        (("y_min", "y_max"), 0, 0.2, False),  # the floor has a hill
    ],
)
def test_flows_between_walls_are_told_from_others(comm, walls, axis, height, expected):
    mapping = None if height is None else periodic_hill((0, 0, 0), (2.0, 2.0, 3.0), height)
    grid, geometry = geometry_of(comm, 4, lengths=(2.0, 2.0, 3.0), mapping=mapping)
    assert Diagnostics(comm, grid, geometry, NU, walls, axis).between_walls == expected


def test_walls_of_a_duct_are_told_apart(comm):
    """Shear of u = y: 1 at y_max, -1 at y_min and 0 at the walls across z; h = D/2."""
    grid, geometry = geometry_of(comm, 2, lengths=(2.0, 2.0, 3.0))
    walls = ("y_min", "y_max", "z_min", "z_max")
    u = np.zeros((3, *grid.shape))
    u[0] = grid.coordinates[1]
    figures = Diagnostics(comm, grid, geometry, NU, walls, 0)
    found = figures.series(u, none(grid), 0.0, 0.0)
    assert found["wall_shear_y_min"] == pytest.approx(NU)
    assert found["wall_shear_y_max"] == pytest.approx(-NU)
    assert abs(found["wall_shear_z_min"]) < 1e-14
    assert (figures.hydraulic_diameter, figures.half_height) == (pytest.approx(2.0), pytest.approx(1.0))


def test_nusselt_number_of_a_channel_heated_at_a_uniform_rate(comm):
    """Laminar, the same flux at both walls: Nu = 140/17 with the hydraulic diameter (Shah and London, 1978)."""
    grid, geometry = geometry_of(comm, 4, lengths=(1.0, 1.0, 2.0))
    s = grid.coordinates[1]
    u = np.zeros((3, *grid.shape))
    u[0] = 6 * s * (1 - s)
    theta = np.stack([s**3 - s**4 / 2 - s / 2 + 7.0, 0 * s])
    heated = DiagnosedScalar(0.3, ("y_min", "y_max"))
    figures = Diagnostics(comm, grid, geometry, NU, ("y_min", "y_max"), 0, (heated, DiagnosedScalar(1.0)))
    found = figures.series(u, theta, 0.0, 0.0)
    assert found["scalar_0_nusselt"] == pytest.approx(140 / 17)
    assert found["scalar_0_wall"] == pytest.approx(7.0)
    assert found["scalar_0_flux"] == pytest.approx(0.3 / 2)
    assert found["scalar_0_mean"] == pytest.approx(1 / 4 - 1 / 10 - 1 / 4 + 7.0)
    assert found["scalar_0_max"] == 7.0
    assert found["scalar_0_min"] == pytest.approx(1 / 8 - 1 / 32 - 1 / 4 + 7.0, abs=0.02)
    assert "scalar_1_nusselt" not in found
    # Pure conduction between walls of different temperatures: what one wall gives, the other takes.
    still = Diagnostics(comm, grid, geometry, NU, ("y_min", "y_max"), 0, (heated, heated))
    found = still.series(0 * u, np.stack([s, 0 * s]), 0.0, 0.0)
    assert found["scalar_0_bulk"] == pytest.approx(0.5)
    assert abs(found["scalar_0_flux"]) < 1e-13
    assert (found["scalar_0_nusselt"], found["scalar_1_nusselt"]) == (0.0, 0.0)
    # A flow that comes as it goes, to rounding, has no bulk velocity to divide by.
    u[0] = np.sin(2 * np.pi * s) / 3
    found = still.series(u, np.stack([1 + s, 0 * s]), 0.0, 0.0)
    assert 0 < abs(found["bulk_velocity"]) < 1e-15
    assert found["scalar_0_bulk"] == pytest.approx(1.5)
    assert (found["friction_factor"], found["f_re"], found["scalar_0_nusselt"]) == (0.0, 0.0, 0.0)


def test_nusselt_numbers_between_a_hot_and_a_cold_wall(comm):
    """T = 3 - y + a y (2 - y) and v = c (1 - y) across H = 2: 1 - 2 a, 1 + 2 a at the walls, 1 + c/(3 k) between."""
    grid, geometry = geometry_of(comm, 4)
    y = grid.coordinates[1]
    a, c, k = 0.2, 0.6, 0.3
    theta = (3 - y + a * y * (2 - y))[None]
    u = np.stack([0 * y, c * (1 - y), 0 * y])
    walls = ("y_min", "y_max")
    active = DiagnosedScalar(k, walls, active=True, axes=(1,))
    found = Diagnostics(comm, grid, geometry, NU, walls, None, (active,)).series(u, theta, 0.0, 0.0)
    assert found["scalar_0_flux_y_min"] == pytest.approx(k * (1 - 2 * a))
    assert found["scalar_0_flux_y_max"] == pytest.approx(-k * (1 + 2 * a))
    assert found["scalar_0_nusselt_y_min"] == pytest.approx(1 - 2 * a)
    assert found["scalar_0_nusselt_y_max"] == pytest.approx(1 + 2 * a)
    assert found["scalar_0_nusselt_y"] == pytest.approx(1 + c / (3 * k))
    assert "scalar_0_nusselt" not in found
    # The same upside down, at another level: heat goes the other way.
    found = Diagnostics(comm, grid, geometry, NU, walls, None, (active,)).series(-u, 300 - theta, 0.0, 0.0)
    assert found["scalar_0_nusselt_y"] == pytest.approx(1 - c / (3 * k))
    assert found["scalar_0_flux_y_max"] == pytest.approx(k * (1 + 2 * a))
    assert found["scalar_0_nusselt_y_max"] == pytest.approx(1 + 2 * a)
    # Walls of one temperature conduct nothing; a passive scalar has none of these columns.
    found = Diagnostics(comm, grid, geometry, NU, walls, None, (active,)).series(u, 0 * theta + 1, 0.0, 0.0)
    assert (found["scalar_0_nusselt_y"], found["scalar_0_nusselt_y_min"]) == (0.0, 0.0)
    passive = DiagnosedScalar(k, walls)
    found = Diagnostics(comm, grid, geometry, NU, walls, None, (passive,)).series(u, theta, 0.0, 0.0)
    assert not any(name.startswith(("scalar_0_flux_", "scalar_0_nusselt_")) for name in found)


def test_shear_of_a_curved_wall(comm):
    """u_x = a function of the distance to y = 0 on a mesh whose inside is curved: as on a straight one."""
    lengths = (1.0, 2.0, 3.0)
    grid, geometry = geometry_of(comm, 8, mapping=wavy((0, 0, 0), lengths, 0.02))
    u = np.zeros((3, *grid.shape))
    u[0] = np.sin(grid.coordinates[1])
    found = Diagnostics(comm, grid, geometry, NU, ("y_min",), 0).series(u, none(grid), 0.0, 0.0)
    assert found["wall_shear"] == pytest.approx(NU, rel=1e-5)


def test_figures_are_the_same_bits_on_any_ranks(comm):
    grid, geometry = geometry_of(comm, 5)
    alone = comm.Split(comm.rank)
    serial, whole = geometry_of(alone, 5)

    def figures(of, on, shape):
        x, y, z = shape.coordinates
        u = np.stack([np.sin(x + 2 * y), np.cos(y * z), np.exp(-z) * x])
        walls = ("y_min", "y_max", "z_max")
        heat = DiagnosedScalar(0.1, ("z_max",))
        series = Diagnostics(of, shape, on, NU, walls, 0, (heat,)).series(u, u[:1] * y, 0.1, 3.0)
        return series

    assert figures(comm, geometry, grid) == figures(alone, whole, serial)
    alone.Free()


def test_a_number_that_is_not_finite_is_found(comm):
    grid, geometry = geometry_of(comm, 2)
    fields = {"velocity_x": np.zeros(grid.shape), "pressure": np.zeros(grid.shape)}
    assert locate_nonfinite(comm, grid, geometry, fields) is None
    if comm.rank == comm.size - 1:
        fields["pressure"][-1, 0, 1, 2] = np.nan
    words = locate_nonfinite(comm, grid, geometry, fields)
    assert words.startswith("pressure at x=3, y=")
    assert words.endswith("in element (z=1, y=2, x=1)")
    u = np.zeros((3, *grid.shape))
    u[1] = fields["pressure"]
    assert math.isnan(Diagnostics(comm, grid, geometry, NU).series(u, none(grid), 0, 0)["divergence"])
