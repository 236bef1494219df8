"""A run that meets times, resumed between two shortened steps: steps and bits of one that was never stopped."""

import numpy as np
import pytest

from ridgeline.models import case_class, create
from ridgeline.runtime.context import Context

QUICK_RANKS = (2,)

PLANS = {"fft": {"effort": "estimate"}, "transpose": {"method": "alltoallv"}}
BOX = {"elements": [2, 2, 2], "order": 4, "lengths": [6.283] * 3, "periodic": [True] * 3}
CASES = {
    "gray_scott": {"grid": {"shape": [12, 14, 10]}, "model": {"dt": 0.9}},
    "turbulence": {
        "grid": {"shape": [16, 16, 16]},
        "model": {"viscosity": 0.05, "courant": 0.4, **PLANS},
        "forcing": {"kind": "eswaran-pope", "amplitude": 0.3, "correlation_time": 0.5},
    },
    "turbulence with particles": {
        "grid": {"shape": [16, 16, 16]},
        "model": {"viscosity": 0.05, "dt": 0.05, **PLANS},
        "particles": {"count": 64, "every": 1},
    },
    "navier_stokes": {
        "grid": BOX,
        "model": {"viscosity": 0.05, "courant": 0.2},
        "initial": {"kind": "taylor_green"},
    },
    "navier_stokes of fixed steps": {
        "grid": BOX,
        "model": {"viscosity": 0.05, "dt": 0.03},
        "initial": {"kind": "taylor_green"},
    },
    "molecular_dynamics": {
        "grid": {"cells": [6, 4, 4]},
        "model": {"dt": 0.006},
        "thermostat": {"kind": "langevin", "temperature": 1.0, "damping": 0.5},
    },
    "n_body": {
        "grid": {"shape": [16, 16, 16], "length": 40.0, "particles": 8},
        "model": {"steps_to_today": 80, "substeps": 2, "spacing": "logarithmic", **PLANS},
    },
}


def made(comm, name):
    model_name = name.split()[0]
    run = {"model": model_name, "steps": 1000, "seed": 3}
    case = case_class(model_name).model_validate({"run": run, **CASES[name]})
    model = create(model_name)
    model.setup(case, Context(comm))
    model.compile()
    return model


def advance(model, step, until):
    """Meet a time; return the step and the times after each step."""
    times = [model.time(step)]
    while times[-1] < until:
        step += model.step(1, until)
        times.append(model.time(step))
    assert times[-1] == until
    return step, times


def state(model):
    return {name: np.array(array.local) for name, array in model.state().items()}


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_makes_the_same_steps_to_a_time(comm, name):
    model = made(comm, name)
    model.initialize()
    step, times = 0, [model.time(0)]
    for _ in range(6):
        step += model.step(1)
        times.append(model.time(step))
    dt = times[-1] - times[-2]
    first, second = times[-1] + 2.4 * dt, times[-1] + 13.3 * dt
    step, _ = advance(model, step, first)
    for _ in range(6):  # of which the last ones are shortened
        step += model.step(1, second)
    saved, time = state(model), model.time(step)  # which rounds the modes of turbulence
    last, met = advance(model, step, second)
    assert np.diff(met).min() > 0.7 * np.diff(met).max()
    last += model.step(1)
    after, end = state(model), model.time(last)
    model.close()

    resumed = made(comm, name)
    for array in (arrays := resumed.state()).values():
        array.local[...] = saved[array.name]
    assert arrays.keys() == saved.keys()
    resumed.restored(step, time)
    again, times = advance(resumed, step, second)
    assert times == met
    again += resumed.step(1)
    assert (again, resumed.time(again)) == (last, end)
    for key, values in state(resumed).items():
        np.testing.assert_array_equal(values, after[key], err_msg=key)
    resumed.close()
