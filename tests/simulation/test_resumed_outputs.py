"""What a run has written is the same whether it ran at once, or was resumed: every kind of output of every model.

And what a new run takes from the checkpoint of another one.

A run that is resumed where it ended already, without a further step, finds what is part of an output and no part of
a checkpoint: it writes anew what the step before knew.
"""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import ridgeline
from ridgeline.simulation import report

STEPS, HALF = 8, 5
SERIES = {"path": "fields.bp", "every": 3, "series": "series.csv", "series_every": 2, "viewer": "pvd"}
PARTS = {"part": [
    {"name": "plane", "plane": "z=mid", "every": 1, "initial": True, "precision": "float32"},
    {"name": "profile", "mean": ["x", "z"], "every": 3},
]}  # fmt: skip
SPECTRA = {"spectra": "spectra.bp", "spectra_every": 3}
FORCED = {"kind": "eswaran-pope", "amplitude": 0.1, "correlation_time": 0.5}
CASES = {
    "gray_scott": {
        "grid": {"shape": (9, 8, 7)},
        "parameters": {"noise": 0.01},
        "output": {**SERIES, **PARTS},
    },
    "turbulence": {
        "grid": {"shape": (12, 10, 14)},
        "parameters": {"viscosity": 0.05, "courant": 0.5},
        "initial": {"kind": "spectrum", "energy": 0.8, "peak_wavenumber": 2.0},
        "forcing": FORCED,
        "scalar": [{"schmidt": 1.0, "mean_gradient": (0.0, 1.0, 0.0)}],
        "particles": {"count": 20, "seed": 3, "every": 2, "sample": ["gradient", "dissipation", "acceleration"]},
        "output": {**SERIES, **SPECTRA, **PARTS, "average_from": 3},
    },
    "navier_stokes": {
        "grid": {"elements": (2, 2, 2), "order": 3, "lengths": (2.0, 2.0, 2.0), "periodic": [False, False, True]},
        "parameters": {
            "viscosity": 0.05,
            "dt": 0.01,
            "forcing": {"kind": "flow-rate", "bulk_velocity": 1.0},
        },
        "boundary": {side: {"kind": "wall"} for side in ("y_min", "y_max", "z_min", "z_max")},
        "initial": {"kind": "perturbed-duct", "perturbation": 0.3},
        "probe": [{"place": [0.5, 0.5, 0.5]}],
        "output": {
            **SERIES,
            **PARTS,
            "statistics": "statistics.bp",
            "statistics_every": 3,
            "statistics_window": 4,
            "statistics_of": "budgets",
            "homogeneous": ["x"],
            "nek5000": "duct",
            "nek5000_every": 3,
            "probes": {"every": 3},
            "forces": {"sides": ["y_min"], "every": 3},
        },
    },
    "molecular_dynamics": {"grid": {"cells": (5, 5, 5)}, "output": {**SERIES, **SPECTRA}},
    "n_body": {
        "grid": {"shape": (12, 12, 12), "length": 24.0},
        "parameters": {"steps_to_today": 400, "substeps": 2},
        "output": {**SERIES, **SPECTRA},
    },
    "wind": {
        "grid": {"shape": (8, 9, 10), "lengths": (80.0, 90.0, 100.0)},
        "parameters": {"courant": 0.4},
        "boundary": {"z_min": {"kind": "surface"}, "z_max": {"kind": "slip"}},
        "temperature": {"enabled": True},
        "surface": {"heat": "flux", "heat_flux": 0.05},
        "subgrid": {"kind": "one-equation"},
        "driving": {"kind": "hub-height", "target": (8.0, 0.0), "height": 40.0},
        "turbine": [{"position": (50.0, 45.0, 40.0), "diameter": 40.0, "thrust_coefficient": 0.7}],
        "scalar": [{"name": "dye"}],
        "initial": {"velocity": (8.0, 0.0, 0.0), "perturbation": 0.5},
        "output": {**SERIES, **PARTS, "profiles_every": 2},
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def written():
    """Return all that the data sets, tables and field files here hold, by file and name; not what was set aside."""
    found = {}
    for path in sorted(each for each in Path().iterdir() if "previous" not in each.name):
        if path.suffix == ".csv":
            found[path.name] = path.read_text().splitlines()
        elif path.suffix == ".bp":
            with ridgeline.open(path) as data:
                found |= {
                    (path.name, name): data[name].values.copy() for name in {**data.coords, **data.data_vars}
                }
        elif path.name == "fields_viewer":
            found |= {each.name: each.read_bytes() for each in path.iterdir()}
        elif ".f0" in path.name:
            found[path.name] = path.read_bytes()
    return found


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=str(name))


def simulate(model, resume="never"):
    case = ridgeline.Case(model, STEPS, **CASES[model])
    return ridgeline.Simulation(case, progress=False, resume=resume, overwrite=resume == "never")


@pytest.mark.parametrize("model", CASES)
def test_outputs_of_a_resumed_run_are_those_of_one_that_never_stopped(model):
    with simulate(model) as simulation:
        simulation.advance(HALF)
        simulation.save()  # turbulence rounds where it may be resumed
        half = simulation.close()
    before = written()
    with simulate(model, "auto") as simulation:  # and is closed where it is
        assert simulation.step == HALF
        again = simulation.close()
    assert_equal(written(), before)
    assert again["summary"] == half["summary"]
    with simulate(model, "auto") as simulation:
        resumed = simulation.run()
    in_two = written()
    with simulate(model) as simulation:
        simulation.advance(HALF)
        simulation.save()
        at_once = simulation.run()
    assert_equal(in_two, written())
    assert resumed["summary"] == at_once["summary"]
    for row in resumed["written"]:
        if row["kind"] != "checkpoints" and not row["kind"].startswith("viewer files"):
            plot, path = row["show"].rsplit(" ", 1)
            assert (plot, Path(path).exists()) == ("ridgeline plot", True), row


@pytest.fixture(scope="module", params=CASES)
def folder(request, tmp_path_factory):
    """A folder with all that a run of a model writes."""
    folder = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(report, "measure_limits", lambda *arguments: {})
        with simulate(request.param) as simulation:
            simulation.run()
    return folder


def test_all_variables_and_coordinates_have_units_and_names(folder):
    for path in folder.glob("*.bp"):
        with ridgeline.open(path) as data:
            assert {type(dim) for dim in data.dims} == {str}
            for name, variable in data.variables.items():
                assert variable.attrs["long_name"], (path.name, name)
                assert name == "axis" or variable.attrs["units"], (path.name, name)
                assert variable.encoding["preferred_chunks"].get("step", 1) == 1
            name = "scale factor" if folder.name.startswith("n_body") else "time"
            assert data.time.attrs["long_name"] == name


@pytest.mark.parametrize("store", ["netcdf", "zarr"])
def test_data_sets_go_through_netcdf_and_zarr(folder, store):
    """NetCDF by SciPy, which takes the fewest kinds of attributes and is always installed."""
    if store == "zarr":
        pytest.importorskip("zarr", minversion="3")
    for path in (*folder.glob("*.bp"), *folder.glob("duct0.f00002"), *folder.glob("duct.nek5000")):
        with ridgeline.open(path) as data:
            if store == "zarr":
                data.to_zarr(f"{path.name}.zarr", consolidated=False)
                copy = xr.open_zarr(f"{path.name}.zarr", consolidated=False)
            else:
                data.to_netcdf(f"{path.name}.nc", engine="scipy")
                copy = xr.open_dataset(f"{path.name}.nc", engine="scipy")
            with copy:
                xr.testing.assert_equal(copy, data)
                for name, variable in data.variables.items():
                    assert copy[name].attrs == variable.attrs
                for key, value in data.attrs.items():
                    np.testing.assert_array_equal(np.ravel(copy.attrs[key]), np.ravel(value), err_msg=key)


def test_the_box_of_particles_is_in_the_attributes(folder):
    lengths = {"n_body": 24.0, "molecular_dynamics": 5 * (4 / 0.8442) ** (1 / 3)}
    model = folder.name.rstrip("0123456789")
    if model in lengths:
        with ridgeline.open(folder / "fields.bp") as data:
            assert data.attrs["boundarystr"] == "pp pp pp"
            for axis in "xyz":
                assert (data.attrs[f"box{axis}lo"], data.attrs[f"box{axis}hi"]) == (
                    0.0,
                    pytest.approx(lengths[model]),
                )


def last_of_series(column, row=-1):
    header, *rows = (line.split(",") for line in Path("series.csv").read_text().splitlines())
    return float(rows[row][header.index(column)])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"run.seed": 8}, None),
        ({}, "the forcing draws the same random numbers as the run of the checkpoint did from step 0 on"),
        (
            {"run.seed": 8, "forcing.amplitude": 0.2},
            "the random processes of the forcing start again, because forcing.amplitude was 0.1 in the run of the "
            "checkpoint and is 0.2 here.",
        ),
        (
            {"run.seed": 8, "grid.shape": (4, 10, 14)},
            "the random processes of the forcing start again, because the grid of the checkpoint has other forced "
            "modes.",
        ),
        (
            {
                "run.seed": 8,
                "initial.path": "fields.bp",
                "output.path": "other.bp",
                "grid.shape": (12, 10, 14),
            },
            "the random processes of the forcing start again, because a data set does not contain their state.",
        ),
    ],
    ids=["goes on", "same seed", "amplitude", "coarse grid", "data set"],
)
def test_a_start_from_another_run_continues_its_forcing_or_says_that_it_does_not(changes, sentence, caplog):
    settings = {**CASES["turbulence"], "output": {**SERIES, "every": 8, "series_every": 8}}
    settings["output"]["variables"] = ["velocity_x", "velocity_y", "velocity_z", "scalar_0"]
    del settings["particles"]
    first = ridgeline.Case("turbulence", STEPS, **settings, checkpoint={"path": "coarse", "every": STEPS})
    with ridgeline.Simulation(first, progress=False) as simulation:
        simulation.run()
    injection = last_of_series("injection")
    start = {
        "initial": {"kind": "file", "path": "coarse"},
        "grid": {"shape": (16, 12, 18)},
        "checkpoint": {"path": "fine"},
    }
    second = ridgeline.Case("turbulence", STEPS, **{**settings, **start})
    with ridgeline.Simulation(second.replace(changes), progress=False):
        pass
    continues = sentence is None or "draws" in sentence
    assert (last_of_series("injection", 0) == pytest.approx(injection, rel=1e-12)) == continues
    said = [record.message for record in caplog.records if "the forcing" in record.message]
    assert len(said) == (sentence is not None)
    assert all(text.startswith(sentence) for text in said)


def test_a_start_from_another_run_says_what_it_does_not_take_over(caplog):
    with simulate("turbulence") as simulation:
        simulation.save()
    start = {"initial": {"kind": "file", "path": "checkpoints"}, "checkpoint": {"path": "elsewhere"}}
    case = ridgeline.Case("turbulence", STEPS, **{**CASES["turbulence"], **start})
    with ridgeline.Simulation(case, progress=False):
        pass
    assert any(
        "the fluid particles and averages of spectra of checkpoint" in record.message
        and record.message.endswith("are not used, because this run begins new ones.")
        for record in caplog.records
    )
