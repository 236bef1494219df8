"""Simulations in Python on ranks: the same figures everywhere, a change in memory, an error that ends the job."""

import numpy as np
import pytest

import ridgeline
from ridgeline.simulation import report

TIMEOUT = 240
QUICK_RANKS = ()  # takes more than 5 s
STEPS = 4
CASES = {
    "gray_scott": {"grid": {"shape": (9, 8, 7)}},
    "turbulence": {
        "grid": {"shape": (12, 10, 14)},
        "parameters": {"viscosity": 0.05, "courant": 0.5},
        "initial": {"kind": "spectrum", "energy": 0.8, "peak_wavenumber": 2.0},
        "forcing": {"kind": "eswaran-pope", "amplitude": 0.05, "correlation_time": 1.0, "shell_radius": 2.0},
        "scalar": [{"schmidt": 1.0, "mean_gradient": (0.0, 1.0, 0.0)}],
        "particles": {"count": 20, "seed": 3},
    },
    "navier_stokes": {
        "grid": {"elements": (2, 2, 3), "order": 4, "lengths": (6.0, 6.0, 6.0), "periodic": [True] * 3},
        "parameters": {"viscosity": 0.05, "dt": 0.01, "projection": {"pressure": 4}},
        "initial": {"kind": "walsh"},
    },
    "molecular_dynamics": {"grid": {"cells": (6, 6, 6)}, "initial": {"temperature": 1.44}},
}


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    """Run in one empty folder of all ranks, and measure no machine."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def simulate(model, **options):
    return ridgeline.Simulation(ridgeline.Case(model, STEPS, **CASES[model]), progress=False, **options)


def bits(simulation):
    return {name: np.ascontiguousarray(part).tobytes() for name, part in simulation.state().items()}


@pytest.mark.parametrize("model", CASES)
def test_a_change_of_nothing_changes_no_bit(comm, model):
    with simulate(model) as simulation:
        simulation.advance(STEPS // 2)
        simulation.save()  # turbulence rounds where it may be resumed
        simulation.advance(STEPS)
        expected = bits(simulation)
    with simulate(model) as simulation:
        simulation.advance(STEPS // 2)
        simulation.change({})
        simulation.advance(STEPS)
        assert bits(simulation) == expected
        profiles = simulation.profiles()
        assert ("energy_spectrum" in profiles) == (model == "turbulence")
        assert simulation.close()["run"]["ended"] == "all steps done"


def test_parts_are_places_of_the_whole(comm):
    with simulate("gray_scott") as simulation:
        simulation.every(2, lambda now: now.stop())
        simulation.advance(3)
        assert simulation.step == 2
        part = simulation.parts("V")["V"]
        means = simulation.diagnostics()
    parts = comm.allgather((part.offset_global, part.local.copy()))
    whole = np.full(part.shape_global, np.nan)
    for offset, values in parts:
        whole[tuple(slice(first, first + n) for first, n in zip(offset, values.shape))] = values
    assert means["V_mean"] == pytest.approx(whole.mean(), rel=1e-13)
    assert comm.allgather(means) == [means] * comm.size
