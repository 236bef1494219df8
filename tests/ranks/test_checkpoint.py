"""Checkpoints on several ranks: any number writes, any number reads; one rank's trouble is everyone's."""

import resource
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ridgeline.blocks.block import Block, BlockArray, choose_process_grid
from ridgeline.io import checkpoint
from ridgeline.io.checkpoint import CheckpointStore, find_checkpoints, load, read_manifest
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

QUICK_RANKS = (3,)

SHAPE = (9, 11, 13)
IDENTITY = {"model": "toy", "precision": "any"}


@pytest.fixture(autouse=True)
def many_rounds(monkeypatch):
    """Make chunks and rounds so small that every file takes several."""
    monkeypatch.setattr(checkpoint, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(checkpoint, "ROUND_BYTES", 1500)


def whole(name, dtype, step):
    """The global array of a field at a step: rows of noise between smooth ones."""
    values = np.random.default_rng([step, ord(name)]).random(SHAPE)
    values[:, ::2] = 0.25
    return values.astype(dtype)


def parts(comm, dtype, step=None, grid=None):
    """This rank's parts of U and V: of a step, or NaN to be read into."""
    block = Block.of_rank(SHAPE, grid or choose_process_grid(SHAPE, comm.size), comm.rank)
    fields = {}
    for name in "UV":
        array = BlockArray.allocate(block, dtype)
        cells = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
        array.owned[...] = np.nan if step is None else whole(name, dtype, step)[cells]
        fields[name] = DistributedArray(name, SHAPE, block.offset_global, array.owned)
    return fields


def assert_is(fields, dtype, step):
    for name, array in fields.items():
        cells = tuple(slice(o, o + n) for o, n in zip(array.offset_global, array.shape_local))
        np.testing.assert_array_equal(array.local, whole(name, dtype, step)[cells], strict=True)


@contextmanager
def first(comm, n):
    """The communicator of the first n ranks, None on the others."""
    part = comm.Split(int(comm.rank >= n), comm.rank)
    yield part if comm.rank < n else None
    part.Free()
    comm.Barrier()


@contextmanager
def files_at_most(size):
    """Let no file of this process grow past `size` bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def raised_by(comm, action):
    """The messages of the CheckpointError that every rank must raise."""
    with pytest.raises(CheckpointError) as caught:
        action()
    messages = comm.allgather(str(caught.value))
    assert len(set(messages)) == 1
    return messages[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_ranks_write_and_any_ranks_read(comm, folder, dtype):
    for writers in range(1, comm.size + 1):
        path = folder / f"{writers}"
        with first(comm, writers) as some:
            if some is not None:
                with CheckpointStore(some, path, ranks_per_file=2) as store:
                    saved = store.save(parts(some, dtype, 3), step=3, time=0.3, identity=IDENTITY)
                    assert saved.bytes_raw == 2 * np.prod(SHAPE) * np.dtype(dtype).itemsize
                assert len(list(path.glob("*/data_*.bin"))) == (writers + 1) // 2
        for readers in range(1, comm.size + 1):
            for grid in (None, (1, 1, readers), (1, readers, 1)):
                with first(comm, readers) as some:
                    if some is not None:
                        fields = parts(some, dtype, grid=grid)
                        loaded = load(some, path, fields, IDENTITY)
                        assert (loaded.step, loaded.time, loaded.remarks) == (3, 0.3, ())
                        assert_is(fields, dtype, 3)


def test_a_rank_reads_only_what_it_needs(comm, folder):
    with CheckpointStore(comm, folder, ranks_per_file=1) as store:
        saved = store.save(parts(comm, "float64", 1), step=1, time=0.1, identity=IDENTITY)
        same = store.load(parts(comm, "float64"), IDENTITY)
    # The magic of a file is compared, not counted.
    assert same.bytes_read == saved.bytes_written - 16 * comm.size


def test_ghosts_are_neither_saved_nor_touched(comm, folder):
    block = Block.of_rank(SHAPE, choose_process_grid(SHAPE, comm.size), comm.rank)
    array = BlockArray.allocate(block, "float64", fill=-7.0)
    fields = {"a": DistributedArray("a", SHAPE, block.offset_global, array.owned)}
    with CheckpointStore(comm, folder) as store:
        array.owned[...] = 1.0
        store.save(fields, step=1, time=0.1, identity={})
        array.ghosted[...] = 5.0
        store.load(fields, {})
    assert array.owned.min() == array.owned.max() == 1.0
    array.owned[...] = 5.0
    assert array.ghosted.min() == array.ghosted.max() == 5.0


def test_numbers_wider_and_narrower_than_the_grid(comm, folder):
    """Fields of other dimensions and dtypes, on some ranks only, are saved beside the grid's."""

    def fields(fill):
        n = np.arange(5.0) if fill else np.full(5, np.nan)
        mine = n if comm.rank == comm.size - 1 else n[:0]
        scalar = np.array([3 + 4j if fill else 0j]) if comm.rank == 0 else np.zeros(0, complex)
        return {
            "series": DistributedArray("series", (5,), (0,), mine),
            "scalar": DistributedArray("scalar", (1,), (0,), scalar),
        }

    with CheckpointStore(comm, folder) as store:
        store.save(fields(True), step=1, time=0.1, identity={})
        read = fields(False)
        store.load(read, {})
    if comm.rank == comm.size - 1:
        assert read["series"].local.tolist() == [0, 1, 2, 3, 4]
    if comm.rank == 0:
        assert read["scalar"].local.tolist() == [3 + 4j]


def test_disk_full_on_one_rank(comm, folder):
    with CheckpointStore(comm, folder, ranks_per_file=2) as store:
        store.save(parts(comm, "float64", 1), step=1, time=0.1, identity=IDENTITY)
        for victim in range(comm.size):
            for size in (0, 1000, 2000):
                with files_at_most(size if comm.rank == victim else resource.RLIM_INFINITY):
                    message = raised_by(
                        comm,
                        lambda: store.save(parts(comm, "float64", 2), step=2, time=0.2, identity=IDENTITY),
                    )
                assert str(folder) in message
                assert "File too large" in message
                assert comm.size == 1 or f"rank {victim}" in message
                comm.Barrier()
                assert [p.name for p in folder.iterdir()] == ["checkpoint_00000001"]
                comm.Barrier()
        fields = parts(comm, "float64")
        assert store.load(fields, IDENTITY).step == 1
        assert_is(fields, "float64", 1)
        store.save(parts(comm, "float64", 2), step=2, time=0.2, identity=IDENTITY)
        assert store.load(fields, IDENTITY).step == 2
        assert_is(fields, "float64", 2)


def test_unwritable_path(comm, folder):
    if comm.rank == 0:
        (folder / "file").write_text("in the way")
    comm.Barrier()
    with CheckpointStore(comm, folder / "file" / "checkpoints") as store:
        message = raised_by(
            comm, lambda: store.save(parts(comm, "float64", 1), step=1, time=0.1, identity=IDENTITY)
        )
    assert "Not a directory" in message
    assert str(folder / "file") in message


def test_one_rank_that_cannot_compress(comm, folder, monkeypatch):
    def broken(*_):
        raise MemoryError("no memory left")

    victim = comm.size - 1
    with CheckpointStore(comm, folder, ranks_per_file=1) as store:
        with monkeypatch.context() as patch:
            if comm.rank == victim:
                patch.setattr(checkpoint, "compress", broken)
            message = raised_by(
                comm, lambda: store.save(parts(comm, "float32", 1), step=1, time=0.1, identity=IDENTITY)
            )
        assert "no memory left" in message
        assert store.load(parts(comm, "float32"), IDENTITY) is None


def test_damage_that_one_rank_sees_makes_all_fall_back(comm, folder):
    with CheckpointStore(comm, folder, ranks_per_file=1) as store:
        for step in (1, 2):
            store.save(parts(comm, "float64", step), step=step, time=0.1 * step, identity=IDENTITY)
        if comm.rank == 0:
            file = folder / "checkpoint_00000002" / f"data_{comm.size - 1:04d}.bin"
            data = bytearray(file.read_bytes())
            data[100] ^= 16
            file.write_bytes(data)
        comm.Barrier()
        fields = parts(comm, "float64")
        loaded = store.load(fields, IDENTITY)
        assert loaded.step == 1
        assert comm.allgather(loaded.remarks) == [loaded.remarks] * comm.size
        assert len(loaded.remarks) == 1
        assert f"data_{comm.size - 1:04d}.bin" in loaded.remarks[0]
        assert_is(fields, "float64", 1)
        message = raised_by(comm, lambda: store.load(fields, IDENTITY, folder / "checkpoint_00000002"))
        assert "data_" in message
        store.save(parts(comm, "float64", 2), step=2, time=0.2, identity=IDENTITY)
        assert store.load(fields, IDENTITY).remarks == ()


def test_another_case_is_refused_by_all(comm, folder):
    with CheckpointStore(comm, folder) as store:
        store.save(parts(comm, "float64", 1), step=1, time=0.1, identity=IDENTITY)
        message = raised_by(comm, lambda: store.load(parts(comm, "float32"), {**IDENTITY, "model": "other"}))
        assert "(model: the checkpoint has 'toy', the run has 'other')" in message
        message = raised_by(comm, lambda: store.load(parts(comm, "float32"), IDENTITY))
        assert "fields.U.dtype: the checkpoint has 'float64', the run has 'float32'" in message


def test_parts_that_do_not_tile_are_refused(comm, folder):
    array = np.zeros((2, 3))
    fields = {"a": DistributedArray("a", (2 * comm.size + 1, 3), (2 * comm.rank, 0), array)}
    with CheckpointStore(comm, folder) as store:
        message = raised_by(comm, lambda: store.save(fields, step=1, time=0.1, identity={}))
    assert "field a" in message
    assert not find_checkpoints(folder)


def test_manifest_does_not_grow_with_chunks(comm, folder):
    with CheckpointStore(comm, folder, ranks_per_file=2) as store:
        path = store.save(parts(comm, "float64", 1), step=1, time=0.1, identity=IDENTITY).path
    manifest = read_manifest(Path(path))
    assert [file.name for file in manifest.files] == [
        f"data_{i:04d}.bin" for i in range((comm.size + 1) // 2)
    ]
    assert len(manifest.encode()) < 500 + 800 * len(manifest.files)
