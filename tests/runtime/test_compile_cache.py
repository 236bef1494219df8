"""One run at a time compiles into the kernel cache of a host."""

import fcntl
import logging
import os
import platform
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ridgeline.runtime import compile_cache
from ridgeline.runtime.compile_cache import configure_kernel_cache, sole_compiler
from ridgeline.runtime.signals import STOP_SIGNALS, SignalCatcher, StoppedError


def is_locked(path: Path) -> bool:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def test_each_width_of_vectors_has_a_cache_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path))
    found = []
    for width in ("", "16", "32", ""):
        monkeypatch.setenv("NUMBA_CACHE_DIR", "")
        monkeypatch.setenv("RIDGELINE_VECTOR_BYTES", width)
        found.append(configure_kernel_cache())
    assert len({*found}) == 3
    assert found[0] == found[3]


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


@pytest.fixture
def locked(tmp_path, monkeypatch) -> Callable[[], None]:
    """Let another process compile; return what ends that."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    file = (tmp_path / f"{platform.node()}.lock").open("w")
    file.write("4321\n")
    file.flush()
    fcntl.flock(file, fcntl.LOCK_EX)
    return file.close


def while_waiting(monkeypatch, action: Callable[[], None]) -> None:
    monkeypatch.setattr(compile_cache.time, "sleep", lambda seconds: action())


def test_a_long_wait_says_what_for_once_and_then_goes_on(locked, tmp_path, monkeypatch, caplog) -> None:
    polls = iter(range(5))
    while_waiting(monkeypatch, lambda: next(polls) if next(polls, 9) < 3 else locked())
    monkeypatch.setattr(compile_cache, "_SILENT", -1.0)
    with caplog.at_level(logging.WARNING), sole_compiler():
        assert (tmp_path / f"{platform.node()}.lock").read_text() == f"{os.getpid()}\n"
    (record,) = caplog.records
    assert "waiting for process 4321" in record.getMessage()
    assert str(tmp_path) in record.getMessage()


def test_a_short_wait_is_silent(locked, monkeypatch, caplog) -> None:
    while_waiting(monkeypatch, locked)
    with sole_compiler():
        pass
    assert not caplog.records


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_the_wait(number, locked, monkeypatch) -> None:
    while_waiting(monkeypatch, lambda: os.kill(os.getpid(), number))
    expected = pytest.raises(StoppedError, match=signal.Signals(number).name)
    with SignalCatcher(), expected as caught, sole_compiler():
        pass
    assert caught.value.exit_code == 128 + number


def test_a_signal_ends_compiling_before_the_first_step() -> None:
    with SignalCatcher() as catcher:
        with pytest.raises(StoppedError), sole_compiler():
            os.kill(os.getpid(), signal.SIGTERM)
        assert catcher.received == signal.SIGTERM
        with pytest.raises(StoppedError), sole_compiler():
            pytest.fail("a signal that came earlier is forgotten")


def test_once_steps_are_made_a_signal_is_left_to_the_loop() -> None:
    with SignalCatcher() as catcher:
        catcher.polled = True
        with sole_compiler():
            os.kill(os.getpid(), signal.SIGTERM)
        assert catcher.received == signal.SIGTERM


def test_handlers_come_back() -> None:
    with SignalCatcher():
        before = [signal.getsignal(number) for number in STOP_SIGNALS]
        with sole_compiler():
            pass
        assert [signal.getsignal(number) for number in STOP_SIGNALS] == before
