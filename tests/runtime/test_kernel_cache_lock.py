"""Processes that test at the same time save kernels one after the other."""

import fcntl

import pytest
from numba.core.caching import IndexDataCacheFile

from kernel_cache_lock import lock_kernel_cache


@pytest.mark.parametrize("name", ["save", "load"])
def test_nobody_else_saves_or_loads_meanwhile(name, tmp_path, monkeypatch):
    calls = []

    def watched(*arguments):
        with (tmp_path / "tests.lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        calls.append(arguments)
        return "result"

    monkeypatch.setattr(IndexDataCacheFile, "save", watched)
    monkeypatch.setattr(IndexDataCacheFile, "load", watched)
    lock_kernel_cache(tmp_path)
    assert getattr(IndexDataCacheFile, name)("file", "key") == "result"
    assert calls == [("file", "key")]
    with (tmp_path / "tests.lock").open("w") as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
