"""Spectra, structure functions and profiles of fields: against those that a run computes, and in closed form."""

import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import ridgeline
from ridgeline.runtime.errors import ConfigError
from ridgeline.simulation import report


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Turbulence in a box whose sides differ, with fields and spectra of one step."""
    folder = tmp_path_factory.mktemp("run")
    case = ridgeline.Case(
        "turbulence",
        2,
        grid={"shape": (12, 16, 24), "lengths": (3.0, 4.0, 6.0)},
        parameters={"viscosity": 0.02, "dt": 0.005},
        initial={"kind": "spectrum", "energy": 1.0},
        output={
            "path": str(folder / "t.bp"),
            "every": 2,
            "spectra": str(folder / "s.bp"),
            "spectra_every": 2,
        },
        checkpoint={"path": str(folder / "checkpoints")},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "measure_limits", lambda *arguments: {})
        return ridgeline.run(case, progress=False)


def test_the_spectrum_of_fields_is_the_one_that_the_run_wrote(run):
    written = run.spectra.energy_spectrum.isel(step=-1)
    computed = ridgeline.analysis.spectrum(run)
    n = written.sizes["k"]
    np.testing.assert_allclose(computed.k[:n], written.k, rtol=1e-12)
    np.testing.assert_allclose(computed[:n], written, rtol=1e-9, atol=1e-14)
    assert abs(computed[n:]).max() < 1e-14, "the run keeps no modes there"
    assert int(computed.step) == 2


@pytest.mark.parametrize("order", [2, 3, 4])
def test_structure_functions_of_fields_are_those_that_the_run_wrote(run, order):
    written = run.spectra[f"longitudinal_structure_{order}"].isel(step=-1)
    computed = ridgeline.analysis.structure_function(run.data, "velocity_x", "x", order)
    np.testing.assert_allclose(
        computed.sel(separation=written.separation, method="nearest"), written, rtol=1e-9, atol=1e-14
    )


def test_transverse_structure_functions_of_a_path(run):
    written = run.spectra.transverse_structure_2.isel(step=-1)
    across = [
        ridgeline.analysis.structure_function(run.path, name, "x") for name in ("velocity_y", "velocity_z")
    ]
    computed = (across[0] + across[1]) / 2
    np.testing.assert_allclose(
        computed.sel(separation=written.separation, method="nearest"), written, rtol=1e-9
    )


def test_profiles_are_statistics_of_planes(dataset, values):
    of_y = ridgeline.analysis.profile(dataset, "y", ["V"], step=20).V
    planes = np.moveaxis(values[1][2], 1, 0).reshape(5, -1)
    expected = np.stack([planes.min(1), planes.max(1), planes.mean(1), planes.std(1)], 1)
    np.testing.assert_allclose(of_y, expected, rtol=1e-12)
    assert float(of_y.time) == 40.0


def test_profiles_on_elements_leave_out_cells_outside():
    dims = ("element", "t", "s", "r")
    t, s, r = np.meshgrid([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], indexing="ij")
    x = r * (1 - s / 2)  # half of the box is empty at the top
    places = {name: (dims, place[None]) for name, place in (("z", t), ("y", s), ("x", x))}
    data = xr.Dataset({"u": (("step", *dims), s[None, None])}, {"step": [0], **places})
    of_y = ridgeline.analysis.profile(data, "y").u
    np.testing.assert_allclose(of_y.sel(statistic="mean"), of_y.y, atol=1e-12)
    assert float(of_y.sel(statistic="std").max()) < 1e-12


def test_averages_are_those_of_windows_or_between_outputs(run):
    assert float(ridgeline.analysis.average(run.spectra).averaging_time) == pytest.approx(0.01)
    with pytest.raises(ConfigError, match="wrote no statistics"):
        ridgeline.analysis.average(run)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: ridgeline.analysis.spectrum(3), "int is not data that can be analysed"),
        (lambda run: ridgeline.analysis.spectrum(run, "velocity"), "Did you mean 'velocity_"),
        (lambda run: ridgeline.analysis.structure_function(run, "velocity_x", order=0), "order is 0"),
        (lambda run: ridgeline.analysis.structure_function(run, "velocity_x", "r"), "along is 'r'"),
        (lambda run: ridgeline.analysis.profile(run, "w"), "along is 'w'"),
        (lambda run: ridgeline.analysis.spectrum(run.data.isel(x=[0, 1, 5])), "not evenly spaced"),
        (lambda run: ridgeline.analysis.spectrum(run.data.isel(z=0)), "must have z, y and x"),
        (lambda run: ridgeline.analysis.spectrum(run.spectra), "has no field"),
    ],
)
def test_what_cannot_be_computed_is_an_error_of_one_sentence(run, call, words):
    with pytest.raises(ConfigError, match=words):
        call(run)


def test_analysis_leaves_the_backend_of_a_notebook_alone():
    program = (
        "import matplotlib, pkgutil; matplotlib.use('svg'); from importlib import import_module; "
        "import ridgeline.analysis as room; "
        "[import_module(f'{room.__name__}.{each.name}') for each in pkgutil.iter_modules(room.__path__)]; "
        "print(matplotlib.get_backend())"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ})
    assert done.stdout.strip().lower() == "svg", done.stderr
