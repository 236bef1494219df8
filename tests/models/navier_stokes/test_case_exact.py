"""Exact solutions fulfil the equations; ducts have their published figures; perturbed ducts are solenoidal."""

import math

import numpy as np
import pytest

from ridgeline.models.navier_stokes import exact
from ridgeline.models.navier_stokes.initial import Duct
from ridgeline.models.navier_stokes.laminar_duct import figures, unit_bulk, unit_velocity

NU = 0.07
FLOWS = {
    "uniform": exact.uniform((1.0, -2.0, 0.5)),
    "taylor_green_2d": exact.taylor_green_2d(NU, 1.3),
    "abc": exact.abc(NU, 0.8),
    "walsh": exact.walsh(NU, (1.0, 0.3, -0.2)),
    "ethier_steinman": exact.ethier_steinman(NU),
    "kovasznay": exact.kovasznay(NU),
}
H = 2e-3
# Sixth-order differences: first and second derivative.
FIRST = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
SECOND = {0: -49 / 18, 1: 3 / 2, 2: -3 / 20, 3: 1 / 90}
DUCT = Duct((0, 1, 2), (0.4, -0.1), (0.5, 0.8), -1.0, 3.0)


def derivatives(f, place, t):
    """Return value, time derivative, gradient [3 directions] and Laplacian of what f(x, y, z, t) -> [m, points]."""

    def shifted(direction, steps):
        moved = np.array(place)
        if direction < 3:
            moved[direction] += steps * H
        return np.stack(f(*moved, t + steps * H if direction == 3 else t))

    first = [sum(c * (shifted(d, s) - shifted(d, -s)) for s, c in FIRST.items()) / H for d in range(4)]
    lap = sum(
        sum(c * (shifted(d, s) + shifted(d, -s)) / (1 + (s == 0)) for s, c in SECOND.items()) / H**2
        for d in range(3)
    )
    return shifted(0, 0), first[3], first[:3], lap


@pytest.mark.parametrize("name", FLOWS)
def test_exact_solutions_fulfil_momentum_and_continuity(name):
    place = np.random.default_rng(3).uniform(-1, 1, (3, 40))
    value, rate, gradient, lap = derivatives(FLOWS[name], place, 0.3)
    assert np.abs(value[:3]).max() > 0.1
    momentum = rate[:3] - NU * lap[:3] + np.stack([gradient[d][3] for d in range(3)])
    momentum += sum(value[d] * gradient[d][:3] for d in range(3))
    assert np.abs(momentum).max() < 1e-8
    assert np.abs(sum(gradient[d][d] for d in range(3))).max() < 1e-8


def test_walsh_pressure_is_that_of_nek5000():
    x, y = np.random.default_rng(4).uniform(0, 2 * np.pi, (2, 50))
    c, s, t = np.cos, np.sin, 0.4
    p = FLOWS["walsh"](x, y, x, t)[3]
    x, y = x - t, y - 0.3 * t
    nek = math.exp(-50 * NU * t) / 64 * (
        16 * c(6 * x) + 8 * c(8 * x - 4 * y) - 32 * c(2 * (x - 2 * y)) + 9 * c(8 * y)
        - 8 * c(4 * (2 * x + y)) + 32 * c(2 * (x + 2 * y)) - 4 * s(3 * (x - 3 * y)) + 32 * s(5 * (x - y))
        + 36 * s(3 * x - y) - 32 * s(5 * (x + y)) + 36 * s(3 * x + y) - 4 * s(3 * (x + 3 * y))
    )  # fmt: skip
    assert np.ptp(p - nek) < 1e-13


@pytest.mark.parametrize(
    ("ratio", "bulk", "peak", "friction"),
    [
        (1, 0.140577014955, 2.096256015, 56.90830754),
        (2, 0.228681677120, 1.991796344, 62.19222459),
        (4, 0.280812958308, 1.773681376, 72.93110732),
    ],
)
def test_figures_of_laminar_ducts(ratio, bulk, peak, friction):
    found = figures(ratio)
    assert unit_bulk(1, ratio) == pytest.approx(bulk, rel=1e-11)
    assert found.peak == pytest.approx(peak, rel=1e-9)
    assert found.friction == pytest.approx(friction, rel=1e-9)
    turned = figures(1 / ratio)
    assert (turned.peak, turned.friction) == pytest.approx((found.peak, found.friction), rel=1e-9)
    assert turned.nusselt == pytest.approx(found.nusselt, rel=1e-8)


