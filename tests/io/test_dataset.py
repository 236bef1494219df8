"""`ridgeline.open`: dims, coordinates and attributes; any indexing, and only what is indexed is read."""

import gc
import pickle
import subprocess
import sys
import tomllib
import uuid
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from mpi4py import MPI

import ridgeline
from ridgeline.io import bp_blocks
from ridgeline.io.adios2_bindings import load_bindings
from ridgeline.io.bp_attributes import image_schemas
from ridgeline.io.bp_reader import BPReader
from ridgeline.io.dataset import RidgelineBackend
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import DataSetWriter, Selection, Variable
from ridgeline.io.zarr_reader import ZarrReader
from ridgeline.runtime.errors import OutputError
from toy_data_set import STORES

SHAPE = (9, 7, 5)
STEPS = (0, 10, 25, 40)
RANDOM = np.random.default_rng(1)
U = RANDOM.random((len(STEPS), *SHAPE))
V = RANDOM.random((len(STEPS), *SHAPE)).astype(np.float32)
SPECTRUM = RANDOM.random((len(STEPS), 6))
ATTRIBUTES = {"model.F": 0.02, "run.seed": 7, "host": "here", "grid.shape": list(SHAPE)}


both = pytest.mark.parametrize("store", STORES)


def write(path: Path, attributes=None, steps: int = len(STEPS)) -> DataSetWriter:
    variables = [
        Variable("U", "float64", SHAPE, (0, 0, 0), SHAPE, unit="1", description="first species"),
        Variable("V", "float32", SHAPE, (0, 0, 0), SHAPE),
        Variable("E", "float64", (6,), (0,), (6,)),
    ]
    out = open_writer(path, MPI.COMM_SELF, variables, ATTRIBUTES if attributes is None else attributes)
    for i in range(steps):
        out.write(STEPS[i], 0.5 * STEPS[i], {"U": U[i], "V": V[i], "E": SPECTRUM[i]})
    return out


@pytest.fixture(scope="module", params=STORES)
def path(tmp_path_factory, request) -> Path:
    path = tmp_path_factory.mktemp("data") / f"toy.{request.param}"
    write(path).close()
    return path


@pytest.fixture
def data(path):
    with ridgeline.open(path) as data:
        yield data


@pytest.fixture
def values_read(monkeypatch) -> list[int]:
    """How many values each call of the reader was asked for."""
    counts: list[int] = []
    for reader in (BPReader, ZarrReader):

        def spy(self, name, pieces, real=reader.read):
            kept = list(pieces)
            counts.append(sum(piece.out.size for piece in kept))
            real(self, name, kept)

        monkeypatch.setattr(reader, "read", spy)
    return counts


def test_dims_coordinates_and_attributes(data):
    assert {name: (data[name].dims, data[name].dtype) for name in data} == {
        "U": (("step", "z", "y", "x"), np.dtype("float64")),
        "V": (("step", "z", "y", "x"), np.dtype("float32")),
        "E": (("step", "E_0"), np.dtype("float64")),
    }
    assert dict(data.sizes) == {"step": 4, "z": 9, "y": 7, "x": 5, "E_0": 6}
    assert data.step.values.tolist() == list(STEPS)
    assert data.time.values.tolist() == [0.5 * step for step in STEPS]
    assert data.time.dims == ("step",)
    assert [data[axis].values.tolist() for axis in "zyx"] == [list(range(n)) for n in SHAPE]
    assert data.U.attrs == {"units": "1", "long_name": "first species"}
    assert {key: data.attrs[key] for key in ("model.F", "run.seed", "host")} == {
        "model.F": 0.02,
        "run.seed": 7,
        "host": "here",
    }
    assert data.attrs["grid.shape"].tolist() == list(SHAPE)


@both
def test_places_follow_origin_and_spacing(tmp_path, store):
    write(tmp_path / f"toy.{store}", image_schemas(SHAPE, ["U"], (1.0, 2.0, 3.0), (0.1, 0.2, 0.3)), 1).close()
    with ridgeline.open(tmp_path / f"toy.{store}") as data:
        np.testing.assert_allclose(data.z, 1.0 + 0.1 * np.arange(9))
        np.testing.assert_allclose(data.y, 2.0 + 0.2 * np.arange(7))
        np.testing.assert_allclose(data.x, 3.0 + 0.3 * np.arange(5))


