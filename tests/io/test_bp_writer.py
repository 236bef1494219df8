"""Data sets of one rank: what is written is what is read; what is replaced, what is refused, a full disk."""

import contextlib
import os
import resource
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.io import bp, bp_blocks
from ridgeline.io.adios2_bindings import COMPRESSIONS, adios2_facts
from ridgeline.io.bp_attributes import COORDINATES, image_schemas
from ridgeline.io.open_store import open_reader, open_writer
from ridgeline.io.store import DataSetWriter, Variable
from ridgeline.runtime.errors import OutputError
from toy_data_set import SHAPE, STORES, assert_same_bits, assert_steps, bits, put, read, variables, writer

ROOT = Path(__file__).resolve().parents[2]
FACTS = adios2_facts()


@pytest.fixture
def path(tmp_path, request) -> Path:
    return tmp_path / "run" / f"toy.{getattr(request, 'param', 'bp')}"


both = pytest.mark.parametrize("path", STORES, indirect=True)


@both
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("slab", [1, 300, 2**20])
def test_what_is_written_is_read_bit_for_bit(path, monkeypatch, dtype, slab):
    monkeypatch.setattr(bp, "SLAB", slab)
    monkeypatch.setattr(bp_blocks, "SLAB", slab)
    with open_writer(path, MPI.COMM_SELF, variables(dtype), {}) as out:
        for step in range(3):
            out.write(step, float(step), {"U": bits(step, dtype), "V": bits(9 + step, dtype)})
    for step in range(3):
        assert_same_bits(read(path, "U", step, dtype), bits(step, dtype))
        assert_same_bits(read(path, "V", step, dtype), bits(9 + step, dtype))


@both
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ghosts_are_left_out(path, dtype):
    array = BlockArray.allocate(Block(SHAPE, (1, 1, 1), (0, 0, 0), ghost=2), dtype, fill=-1.0)
    array.owned[...] = bits(4, dtype)
    assert not array.owned.flags.c_contiguous
    with open_writer(path, MPI.COMM_SELF, variables(dtype, "U"), {}) as out:
        out.write(0, 0.0, {"U": array.owned})
    assert_same_bits(read(path, "U", 0, dtype), bits(4, dtype))


@both
def test_arrays_may_be_reused_after_write_returns(path):
    field = bits(1)
    with writer(path, names="U") as out:
        for step in (1, 2):
            field[...] = bits(step)
            out.write(step, 0.0, {"U": field})
            field[...] = 0.0
    assert_same_bits(read(path, "U", 0), bits(1))
    assert_same_bits(read(path, "U", 1), bits(2))


@both
def test_attributes_come_back_as_given(path):
    given = {
        "model.F": 0.02, "seed": 2**63 - 1, "host": "näme", "empty": "", "shape": [4, 5, 6], "rates": (0.1, 2.5),
        "names": ["U"], "none": None, "nothing": [], "yes": True, "float32": np.float32(0.1), "multi\nline": "a\nb",
    }  # fmt: skip
    unit = [Variable("U", "float64", SHAPE, (0, 0, 0), SHAPE, unit="kg", description="mass")]
    with open_writer(path, MPI.COMM_SELF, unit, given) as out:
        out.write(0, 0.0, {"U": bits(0)})
    with open_reader(path) as reader:
        got = reader.attributes
        own = {name: {**attributes} for name, attributes in reader.array_attributes.items()}
        own["U"].pop("dims", None)
        assert own == {"U": {"units": "kg", "long_name": "mass"}, **COORDINATES}
    assert set(got) == set(given) - {"none", "nothing"}
    if path.suffix == ".zarr":
        assert got.pop("names") == "U"  # joined
    for key in {"model.F", "seed", "host", "empty", "names", "multi\nline"} & set(got):
        assert got[key] == given[key]
        assert type(got[key]) is type(given[key])
    assert got["shape"].tolist() == [4, 5, 6]
    assert got["rates"].tolist() == [0.1, 2.5]
    assert got["yes"] == 1
    assert got["float32"] == pytest.approx(0.1)


@both
@pytest.mark.parametrize("value", [{"a": 1}, [["x"]], object(), [1, "a"]])
def test_attributes_that_cannot_be_stored_are_refused(path, value):
    with pytest.raises((TypeError, OutputError), match="odd"):
        writer(path, {"odd": value})


