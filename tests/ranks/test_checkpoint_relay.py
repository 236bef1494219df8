"""checkpoint.writers_at_once: files are written in turns, so many at a time, and an error keeps nobody waiting."""

import os

import numpy as np
import pytest

from ridgeline.io import checkpoint
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

QUICK_RANKS = (3,)

IDENTITY = {"model": "toy"}


def field(comm, fill=None):
    """Three numbers of each rank."""
    local = np.full(3, np.nan) if fill is None else fill + np.arange(3.0) + 3 * comm.rank
    return {"U": DistributedArray("U", (3 * comm.size,), (3 * comm.rank,), local)}


def record(log, text):
    """Append a line to a file that all ranks write: the order of lines is the order of events."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def most_at_once(log):
    """Return the largest number of files that were being written at a moment."""
    now = most = 0
    for line in log.read_text().splitlines():
        now += {"begin": 1, "end": -1}[line]
        most = max(most, now)
    assert now == 0
    return most


@pytest.mark.parametrize("writers_at_once", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("ranks_per_file", [1, 2])
def test_so_many_files_are_written_at_a_time(comm, folder, monkeypatch, writers_at_once, ranks_per_file):
    log = folder / "log"
    n_files = -(-comm.size // ranks_per_file)
    turns = writers_at_once or n_files
    write_group_file = checkpoint.write_group_file
    # The writers of a turn meet in the middle of their writes: less than so many at a time would wait for ever.
    mine = comm.rank // ranks_per_file
    turn = comm.Split(mine // turns, comm.rank)

    def write(group, *arguments):
        if group.rank == 0:
            record(log, "begin")
        turn.Barrier()
        entry = write_group_file(group, *arguments)
        turn.Barrier()
        if group.rank == 0:
            record(log, "end")
        return entry

    monkeypatch.setattr(checkpoint, "write_group_file", write)
    options = {"ranks_per_file": ranks_per_file, "writers_at_once": writers_at_once}
    with CheckpointStore(comm, folder / "store", **options) as store:
        store.save(field(comm, 7.0), step=1, time=0.0, identity=IDENTITY)
        read = field(comm)
        store.load(read, IDENTITY)
    turn.Free()
    np.testing.assert_array_equal(read["U"].local, field(comm, 7.0)["U"].local)
    assert most_at_once(log) == min(turns, n_files)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failed_writer_passes_its_turn_on(comm, folder, monkeypatch, failing):
    written = []
    write_group_file = checkpoint.write_group_file

    def write(group, *arguments):
        if comm.rank == failing % comm.size:
            raise OSError(28, "No space left on device")
        written.append(comm.rank)
        return write_group_file(group, *arguments)

    with CheckpointStore(comm, folder / "store", ranks_per_file=1, writers_at_once=1) as store:
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write_group_file", write)
            with pytest.raises(CheckpointError, match="No space left"):
                store.save(field(comm, 1.0), step=1, time=0.0, identity=IDENTITY)
        assert sorted(comm.allreduce(written)) == [r for r in range(comm.size) if r != failing % comm.size]
        store.save(field(comm, 2.0), step=2, time=0.0, identity=IDENTITY)
        assert store.load(field(comm), IDENTITY).step == 2