@pytest.mark.parametrize(
    "key",
    [
        (),
        (2,),
        (-1, -2, -3, -4),
        (slice(1, 3), 4),
        (slice(None), 4, slice(None, None, 2), slice(1, 4)),
        (slice(None, None, -1), slice(8, 1, -3), slice(5, None, -1), slice(None, None, -2)),
        ([3, 0, 0], [8, 1, 1, 5], [6, 0], [4, 2, 2]),
        (np.array([True, False, True, False]), 0),
        (slice(0, 0), 3),
        (1, slice(3, 3), [], slice(None)),
        ([], 2),
    ],
)
def test_any_outer_indexing_equals_numpys(data, key):
    for name, whole in (("U", U), ("V", V)):
        indexers = dict(zip(("step", "z", "y", "x"), key))
        expected = xr.DataArray(whole, dims=("step", "z", "y", "x")).isel(indexers)
        got = data[name].isel(indexers)
        assert got.dims == expected.dims
        np.testing.assert_array_equal(got.values, expected.values, strict=True)
    np.testing.assert_array_equal(data.E.isel(step=slice(1, None, 2)), SPECTRUM[1::2])


def test_pointwise_and_labelled_indexing(data):
    points = {
        axis: xr.DataArray(index, dims="point")
        for axis, index in zip("zyx", ([8, 0, 3], [1, 1, 6], [4, 0, 2]))
    }
    np.testing.assert_array_equal(data.U.isel(points).values, U[:, [8, 0, 3], [1, 1, 6], [4, 0, 2]])
    np.testing.assert_array_equal(data.U.sel(step=25, z=4).values, U[2, 4])
    np.testing.assert_array_equal(data.U[1:][1:, ::2][0, 1].values, U[2, 2])
    assert float(data.V.isel(step=-1).mean()) == pytest.approx(V[-1].mean())


def test_only_what_is_indexed_is_read(path, values_read):
    with ridgeline.open(path) as data:
        assert repr(data)
        assert values_read == []
        plane = data.U.isel(step=2, z=4)
        assert values_read == []
        plane.load()
        assert values_read == [7 * 5]
        data.V.isel(step=[0, 3], z=[0, 8], y=3).load()
        assert values_read[1:] == [2 * 2 * 5]


def test_a_plane_costs_a_plane_of_bytes(tmp_path):
    shape = (64, 64, 64)
    field = RANDOM.random(shape)
    with open_writer(
        tmp_path / "big.bp", MPI.COMM_SELF, [Variable("U", float, shape, (0, 0, 0), shape)], {}
    ) as out:
        for step in range(3):
            out.write(step, 0.0, {"U": field + step})
    before = bytes_read()
    with ridgeline.open(tmp_path / "big.bp") as data:
        opened = bytes_read()
        np.testing.assert_array_equal(data.U.isel(step=1, z=40).values, field[40] + 1)
    after = bytes_read()
    assert opened - before < 64**2 * 8 + 2**16
    assert 64**2 * 8 <= after - opened < 2 * 64**2 * 8 + 2**16  # of 3 * 64^3 * 8


