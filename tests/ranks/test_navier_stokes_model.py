"""The Navier-Stokes model under the time loop: outputs, series, checkpoints, and the same run in two parts."""

import csv
import json

import numpy as np
import pytest

from ridgeline.models import create
from ridgeline.models.navier_stokes.settings import NavierStokesCase
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import DivergedError
from ridgeline.simulation import report
from ridgeline.simulation.case_run import RunCaller, run_case
from ridgeline.simulation.run_options import RunOptions

RANKS = (1, 2, 3, 4)
TIMEOUT = 300


def duct(folder, steps=8, **model):
    """Return a case of a heated duct whose flow rate is held."""
    walls = {f"{a}_{end}": {"kind": "wall"} for a in "yz" for end in ("min", "max")}
    hot = {name: {"kind": "fixed"} for name in walls}
    forcing = {"kind": "flow-rate", "direction": "x", "bulk_velocity": 1.0}
    return NavierStokesCase.model_validate(
        {
            "run": {"model": "navier_stokes", "steps": steps},
            "grid": {"elements": [2, 2, 2], "order": 5, "lengths": [2, 2, 2], "periodic": [False, False, True]},
            "model": {"viscosity": 0.5, "forcing": forcing, **(model or {"dt": 0.01})},
            "boundary": walls,
            "scalar": [{"diffusivity": 0.5, "mean_gradient": [1, 0, 0], "boundary": hot}],
            "output": {
                "path": f"{folder}/u.bp", "every": 4, "variables": ["velocity_x", "pressure", "scalar_0"],
                "series": f"{folder}/s.csv", "series_every": 2,
                "statistics": f"{folder}/m.bp", "statistics_every": 1, "homogeneous": ["x"],
            },
            "checkpoint": {"path": f"{folder}/checkpoints", "every": 4},
        }
    )  # fmt: skip


def run(comm, monkeypatch, case, resume="never"):
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {"best": 1e10, "best_name": "copy"})
    model = create("navier_stokes")
    result = run_case(case, model, Context(comm), RunOptions(resume=resume), RunCaller(progress=False))
    json.dumps(result, default=str)
    return result, {name: array.local.copy() for name, array in model.state().items()}


COURANT = {"courant": 0.25}  # of a bulk velocity at first, of the fast middle of the duct then


@pytest.mark.parametrize("model", [{"dt": 0.01}, COURANT])
def test_a_run_in_two_parts_is_the_run_in_one(comm, folder, monkeypatch, model):
    whole, state = run(comm, monkeypatch, duct(folder / "one", **model))
    run(comm, monkeypatch, duct(folder / "two", steps=4, **model))
    parts, again = run(comm, monkeypatch, duct(folder / "two", **model), resume="auto")
    assert state.keys() == again.keys()
    for name in state:
        np.testing.assert_array_equal(state[name], again[name], err_msg=name)
    assert parts["steps"] == 4
    assert parts["diagnostics"] == whole["diagnostics"]
    assert abs(whole["diagnostics"]["bulk_velocity"] - 1.0) < 1e-10
    if comm.rank == 0:
        with open(folder / "two" / "s.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert (len({row["dt"] for row in rows[1:]}) > 1) == (model is COURANT)
        assert (folder / "two" / "s.csv").read_bytes() == (folder / "one" / "s.csv").read_bytes()
    comm.Barrier()


def test_the_report_and_the_files_of_a_run(comm, folder, monkeypatch):
    result, _ = run(comm, monkeypatch, duct(folder))
    assert result["solves"]["velocity"]["solves"] == 8
    assert set(result["regions"]) >= {"cg", "gmres", "helmholtz", "advection", "projection", "gather-scatter"}
    assert result["work"]["bytes_memory"] > 0
    if comm.rank == 0:
        with open(folder / "s.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [int(row["step"]) for row in rows] == [0, 2, 4, 6, 8]
        assert float(rows[-1]["bulk_velocity"]) == pytest.approx(1.0, abs=1e-10)
        assert float(rows[-1]["force_x"]) > 0
        assert (folder / "u.bp").exists()
    comm.Barrier()


def test_a_solve_that_fails_ends_the_run_and_keeps_the_checkpoint(comm, folder, monkeypatch):
    run(comm, monkeypatch, duct(folder, steps=4))
    bad = duct(folder, dt=0.01, velocity={"tolerance": 1e-30, "max_iterations": 2})
    with pytest.raises(DivergedError, match=r"the velocity solve of step 5 did not converge"):
        run(comm, monkeypatch, bad, resume="auto")
    assert (folder / "checkpoints").is_dir()
