"""The scheme of the wind model, in plain NumPy, against exact solutions, and what it conserves."""

from dataclasses import replace

import numpy as np
import pytest
from tests.wind_flows import BOX, start_of

from ridgeline.models.wind.forcing import ekman_profile
from ridgeline.models.wind.initial import carried_vortex, taylor_green
from ridgeline.models.wind.problem import PLM, PPM, UNLIMITED, FlowSide, WindProblem
from ridgeline.models.wind.reference import ReferenceSolver

WIND = (1.0, 0.5, 0.0)
VISCOSITY = 0.05


def error_of(n, exact, viscosity, length, end, **scheme):
    """The root mean square and the largest error of u and v after `end`, for a Courant number of about 0.5."""
    h = length / n
    problem = WindProblem((4, n, n), (h, h, h), viscosity=viscosity, **scheme)
    places = dict(zip("yx", np.meshgrid(problem.centres(1), problem.centres(2), indexing="ij")))
    u, v = (np.tile(q, (4, 1, 1)) for q in exact(places, 0.0))
    solver = ReferenceSolver(problem, [u, v, np.zeros_like(u)])
    steps = int(np.ceil(end / (0.25 * h)))
    for _ in range(steps):
        solver.advance(end / steps)
    errors = np.array(solver.fields[:2]) - np.array(exact(places, end))[:, np.newaxis]
    assert abs(solver.fields[2]).max() < 1e-12
    return np.sqrt((errors**2).mean()), abs(errors).max()


def vortices(places, time):
    return taylor_green(places, (1.0, 2 * np.pi, 2 * np.pi), WIND, 1.0, 1, VISCOSITY, time)


def vortex(places, time):
    return carried_vortex(places, (1.0, 1.0, 1.0), (0.5, 0.5, 0.5), 0.1, (1.0, 1.0, 0.0), 0.2, time)


@pytest.mark.parametrize(
    ("scheme", "least"),
    [
        ({"reconstruction": UNLIMITED}, 1.85),
        ({"reconstruction": PPM}, 1.8),
        ({"reconstruction": PLM}, 1.7),
        ({"reconstruction": UNLIMITED, "implicit": True}, 1.85),
        ({"reconstruction": PLM, "godunov": False}, 1.7),
    ],
)
def test_order_on_taylor_green_vortices_that_a_wind_carries(scheme, least):
    coarse, fine = (error_of(n, vortices, VISCOSITY, 2 * np.pi, 0.5, **scheme) for n in (16, 32))
    assert np.log2(coarse[0] / fine[0]) > least
    assert fine[1] < 1e-2


@pytest.mark.slow
def test_order_on_a_vortex_that_is_carried_across_the_box():
    coarse, fine = (error_of(n, vortex, 0.0, 1.0, 1.0, reconstruction=UNLIMITED) for n in (32, 64))
    assert np.log2(coarse[0] / fine[0]) > 1.9


@pytest.mark.parametrize("scheme", [{}, {"reconstruction": PLM}, {"godunov": False}])
def test_scalars_and_momentum_are_conserved_and_the_scalar_stays_in_its_bounds(scheme):
    problem = replace(BOX, forces=(0.0,) * 6, diffusivities=(0.0, 0.0), **scheme)
    start = start_of(problem)
    start[3] = np.clip(np.round(start[3]), 0, 1)
    solver = ReferenceSolver(problem, start)
    solver.start()
    before = [q.mean() for q in solver.fields]
    for _ in range(8):
        solver.advance(0.02)
    assert [q.mean() for q in solver.fields] == pytest.approx(before, abs=2e-16 * 14)
    overshoot = max(-solver.fields[3].min(), solver.fields[3].max() - 1)
    assert overshoot < 0.02
    divergence = sum(
        (np.roll(u, -1, axis) - u) / h for axis, (u, h) in enumerate(zip(solver.faces, problem.widths))
    )
    assert abs(divergence[3:-3, 3:-3, 3:-3]).max() < 1e-12


@pytest.mark.parametrize("implicit", [False, True])
def test_poiseuille_flow_is_of_second_order(implicit):
    errors = []
    for n in (8, 16):
        h = 1 / n
        sides = {"z_min": FlowSide.wall(0), "z_max": FlowSide.wall(0)}
        forces = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        problem = WindProblem((n, 4, 4), (h, h, h), sides, viscosity=1.0, forces=forces, implicit=implicit)
        solver = ReferenceSolver(problem, [np.zeros(problem.shape)] * 3)
        dt = 0.5 * h if implicit else 0.3 * h * h
        while solver.time < 1.2:
            solver.advance(dt)
        z = problem.centres(0)
        errors.append(abs(solver.fields[0][:, 0, 0] - 0.5 * z * (1 - z)).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.05)


def test_ekman_layer_approaches_the_exact_profile():
    errors = []
    for n in (16, 32):
        h, f = 8.0 / n, 1.0
        sides = {"z_min": FlowSide.wall(0), "z_max": FlowSide.slip(0)}
        problem = WindProblem(
            (n, 4, 4), (h, h, h), sides, viscosity=0.5, forces=(f, 0.0, 0.0, f, 0.0, 0.0), implicit=True
        )
        u, v = ekman_profile(problem.centres(0), 0.5, f, (1.0, 0.0))
        start = [np.array(np.broadcast_to(q[:, None, None], problem.shape)) for q in (u, v, 0 * u)]
        solver = ReferenceSolver(problem, start)
        for _ in range(150):
            solver.advance(0.1)
        errors.append(max(abs(solver.fields[0][:, 0, 0] - u).max(), abs(solver.fields[1][:, 0, 0] - v).max()))
    assert errors[1] < 0.015
    assert np.log2(errors[0] / errors[1]) > 1.5


def test_values_at_an_inflow_that_vary_in_time_are_of_second_order():
    errors = []
    for n in (16, 32):
        h = 2.0 / n
        sides = {
            "x_min": FlowSide.entry((1.0, 0.0, 0.0, lambda x, y, z, t: np.sin(3 * t) + 0 * y)),
            "x_max": FlowSide.open(4),
        }
        problem = WindProblem(
            (4, 4, n), (h, h, h), sides, ("dye",), diffusivities=(0.0,), reconstruction=UNLIMITED
        )
        x = problem.centres(2)
        start = [
            np.ones(problem.shape),
            *[np.zeros(problem.shape)] * 2,
            np.sin(-3 * x) + np.zeros(problem.shape),
        ]
        solver = ReferenceSolver(problem, start)
        for _ in range(n):
            solver.advance(0.5 * h)
        errors.append(abs(solver.fields[3] - np.sin(3 * (solver.time - x)))[0, 0].mean())
    assert np.log2(errors[0] / errors[1]) > 1.8
