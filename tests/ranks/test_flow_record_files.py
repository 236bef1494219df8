"""Runs that record probes and forces: their CSV files, through a resume, and what a laminar channel must show."""

import re

import numpy as np
import pytest

from ridgeline.io.place_lists import read_places
from ridgeline.io.series import read_series
from ridgeline.models import create
from ridgeline.models.navier_stokes.settings import NavierStokesCase
from ridgeline.runtime.context import Context
from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.simulation import report
from ridgeline.simulation.case_run import RunCaller, run_case
from ridgeline.simulation.run_options import RunOptions

RANKS = (1, 2, 3)
TIMEOUT = 300
VISCOSITY = 0.1


def channel(folder, steps=4, kind="channel", places=None, **probes):
    """Poiseuille's flow of bulk velocity 2 between y = -1 and 1, driven by its force, in a box 2 x 2 x 2."""
    places = places or [{"place": [0, -1, 0], "to": [0, 1, 0], "points": 5}, {"place": [1.2, 0.3, 0.7]}]
    return NavierStokesCase.model_validate(
        {
            "run": {"model": "navier_stokes", "steps": steps},
            "grid": {
                "elements": [2, 2, 2], "order": 5, "lengths": [2, 2, 2], "origin": [0, -1, 0],
                "periodic": [True, False, True],
            },
            "model": {
                "viscosity": VISCOSITY, "dt": 0.01,
                "forcing": {"kind": "force", "value": [3 * VISCOSITY * 2, 0, 0]},
            },
            "boundary": {f"y_{end}": {"kind": "wall"} for end in ("min", "max")},
            "initial": {"kind": kind, "speed": 2.0},
            "scalar": [{"diffusivity": 0.1, "initial": "y", "boundary": {
                f"y_{end}": {"kind": "fixed", "value": "y"} for end in ("min", "max")}}],
            "probe": places,
            "output": {
                "path": f"{folder}/u.bp", "every": 0, "series": f"{folder}/s.csv", "series_every": 4,
                "probes": {"path": f"{folder}/p.csv", "every": 1, **probes},
                "forces": {
                    "path": f"{folder}/f.csv", "every": 2, "sides": ["y_min", "y_max"],
                    "reference_velocity": 2.0, "reference_area": 4.0,
                },
            },
            "checkpoint": {"path": f"{folder}/checkpoints", "every": 2},
        }
    )  # fmt: skip


@pytest.fixture
def run(comm, monkeypatch):
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {"best": 1e10, "best_name": "copy"})

    def call(case, resume="never"):
        return run_case(
            case, create("navier_stokes"), Context(comm), RunOptions(resume=resume), RunCaller(progress=False)
        )

    return call


def test_a_laminar_channel_shows_its_profile_and_its_drag(comm, folder, run):
    result = run(channel(folder))
    assert {"probes", "forces"} <= result["files"].keys()
    assert result["writes"]["probes"]["count"] == 5
    places = read_places(folder / "p.places.csv", "places")
    assert places[3].tolist() == [0, 0.5, 0]
    found = read_series(folder / "p.csv")
    assert found["step"].tolist() == [0, 1, 2, 3, 4]
    for number, (_, y, _) in enumerate(places):
        np.testing.assert_allclose(found[f"probe_{number}_velocity_x"], 3 * (1 - y * y), atol=1e-8)
        np.testing.assert_allclose(found[f"probe_{number}_velocity_y"], 0, atol=1e-8)
        np.testing.assert_allclose(found[f"probe_{number}_scalar_0"], y, atol=1e-8)
    forces = read_series(folder / "f.csv")
    drive = 3 * VISCOSITY * 2 * 8
    np.testing.assert_allclose(forces["y_min_force_x"] + forces["y_max_force_x"], drive, rtol=1e-8)
    np.testing.assert_allclose(forces["y_min_coefficient_x"], drive / 2 / 8, rtol=1e-8)
    comm.Barrier()


def test_files_of_a_run_in_two_parts_are_those_of_one(comm, folder, run):
    """Rows after the checkpoint are written again; the start is perturbed so that they differ from each other."""
    run(channel(folder / "one", kind="perturbed-channel"))
    run(channel(folder / "two", kind="perturbed-channel", steps=3))
    run(channel(folder / "two", kind="perturbed-channel"), resume="auto")
    for name in ("p.csv", "p.places.csv", "f.csv"):
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes(), name
    assert len(set(read_series(folder / "one" / "p.csv")["probe_5_velocity_z"])) == 5
    comm.Barrier()


def test_other_probes_are_no_continuation(comm, folder, run):
    run(channel(folder, steps=2))
    with pytest.raises(OutputError, match=r"p\.csv has the columns .*[Ss]et output\.probes\.path to another"):
        run(channel(folder, places=[{"place": [0, 0, 0]}]), resume="auto")


def test_places_outside_end_the_run_on_all_ranks(comm, folder, run):
    if comm.rank == 0:
        (folder / "more.csv").write_text("x,y,z\n0,0,0\n0,7,0\n")
    comm.Barrier()
    case = channel(folder, file=f"{folder}/more.csv", places=[{"place": [3, 0, 0]}])
    words = "of 3 probes, probe 0 at (3.0, 0.0, 0.0), probe 2 at (0.0, 7.0, 0.0) lie outside the domain"
    with pytest.raises(ConfigError, match=re.escape(words)):
        run(case)
