"""The end of another process is noticed without looking for it."""

import subprocess
import sys
import threading

import pytest

from ridgeline.parallel.communicator import _ranks_in_space
from ridgeline.runtime.process_watch import ProcessWatch, process_space

WAITING = [sys.executable, "-c", "input()"]
SECONDS = 30  # that the kernel may take


@pytest.fixture
def process():
    with subprocess.Popen(WAITING, stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


class Notes:
    """What a watch said, and when it did."""

    def __init__(self) -> None:
        self.ended: list[int] = []
        self.said = threading.Event()

    def __call__(self, number: int) -> None:
        self.ended.append(number)
        self.said.set()


def test_the_first_of_several_that_ends_is_named(process):
    notes = Notes()
    with subprocess.Popen(WAITING, stdin=subprocess.PIPE) as other:
        ProcessWatch([process.pid, other.pid], notes)
        assert not notes.ended
        other.kill()
        assert notes.said.wait(SECONDS)
        assert notes.ended == [other.pid]


def test_a_watch_that_is_closed_says_nothing(process):
    notes = Notes()
    watch = ProcessWatch([process.pid], notes)
    (thread,) = (one for one in threading.enumerate() if one.name == "process watch")
    watch.close()
    thread.join(SECONDS)
    process.kill()
    process.wait()
    assert not thread.is_alive()
    assert not notes.ended


def test_a_process_that_is_gone_is_noticed_at_once(process):
    process.kill()
    process.wait()
    notes = Notes()
    ProcessWatch([process.pid], notes)
    assert notes.ended == [process.pid]


def test_a_rank_in_another_container_is_not_taken_for_a_process_of_this_one():
    """Its number means another process here, or none: the job would be ended at once."""
    assert _ranks_in_space([(7, "a", 0), (7, "b", 1), (9, "a", 2)], "a") == {7: 0, 9: 2}
    assert _ranks_in_space([(7, "", 0), (8, "", 1)], "") == {}
    assert str(process_space()).count("pid:[") == 1
