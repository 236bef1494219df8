"""Everything that Ridgeline writes: `ridgeline plot` draws it, or says in one sentence what does."""

import json

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI

from ridgeline.analysis.plot_command import check_has_picture, draw
from ridgeline.bench.result import Plot, Result, to_csv
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.io.nek5000 import Nek5000Writer
from ridgeline.runtime.errors import ConfigError

RNG = np.random.default_rng(2)
Z, Y, X = np.arange(3) + 0.5, np.arange(4) + 0.5, np.arange(5) + 0.5
K = np.arange(5.0)


def data_set(dims, names, coords=None, attrs=None, n_steps=2) -> xr.Dataset:
    """Fields of random numbers over (step, *dims), as `ridgeline.open` returns them. dims: name to size."""
    columns = {name: (("step", *dims), RNG.random((n_steps, *dims.values()))) for name in names}
    steps = {"step": 10 * np.arange(n_steps), "time": ("step", 0.5 * np.arange(n_steps))}
    return xr.Dataset(columns, steps | (coords or {}), attrs)


def elements(names) -> xr.Dataset:
    x, y, z = ElementGrid(BoxMesh.box((1, 2, 2), (1.0, 1.0, 2.0)), 3).coordinates
    dims = ("element", "t", "s", "r")
    return data_set(dict(zip(dims, x.shape)), names, {"x": (dims, x), "y": (dims, y), "z": (dims, z)})


GRID = {"z": 3, "y": 4, "x": 5}
PLACES = {"z": Z, "y": Y, "x": X}
PARTICLES = {"particle": 50, "axis": 3}
DATA_SETS = {
    "gray_scott": data_set(GRID, ["U", "V"], PLACES),
    "turbulence": data_set(GRID, ["velocity_x", "velocity_y", "velocity_z", "dissipation", "scalar_0"], PLACES),
    "navier_stokes on elements": elements(["velocity_x", "pressure"]),
    "navier_stokes statistics": data_set({"y": 4}, ["velocity_x", "uu"], {"y": Y}, n_steps=1),
    "statistics over a plane": data_set({"z": 3, "y": 4}, ["velocity_x", "uu"], {"z": Z, "y": Y}, n_steps=1),
    "statistics in space": elements(["velocity_x", "uu"]),
    "turbulence spectra": data_set({"k": 5}, ["energy_spectrum", "dissipation_spectrum"], {"k": K},
                                   {"model.viscosity": 0.01}),
    "fluid particles": data_set(PARTICLES, ["position", "velocity"], n_steps=4),
    "molecular_dynamics": data_set({"atom": 50, "axis": 3}, ["position", "velocity"]),
    "g(r)": data_set({"r": 5}, ["radial_distribution"], {"r": K}),
    "n_body": data_set(PARTICLES, ["position", "velocity"], attrs={"run.model": "n_body"}),
    "a catalogue": data_set(PARTICLES, ["position", "velocity"], n_steps=1),
    "cosmic structure": data_set({"k": 5}, ["matter_power", "linear_power", "shot_noise"], {"k": K}).assign(
        surface_density=(("step", "y", "x"), RNG.random((2, 4, 4))), x=np.arange(4.0), y=np.arange(4.0),
        time=("step", [0.5, 1.0])),
}  # fmt: skip


@pytest.mark.parametrize("kind", DATA_SETS)
def test_every_data_set_has_a_picture(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda path: DATA_SETS[kind])
    (path,) = draw(str(tmp_path / "a.bp"))
    assert path == tmp_path / "a.png"
    assert path.stat().st_size > 5000


RESULT = Result(
    "latency", "p", "f", "s", 2, [], [{"size": 8, "seconds": 1e-6}, {"size": 16, "seconds": 2e-6}],
    plot=Plot("size", ("seconds",), x_label="B", y_label="us", y_scale=1e-6),
)  # fmt: skip


def test_time_series_and_benchmarks_have_pictures(tmp_path):
    """What --csv of a benchmark wrote is drawn from its --json. Run reports: test_run_plots.py."""
    (tmp_path / "s.csv").write_text("step,time,energy\n0,0.0,1.5\n10,0.5,1.25\n")
    assert draw(str(tmp_path / "s.csv")) == [tmp_path / "s.csv.png"]
    (tmp_path / "b.json").write_text(json.dumps(RESULT.to_dict()))
    assert draw(str(tmp_path / "b.json")) == [tmp_path / "b.png"]
    with pytest.raises(ConfigError, match=r"--roofline does not apply .* the report of a benchmark"):
        draw(str(tmp_path / "b.json"), roofline=True)


