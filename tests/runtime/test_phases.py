"""Which part of a long measurement is at work: on a terminal one line, in a log some lines, else nothing."""

import io
import sys

import pytest

from ridgeline.runtime import console
from ridgeline.runtime.console import Phases, silent


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def show(monkeypatch, clock, terminal, seconds, *, shown=True, now=True):
    """Run a set-up and 20 sets of so many seconds; return what stands on stderr."""
    stream = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    with Phases("hpcg", shown) as phases:
        phases.begin("set-up", now)
        clock.now += 60.0
        phases.begin("timed sets", now)
        for done in range(1, 21):
            clock.now += seconds
            phases.update(done, 20)
    return stream.getvalue()


def test_a_log_has_a_line_a_part_and_one_every_tenth_of_it(monkeypatch, clock):
    lines = show(monkeypatch, clock, False, 10.0).splitlines()
    assert lines[:2] == ["hpcg: set-up", "hpcg: timed sets"]
    assert lines[2] == "hpcg: timed sets 2/20  ETA 0:03:00"
    assert len(lines) == 2 + 10
    assert lines[-1] == "hpcg: timed sets 20/20  ETA 0:00:00"


def test_a_log_has_no_line_more_often_than_every_few_seconds(monkeypatch, clock):
    assert show(monkeypatch, clock, False, 0.2).splitlines() == ["hpcg: set-up", "hpcg: timed sets"]
    assert show(monkeypatch, clock, False, 1.0).count("\n") == 2 + 4


def test_what_may_be_short_says_nothing_at_first(monkeypatch, clock):
    assert show(monkeypatch, clock, False, 0.1, now=False) == ""
    assert show(monkeypatch, clock, False, 6.0, now=False).startswith("hpcg: timed sets 1/20  ETA 0:01:54\n")


def test_a_terminal_has_one_line_which_is_cleared_at_the_end(monkeypatch, clock):
    text = show(monkeypatch, clock, True, 0.01)
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")
    assert text.count("timed sets") < 4  # ten times a second, not at every set
    assert "timed sets 20/20" in show(monkeypatch, clock, True, 1.0)


def test_other_ranks_are_silent(monkeypatch, clock):
    assert show(monkeypatch, clock, True, 1.0, shown=False) == ""
    stream = Stream(False)
    monkeypatch.setattr(sys, "stderr", stream)
    silent().begin("x")
    silent().update(1, 2)
    assert stream.getvalue() == ""