def chebyshev(n):
    """Return the inner Chebyshev points, weights of Clenshaw and Curtis, and the second derivative with zero ends."""
    theta = np.pi * np.arange(n + 1) / n
    x = np.cos(theta)
    c = np.where((np.arange(n + 1) % n) == 0, 2.0, 1.0) * (-1.0) ** np.arange(n + 1)
    d = np.outer(c, 1 / c) / (x[:, None] - x[None, :] + np.eye(n + 1))
    d -= np.diag(d.sum(axis=1))
    k = np.arange(n + 1)
    vandermonde = np.cos(np.outer(k, theta))
    integrals = np.where(k % 2 == 0, 2.0 / np.where(k % 2 == 0, 1.0 - k * k, 1.0), 0.0)
    return x[1:-1], np.linalg.solve(vandermonde, integrals)[1:-1], (d @ d)[1:-1, 1:-1]


def test_nusselt_numbers_of_the_square_duct_by_another_method():
    x, weight, second = chebyshev(40)
    one = np.eye(len(x))
    laplacian = np.kron(second, one) + np.kron(one, second)
    w = np.linalg.solve(laplacian, -np.ones(len(x) ** 2))
    weights = np.outer(weight, weight).ravel()
    bulk = weights @ w / 4
    assert bulk == pytest.approx(unit_bulk(1, 1), rel=1e-7)
    y, z = (c.ravel() for c in np.meshgrid(x, x, indexing="ij"))
    assert np.abs(w - unit_velocity(y, z, 1, 1)).max() < 1e-7
    # Uniform heating: lap(theta) = w, so that each length of the duct takes 4 bulk; D = 2, perimeter 8.
    theta = np.linalg.solve(laplacian, w)
    uniform_heating = 4 * bulk / 8 / (-(weights @ (w * theta)) / 4 / bulk) * 2
    assert figures(1).nusselt == pytest.approx(uniform_heating, rel=1e-7)
    assert figures(1).nusselt == pytest.approx(3.608, abs=5e-4)  # Shah and London, Table 43


def test_velocity_of_points_is_that_of_lines():
    y, z = np.random.default_rng(5).uniform(-1, 1, (2, 300))
    lines = unit_velocity(*np.meshgrid(y[:20], z[:20], indexing="ij"), 1.0, 1.0)
    assert lines[3, 4] == pytest.approx(unit_velocity(y[3:4], z[4:5], 1.0, 1.0)[0], abs=1e-14)
    inside = unit_velocity(y, z, 1.0, 1.0)
    assert np.abs(inside - unit_velocity(z, y, 1.0, 1.0)).max() < 1e-8
    assert np.abs(unit_velocity(y / 2, z, 0.5, 1.0) - unit_velocity(z, y / 2, 1.0, 0.5)).max() < 1e-12
    walls = unit_velocity(np.array([1.0, -1.0, 0.3, 0.2]), np.array([0.1, 0.4, 1.0, -1.0]), 1.0, 1.0)
    assert (walls == 0).all()


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_laminar_duct_and_its_perturbation(axes):
    duct = Duct(axes, (0.4, -0.1), (0.5, 0.8), -1.0, 3.0)
    local = np.random.default_rng(6).uniform(-0.8, 0.8, (3, 30))
    place = np.zeros((3, 30))
    place[axes[0]] = local[0]
    place[axes[1]] = 0.4 + 0.5 * local[1]
    place[axes[2]] = -0.1 + 0.8 * local[2]
    flow = duct.laminar(NU, 1.5, False)
    value, _, gradient, lap = derivatives(flow, place, 0.0)
    residual = -NU * lap[:3] + np.stack([gradient[d][3] for d in range(3)])
    assert np.abs(residual).max() < 1e-6
    assert (value[axes[1]] == 0).all()
    assert value[axes[0]].max() < 1.5 * 2.1
    disturbed = duct.perturbation(7)
    value, _, gradient, _ = derivatives(lambda x, y, z, t: disturbed(x, y, z), place, 0.0)
    assert np.abs(sum(gradient[d][d] for d in range(3))).max() < 1e-7
    assert 0.2 < np.sqrt((value**2).sum(axis=0)).max() < 1.3
    wall = np.array(place)
    wall[axes[1], ::2] = 0.9
    wall[axes[2], 1::2] = -0.9
    assert np.abs(disturbed(*wall)).max() < 1e-14
    around = np.array(place)
    around[axes[0]] += 3.0
    assert np.allclose(disturbed(*around), disturbed(*place), atol=1e-13)
    assert np.array_equal(duct.perturbation(7)(*place), disturbed(*place))
    assert not np.allclose(duct.perturbation(8)(*place), disturbed(*place), atol=1e-2)
