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


def test_crank_nicolson_with_a_closure_is_of_second_order_in_time():
    case = layer_case("stable, implicit", advection="godunov", reconstruction="ppm-unlimited")
    steps = (2, 4, 16)
    coarse, middle, fine = (reference_of(case, n, 4.0 / n) for n in steps)
    error = [np.abs(each - fine)[:3].max() for each in (coarse, middle)]
    assert error[0] / error[1] > 3.2
