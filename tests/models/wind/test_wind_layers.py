"""Whole steps with ground, closures, turbines and forces: the compiled engine against plain NumPy."""

import numpy as np
import pytest
from mpi4py import MPI
from tests.wind_flows import LAYERS, advance_engine, layer_case, start_of_layer

from ridgeline.models.wind.problem_of_case import make_problem
from ridgeline.models.wind.reference import ReferenceSolver
from ridgeline.models.wind.reference_physics import ReferencePhysics


def reference_of(case, steps, dt):
    solver = ReferenceSolver(make_problem(case), start_of_layer(case), physics=ReferencePhysics(case))
    solver.start()
    solver.guess_pressure(dt)
    for _ in range(steps):
        solver.advance(dt)
    return np.array(solver.fields)


@pytest.mark.parametrize("name", LAYERS)
def test_a_step_with_all_physics_is_that_of_the_reference(name):
    case, dt = layer_case(name), 0.5
    expected = reference_of(case, 3, dt)
    direct = case.model.diffusion == "explicit"
    found, _ = advance_engine(
        MPI.COMM_SELF, make_problem(case), "auto", direct, dt=dt, case=case, tolerance=1e-13
    )
    size = np.abs(expected).max((1, 2, 3))
    assert (np.abs(found - expected).max((1, 2, 3)) < (1e-13 if direct else 1e-11) * size).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [({"advection": "method-of-lines"}, "model.diffusion"), ({"solver": "direct"}, "model.solver")],
)
def test_implicit_closures_need_godunov_and_multigrid(model, words):
    with pytest.raises(ValueError, match="closure") as raised:
        layer_case("stable, implicit", **model)
    assert words in str(raised.value)


def test_crank_nicolson_with_a_closure_is_of_second_order_in_time():
    # A wind that depends on the height alone: diffusion, rotation and the stress of the ground are all that acts.
    case = layer_case("sheared", {"shape": [16, 4, 4], "lengths": [160.0, 4e4, 4e4]})
    height = (np.arange(16) + 0.5) / 16
    start = [
        np.zeros(case.grid.shape) + q[:, None, None] for q in (3 + 5 * height**0.5, 0.5 * height, 0 * height)
    ]
    results = []
    for steps in (10, 20, 40):
        solver = ReferenceSolver(make_problem(case), start, physics=ReferencePhysics(case))
        for _ in range(steps):
            solver.advance(400.0 / steps)
        results.append(np.array(solver.fields[:2]))
    coarse, middle, fine = results
    assert abs(coarse - middle).max() > 5e-4
    assert abs(coarse - middle).max() / abs(middle - fine).max() == pytest.approx(4.0, abs=0.4)