def test_schemas_give_the_viewers_the_extents_of_the_arrays(path):
    schemas = image_schemas(SHAPE, ["U", "V"], origin=(3.0, 2.0, 1.0), spacing=(0.3, 0.2, 0.1))
    with writer(path, schemas) as out:
        put(out, 0)
    with open_reader(path) as reader:
        got, shape = reader.attributes, reader.arrays["U"].shape
    assert got["Fides_Data_Model"] == "uniform"
    assert got["Fides_Origin"].tolist() == [1.0, 2.0, 3.0]  # x, y, z
    assert got["Fides_Spacing"].tolist() == [0.1, 0.2, 0.3]
    assert got["Fides_Dimension_Variable"] == "U"
    assert got["Fides_Variable_List"] == ["U", "V"]
    assert got["Fides_Variable_Associations"] == ["points", "points"]
    assert got["Fides_Time_Variable"] == "time"
    root = ElementTree.fromstring(got["vtk.xml"])
    assert (root.tag, root.get("type"), root.get("byte_order")) == ("VTKFile", "ImageData", "LittleEndian")
    image = root.find("ImageData")
    piece = image.find("Piece")
    extent = [int(n) for n in image.get("WholeExtent").split()]
    assert image.get("WholeExtent") == piece.get("Extent")
    assert extent[::2] == [0, 0, 0]
    assert tuple(extent[1::2]) == shape  # cells, in the order of the ADIOS2 variable
    assert [float(h) for h in image.get("Spacing").split()] == [0.1, 0.2, 0.3]
    assert [float(o) for o in image.get("Origin").split()] == pytest.approx([0.95, 1.9, 2.85])
    cells = piece.find("CellData")
    assert cells.get("Scalars") == "U"
    assert [(a.get("Name"), a.text) for a in cells] == [("U", None), ("V", None), ("TIME", "time")]


def test_a_fresh_run_replaces_an_old_data_set_whole(path):
    with writer(path) as out:
        put(out, 0, 1, 2)
    (path / "data.1").write_bytes(b"of an older run with more files")
    with writer(path) as out:
        put(out, 7)
    assert_steps(path, 7)
    assert not (path / "data.1").exists()


def test_what_is_not_a_data_set_is_never_deleted(path):
    for name in ("notes.txt", "md.idx", "data.0"):
        path.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("precious")
    with pytest.raises(OutputError, match=r"did not write it.*notes\.txt.*output\.path"):
        writer(path)
    with pytest.raises(OutputError, match="did not write it"):
        writer(path, keep_steps=0)
    assert sorted(os.listdir(path)) == ["data.0", "md.idx", "notes.txt"]
    assert (path / "data.0").read_text() == "precious"


