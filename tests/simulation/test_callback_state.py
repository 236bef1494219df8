"""What a callback sees of each model: the fields of the data set, read-only, with their coordinates."""

import numpy as np
import pytest

import ridgeline
from ridgeline.simulation import report

MINE = """\
import numpy as np

SEEN = {}


def watch(now):
    SEEN["state"] = now
    SEEN["fields"] = {name: np.array(field) for name, field in now.fields.items()}
    SEEN["writeable"] = [name for name, field in now.fields.items() if field.flags.writeable]
"""
BOX = {"elements": (2, 2, 2), "order": 4, "lengths": (6.0, 6.0, 3.0), "periodic": [True] * 3}
WAVE = {"name": "X", "rate": "-X", "initial": "sin(x)"}
CASES = {
    "gray_scott": {"grid": {"shape": (6, 5, 4)}},
    "reaction_diffusion": {
        "grid": {"shape": (6, 5, 4), "cell_size": 0.5},
        "parameters": {"dt": 0.01, "species": [WAVE]},
    },
    "turbulence": {"grid": {"shape": (8, 8, 8)}, "parameters": {"viscosity": 0.05, "dt": 0.01}},
    "navier_stokes": {
        "grid": BOX,
        "parameters": {"viscosity": 0.05, "dt": 0.01},
        "initial": {"kind": "expression", "velocity": ("sin(y)", "0", "0")},
    },
    "molecular_dynamics": {"grid": {"cells": (3, 3, 3)}},
    "n_body": {"grid": {"shape": (8, 8, 8), "length": 40.0, "particles": 4}},
}


@pytest.mark.parametrize("model", CASES)
def test_it_sees_the_fields_of_the_data_set(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    (tmp_path / "mine.py").write_text(MINE)
    callback = {"function": "mine.py:watch", "every": 2}
    case = ridgeline.Case(model, 2, callback=[callback], **CASES[model])
    with ridgeline.Simulation(case, progress=False) as simulation:
        simulation.advance(2)
        (function,) = simulation._run._callbacks._functions
        seen = function.__globals__["SEEN"]
        state, fields = seen["state"], seen["fields"]
        assert (state.step, state.time) == (2, simulation.time)
        assert state.settings["run.model"] == model
        for name, values in simulation.fields().items():
            np.testing.assert_array_equal(fields[name], values)
        assert seen["writeable"] == []
        places = np.broadcast_arrays(*(state.coordinates[axis] for axis in "xyz"))
        first = fields[case.settings.output.variables[0]]
        assert places[0].shape == first.shape[: places[0].ndim]
        if model == "reaction_diffusion":
            np.testing.assert_allclose(fields["X"], 0.99**2 * np.sin(places[0]), rtol=1e-12)
        if model == "navier_stokes":
            assert np.max(places[0]) == pytest.approx(3.0)
