"""Terms of the budget of Reynolds stresses of flows that are known, at points and averaged over directions."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mappings import wavy
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.models.navier_stokes.derivatives import velocity_gradient
from ridgeline.models.navier_stokes.flow_statistics import Statistics
from ridgeline.models.navier_stokes.stress_budgets import term_names

RANKS = (1, 2, 3)
TIMEOUT = 120
LENGTHS = (1.0, 2.0, 3.0)  # z, y, x
VISCOSITY = 0.3
TIMES = np.array([0.0, 0.1, 0.3, 0.4])
PAIRS = tuple(combinations_with_replacement(range(3), 2))
TRIPLES = tuple(combinations_with_replacement(range(3), 3))


def make(comm, order=4, mapping=None):
    mesh = BoxMesh.box((1, 2, 3), LENGTHS, periodic=(True, False, True), mapping=mapping)
    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    geometry = ElementGeometry(grid)
    return grid, geometry, Statistics(comm, grid, geometry, 0, 0.0, VISCOSITY)


def test_there_are_twenty_five_more_numbers_and_nine_gradients(comm):
    grid, geometry, statistics = make(comm)
    plain = Statistics(comm, grid, geometry, 0, 0.0)
    assert len(term_names()) == 22
    assert len(statistics.averages()) - len(plain.averages()) == 25 + 9
    assert statistics.state()["statistics"].shape_global[0] == 36


@pytest.mark.parametrize("mapping", [None, wavy((0.0, 0.0, 0.0), LENGTHS, 0.03)])
def test_terms_at_points_are_moments_of_deviations(comm, mapping):
    """Against deviations from the mean, which a run cannot keep; polynomials of any kind will do."""
    grid, geometry, statistics = make(comm, mapping=mapping)
    x, y, z = geometry.coordinates
    flows = [
        (np.stack([y * t + x * x, 1 + t * t * z * y, x * y - t]), t * x + y * z * (1 + t)) for t in TIMES
    ]
    for t, (u, p) in zip(TIMES, flows):
        statistics.sample(0, t, u, p, np.empty((0, *grid.shape)))
    weights = np.diff(TIMES) / np.diff(TIMES).sum()

    def mean(values):
        return np.tensordot(weights, np.stack(values), 1)

    velocities, pressures = [u for u, _ in flows[1:]], [p for _, p in flows[1:]]
    du = [u - mean(velocities) for u in velocities]
    dp = [p - mean(pressures) for p in pressures]
    slopes = [velocity_gradient(geometry, u, slice(None)) for u in du]
    found = statistics.averages()
    for i, row in enumerate(velocity_gradient(geometry, mean(velocities), slice(None))):
        for j, values in enumerate(row):
            name = f"mean_gradient_{'xyz'[i]}{'xyz'[j]}"
            np.testing.assert_allclose(found[name].values, values, atol=1e-11)
    for i, j, k in TRIPLES:
        name = "".join("uvw"[axis] for axis in (i, j, k))
        np.testing.assert_allclose(found[name].values, mean([u[i] * u[j] * u[k] for u in du]), atol=1e-12)
    for i in range(3):
        expected = mean([u[i] * p for u, p in zip(du, dp)])
        np.testing.assert_allclose(found[f"{'uvw'[i]}p"].values, expected, atol=1e-12)
    for i, j in PAIRS:
        axes = "xyz"[i] + "xyz"[j]
        strain = mean([p * (g[i, j] + g[j, i]) / 2 for p, g in zip(dp, slopes)])
        np.testing.assert_allclose(found[f"pressure_strain_{axes}"].values, strain, atol=1e-11)
        lost = 2 * VISCOSITY * mean([(g[i] * g[j]).sum(axis=0) for g in slopes])
        np.testing.assert_allclose(found[f"dissipation_{axes}"].values, lost, atol=1e-10)


def test_terms_averaged_over_directions(comm):
    """u = y + t + y s, v = s c, p = s with s = sin(k x) and c = cos(k x); by sums over many x."""
    grid, geometry, statistics = make(comm, order=9)
    k, many = 2 * np.pi / LENGTHS[2], np.arange(64) * LENGTHS[2] / 64

    def flow(x, y, t):
        s, c = np.sin(k * x), np.cos(k * x)
        return np.stack([y + t + y * s, s * c, 0 * x]), s

    x, y, _ = geometry.coordinates
    for t in TIMES:
        statistics.sample(0, t, *flow(x, y, t), np.empty((0, *grid.shape)))
    found = statistics.averages(("x", "z"))
    lines = found["y"].values
    assert lines.shape == (19,)
    s, c = np.sin(k * many), np.cos(k * many)
    weights = np.diff(TIMES) / np.diff(TIMES).sum()
    dt = (TIMES[1:] - weights @ TIMES[1:])[:, None]  # u' = dt + y s
    for place, at in enumerate(lines):
        u = dt + at * s
        expected = {
            "uuu": (weights @ (u**3)).mean(),
            "uuv": (weights @ (u * u * s * c)).mean(),
            "up": (weights @ (u * s)).mean(),
            "pressure_strain_xx": (s * at * k * c).mean(),
            "pressure_strain_xy": (s * (s + k * (c * c - s * s)) / 2).mean(),
            "dissipation_xx": 2 * VISCOSITY * ((at * k * c) ** 2 + s * s).mean(),
            "dissipation_yy": 2 * VISCOSITY * ((k * (c * c - s * s)) ** 2).mean(),
            "dissipation_xy": 2 * VISCOSITY * (at * k * c * k * (c * c - s * s)).mean(),
        }
        for name, value in expected.items():
            np.testing.assert_allclose(found[name].values[place], value, atol=2e-6, err_msg=name)
            assert found[name].dims == ("y",)
