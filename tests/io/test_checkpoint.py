"""Checkpoints of one rank: what is kept, what damage is found, what a crash at any moment leaves."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.io import checkpoint
from ridgeline.io.checkpoint import CheckpointStore, find_checkpoints, load, read_manifest
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

SHAPE = (5, 6, 7)
IDENTITY = {"model": "toy", "shape": SHAPE, "seed": 3}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK_BYTES", 700)
    monkeypatch.setattr(checkpoint, "ROUND_BYTES", 1000)


@pytest.fixture
def store(tmp_path):
    with CheckpointStore(MPI.COMM_SELF, tmp_path / "deep" / "store", keep=2) as store:
        yield store


def values(step, dtype="float64"):
    return np.random.default_rng(step).random(SHAPE).astype(dtype)


def fields(array):
    return {"U": DistributedArray("U", SHAPE, (0, 0, 0), array)}


def save(store, step, **more):
    return store.save(fields(values(step)), step=step, time=0.5 * step, identity=IDENTITY, **more)


def read(store, **more):
    array = np.full(SHAPE, np.nan)
    loaded = store.load(fields(array), IDENTITY, **more)
    if loaded is not None:
        np.testing.assert_array_equal(array, values(loaded.step))
    return loaded


def steps(store):
    """The steps of the checkpoints on disk, the newest first."""
    return [read_manifest(path).step for path in find_checkpoints(store.path)]


def flip(file, position, bit=0):
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


def test_everything_comes_back(store):
    saved = save(store, 10, state={"outputs": np.int64(4), "last": None}, settings={"run.steps": 99})
    assert saved.path == store.path / "checkpoint_00000010"
    assert saved.bytes_written == (saved.path / "data_0000.bin").stat().st_size
    assert saved.ratio == pytest.approx(5 * 6 * 7 * 8 / saved.bytes_written)
    loaded = read(store)
    assert (loaded.path, loaded.step, loaded.time) == (saved.path, 10, 5.0)
    assert loaded.state == {"outputs": 4, "last": None}
    assert loaded.settings == {"run.steps": 99}
    assert loaded.identity == {"model": "toy", "shape": [5, 6, 7], "seed": 3}
    assert loaded.remarks == ()


def test_constant_fields_compress(store):
    saved = store.save(fields(np.ones(SHAPE)), step=1, time=0.0, identity=IDENTITY)
    assert saved.ratio > 3


def test_newest_are_kept(store):
    for step in (1, 2, 3, 4):
        save(store, step)
    assert steps(store) == [4, 3]
    assert sorted(p.name for p in store.path.iterdir()) == ["checkpoint_00000003", "checkpoint_00000004"]


def test_newest_is_the_one_written_last_not_the_largest_step(store):
    for step in (100, 200, 10):
        save(store, step)
    assert steps(store) == [10, 200]
    assert read(store).step == 10


def test_a_step_written_again_replaces_the_first(store):
    for step in (1, 2, 2):
        save(store, step)
    assert steps(store) == [2, 1]
    assert read(store).path.name == "checkpoint_00000002_2"
    save(store, 2)
    assert steps(store) == [2, 1]
    assert read(store).path.name == "checkpoint_00000002"


def test_leftovers_of_crashes_are_removed_and_nothing_else(store):
    save(store, 1)
    for name in ("checkpoint_00000002.partial", "checkpoint_00000000.removed", "mine.partial"):
        (store.path / name).mkdir()
        (store.path / name / "data_0000.bin").write_bytes(b"x")
    assert read(store).step == 1
    save(store, 2)
    assert sorted(p.name for p in store.path.iterdir()) == [
        "checkpoint_00000001",
        "checkpoint_00000002",
        "mine.partial",
    ]


def test_none_found(store, tmp_path):
    assert read(store) is None
    with pytest.raises(CheckpointError, match=r"cannot resume from .*/store: it does not exist"):
        read(store, resume=store.path)
    store.path.mkdir(parents=True)
    assert read(store) is None
    with pytest.raises(CheckpointError, match="contains no checkpoint"):
        read(store, resume=store.path)
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="is a file"):
        read(store, resume=tmp_path / "file")


def test_explicit_path_may_be_a_checkpoint_or_the_directory_above(store):
    save(store, 1)
    save(store, 2)
    assert read(store, resume=store.path / "checkpoint_00000001").step == 1
    assert read(store, resume=str(store.path)).step == 2


def damages(store):
    """Ways to damage the newest checkpoint, each with what is said about it."""
    folder = store.path / "checkpoint_00000002"
    data, manifest = folder / "data_0000.bin", folder / "manifest.json"
    size = data.stat().st_size
    return [
        (lambda: data.unlink(), "data_0000.bin cannot be read (No such file or directory)"),
        (lambda: data.write_bytes(b""), f"data_0000.bin is damaged (the file has 0 bytes instead of {size})"),
        (lambda: os.truncate(data, size - 1), f"the file has {size - 1} bytes instead of {size}"),
        (lambda: os.truncate(data, size + 1), f"the file has {size + 1} bytes instead of {size}"),
        (lambda: flip(data, 0), "its first bytes are wrong"),
        (lambda: flip(data, 16), "the hash of a chunk at byte 16 does not match"),
        (lambda: flip(data, size - 1), "the hash of its table does not match"),
        (lambda: manifest.unlink(), "manifest.json cannot be read (No such file or directory)"),
        (lambda: manifest.write_bytes(b""), "manifest.json is damaged"),
        (lambda: flip(manifest, 30), "manifest.json is damaged"),
    ]


@pytest.mark.parametrize("way", range(10))
def test_damage_falls_back_and_says_so(store, way):
    save(store, 1)
    save(store, 2)
    damage, words = damages(store)[way]
    damage()
    loaded = read(store)
    assert loaded.step == 1
    assert len(loaded.remarks) == 1
    assert loaded.remarks[0].startswith(f"checkpoint {store.path}/checkpoint_00000002 was refused: ")
    assert words in loaded.remarks[0]
    with pytest.raises(CheckpointError, match=re.escape(words)):
        read(store, resume=store.path / "checkpoint_00000002")
    save(store, 3)  # what was refused makes room, the good one stays
    assert steps(store) == [3, 1]
    assert not (store.path / "checkpoint_00000002").exists()


def test_every_part_of_the_data_counts(store):
    save(store, 1)
    save(store, 2)
    data = store.path / "checkpoint_00000002" / "data_0000.bin"
    for position in range(0, data.stat().st_size, 3):
        flip(data, position, position % 8)
        assert read(store).step == 1, f"bit {position % 8} of byte {position}"
        flip(data, position, position % 8)
    assert read(store).step == 2


def test_all_damaged_is_an_error_even_for_auto(store):
    save(store, 1)
    save(store, 2)
    for step in (1, 2):
        flip(store.path / f"checkpoint_0000000{step}" / "data_0000.bin", 40)
    with pytest.raises(
        CheckpointError, match=r"no usable checkpoint.*00000002 was.*00000001 was.*--resume never"
    ):
        read(store)


def test_lost_file_entry_is_damage(store, monkeypatch):
    """A manifest that is whole but names too few files does not leave cells unset."""
    save(store, 1)
    real = checkpoint.commit
    monkeypatch.setattr(
        "ridgeline.io.checkpoint.commit",
        lambda partial, final, manifest: real(
            partial, final, type(manifest)(**{**vars(manifest), "files": []})
        ),
    )
    save(store, 2)
    loaded = read(store)
    assert loaded.step == 1
    assert "210 cells of the field U are in none of its files" in loaded.remarks[0]


def test_another_run_is_refused_with_its_differences(store):
    save(store, 1)
    other = {**IDENTITY, "shape": (5, 6, 8), "seed": 4}
    with pytest.raises(CheckpointError) as caught:
        store.load(fields(np.zeros(SHAPE)), other)
    assert "shape: the checkpoint has [5, 6, 7], the run has [5, 6, 8]" in str(caught.value)
    assert "seed: the checkpoint has 3, the run has 4" in str(caught.value)
    assert "model" not in str(caught.value)
    assert caught.value.exit_code == 4


def test_other_fields_are_refused(store):
    save(store, 1)
    more = {**fields(np.zeros(SHAPE)), "V": DistributedArray("V", SHAPE, (0, 0, 0), np.zeros(SHAPE))}
    with pytest.raises(CheckpointError, match=r"fields\.V: the checkpoint has nothing, the run has"):
        store.load(more, IDENTITY)
    with pytest.raises(CheckpointError, match=r"fields\.U: the checkpoint has .*, the run has nothing"):
        store.load({}, IDENTITY)
    with pytest.raises(
        CheckpointError, match=r"fields\.U\.dtype: the checkpoint has 'float64', the run has 'float32'"
    ):
        store.load(fields(np.zeros(SHAPE, "f4")), IDENTITY)


def test_fields_that_came_later_stay_as_they_are(store):
    save(store, 1)
    new = np.full(3, 7.0)
    more = {**fields(np.zeros(SHAPE)), "clock": DistributedArray("clock", (3,), (0,), new)}
    assert store.load(more, IDENTITY, later=("clock",)).step == 1
    np.testing.assert_array_equal(more["U"].local, values(1))
    np.testing.assert_array_equal(new, 7.0)
    clock = DistributedArray("clock", (3,), (0,), np.arange(3.0))
    store.save({**more, "clock": clock}, step=2, time=1.0, identity=IDENTITY)
    assert store.load(more, IDENTITY, later=("clock",)).step == 2
    np.testing.assert_array_equal(new, np.arange(3.0))
    with pytest.raises(CheckpointError, match=r"fields\.clock: the checkpoint has .*, the run has nothing"):
        store.load(fields(np.zeros(SHAPE)), IDENTITY, later=("clock",))


def test_state_that_cannot_be_written_leaves_nothing(store):
    save(store, 1)
    with pytest.raises(CheckpointError, match="plain data, not object"):
        save(store, 2, state={"a": object()})
    assert [p.name for p in store.path.iterdir()] == ["checkpoint_00000001"]


def test_old_checkpoints_that_cannot_be_deleted_do_not_stop_the_run(store, monkeypatch, caplog):
    for step in (1, 2):
        save(store, step)

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ridgeline.io.checkpoint.delete", refuse)
    save(store, 3)
    assert "cannot delete old checkpoints" in caplog.text
    assert read(store).step == 3


class RecordedFile:
    """An MPI file that notes what is called."""

    def __init__(self, file, events):
        self.file, self.events = file, events

    def __getattr__(self, name):
        self.events.append(name)
        return getattr(self.file, name)


def test_all_is_on_the_disk_before_the_rename(store, monkeypatch):
    events = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))
    )
    monkeypatch.setattr(Path, "rename", lambda self, to: (events.append((self, to)), rename(self, to))[1])
    file = SimpleNamespace(Open=lambda *how: RecordedFile(MPI.File.Open(*how), events))
    shim = SimpleNamespace(File=file, MODE_CREATE=MPI.MODE_CREATE, MODE_WRONLY=MPI.MODE_WRONLY)
    monkeypatch.setattr(checkpoint, "mpi", shim)
    save(store, 1)
    partial, final = store.path / "checkpoint_00000001.partial", store.path / "checkpoint_00000001"
    on_disk = ["Write_at", "Sync", "Close", f"{partial}/manifest.json", f"{partial}", (partial, final)]
    assert events[-7:] == [*on_disk, f"{store.path}"]


CRASH = """
    import os, sys
    from pathlib import Path
    import numpy as np
    from mpi4py import MPI
    from ridgeline.parallel.partition import DistributedArray
    from ridgeline.io import checkpoint
    from ridgeline.io.checkpoint import CheckpointStore

    checkpoint.CHUNK_BYTES, checkpoint.ROUND_BYTES = 700, 1000

    def crash_at(line, end):
        '''Call end() before the line-th new line of the writing code is run.'''
        seen = set()

        def on_line(frame, event, arg):
            if event == "line":
                seen.add((frame.f_code.co_filename, frame.f_lineno))
                if len(seen) == line:
                    end()
            return on_line

        sys.settrace(lambda frame, event, arg: on_line if frame.f_code.co_filename == checkpoint.__file__ else None)

    def fields(comm, step):
        whole = np.random.default_rng(step).random((6, 6, 7))
        n = 6 // comm.size
        part = whole[comm.rank * n : (comm.rank + 1) * n]
        return {"U": DistributedArray("U", whole.shape, (comm.rank * n, 0, 0), part)}

    def save(store, comm, step):
        store.save(fields(comm, step), step=step, time=0.0, identity={})
