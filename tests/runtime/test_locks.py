"""Locks of output paths: one holder, dead ones told apart, links and vanished files."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from ridgeline.runtime import locks
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.locks import PathLock, this_process
from ridgeline.runtime.signals import SignalCatcher, StoppedError

HOLD = """
import sys
from pathlib import Path
from ridgeline.runtime.locks import PathLock
lock = PathLock.beside(Path(sys.argv[1]), "it")
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "GRACE", 0.0)
    return tmp_path / "gs.bp"


def lock_of(path):
    return PathLock.beside(path, f"the data set {path}")


def no_locks(*_):
    raise OSError(38, "Function not implemented")


def leave(path, **changes):
    """Leave a lock file behind, as a holder did that released nothing."""
    lock_of(path).file.write_text(json.dumps(asdict(replace(this_process(), **changes))))


def test_second_holder_is_refused_and_told_of_the_first(path):
    with (
        lock_of(path),
        pytest.raises(
            OutputError, match=r"gs\.bp is in use by another run in this process\. Close that run first"
        ),
    ):
        lock_of(path).acquire()
    with lock_of(path) as again:
        assert again.file.exists()
    assert not again.file.exists()


def test_a_signal_ends_the_wait_for_another_process(path, monkeypatch):
    monkeypatch.setattr(locks, "GRACE", 60.0)
    monkeypatch.setattr(locks.time, "sleep", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            SignalCatcher(),
            pytest.raises(StoppedError, match="SIGTERM ended the job before its first step"),
        ):
            lock_of(path).acquire()
        holder.stdin.close()


def test_killed_holder_leaves_a_lock_that_is_taken_over(path):
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(OutputError, match=f"process {process.pid} on"):
        lock_of(path).acquire()
    process.kill()
    process.communicate()
    assert lock_of(path).file.exists()
    lock = lock_of(path)
    dead = lock.acquire()
    assert dead.process == process.pid
    lock.release()


def test_holder_that_is_about_to_end_is_waited_for(path, monkeypatch):
    monkeypatch.setattr(locks, "GRACE", 60.0)
    holder = lock_of(path)
    holder.acquire()
    leave(path, process=1)  # as if another process held it
    looks = iter([None, holder.release])
    monkeypatch.setattr(locks.time, "sleep", lambda _: (next(looks) or (lambda: None))())
    with lock_of(path):
        assert holder._descriptor is None


def test_process_number_used_again_does_not_keep_a_lock(path, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    leave(path, process=os.getppid(), started=1)
    with lock_of(path):
        pass


def test_living_process_keeps_a_lock_where_files_cannot_be_locked(path, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    leave(path, process=os.getppid(), started=locks._start_of(os.getppid()))
    with pytest.raises(OutputError, match="in use"):
        lock_of(path).acquire()


def test_process_that_has_ended_but_was_not_waited_for_keeps_no_lock(path, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", no_locks)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leave(path, process=process.pid, started=locks._start_of(process.pid))
    with pytest.raises(OutputError, match="in use"):
        lock_of(path).acquire()
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with lock_of(path):
        pass
    process.wait()


def test_holder_on_another_node_counts_as_dead_after_silence(path):
    leave(path, host="elsewhere", boot="another")
    with pytest.raises(OutputError, match="on elsewhere"):
        lock_of(path).acquire()
    ago = os.stat(lock_of(path).file).st_mtime - locks.SILENCE - 5
    os.utime(lock_of(path).file, (ago, ago))
    with lock_of(path):
        pass


def test_job_that_was_requeued_takes_its_own_lock_over(path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    leave(path, host="elsewhere", boot="another", attempt="0")
    with lock_of(path):
        pass
    leave(path, host="elsewhere", boot="another")
    with pytest.raises(OutputError, match="of job 77"):
        lock_of(path).acquire()


def test_holder_touches_its_lock(path, monkeypatch):
    monkeypatch.setattr(locks, "BEAT", 0.001)
    touched = locks.threading.Event()
    monkeypatch.setattr(locks.os, "utime", lambda descriptor: touched.set())
    with lock_of(path):
        assert touched.wait(30)


@pytest.mark.parametrize("content", [b"{cut off", b"\xff\xfe\x80", b"[" * 4096, b"1" * 5000])
def test_garbage_in_a_lock_file_is_nobody(path, content):
    lock_of(path).file.write_bytes(content)
    with lock_of(path):
        pass


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_lock_file_is_not_written_through_a_link(path, kind, tmp_path):
    """In a folder that others can write to, the link may lead to any file."""
    (tmp_path / "precious").write_text("mine")
    if kind == "link":
        lock_of(path).file.symlink_to(tmp_path / "precious")
    else:
        os.mkfifo(lock_of(path).file)
    with pytest.raises(OutputError, match=r"cannot lock the data set .*Choose a place"):
        lock_of(path).acquire()
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_link_has_the_lock_of_what_it_points_to(path, tmp_path):
    link = tmp_path / "deep" / "link.bp"
    link.parent.mkdir()
    link.symlink_to(path)
    with lock_of(path), pytest.raises(OutputError, match="in use"):
        lock_of(link).acquire()


def test_folder_that_does_not_exist_is_a_sentence(tmp_path):
    with pytest.raises(OutputError, match=r"cannot lock the data set .* No such file"):
        lock_of(tmp_path / "none" / "gs.bp").acquire()