@both
def test_a_file_in_the_way_is_refused(path):
    path.parent.mkdir()
    path.write_text("precious")
    with pytest.raises(OutputError, match=r"did not write it \(a file\)"):
        writer(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("place", ["/proc/toy.bp", "file/toy.bp", "/dev/null/toy.bp"])
def test_places_where_nothing_can_be_written_are_named(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"cannot create the data set .*toy\.bp: .*\. Set output\.path"):
        writer(tmp_path / place)


@contextlib.contextmanager
def largest_file(size: int):
    """Let no file grow beyond `size` bytes: writing more fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@both
@pytest.mark.parametrize("foreseen", [True, False])
def test_a_full_disk_is_one_sentence_and_spares_the_steps_before(path, monkeypatch, foreseen):
    shape = (60, 60, 60)
    if not foreseen:
        monkeypatch.setattr(DataSetWriter, "_check_space", lambda self, step: None)
    out = open_writer(path, MPI.COMM_SELF, variables(names="U", shape=shape), {})
    out.write(10, 0.0, {"U": bits(1, shape=shape)})
    words = "needs 1.6 MiB, but .* are free" if foreseen else "File too large"
    with (
        largest_file((2 if path.suffix == ".bp" else 1) * 2**20),
        pytest.raises(OutputError, match=words) as caught,
    ):
        out.write(20, 0.5, {"U": bits(2, shape=shape)})
    assert "\n" not in str(caught.value)
    assert "output step 20" in str(caught.value)
    if not foreseen:
        with pytest.raises(OutputError, match="was closed"):
            out.write(30, 1.0, {"U": bits(3, shape=shape)})
    out.close()
    assert_same_bits(read(path, "U", 0, shape=shape), bits(1, shape=shape))
    with open_writer(path, MPI.COMM_SELF, variables(names="U", shape=shape), {}, keep_steps=1) as out:
        out.write(20, 0.5, {"U": bits(2, shape=shape)})
    assert_same_bits(read(path, "U", 1, shape=shape), bits(2, shape=shape))


QUOTA = """
    import resource, sys
    import numpy as np
    from mpi4py import MPI
    from ridgeline.io.bp import BPWriter, Variable
    from ridgeline.runtime.errors import OutputError

    comm, block = MPI.COMM_WORLD, np.ones((50, 50, 50))
    BPWriter._check_space = lambda self, step: None  # it was free when we looked
    mine = Variable("U", "float64", (150, 50, 50), (50 * comm.rank, 0, 0), block.shape)
    out = BPWriter(sys.argv[1], comm, [mine], {})
    out.write(0, 0.0, {"U": block})
    if comm.rank == int(sys.argv[2]):
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    try:
        out.write(1, 0.5, {"U": block})
    except OutputError as error:
        out.close()
        with open(sys.argv[1] + ".said", "w") as file:  # the launcher may lose what is printed before an abort
            file.write(f"rank {comm.rank}: {error}")
        comm.Abort(error.exit_code)
"""


@pytest.mark.adios2_mpi
@pytest.mark.skipif(not FACTS.with_mpi, reason="this ADIOS2 is built without MPI: make adios2-mpi builds it")
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_an_error_inside_a_collective_write_is_raised_by_the_rank_that_meets_it(path, rank):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PMI")}
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    command = [mpiexec, "-n", "3", sys.executable, "-c", textwrap.dedent(QUOTA), str(path), str(rank)]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True, env=environment)
    assert done.returncode == OutputError.exit_code, done.stderr
    said = Path(f"{path}.said").read_text()
    assert f"rank {rank}: cannot write output step 1 to {path}: " in said
    assert "File too large" in said
    with open_reader(path) as reader:
        assert reader.steps == 1


@both
def test_wrong_arrays_are_a_mistake_of_the_caller(path):
    out = writer(path, names="U")
    for wrong in ({}, {"U": bits(0), "V": bits(1)}, {"U": bits(0)[1:]}, {"U": bits(0, "float32")}):
        with pytest.raises(ValueError, match="U"):
            out.write(0, 0.0, wrong)
    out.write(0, 0.0, {"U": bits(0)})
    out.close()
    out.close()
    assert_same_bits(read(path, "U", 0), bits(0))


def test_an_operator_that_is_lacking_names_those_that_are_there(path):
    with pytest.raises(OutputError, match=r'output\.compression = "zip".*Use one of none'):
        writer(path, compression="zip")
    assert not path.exists()


@pytest.mark.parametrize("compression", sorted(COMPRESSIONS))
def test_compression_loses_no_bit(tmp_path, compression):
    if compression not in FACTS.compressions:
        pytest.skip(f"this ADIOS2 has no {compression}: it is in the build with MPI (make adios2-mpi)")
    shape = (32, 32, 32)
    fields = [bits(1, shape=shape), np.repeat(bits(2, shape=(32,)), 32 * 32).reshape(shape)]
    for name, more in (("plain", {}), ("packed", {"compression": compression})):
        with open_writer(
            tmp_path / name, MPI.COMM_SELF, variables(names="U", shape=shape), {}, **more
        ) as out:
            for step, field in enumerate(fields):
                out.write(step, 0.0, {"U": field})
    for step, field in enumerate(fields):
        assert_same_bits(read(tmp_path / "packed", "U", step, shape=shape), field)
    plain, packed = ((tmp_path / name / "data.0").stat().st_size for name in ("plain", "packed"))
    assert packed < 0.7 * plain


def test_importing_it_starts_neither_mpi_nor_adios2():
    code = (
        "import sys, ridgeline.io.bp, ridgeline.io.dataset; print({'mpi4py.MPI', 'adios2'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"


def test_the_build_tool_finds_what_it_needs_in_the_project():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"cmake", "ninja", "wheel"} <= {req.split(">")[0] for req in extras["adios2-mpi-build"]}
