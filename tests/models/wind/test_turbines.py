"""Actuator discs: weights, thrust to rounding, and momentum theory as far as it goes without a flow solver."""

import math

import numba
import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.wind.settings_physics import TurbineSection, turbine_problems
from ridgeline.models.wind.turbines import Turbines, discs_reference, weight_shape

SHAPE, WIDTHS = (16, 17, 19), (8.0, 10.0, 12.0)
PERIODIC = (False, True, True)
VOLUME = math.prod(WIDTHS)
# One in the middle, one turned and across the periodic side.
PAIR = (
    TurbineSection(position=(110.0, 80.0, 60.0), diameter=60.0, thrust_coefficient=0.75),
    TurbineSection(
        position=(220.0, 5.0, 50.0),
        diameter=50.0,
        thrust_coefficient=1.2,
        reference="disc",
        yaw=30.0,
        kernel="top-hat",
    ),
)


def make(turbines, dtype="float64"):
    block = Block.of_rank(SHAPE, (1, 1, 1), 0)
    discs = Turbines(turbines, block, WIDTHS, PERIODIC, MPI.COMM_SELF)
    compile_kernels(discs.kernels(numba.typeof(np.zeros(SHAPE, dtype))))
    return discs


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_discs_are_those_of_the_plain_version(dtype):
    random = np.random.default_rng(4)
    u, v = (random.uniform(4, 9, SHAPE).astype(dtype) for _ in range(2))
    discs = make(PAIR, dtype)
    states = discs.update(u, v)
    rates = [np.zeros(SHAPE, dtype) for _ in range(2)]
    discs.add(*rates)
    *plain, expected = discs_reference(PAIR, WIDTHS, PERIODIC, u.astype(float), v.astype(float))
    for state, other in zip(states, expected):
        assert tuple(state) == pytest.approx(tuple(other), rel=1e-12)
    for rate, each in zip(rates, plain):
        np.testing.assert_allclose(rate, each, rtol=1e-12 if dtype == "float64" else 1e-5, atol=1e-12)
    assert list(discs.series())[:3] == ["turbine_0_speed", "turbine_0_thrust", "turbine_0_power"]


@pytest.mark.parametrize("turbine", PAIR)
def test_the_force_adds_up_to_the_thrust_and_does_the_power(turbine):
    u, v = np.random.default_rng(4).uniform(4, 9, (2, *SHAPE))
    discs = make([turbine])
    (state,) = discs.update(u, v)
    rates = np.zeros((2, *SHAPE))
    discs.add(*rates)
    thrust = state.thrust / turbine.density
    yaw = math.radians(turbine.yaw)
    total = rates.sum(axis=(1, 2, 3)) * VOLUME
    np.testing.assert_allclose(
        total, (-thrust * math.cos(yaw), -thrust * math.sin(yaw)), rtol=1e-14, atol=1e-12 * thrust
    )
    work = ((rates[0] * u + rates[1] * v).sum()) * VOLUME
    assert work == pytest.approx(-state.power / turbine.density, rel=1e-13)


@pytest.mark.parametrize("kernel", ["gaussian", "top-hat"])
def test_a_uniform_wind_has_its_own_speed_and_the_weights_their_form(kernel):
    turbine = TurbineSection(
        position=(110.0, 80.0, 60.0), diameter=60.0, thrust_coefficient=0.5, kernel=kernel, width=9.0
    )
    discs = make([turbine])
    (state,) = discs.update(np.full(SHAPE, 8.0), np.zeros(SHAPE))
    assert state.speed == pytest.approx(8.0, rel=1e-14)
    area = math.pi * 30.0**2
    assert state.thrust == pytest.approx(1.225 * 0.5 * area * turbine.local_coefficient() * 64.0)
    # On a fine lattice the shape has the volume of the disc times the width along the axis.
    h = 1.0
    lattice = (np.arange(-60, 60) + 0.5) * h
    z, y, x = np.meshgrid(lattice, lattice, lattice, indexing="ij")
    shape = weight_shape(turbine, (h, h, h), x, y, z)
    thickness = 9.0 * (math.sqrt(2 * math.pi) if kernel == "gaussian" else 1.0)
    edge = (
        1 + (9.0 / 30.0) ** 2 if kernel == "gaussian" else 1.0
    )  # of a smooth edge: 2 pi int erfc(...)/2 r dr
    assert shape.sum() == pytest.approx(area * thickness * edge, rel=2e-3)


