"""Fields that a program sets in the middle of a run: what follows is that of one rank, for every model."""

import math

import numpy as np
import pytest
from mpi4py import MPI

import ridgeline
from ridgeline.simulation import report
from ridgeline.simulation import simulation as simulation_file

RANKS = (1, 2, 3)
TIMEOUT = 240
EDGE = 2 * math.pi
VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
# Of each model: its settings, the fields that are set, and how far apart one rank and several may be.
CASES = {
    "gray_scott": ({"grid": {"shape": (9, 8, 7)}, "parameters": {"noise": 0.1}}, ("U", "V"), 0.0),
    "reaction_diffusion": (
        {
            "grid": {"shape": (9, 8, 7)},
            "parameters": {
                "dt": 0.05,
                "species": [
                    {"name": "A", "diffusivity": 1.0, "rate": "B - A", "initial": "random", "noise": 0.1},
                    {"name": "B", "rate": "A - B", "initial": "x/7"},
                ],
            },
        },
        ("A", "B"),
        0.0,
    ),
    "turbulence": (
        {
            "grid": {"shape": (12, 12, 12)},
            "parameters": {"viscosity": 0.05, "dt": 0.02},
            "initial": {"kind": "spectrum", "energy": 0.8, "peak_wavenumber": 2.0},
            "forcing": {
                "kind": "eswaran-pope",
                "amplitude": 0.05,
                "correlation_time": 1.0,
                "shell_radius": 2.0,
            },
        },
        VELOCITY,
        1e-13,
    ),
    "navier_stokes": (
        {
            "grid": {"elements": (2, 2, 3), "order": 4, "lengths": (EDGE,) * 3, "periodic": [True] * 3},
            "parameters": {"viscosity": 0.05, "dt": 0.002, "projection": {"pressure": 4}},
            "initial": {"kind": "taylor_green"},
        },
        VELOCITY,
        1e-9,
    ),
    "molecular_dynamics": (
        {"grid": {"cells": (6, 6, 6)}, "initial": {"temperature": 1.44}},
        ("position", "velocity"),
        0.0,
    ),
    "n_body": (
        {
            "grid": {"shape": (16, 16, 16), "particles": 8, "length": 64.0},
            "initial": {"kind": "pancake", "redshift": 24.0},
        },
        ("position", "velocity"),
        1e-12,
    ),
}


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    """Run in one empty folder of all ranks, and measure no machine."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def simulate(model):
    return ridgeline.Simulation(ridgeline.Case(model, 8, **CASES[model][0]), progress=False)


def changed(model, parts):
    """Return new values of this rank's parts, by place alone."""
    found = {}
    for name in CASES[model][1]:
        part = parts[name]
        at = np.indices(part.local.shape) + np.reshape(part.offset_global, (-1, *[1] * part.local.ndim))
        if model == "navier_stokes":  # a gradient, which the next step takes out
            place = parts[name[-1]].local
            found[name] = part.local + 0.3 * np.sin(place)
        elif model == "turbulence":  # one that goes at once
            axis = "zyx".index(name[-1])
            found[name] = part.local + 0.3 * np.sin(EDGE / 12 * at[axis])
        elif name == "position":
            found[name] = part.local + 0.02 * np.sin(at[0])[:, :1] - 0.05
        else:
            found[name] = part.local * (0.9 + 0.1 * np.sin(at.sum(0)))
    return found


def whole(simulation, names):
    """Return the fields of all ranks as one, and the figures."""
    found = {}
    for name, part in simulation.parts(*names).items():
        if name not in names:
            continue
        array = np.full(part.shape_global, np.nan)
        for offset, values in simulation.communicator.allgather((part.offset_global, np.array(part.local))):
            array[tuple(slice(first, first + n) for first, n in zip(offset, values.shape))] = values
        found[name] = array
    return found, simulation.diagnostics()


def drive(model):
    """Return fields and figures before, at and after a change of fields."""
    names = CASES[model][1]
    with simulate(model) as simulation:
        simulation.advance(2)
        before = whole(simulation, names)
        simulation.set_fields(changed(model, simulation.parts(*names)))
        at = whole(simulation, names)
        simulation.advance(3)
        after = whole(simulation, names)
        changes = simulation.close()["changes"]
    assert changes == [{"step": 2, "key": "fields", "value": list(names)}]
    return before, at, after


@pytest.mark.parametrize("model", CASES)
def test_what_follows_is_that_of_one_rank(comm, folder, monkeypatch, model):
    mine = drive(model)
    alone = None
    if comm.rank == 0:
        (folder / "alone").mkdir()
        with monkeypatch.context() as patch:
            patch.chdir(folder / "alone")
            patch.setattr(simulation_file, "join_from_python", lambda threads: MPI.COMM_SELF.Dup())
            alone = drive(model)
    if model == "turbulence":  # the gradient that was added is gone at once
        for name in VELOCITY:
            np.testing.assert_allclose(mine[1][0][name], mine[0][0][name], atol=1e-13)
    for (fields, figures), (expected, alike) in zip(mine, comm.bcast(alone)):
        for name, values in expected.items():
            within = CASES[model][2] * np.abs(values).max()
            np.testing.assert_allclose(fields[name], values, rtol=0, atol=within)
        assert figures == pytest.approx(alike, rel=1e-9, abs=1e-9)


def test_a_flow_begins_again(comm):
    """What comes after fields were set does not depend on earlier steps, nor on a gradient that was added."""
    found = []
    for steps, adds in ((0, 0.0), (3, 0.0), (0, 0.1)):
        with simulate("navier_stokes") as simulation:
            parts = simulation.parts(*VELOCITY)
            start = {
                name: 0.1 * parts[name].local + adds * np.sin(parts[name[-1]].local) for name in VELOCITY
            }
            simulation.advance(steps)
            simulation.set_fields(start)
            simulation.advance(1)
            found.append(whole(simulation, VELOCITY)[0])
    for name in VELOCITY:
        np.testing.assert_allclose(found[1][name], found[0][name], atol=1e-9)
        np.testing.assert_allclose(found[2][name], found[0][name], atol=0.01)


def test_the_energy_budget_begins_anew(comm):
    with simulate("n_body") as simulation:
        simulation.advance(2)
        before = simulation.diagnostics()
        simulation.set_fields({"velocity": 3.0 * simulation.fields("velocity")["velocity"]})
        after = simulation.diagnostics()
    assert after["kinetic"] == pytest.approx(9 * before["kinetic"], rel=1e-12)
    assert before["layzer_irvine"] != 0.0 == after["layzer_irvine"]


def test_where_a_side_gives_the_value_it_stays(comm):
    walls = ridgeline.Case(
        "navier_stokes",
        4,
        grid={"elements": (2, 2, 2), "order": 3, "lengths": (1.0,) * 3, "periodic": [False, True, True]},
        parameters={"viscosity": 0.1, "dt": 0.01},
        boundary={side: {"kind": "wall"} for side in ("z_min", "z_max")},
    )
    with ridgeline.Simulation(walls, progress=False) as simulation:
        part = simulation.parts("velocity_x")
        simulation.set_fields({"velocity_x": np.ones(part["velocity_x"].local.shape)})
        there = simulation.fields("velocity_x")
        at_wall = (part["z"].local == 0.0) | (part["z"].local == 1.0)
        np.testing.assert_array_equal(there["velocity_x"], np.where(at_wall, 0.0, 1.0))
