"""Initial states: exact solutions, the same bits on any blocks, formulas and random numbers."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block
from ridgeline.models.wind.initial import InitialState, carried_vortex, set_start, taylor_green
from ridgeline.models.wind.settings_initial import InitialSection
from ridgeline.models.wind.settings_physics import SurfaceSection, TemperatureSection
from ridgeline.runtime.errors import ConfigError

SHAPE, LENGTHS = (6, 9, 11), (60.0, 90.0, 110.0)
SCALARS = ("smoke", "dust", "age")
AIR = TemperatureSection(enabled=True, heights=(0.0, 60.0), values=(300.0, 306.0))


def state_of(names=(), temperature=AIR, seed=7, **initial):
    settings = SimpleNamespace(
        initial=InitialSection(**initial), temperature=temperature, surface=SurfaceSection(roughness=0.1)
    )
    return InitialState(settings, LENGTHS, SHAPE, seed, names)


def fields_on(state, process_grid):
    """The fields on the whole grid, put together from blocks."""
    whole = {name: np.full(SHAPE, np.nan) for name in state.names}
    for rank in range(math.prod(process_grid)):
        block = Block.of_rank(SHAPE, process_grid, rank)
        parts = {name: np.empty(block.shape_local) for name in state.names}
        set_start(state, block, parts, MPI.COMM_SELF)
        place = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
        for name, part in parts.items():
            whole[name][place] = part
    return whole


KINDS = {
    "uniform": {
        "velocity": (8.0, 1.0, 0.0),
        "perturbation": 0.3,
        "theta_perturbation": 0.1,
        "perturbation_height": 30.0,
    },
    "log": {"friction_velocity": 0.4, "direction": 30.0},
    "taylor-green": {"velocity": (1.0, 0.5, 0.0), "amplitude": 2.0, "waves": 2},
    "vortex": {"velocity": (1.0, 0.5, 0.0), "amplitude": 2.0, "radius": 9.0},
    "bubble": {"amplitude": 2.0, "radius": 20.0},
    "formulas": {
        "u": "z/10 + 0.1*random",
        "v": "sin(x) if y > 40 else 2",
        "theta": "300 + random",
        "scalars": ("random", 3),
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_have_the_bits_of_the_whole(kind):
    state = state_of(SCALARS, kind=kind, **KINDS[kind])
    one, many = fields_on(state, (1, 1, 1)), fields_on(state, (2, 3, 2))
    for name in state.names:
        assert np.array_equal(one[name], many[name])
        assert np.isfinite(one[name]).all()


def test_random_numbers_stay_below_their_height_and_differ_between_fields():
    fields = fields_on(state_of(kind="uniform", **KINDS["uniform"]), (1, 1, 1))
    assert (np.abs(fields["u"] - 8.0) <= 0.3).all()
    assert fields["u"][:3].std() > 0.1
    assert not (fields["u"][3:] - 8.0).any()
    assert abs(np.corrcoef(fields["u"][:3].ravel(), fields["v"][:3].ravel())[0, 1]) < 0.2
    profile = np.linspace(300.5, 305.5, 6)
    np.testing.assert_allclose(fields["theta"][3:], np.broadcast_to(profile[3:, None, None], (3, 9, 11)))
    other = fields_on(state_of(kind="uniform", seed=8, **KINDS["uniform"]), (1, 1, 1))
    assert (fields["u"][:3] != other["u"][:3]).any()


def test_the_log_profile_turns_with_its_direction():
    fields = fields_on(state_of(kind="log", **KINDS["log"]), (1, 1, 1))
    speed = 0.4 / 0.4 * math.log(15.1 / 0.1)
    np.testing.assert_allclose(fields["u"][1], speed * math.cos(math.pi / 6))
    np.testing.assert_allclose(fields["v"][1], speed * math.sin(math.pi / 6))


def test_formulas_and_scalars():
    fields = fields_on(state_of(SCALARS, kind="formulas", **KINDS["formulas"]), (1, 1, 1))
    z = (np.arange(6) + 0.5) * 10
    assert (np.abs(fields["u"] - z[:, None, None] / 10) <= 0.1).all()
    assert (fields["v"][:, :4] == 2).all()
    assert (fields["dust"] == 3).all()
    assert not fields["age"].any()
    assert fields["smoke"].std() > 0.4
    with pytest.raises(ValueError, match="known names are x, y, z, random"):
        InitialSection(kind="formulas", u="q")
    with pytest.raises(ConfigError, match=r"initial.u: 1/\(x - 5\) is inf in the cell k = 0, j = 0, i = 0"):
        fields_on(state_of(kind="formulas", u="1/(x - 5)"), (1, 1, 1))


def test_the_bubble_is_warmest_in_its_centre():
    fields = fields_on(state_of(kind="bubble", **KINDS["bubble"]), (1, 1, 1))
    excess = fields["theta"] - np.linspace(300.5, 305.5, 6)[:, None, None]
    assert excess.max() == pytest.approx(2.0 * math.cos(math.pi / 2 * 0.25) ** 2)  # 5 below the centre
    assert not excess[:, :, 0].any()
    still = fields_on(state_of(kind="bubble", planar=True, **KINDS["bubble"]), (1, 1, 1))["theta"]
    assert (still == still[:, :1]).all()


def euler_residual(flow, viscosity):
    """The curl of the momentum balance at a point, by finite differences in space and time, and the divergence."""
    h = 1e-3

    def at(x, y, t):
        return np.array(flow({"x": np.float64(x), "y": np.float64(y)}, t))

    def derivative(function, n, x, y, t):
        step = np.eye(3)[n] * h
        place = np.array([x, y, t])
        return (function(*(place + step)) - function(*(place - step))) / (2 * h)

    def vorticity(x, y, t):
        return derivative(at, 0, x, y, t)[1] - derivative(at, 1, x, y, t)[0]

    x, y, t = 31.0, 22.0, 1.5
    u, v = at(x, y, t)
    rate = derivative(vorticity, 2, x, y, t)
    carried = u * derivative(vorticity, 0, x, y, t) + v * derivative(vorticity, 1, x, y, t)
    wide = 0.3
    lap = (
        sum(
            vorticity(x + a, y + b, t) - vorticity(x, y, t)
            for a, b in ((wide, 0), (-wide, 0), (0, wide), (0, -wide))
        )
        / wide**2
    )
    divergence = derivative(at, 0, x, y, t)[0] + derivative(at, 1, x, y, t)[1]
    return rate + carried - viscosity * lap, rate, divergence


@pytest.mark.parametrize("name", ["taylor-green", "vortex"])
def test_exact_solutions_solve_the_equations(name):
    wind = (3.0, 2.0, 0.0)

    def flow(places, t):
        if name == "taylor-green":
            return taylor_green(places, LENGTHS, wind, 2.0, 2, 0.5, t)
        return carried_vortex(places, (60.0, 400.0, 400.0), (20.0, 15.0, 0.0), 10.0, wind, 2.0, t)

    residual, rate, divergence = euler_residual(flow, 0.5 if name == "taylor-green" else 0.0)
    assert abs(rate) > 1e-3
    assert abs(residual) < 1e-3 * abs(rate)
    assert abs(divergence) < 1e-8