def bytes_read() -> int:
    """Bytes that this process has got from read calls."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


@both
def test_a_run_that_is_writing_shows_its_whole_steps(tmp_path, store):
    out = write(tmp_path / f"toy.{store}", steps=2)
    with ridgeline.open(tmp_path / f"toy.{store}") as early:
        assert early.step.values.tolist() == [0, 10]
        out.write(STEPS[2], 0.0, {"U": U[2], "V": V[2], "E": SPECTRUM[2]})
        np.testing.assert_array_equal(early.U.values, U[:2])
        with ridgeline.open(tmp_path / f"toy.{store}") as late:
            np.testing.assert_array_equal(late.U.values, U[:3])
    out.close()


@both
@pytest.mark.parametrize("how", ["missing", "fresh", "file"])
def test_what_cannot_be_opened_is_one_sentence(tmp_path, store, how):
    path = tmp_path / f"toy.{store}"
    if how == "fresh":
        write(path, steps=0)
    elif how == "file":
        path.write_text("x")
    with pytest.raises(OutputError, match=str(path)) as caught:
        ridgeline.open(path)
    assert "\n" not in str(caught.value)


def test_data_that_vanish_after_opening_are_an_error(tmp_path):
    write(tmp_path / "toy.bp").close()
    with ridgeline.open(tmp_path / "toy.bp") as data:
        file = (tmp_path / "toy.bp" / "data.0").rename(tmp_path / "elsewhere")
        with pytest.raises(OutputError, match="cannot read the data set"):
            data.U.isel(step=1).load()
        file.rename(tmp_path / "toy.bp" / "data.0")
        np.testing.assert_array_equal(data.U.isel(step=1).values, U[1])


def test_a_read_that_failed_is_forgotten(tmp_path):
    """ADIOS2 keeps the addresses of what it could not fill, and fills them later, whatever is there then."""
    write(tmp_path / "toy.bp").close()
    first, second = np.full(SHAPE, -1.0), np.full(SHAPE, -1.0)
    with BPReader(tmp_path / "toy.bp") as reader:
        file = (tmp_path / "toy.bp" / "data.0").rename(tmp_path / "elsewhere")
        with pytest.raises(OutputError):
            reader.read("U", [Selection(1, (0, 0, 0), first)])
        file.rename(tmp_path / "toy.bp" / "data.0")
        reader.read("U", [Selection(2, (0, 0, 0), second)])
    assert (first == -1.0).all()
    np.testing.assert_array_equal(second, U[2])


def test_xarray_opens_data_sets_itself(path):
    with xr.open_dataset(path, engine=RidgelineBackend) as data:
        np.testing.assert_array_equal(data.U.isel(step=1), U[1])
    with xr.open_dataset(path, engine=RidgelineBackend, drop_variables="U") as data:
        assert set(data) == {"V", "E"}
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["xarray.backends"]["ridgeline"].partition(":")
    assert getattr(import_module(module), name) is RidgelineBackend
    assert RidgelineBackend().guess_can_open(path)
    assert not RidgelineBackend().guess_can_open(path.parent)


def test_a_reader_leaves_no_files_elsewhere(tmp_path):
    name = f"{tmp_path.name}-{uuid.uuid4()}.bp"
    write(tmp_path / name).close()
    with ridgeline.open(tmp_path / name) as data:
        data.U[0].load()
    del data
    gc.collect()  # ADIOS2 writes when its engine goes
    assert not list(Path("/tmp").glob(f"{name}*"))


def test_an_open_data_set_can_be_sent_to_another_process(data):
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copy.U.isel(step=3, x=0).values, U[3, :, :, 0])


@both
def test_an_array_may_be_in_the_first_step_alone(tmp_path, store):
    """The places of points: read as a coordinate without steps, also where the data set was continued."""
    path = tmp_path / f"elements.{store}"
    dims = ("element", "t", "s", "r")
    shape = (100, 4, 4, 4)
    both = [
        Variable("p", np.float64, shape, (0,) * 4, shape, dims=dims),
        Variable("x", np.float64, shape, (0,) * 4, shape, dims=dims, once=True),
    ]
    places = np.random.default_rng(1).normal(size=shape)
    for keep, steps in ((None, (0, 1, 2)), (2, (5, 6))):
        with open_writer(path, MPI.COMM_SELF, both, {}, keep_steps=keep) as out:
            for step in steps:
                out.write(step, 0.1 * step, {"p": places + step, "x": places if step == 0 else 0 * places})
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert size < 6.5 * places.nbytes
    with ridgeline.open(path) as data:
        assert data.step.values.tolist() == [0, 1, 5, 6]
        assert data.p.dims == ("step", *dims)
        assert data.x.dims == dims
        assert "x" in data.coords
        np.testing.assert_array_equal(data.x.values, places)
        np.testing.assert_array_equal(data.p.isel(step=2, element=1), places[1] + 5)


def write_foreign(path: Path, arrays) -> None:
    """Write two steps as a program without our conventions does. arrays: by name, the values of both steps."""
    bindings = load_bindings()
    adios = bindings.ADIOS()  # which lives as long as its engines
    io = adios.DeclareIO("foreign")
    io.SetEngine("BP5")
    engine = io.Open(str(path), bindings.Mode.Write)
    defined = {}
    for step in range(2):
        engine.BeginStep()
        for name, values in {"T": RANDOM.random((2, 4, 3, 2)), **arrays}.items():
            value = np.array(values[step])
            shape = list(value.shape)
            if name not in defined:
                places = (shape, [0] * len(shape), shape) if shape else ()
                defined[name] = io.DefineVariable(name, value, *places)
            engine.Put(defined[name], value, bindings.Mode.Sync)
        engine.EndStep()
    engine.Close()


@pytest.mark.parametrize(
    ("arrays", "coords", "variables"),
    [
        ({axis: [[0.5 * i for i in range(n)]] * 2 for axis, n in zip("zyx", (4, 3, 2))}, "zyx", ""),
        ({"step": [[7], [9]], "time": [[0.5], [1.0]]}, ("step", "time"), ""),
        ({"step": [7, 9]}, ("step",), ""),
        ({"x": [0.5, 0.75]}, "", "x"),
        ({"x": [[0.0, 0.5], [0.0, 0.75]]}, "", "x"),  # of another grid at each step
        ({"z": [[1.0, 2.0]] * 2, "step": [[1.0, 2.0], [3.0, 4.0]]}, "", ("z", "step")),  # of other lengths
    ],
)
def test_arrays_of_other_programs_may_be_called_like_coordinates(tmp_path, arrays, coords, variables):
    """They become the coordinate if they fit, and are found under another name if not."""
    arrays = {name: np.array(values) for name, values in arrays.items()}
    write_foreign(tmp_path / "a.bp", arrays)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = ridgeline.open(tmp_path / "a.bp")
    assert len(said) == len(variables)
    assert data["T"].dims == ("step", *"zyx")
    for name in coords:
        expected = arrays[name] if name in ("step", "time") else arrays[name][0]
        np.testing.assert_array_equal(data.coords[name], expected.reshape(-1))
    for name in variables:
        np.testing.assert_array_equal(data[f"{name}_values"], arrays[name])
        assert any(f"{name} is opened as {name}_values" in str(warning.message) for warning in said)
    data.to_netcdf(tmp_path / "a.nc", engine="scipy")
    data.close()


@both
def test_a_step_is_a_chunk_and_large_ones_are_cut_into_planes_alike(tmp_path, store, monkeypatch):
    """What `chunks={}` of xarray takes. A plane of U has 280 bytes, one of V 140."""
    monkeypatch.setattr(bp_blocks, "SLAB", 600)
    write(tmp_path / f"toy.{store}").close()
    with ridgeline.open(tmp_path / f"toy.{store}") as data:
        chunks = {name: data[name].encoding["preferred_chunks"] for name in data.variables}
    assert chunks["U"] == chunks["V"] == {"step": 1, "z": 2, "y": 7, "x": 5}
    assert chunks["time"] == {"step": 1}


def test_xarray_reads_zarr_without_ridgeline(tmp_path):
    """In a process that imports nothing of ours; names of axes, coordinates, units and values."""
    path = tmp_path / "toy.zarr"
    schemas = image_schemas(SHAPE, ["U"], (1.0, 2.0, 3.0), (0.1, 0.2, 0.3))
    write(path, schemas | {"run.model": "toy", "time/units": "s"}).close()
    code = """
import sys, xarray
with xarray.open_zarr(sys.argv[1], chunks=None) as data:
    data.load().to_netcdf(sys.argv[2], engine="scipy")
assert not [name for name in sys.modules if name.startswith("ridgeline")]
"""
    command = [sys.executable, "-W", "error", "-c", code, str(path), str(tmp_path / "toy.nc")]
    subprocess.run(command, timeout=120, check=True)
    with ridgeline.open(path) as ours, xr.open_dataset(tmp_path / "toy.nc", engine="scipy") as theirs:
        assert set(theirs.coords) == set(ours.coords) == {"step", "time", "z", "y", "x"}
        assert set(theirs) == set(ours)
        for name in ours.variables:
            assert theirs[name].dims == ours[name].dims
            np.testing.assert_array_equal(theirs[name].values, ours[name].values)
            assert ours[name].attrs.items() <= theirs[name].attrs.items()
        assert theirs.time.attrs["units"] == "s"
        assert theirs.z.attrs == {"units": "1", "long_name": "place along z", "axis": "Z"}
