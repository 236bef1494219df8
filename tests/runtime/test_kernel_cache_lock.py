"""Processes that test at the same time compile a kernel that is kept one after the other."""

import fcntl
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba.core.dispatcher import Dispatcher

from kernel_cache_lock import lock_kernel_cache


def free(lock: Path) -> bool:
    """Whether another process could lock a file now."""
    with lock.open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def kept(index: str) -> SimpleNamespace:
    """A dispatcher whose kernels are kept under the name of an index file."""
    return SimpleNamespace(_cache=SimpleNamespace(_cache_file=SimpleNamespace(_index_path=index)))


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list:
    """What was compiled, and how many files of locks were there and taken meanwhile."""
    calls: list = []

    def watched(dispatcher, signature):
        locks = list(tmp_path.glob("*.lock"))
        calls.append((signature, len(locks), sum(not free(lock) for lock in locks)))
        if signature == "outer":
            Dispatcher.compile(kept("other.nbi"), "another function")
            Dispatcher.compile(dispatcher, "of the same factory")
        return f"entry of {signature}"

    monkeypatch.setattr(Dispatcher, "compile", watched)
    lock_kernel_cache(tmp_path)
    return calls


def test_a_function_is_compiled_by_one_process_at_a_time(compiled, tmp_path):
    assert Dispatcher.compile(kept("one.nbi"), "float32") == "entry of float32"
    assert compiled == [("float32", 1, 1)]
    assert all(free(lock) for lock in tmp_path.glob("*.lock"))


def test_kernels_that_call_others_do_not_wait_for_themselves(compiled, tmp_path):
    Dispatcher.compile(kept("one.nbi"), "outer")
    assert compiled == [("outer", 1, 1), ("another function", 2, 2), ("of the same factory", 2, 1)]
    assert all(free(lock) for lock in tmp_path.glob("*.lock"))


def test_what_is_not_kept_waits_for_nobody(compiled):
    Dispatcher.compile(SimpleNamespace(_cache=SimpleNamespace()), "float32")
    assert compiled == [("float32", 0, 0)]
