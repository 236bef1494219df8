"""`ridgeline export`: the part that is chosen, one sentence before anything is written, and no half files."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI
from xarray.backends import BackendArray
from xarray.core import indexing

import export_toys as toys
import ridgeline
from ridgeline.cli import run_commands
from ridgeline.io.bp import BPWriter, Variable
from ridgeline.io.export import export as exports
from ridgeline.io.export import source as sources
from ridgeline.io.export.arrays import write_netcdf, write_zarr
from ridgeline.io.export.export import export
from ridgeline.io.export.export_options import ExportOptions
from ridgeline.io.export.nek5000_fields import write_field_files
from ridgeline.io.export.source import ExportSource
from ridgeline.io.export.trajectories import write_extxyz, write_lammps_dump
from ridgeline.io.export.vtk_files import write_collection
from ridgeline.io.export.vtkhdf import write_vtkhdf
from ridgeline.runtime.errors import ConfigError, OutputError, RidgelineError

SHAPE = (4, 3, 5)
U = np.random.default_rng(1).random((3, *SHAPE))


@pytest.fixture
def data(tmp_path):
    """A data set of three steps on disk, in a folder with nothing else."""
    path = tmp_path / "data" / "a.bp"
    path.parent.mkdir()
    spectrum = Variable("E", "float64", (2,), (0,), (2,), dims=("k",))
    variables = [Variable(name, "float64", SHAPE, (0, 0, 0), SHAPE) for name in ("U", "V")]
    with BPWriter(path, MPI.COMM_SELF, [*variables, spectrum], {"model.F": 0.5}) as writer:
        for index, step in enumerate(toys.STEPS):
            writer.write(step, 0.5 * index, {"U": U[index], "V": -U[index], "E": np.ones(2)})
    return str(path)


def run(data, out, **options):
    return export(data, str(out), ExportOptions(**options))


def steps_of(dataset, text):
    return ExportSource(dataset, step=text).dataset.step.values.tolist()


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0", [0]),
        ("25,0", [0, 25]),
        ("-1", [25]),
        ("-3", [0]),
        ("last", [25]),
        ("5:25", [10, 25]),
        (":10", [0, 10]),
        ("10:", [10, 25]),
        ("0,10:25", [0, 10, 25]),
    ],
)
def test_steps(text, steps):
    assert steps_of(toys.grid(), text) == steps


@pytest.mark.parametrize("text", ["7", "1:9", "-4", "26:"])
def test_steps_that_are_not_there(text):
    with pytest.raises(ConfigError, match=r"is not in the data set, which has the steps 0, 10, 25\."):
        steps_of(toys.grid(), text)


@pytest.mark.parametrize("text", ["", "x", "0.5", "1:2:3", "0,,1"])
def test_what_is_not_a_choice_of_steps(text):
    with pytest.raises(ConfigError, match="is not a choice of outputs"):
        steps_of(toys.grid(), text)


def test_region_of_a_grid_by_indices_and_places():
    data = toys.grid()
    source = ExportSource(data, region="z=1:3, x=2.125:2.5")
    assert source.dataset.U.shape == (3, 2, 4, 4)
    assert np.array_equal(source.dataset.U.values, data.U.values[:, 1:3, :, 1:5])
    with pytest.raises(ConfigError, match=r'^--region "z=1:9" must be inside the domain'):
        ExportSource(data, region="z=1:9")


def test_region_of_elements_has_those_that_reach_into_it(monkeypatch):
    monkeypatch.setattr(sources, "PIECE_BYTES", 600)
    data = toys.elements(3)
    source = ExportSource(data, region="x=1.5:")
    assert source.rows.tolist() == [1, 2]
    pressure = [values["pressure"] for _, values in source.pieces(["pressure"], 1)]
    assert np.array_equal(np.concatenate(pressure), data.pressure.values[1, 1:])
    with pytest.raises(ConfigError, match="contains no element"):
        ExportSource(data, region="x=4:5")


def test_region_of_particles_is_that_of_the_first_step(monkeypatch):
    monkeypatch.setattr(sources, "PIECE_BYTES", 50)
    data = toys.particles(200)
    inside = np.flatnonzero((data.position.values[0, :, 2] >= 3.0) & (data.position.values[0, :, 1] <= 1.0))
    source = ExportSource(data, region="z=3:, y=:1")
    assert source.rows.tolist() == inside.tolist()
    velocity = [values["velocity"] for _, values in source.pieces(["velocity"], 2)]
    assert np.array_equal(np.concatenate(velocity), data.velocity.values[2, inside])


@pytest.mark.parametrize("region", ["w=1:2", "x", "x=1", "x=a:b", "x=1:2, x=3:4"])
def test_what_is_not_a_region(region):
    for data in (toys.grid(), toys.particles()):
        with pytest.raises(ConfigError, match=r"^--region .* must be a box such as"):
            ExportSource(data, region=region)


def test_variables(data, tmp_path):
    pytest.importorskip("h5netcdf")
    assert run(data, tmp_path / "a.nc", variables="V", step="last") == [tmp_path / "a.nc"]
    with xr.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as found, ridgeline.open(data) as whole:
        assert list(found.data_vars) == ["V"]
        assert found.V.shape == (1, *SHAPE)
        assert np.array_equal(found.V.values[0], -U[2])
        assert found.attrs["model.F"] == 0.5
        assert found.V.attrs["long_name"] == whole.V.attrs["long_name"]
    with pytest.raises(ConfigError, match=r"has no variable 'u'. Did you mean 'U'\?"):
        run(data, tmp_path / "b.nc", variables="u")


@pytest.mark.parametrize(
    ("out", "options", "words"),
    [
        ("a.foo", {}, "has no suffix of a format. Name the file NAME.nc"),
        ("a", {}, "has no suffix of a format"),
        (
            "a.lammpstrj",
            {},
            r"holds fields on a grid, which a LAMMPS dump \(.lammpstrj\) cannot hold. Suffixes that",
        ),
        ("a.vtu", {}, "holds fields on a grid, which a VTK file of elements"),
        ("a0.f00001", {}, "holds fields on a grid, which a Nek5000 field file"),
        ("a.vti", {}, "holds one output step, but 3 are chosen. Choose one with --step"),
        ("a.vti", {"step": "last", "variables": "E"}, "--variables names no grid field"),
        ("missing/a.vti", {"step": "last"}, "cannot write .*missing"),
        ("there.nc", {}, "exists already and is kept"),
    ],
)
def test_errors_come_before_anything_is_written(data, tmp_path, out, options, words):
    (tmp_path / "there.nc").write_text("mine")
    with pytest.raises(RidgelineError, match=words) as caught:
        run(data, tmp_path / out, **options)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "there.nc"}
    assert (tmp_path / "there.nc").read_text() == "mine"


def test_tables_are_for_netcdf_and_zarr(data, tmp_path, monkeypatch):
    table = toys.grid()[["spectrum"]]
    monkeypatch.setattr("ridgeline.io.export.export.open_data_set", lambda path: table)
    words = (
        r"holds spectra, statistics, curves or other tables, which a ParaView collection \(.pvd\) cannot hold"
    )
    with pytest.raises(ConfigError, match=words + r". Suffixes that fit: .nc, .zarr.$"):
        run(data, tmp_path / "a.pvd")


def test_a_folder_in_the_way_of_a_collection(data, tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OutputError, match="exists already and is kept"):
        run(data, tmp_path / "a.pvd")


def test_a_package_that_is_missing(data, tmp_path, monkeypatch):
    monkeypatch.setattr("ridgeline.runtime.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"An export as NetCDF needs the package h5py.*pip install h5py"):
        run(data, tmp_path / "a.nc")


def test_an_interrupted_export_leaves_nothing(data, tmp_path, monkeypatch):
    calls = []

    def read(self, name, step, box, whole=ExportSource.read):
        calls.append(name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(self, name, step, box)

    monkeypatch.setattr(ExportSource, "read", read)
    with pytest.raises(KeyboardInterrupt):
        run(data, tmp_path / "a.pvd")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_collection_is_a_folder_and_the_file_that_lists_it(data, tmp_path):
    assert run(data, tmp_path / "a.pvd") == [tmp_path / "a.pvd"]
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["a_00000000.vti", "a_00000010.vti", "a_00000025.vti"]


def test_every_suffix_is_in_the_help():
    text = Path(run_commands.__file__).read_text().partition("def export(")[2]
    assert [suffix for suffix in exports.FORMATS if suffix not in text] == []


class Computed(BackendArray):
    """An array that is larger than what may be held in memory: its values are computed where they are read."""

    def __init__(self, shape, dtype=np.float64) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key):
        sizes = [len(range(n)[k]) for n, k in zip(self.shape, key) if isinstance(k, slice)]
        return np.ones(sizes, self.dtype)


def computed(dims, *shape):
    return (dims, indexing.LazilyIndexedArray(Computed(shape)))


def large(kind):
    """48 MiB a step and variable, but 3 MiB where the format is text."""
    if kind == "grid":
        dims = ("step", "z", "y", "x")
        names = ("U", "velocity_x", "velocity_y", "velocity_z")
        return xr.Dataset({name: computed(dims, 1, 96, 256, 256) for name in names}, {"step": [0]})
    if kind == "elements":
        dims = ("step", *toys.ELEMENT_DIMS)
        names = ("velocity_x", "velocity_y", "velocity_z", "pressure")
        coords = {name: computed(dims[1:], 96 * 128, 8, 8, 8) for name in "xyz"}
        return xr.Dataset(
            {name: computed(dims, 1, 96 * 128, 8, 8, 8) for name in names}, {"step": [0], **coords}
        )
    n = 2**21 if kind == "particles" else 2**17
    names = ("position", "velocity")
    return xr.Dataset({name: computed(("step", "atom", "axis"), 1, n, 3) for name in names}, {"step": [0]})


MIB = 2**20


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("grid", write_collection),
        ("particles", write_netcdf),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in (
                *(("grid", write) for write in (write_netcdf, write_zarr, write_vtkhdf)),
                *(
                    ("elements", write)
                    for write in (write_collection, write_netcdf, write_vtkhdf, write_field_files)
                ),
                *(("particles", write) for write in (write_collection, write_vtkhdf)),
                *(("text", write) for write in (write_lammps_dump, write_extxyz)),
            )
        ),
    ],
)
def test_memory_stays_within_some_pieces(tmp_path, monkeypatch, kind, write):
    for module in ("h5py", "h5netcdf", "zarr"):
        pytest.importorskip(module)
    monkeypatch.setattr(sources, "PIECE_BYTES", MIB)
    source = ExportSource(large(kind))
    suffix = {write_collection: ".pvd", write_field_files: ".nek5000", write_zarr: ".zarr"}.get(write, ".out")
    tracemalloc.start()
    try:
        write(source, tmp_path / f"a{suffix}")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{kind} {write.__name__}: {peak / MIB:.1f}")
    assert peak < 8 * MIB  # of 16 MiB a piece: the 128 MiB that docs/viewers.md states
