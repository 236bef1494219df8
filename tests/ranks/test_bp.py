"""Data sets of several ranks: written together or by rank 0, they read back alike; errors reach all ranks."""

import resource
from contextlib import contextmanager

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import Block, BlockArray, choose_process_grid
from ridgeline.io import bp, bp_blocks, zarr_layout
from ridgeline.io.adios2_bindings import adios2_facts
from ridgeline.io.bp import BPWriter
from ridgeline.io.bp_attributes import image_schemas
from ridgeline.io.data_set_check import check_data_set
from ridgeline.io.open_store import open_reader, open_writer
from ridgeline.io.store import DataSetWriter, Selection, Variable
from ridgeline.runtime.errors import OutputError

QUICK_RANKS = (3,)

SHAPE = (11, 6, 13)
WITH_MPI = adios2_facts().with_mpi

together = pytest.param(
    True,
    id="together",
    marks=[
        pytest.mark.adios2_mpi,
        pytest.mark.skipif(
            not WITH_MPI, reason="this ADIOS2 is built without MPI: make adios2-mpi builds it"
        ),
    ],
)
one_writer = pytest.param(False, id="one writer")
either = pytest.mark.parametrize("collective", [together, one_writer, "zarr"])


@pytest.fixture
def path(comm, tmp_path, request):
    """One data set for all ranks."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    store = "zarr" if parameters.get("collective") == "zarr" else "bp"
    return comm.bcast(tmp_path) / f"toy.{store}"


def begin(path, comm, variables, attributes, **more):
    """Return a writer; "zarr" is said by the path."""
    if more.get("collective") == "zarr":
        del more["collective"]
    return open_writer(path, comm, variables, attributes, **more)


def whole(name, dtype, step):
    """The global array of a field at a step: floats of random bits."""
    unsigned = {"float64": np.uint64, "float32": np.uint32}[dtype]
    random = np.random.default_rng([step, ord(name)])
    return random.integers(0, np.iinfo(unsigned).max, SHAPE, unsigned).view(dtype)


class Run:
    """One rank of a run: its blocks, with ghosts, and its writer."""

    def __init__(self, comm, path, dtype="float64", grid=None, **more):
        block = Block.of_rank(SHAPE, grid or choose_process_grid(SHAPE, comm.size), comm.rank)
        self.dtype = dtype
        self.cells = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
        self.fields = {name: BlockArray.allocate(block, dtype, fill=-1.0) for name in "UV"}
        variables = [
            Variable(name, dtype, SHAPE, block.offset_global, array.owned.shape)
            for name, array in self.fields.items()
        ]
        attributes = {"seed": 7, "names": ["a", "b"], **image_schemas(SHAPE, "UV")}
        self.writer = begin(path, comm, variables, attributes, **more)

    def write(self, *steps):
        for step in steps:
            for name, array in self.fields.items():
                array.owned[...] = whole(name, self.dtype, step)[self.cells]
            self.writer.write(step, 0.5 * step, {name: array.owned for name, array in self.fields.items()})


def contents(path):
    """Everything in a data set, as one comparable value."""
    with open_reader(path) as reader:
        found = {name: values.tobytes() for name, values in reader.scalars.items()}
        found |= {name: str(value) for name, value in reader.attributes.items()}
        for name, stored in reader.arrays.items():
            for step in range(reader.steps):
                out = np.empty(stored.shape, stored.dtype)
                reader.read(name, [Selection(step, (0, 0, 0), out)])
                found[name, step, str(stored.dtype)] = out.tobytes()
    return found


def assert_holds(comm, path, *steps, dtype="float64"):
    """The data set holds exactly these steps. Rank 0 looks."""
    comm.Barrier()
    if comm.rank == 0:
        found = contents(path)
        assert found["step"] == np.array(steps, np.int32).tobytes()
        assert found["time"] == (0.5 * np.array(steps)).tobytes()
        arrays = {
            (name, i, dtype): whole(name, dtype, step).tobytes()
            for i, step in enumerate(steps)
            for name in "UV"
        }
        assert {key: value for key, value in found.items() if isinstance(key, tuple)} == arrays
        verdict = check_data_set(path)
        values = 2 * len(steps) * np.prod(SHAPE) * np.dtype(dtype).itemsize
        assert (verdict.damages, verdict.unfinished, verdict.bytes_compared) == ((), False, values)
    comm.Barrier()


def grids(comm):
    """Process grids that cut x, y and z, where so many ranks allow."""
    return {(comm.size, 1, 1), (1, comm.size, 1), (1, 1, comm.size), choose_process_grid(SHAPE, comm.size)}


@either
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_blocks_arrive_bit_for_bit(comm, path, collective, dtype):
    for grid in sorted(grids(comm)):
        run = Run(comm, path, dtype, grid, collective=collective)
        run.write(0, 3, 4)
        run.writer.close()
        assert_holds(comm, path, 0, 3, 4, dtype=dtype)


def test_slabs_arrive_like_whole_blocks(comm, path, monkeypatch):
    monkeypatch.setattr(bp_blocks, "SLAB", 500)
    monkeypatch.setattr(bp, "SLAB", 1500)
    run = Run(comm, path, collective=False)
    run.write(0, 1)
    run.writer.close()
    assert_holds(comm, path, 0, 1)


def test_the_files_of_zarr_do_not_depend_on_the_ranks(comm, path, monkeypatch):
    """Several shards of several chunks, cut across the blocks of the ranks."""
    monkeypatch.setattr(zarr_layout, "CHUNK", 600)
    monkeypatch.setattr(zarr_layout, "SHARD", 1500)
    monkeypatch.setattr(zarr_layout, "REPLACED", 100)
    for name, ranks in (("all.zarr", comm), ("one.zarr", MPI.COMM_SELF)):
        if ranks.size == comm.size or comm.rank == 0:
            run = Run(ranks, path.with_name(name))
            run.write(0, 1, 2)
            run.writer.close()
    assert_holds(comm, path.with_name("all.zarr"), 0, 1, 2)
    if comm.rank == 0:
        both = [path.with_name(name) for name in ("all.zarr", "one.zarr")]
        files = [{f.relative_to(p): f.read_bytes() for f in p.rglob("*") if f.is_file()} for p in both]
        assert len(list(both[0].glob("U/c/1/*/*/*"))) > 6
        assert files[0] == files[1]


@pytest.mark.adios2_mpi
@pytest.mark.skipif(not WITH_MPI, reason="this ADIOS2 is built without MPI: make adios2-mpi builds it")
def test_both_ways_of_writing_read_back_identical(comm, path):
    paths = [path.with_name("together.bp"), path.with_name("one.bp")]
    for where, collective in zip(paths, (True, False)):
        run = Run(comm, where, collective=collective)
        assert run.writer.collective is (collective and comm.size > 1)
        run.write(0, 1, 2)
        run.writer.close()
    comm.Barrier()
    if comm.rank == 0:
        assert contents(paths[0]) == contents(paths[1])


def test_all_ranks_write_unless_adios2_cannot(comm, path):
    run = Run(comm, path)
    assert run.writer.collective is (WITH_MPI and comm.size > 1)
    run.writer.close()
    if not WITH_MPI and comm.size > 1:
        with pytest.raises(OutputError, match=r"built without MPI\. Install an ADIOS2"):
            Run(comm, path, collective=True)


@either
@pytest.mark.parametrize("kept", [0, 2, 4])
def test_a_run_continues_on_other_ranks_where_its_checkpoint_was(comm, path, collective, kept):
    """Fewer ranks run ahead, all continue; then fewer again."""
    fewer = comm.Split(comm.rank < max(1, comm.size - 1), comm.rank)
    if comm.rank < max(1, comm.size - 1):
        run = Run(fewer, path, collective=collective)
        run.write(0, 1, 2, 3)
        run.writer.close()
    comm.Barrier()
    run = Run(comm, path, collective=collective, keep_steps=kept)
    run.write(*range(kept, 6))
    run.writer.close()
    assert_holds(comm, path, 0, 1, 2, 3, 4, 5)
    if comm.rank < max(1, comm.size - 1):
        run = Run(fewer, path, collective=collective, keep_steps=5)
        run.write(5, 6)
        run.writer.close()
    assert_holds(comm, path, 0, 1, 2, 3, 4, 5, 6)
    fewer.Free()


@pytest.mark.adios2_mpi
@pytest.mark.skipif(not WITH_MPI, reason="this ADIOS2 is built without MPI: make adios2-mpi builds it")
def test_either_way_continues_the_other(comm, path):
    for i, collective in enumerate((True, False, True, True, False)):
        run = Run(comm, path, collective=collective, keep_steps=2 * i or None)
        run.write(2 * i, 2 * i + 1, 2 * i + 2)
        run.writer.close()
    assert_holds(comm, path, *range(11))


@pytest.mark.adios2_mpi
@pytest.mark.skipif(not WITH_MPI, reason="this ADIOS2 is built without MPI: make adios2-mpi builds it")
def test_more_nodes_continue_with_the_files_that_are_there(comm, path, monkeypatch):
    """As if each rank had a node of its own. A run on one node had written one file."""
    run = Run(comm, path)
    run.write(0, 1)
    run.writer.close()
    monkeypatch.setattr(BPWriter, "_nodes", lambda self: comm.size)
    run = Run(comm, path, keep_steps=1)
    run.write(1, 2)
    run.writer.close()
    assert_holds(comm, path, 0, 1, 2)
    assert len(list(path.glob("data.*"))) == 1  # ADIOS2 would look up where to append beyond its table
    comm.Barrier()
    run = Run(comm, path)
    run.write(0, 1, 2)
    run.writer.close()
    comm.Barrier()
    assert len(list(path.glob("data.*"))) == comm.size
    comm.Barrier()
    monkeypatch.undo()
    for kept in (2, 3):
        run = Run(comm, path, keep_steps=kept)
        run.write(*range(kept, 5))
        run.writer.close()
        assert_holds(comm, path, 0, 1, 2, 3, 4)


@either
def test_ranks_may_own_nothing_of_an_array(comm, path, collective):
    """As of a spectrum, which rank 0 owns."""
    n = 5 if comm.rank == 0 else 0
    spectrum = [Variable("E", "float64", (5,), (0,), (n,))]
    with begin(path, comm, spectrum, {}, collective=collective) as out:
        for step in range(2):
            out.write(step, 0.0, {"E": np.arange(5.0)[:n] + step})
    comm.Barrier()
    if comm.rank == 0:
        with open_reader(path) as reader:
            got = np.empty((2, 5))
            reader.read("E", [Selection(step, (0,), got[step]) for step in range(2)])
        np.testing.assert_array_equal(got, np.arange(5.0) + np.arange(2)[:, None])


@either
def test_all_ranks_learn_that_nothing_can_be_written(comm, path, collective):
    if comm.rank == 0:
        path.write_text("precious")
    comm.Barrier()
    for where, words in (
        (path, "is not replaced"),
        (path / f"below{path.suffix}", "cannot create the data set"),
    ):
        with pytest.raises(OutputError, match=words) as caught:
            Run(comm, where, collective=collective)
        assert len(set(comm.allgather(str(caught.value)))) == 1
    with pytest.raises(OutputError, match="no data set at"):
        Run(comm, path.with_name(f"other{path.suffix}"), collective=collective, keep_steps=1)
    assert path.read_text() == "precious"


@contextmanager
def largest_file(size):
    """Let no file of this process grow beyond `size` bytes: writing more fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@either
