"""Processes that test at the same time save kernels one after the other."""

import fcntl

import pytest
from numba.core import caching

from kernel_cache_lock import lock_kernel_cache


@pytest.mark.parametrize("name", ["save", "load"])
def test_nobody_else_saves_or_loads_meanwhile(name, tmp_path, monkeypatch):
    calls = []

    def watched(*arguments):
        with (tmp_path / "tests.lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        calls.append(arguments)
        return "result"

    files = (
        caching.IndexDataCacheFile
    )  # looked up here: jit/kernel_files puts a class of its own in its place
    monkeypatch.setattr(files, "save", watched)
    monkeypatch.setattr(files, "load", watched)
    lock_kernel_cache(tmp_path)
    assert getattr(files, name)("file", "key") == "result"
    assert calls == [("file", "key")]
    with (tmp_path / "tests.lock").open("w") as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