@pytest.mark.parametrize("thrust", [0.2, 0.75, 8 / 9])
def test_momentum_theory_closes(thrust):
    """With U_d = (1 - a) U the disc has C_T = 4a(1-a) and C_P = 4a(1-a)^2; 8/9 is Betz's limit, C_P = 16/27."""
    turbine = TurbineSection(position=(110.0, 80.0, 60.0), diameter=60.0, thrust_coefficient=thrust)
    induction = (1 - math.sqrt(1 - thrust)) / 2
    discs = make([turbine])
    (state,) = discs.update(np.full(SHAPE, 10.0 * (1 - induction)), np.zeros(SHAPE))
    pressure = 0.5 * 1.225 * math.pi * 30.0**2 * 100.0
    assert state.thrust / pressure == pytest.approx(4 * induction * (1 - induction))
    assert state.power / pressure / 10.0 == pytest.approx(4 * induction * (1 - induction) ** 2)
    local = turbine.local_coefficient()
    assert induction == pytest.approx(local / (4 + local))
    if thrust > 0.8:
        assert state.power / pressure / 10.0 == pytest.approx(16 / 27)


@pytest.mark.parametrize(("kernel", "share"), [("top-hat", 0.97), ("gaussian", 0.90)])
def test_a_lightly_loaded_disc_slows_the_wind_as_momentum_theory_says(kernel, share):
    """Linearised flow: U du/dx = f - dp/dx and lap p = div f, by FFTs. Then a = C_T/4 and twice that in the wake.

    A Gaussian of the width e mixes faster air from outside of the disc into its speed: about 1.2 e/R of a is missing.
    """
    n, diameter = 96, 24.0
    turbine = TurbineSection(
        position=(0.0, 0.0, 0.0), diameter=diameter, thrust_coefficient=0.01, width=1.0, kernel=kernel
    )
    places = np.arange(n) + 0.5 - n / 2
    z, y, x = np.meshgrid(places, places, places, indexing="ij")
    weights = weight_shape(turbine, (1.0, 1.0, 1.0), x, y, z)
    weights /= weights.sum()
    force = -0.5 * math.pi * diameter**2 / 4 * 0.01 * weights  # at speed 1, C_T = 0.01
    k = 2 * np.pi * np.fft.fftfreq(n)
    kz, ky, kx = np.meshgrid(k, k, k[: n // 2 + 1], indexing="ij")
    square = kx**2 + ky**2 + kz**2
    square[0, 0, 0] = 1.0
    kx[..., -1] = 0.0  # the derivative of the highest wave
    axes = (0, 1, 2)
    p = np.fft.irfftn(-1j * kx * np.fft.rfftn(force, axes=axes) / square, s=force.shape, axes=axes)
    change = np.cumsum(force, axis=2) - force / 2 - (p - p[:, :, :1])
    assert -(weights * change).sum() == pytest.approx(share * 0.01 / 4, rel=0.02)
    middle = slice(n // 2 - 1, n // 2 + 1)
    assert -change[middle, middle, n // 2 + 30].mean() == pytest.approx(0.01 / 2, rel=0.05)


def test_rotors_outside_of_the_domain_are_named():
    lengths = tuple(n * h for n, h in zip(SHAPE, WIDTHS))
    assert not list(turbine_problems(PAIR, lengths, SHAPE, PERIODIC))
    low = TurbineSection(position=(110.0, 80.0, 25.0), diameter=60.0, thrust_coefficient=0.7)
    (problem,) = turbine_problems([PAIR[0], low], lengths, SHAPE, PERIODIC)
    assert problem.key == "turbine.1.position"
    assert "30" in problem.rule
    fine = TurbineSection(position=(110.0, 80.0, 60.0), diameter=23.0, thrust_coefficient=0.7, width=5.9)
    found = [problem.key for problem in turbine_problems([fine], lengths, SHAPE, PERIODIC)]
    assert found == ["turbine.0.diameter", "turbine.0.width"]
    with pytest.raises(ValueError, match="< 1"):
        TurbineSection(position=(0.0, 0.0, 0.0), diameter=1.0, thrust_coefficient=1.0)