def test_all_ranks_learn_that_the_disk_is_full(comm, path, collective):
    run = Run(comm, path, collective=collective)
    run.write(0)
    with (
        largest_file(6_000 if collective == "zarr" else 20_000),
        pytest.raises(OutputError, match=r"step 1 .* needs 0\.0 MiB") as caught,
    ):
        run.write(1)
    assert len(set(comm.allgather(str(caught.value)))) == 1
    run.writer.close()
    assert_holds(comm, path, 0)


@pytest.mark.parametrize("collective", [one_writer, "zarr"])
def test_an_error_while_a_rank_writes_reaches_all_ranks(comm, path, collective, monkeypatch):
    monkeypatch.setattr(DataSetWriter, "_check_space", lambda self, step: None)
    run = Run(comm, path, collective=collective)
    run.write(0)
    with (
        largest_file(6_000 if collective == "zarr" else 20_000),
        pytest.raises(OutputError, match=r"output step 1 .*File too large"),
    ):
        run.write(1)
    with pytest.raises(OutputError, match="was closed"):
        run.write(2)
    run.writer.close()
    assert_holds(comm, path, 0)
    run = Run(comm, path, collective=collective, keep_steps=1)
    run.write(1)
    run.writer.close()
    assert_holds(comm, path, 0, 1)


@either
@pytest.mark.parametrize("compression", ["lz4", "blosc"])
def test_compression_is_lossless_on_all_ranks(comm, path, collective, compression):
    if collective != "zarr" and compression not in adios2_facts().compressions:
        with pytest.raises(OutputError, match="Use one of none"):
            Run(comm, path, compression=compression, collective=collective)
        return
    run = Run(comm, path, compression=compression, collective=collective)
    run.write(0, 1)
    run.writer.close()
    assert_holds(comm, path, 0, 1)