@pytest.mark.full
def test_nek5000_files_have_pictures(tmp_path):
    grid = ElementGrid(BoxMesh.box((1, 2, 2), (1.0, 1.0, 2.0)), 3)
    fields = RNG.random((5, *grid.shape))
    writer = Nek5000Writer(MPI.COMM_SELF, tmp_path / "duct", grid, grid.coordinates)
    for step in (0, 7):
        writer.write(step, 0.1 * step, fields[:3], fields[3], fields[4:])
    assert draw(str(tmp_path / "duct0.f00002"), ["pressure"]) == [tmp_path / "duct0.f00002.png"]
    assert draw(str(tmp_path / "duct.nek5000")) == [tmp_path / "duct.nek5000.png"]
    (tmp_path / "duct0.f00001").unlink()  # which has the mesh
    with pytest.raises(Exception, match=r"duct0\.f00001: No such file") as error:
        draw(str(tmp_path / "duct0.f00002"))
    assert "\n" not in str(error.value)


TABLE = Result("sweep of gray_scott", "by model.F", "f", "s", 1, [], [{"model.F": 0.02, "V_mean": 0.1}])
FILES = {
    "rows of a benchmark": ("b.csv", to_csv(RESULT), r"table of a benchmark, study or sweep\. Name the .json"),
    "table of a study": ("study.json", json.dumps(TABLE.to_dict()), "`ridgeline report .*study.json` prints it"),
    "validation": ("report.json", '{"schema": 1, "verdict": {}}', "Open report.html beside it"),
    "baseline": ("day.json", '{"schema": 1, "nodes": []}', "a baseline of a validation"),
    "predictions": ("p.json", '{"predictions": []}', "`ridgeline predict --plot` draws them"),
    "trace": ("t.json", '{"traceEvents": []}', r"a trace\. Open https://ui.perfetto.dev in a browser"),
    "manifest": ("manifest.json", '{"format": 1, "files": [], "xxh3_64": "0"}', "the manifest of a checkpoint"),
    "machine file": ("frontier.toml", "[node]\n", r"a settings file\. Run it with `ridgeline run`"),
    "lines of HPL": ("HPL.txt", "WR00L2L4 ...\n", "is a text"),
    "page": ("report.html", "<html></html>", "Open it in a browser"),
    "page of a study": ("study.md", "# s\n", "a page of text"),
    "picture": ("a.png", "", "already a picture"),
    "movie": ("a.mp4", "", "already a movie"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_other_files_say_what_shows_them(kind, tmp_path):
    name, content, words = FILES[kind]
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=words) as error:
        draw(str(tmp_path / name))
    assert "\n" not in str(error.value)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "kind", [{"model": 1, "run": 1, "phases": 1}, {"benchmark": 1, "plot": {"kind": "lines"}}]
)
def test_reports_are_known_whatever_else_they_hold(kind, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps(kind | {"files": 1, "schema": 1, "verdict": 1, "xxh3_64": 1, "predictions": 1})
    )
    check_has_picture(path)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        ("manifest.json", r"a checkpoint, which has no picture\. Name the data set of output.path"),
        ("checkpoint_00000700/manifest.json", "a folder of checkpoints"),
        ("study.toml", r"the folder of a study\. `ridgeline study collect"),
        ("sweep.csv", r"the folder of a sweep\. Its contact sheet is .*sweep.png"),
        ("report.html", "the report of a validation"),
    ],
)
def test_folders_say_where_their_pictures_are(inside, words, tmp_path):
    (tmp_path / inside).parent.mkdir(exist_ok=True)
    (tmp_path / inside).write_text("")
    with pytest.raises(ConfigError, match=words) as error:
        draw(str(tmp_path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "wish"),
    [
        ("gray_scott", {"compensated": True}),
        ("gray_scott", {"all": True}),
        ("gray_scott", {"average": "0:10"}),
        ("cosmic structure", {"movie": "m.gif"}),
        ("g(r)", {"isosurface": "U=1"}),
        ("fluid particles", {"slice": "z=0"}),
        ("navier_stokes statistics", {"volume": "uu"}),
    ],
)
def test_wishes_without_a_meaning_are_refused(kind, wish, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.io.dataset.open", lambda path: DATA_SETS[kind])
    with pytest.raises(ConfigError, match=f"--{next(iter(wish))} does not apply to .* Options that apply: "):
        draw(str(tmp_path / "a.bp"), **wish)
