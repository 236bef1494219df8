"""One run at a time compiles into the kernel cache of a host."""

import fcntl
import os
import platform
from pathlib import Path

import pytest

from ridgeline.runtime.compile_cache import sole_compiler


def is_locked(path: Path) -> bool:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_others_are_kept_out_while_one_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    path = tmp_path / f"{platform.node()}.lock"
    with sole_compiler():
        assert is_locked(path)
    assert not is_locked(path)
    with pytest.raises(RuntimeError), sole_compiler():
        raise RuntimeError
    assert not is_locked(path)


def test_without_a_cache_that_can_be_locked_compiling_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("", str(tmp_path / "missing"), os.devnull):
        monkeypatch.setenv("NUMBA_CACHE_DIR", folder)
        with sole_compiler():
            done = True
        assert done
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    with sole_compiler():
        pass