"""


def run(program, *arguments, ranks=0, timeout=100):
    launcher = [str(Path(sys.executable).parent / "mpiexec"), "-n", str(ranks)] if ranks else []
    return subprocess.run(
        [
            *launcher,
            sys.executable,
            "-c",
            textwrap.dedent(CRASH) + textwrap.dedent(program),
            *map(str, arguments),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_a_crash_at_any_line_leaves_a_usable_checkpoint(tmp_path):
    """Each child dies before another line of the writing code; the parent then resumes and saves."""
    program = """
        import shutil
        comm, path, backup = MPI.COMM_SELF, Path(sys.argv[1]), Path(sys.argv[2])
        store = CheckpointStore(comm, path, keep=2)
        for step in (10, 20):
            save(store, comm, step)
        shutil.copytree(path, backup)
        found, line = [], 0
        while True:
            line += 1
            child = os.fork()
            if child == 0:
                crash_at(line, lambda: os._exit(9))
                save(store, comm, 30)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            read = fields(comm, 0)
            loaded = store.load(read, {})
            assert not loaded.remarks, loaded.remarks
            expected = fields(comm, loaded.step)["U"].local
            assert (read["U"].local == expected).all()
            found.append(loaded.step)
            if code == 0:
                break
            assert code == 9
            save(store, comm, 40)
            left = sorted(entry.name for entry in path.iterdir())
            assert left == [f"checkpoint_000000{loaded.step}", "checkpoint_00000040"], left
            shutil.rmtree(path)
            shutil.copytree(backup, path)
        assert found == sorted(found)
        print(found.count(20), found.count(30))
    """
    result = run(program, tmp_path / "store", tmp_path / "backup")
    assert result.returncode == 0, result.stdout + result.stderr
    before, after = map(int, result.stdout.split())
    assert before > 60
    assert after > 10


def test_kill_9_of_one_rank_while_writing(tmp_path):
    program = """
        import signal
        comm, path = MPI.COMM_WORLD, Path(sys.argv[1])
        assert comm.size == 2
        store = CheckpointStore(comm, path, ranks_per_file=1)
        save(store, comm, 10)
        comm.Barrier()
        if comm.rank == 1:
            crash_at(60, lambda: os.kill(os.getpid(), signal.SIGKILL))
        save(store, comm, 20)
    """
    result = run(program, tmp_path, ranks=2)
    assert result.returncode != 0
    names = [entry.name for entry in sorted(tmp_path.iterdir())]
    assert names == ["checkpoint_00000010", "checkpoint_00000020.partial"], result.stderr
    array = np.zeros((6, 6, 7))
    loaded = load(MPI.COMM_SELF, tmp_path, {"U": DistributedArray("U", array.shape, (0, 0, 0), array)}, {})
    assert loaded.step == 10
    np.testing.assert_array_equal(array, np.random.default_rng(10).random(array.shape))
