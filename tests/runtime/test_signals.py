"""Stop signals are remembered however often a scheduler repeats them, and a second Ctrl-C ends at once."""

import os
import signal
import subprocess
import sys

import pytest

from ridgeline.runtime import signals
from ridgeline.runtime.signals import SignalCatcher, StoppedError, stops_at_once


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time that catchers see, in seconds."""
    now = [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])
    return now


def test_repeats_count_as_the_first_and_later_ones_as_new(clock) -> None:
    with SignalCatcher() as catcher:
        for seconds in (0.0, 0.001, 0.027, 4.9):
            clock[0] = 100.0 + seconds
            os.kill(os.getpid(), signal.SIGTERM)
            assert catcher.received == (signal.SIGTERM if seconds == 0 else 0)
            catcher.forget()
        os.kill(os.getpid(), signal.SIGUSR1)
        assert catcher.received == signal.SIGUSR1, "another signal is new"
        catcher.forget()
        clock[0] += 6.0
        os.kill(os.getpid(), signal.SIGUSR1)
        assert catcher.received == signal.SIGUSR1


def interrupted_twice() -> None:
    """Be ended by a signal that comes again while the block is being left."""
    with stops_at_once():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_repeat_ends_no_block_twice() -> None:
    with SignalCatcher() as catcher:
        with pytest.raises(StoppedError, match="SIGTERM") as caught:
            interrupted_twice()
        assert caught.value.__context__ is None, "the repeat raised once more"
        assert catcher.received == signal.SIGTERM


def test_ctrl_c_may_arrive_twice_at_once_and_again_after_it_was_answered(clock) -> None:
    with SignalCatcher() as catcher:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert catcher.received == signal.SIGINT
        catcher.forget()
        clock[0] += 2.0
        os.kill(os.getpid(), signal.SIGINT)
        assert catcher.received == signal.SIGINT


CODE = """
import os, signal, time
from ridgeline.runtime.signals import SignalCatcher, hold_stop_signals
hold_stop_signals()
os.kill(os.getpid(), signal.SIGTERM)
with SignalCatcher() as catcher:
    assert catcher.received == signal.SIGTERM, catcher.received
    print("kept", flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    begin = time.monotonic()
    while time.monotonic() < begin + 0.4:
        pass
    os.kill(os.getpid(), signal.SIGINT)
    print("not reached")
"""


def test_an_early_signal_is_kept_and_a_second_ctrl_c_ends_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60)
    assert done.stdout == "kept\n"
    assert done.returncode == -signal.SIGINT


LAST_MOMENTS = """
import os, signal
from ridgeline.runtime.signals import STOP_SIGNALS, SignalCatcher, hold_stop_signals
if {held}:
    hold_stop_signals()
with SignalCatcher():
    pass
print("done", flush=True)
for number in STOP_SIGNALS:
    os.kill(os.getpid(), number)
"""


@pytest.mark.parametrize(("held", "code"), [(True, 0), (False, -signal.SIGTERM)])
def test_a_command_that_is_done_is_not_killed_in_its_last_moments(held, code) -> None:
    """A program that only enters a catcher gets its own handlers back."""
    text = LAST_MOMENTS.format(held=held)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("done\n", code)
