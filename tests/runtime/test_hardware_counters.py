"""Hardware counters: what is asked of the kernel, how its answers are added up, and why there are none."""

import errno
import os
import re
import struct
from pathlib import Path

import pytest

from ridgeline.runtime.hardware_counters import LinuxKernel, open_controllers, open_misses

DEVICES = "sys/bus/event_source/devices"


class FakeKernel:
    """Answers as perf_event_open does. refuse: error numbers of the calls, in order, 0 for none."""

    def __init__(self, answers=((100, 10, 10),) * 99, refuse=(0,) * 99) -> None:
        self.answers, self.refuse = answers, refuse
        self.opened: list[tuple[bytes, int, int]] = []
        self.closed: list[int] = []

    def open(self, attributes: bytes, thread: int, processor: int) -> int:
        number = self.refuse[len(self.opened)]
        if number:
            raise OSError(number, os.strerror(number))
        self.opened.append((attributes, thread, processor))
        return len(self.opened) - 1

    def read(self, descriptor: int) -> bytes:
        return struct.pack("=QQQ", *self.answers[descriptor])

    def close(self, descriptor: int) -> None:
        self.closed.append(descriptor)


@pytest.fixture
def root(tmp_path) -> Path:
    """A machine with a processor's counters, three threads of this process, and no memory controllers."""
    for folder in (
        *(f"proc/self/task/{thread}" for thread in (7, 8, 9)),
        f"{DEVICES}/cpu",
        "proc/sys/kernel",
    ):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text("2\n")
    return tmp_path


def controller(root: Path, number: int, **changed: str) -> None:
    """Make a memory controller as Intel's server processors show it."""
    files = {
        "type": str(10 + number), "cpumask": "0,16", "format/event": "config:0-7", "format/umask": "config:8-15",
        "events/cas_count_read": "event=0x04,umask=0x03", "events/cas_count_write": "event=0x04,umask=0x0c",
        **{f"events/cas_count_{way}.scale": "6.103515625e-5" for way in ("read", "write")},
        **{f"events/cas_count_{way}.unit": "MiB" for way in ("read", "write")},
        **changed,
    }  # fmt: skip
    for name, text in files.items():
        file = root / DEVICES / f"uncore_imc_{number}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")


def test_the_misses_of_all_threads_are_scaled_to_the_whole_time_and_added_up(root):
    """The counters of the second thread ran a quarter of the time that they were on."""
    kernel = FakeKernel(((100, 10, 10), (20, 40, 10), (3, 10, 10)))
    with open_misses(root, kernel) as counters:
        assert counters.read() == {"misses": 100.0 + 80.0 + 3.0}
    assert sorted(thread for _, thread, _ in kernel.opened) == [7, 8, 9]
    assert {processor for _, _, processor in kernel.opened} == {-1}
    kind, size, config = struct.unpack_from("=IIQ", kernel.opened[0][0])
    assert (kind, size, config, len(kernel.opened[0][0])) == (0, 64, 3, 64)
    assert sorted(kernel.closed) == [0, 1, 2]


def test_a_counter_that_never_ran_counts_nothing_and_says_so(root):
    with (
        open_misses(root, FakeKernel(((0, 40, 0),) * 3)) as counters,
        pytest.raises(OSError, match="another program uses the processor's counters"),
    ):
        counters.read()


def test_the_bytes_of_all_memory_controllers(root):
    controller(root, 0)
    controller(root, 1)
    kernel = FakeKernel(((1000, 1, 1),) * 8)
    with open_controllers(root, kernel) as counters:
        assert counters.read() == {"read": pytest.approx(4 * 64_000), "write": pytest.approx(4 * 64_000)}
    asked = [(*struct.unpack_from("=IIQ", attributes), *rest) for attributes, *rest in kernel.opened]
    assert asked[:2] == [(10, 64, 0x304, -1, 0), (10, 64, 0x304, -1, 16)]
    assert asked[-1] == (11, 64, 0xC04, -1, 16)


def check_no_controllers(root, changed, words):
    controller(root, 0, **changed)
    with pytest.raises(OSError, match=words):
        open_controllers(root, FakeKernel())


def test_controllers_that_are_not_understood_are_not_measured(root):
    with pytest.raises(
        OSError, match=r"memory controllers: .* has no device with events for reads and writes"
    ):
        open_controllers(root, FakeKernel())
    unit = "events/cas_count_read.unit"
    check_no_controllers(root, {unit: "Furlongs"}, "in 'Furlongs', which is an unknown unit")
    check_no_controllers(root, {unit: ""}, "in '', which is an unknown unit")
    check_no_controllers(root, {"format/umask": "config1:0-7"}, "umask has an unknown form")
    controller(root, 0)
    (root / DEVICES / "uncore_imc_0" / unit).unlink()
    with pytest.raises(OSError, match="in '', which is an unknown unit"):
        open_controllers(root, FakeKernel())


def test_a_refusal_says_what_the_kernel_lets_users_count(root, tmp_path):
    kernel = FakeKernel(refuse=(0, errno.EACCES))
    with pytest.raises(OSError, match="perf_event_open") as caught:
        open_misses(root, kernel)
    words = "cache misses: perf_event_open failed with EACCES (Permission denied); perf_event_paranoid is 2"
    assert str(caught.value) == words
    assert kernel.closed == [0]
    without = tmp_path / "without"
    (without / "proc/self/task/1").mkdir(parents=True)
    with pytest.raises(OSError, match="failed with ENOENT") as caught:
        open_misses(without, FakeKernel(refuse=(errno.ENOENT,)))
    assert "there is no perf_event_paranoid" in str(caught.value)
    assert "this machine shows no hardware counters of a processor" in str(caught.value)


def test_this_machine_counts_or_says_why():
    said = ""
    try:
        with open_misses() as counters:
            assert counters.read()["misses"] >= 0.0
    except OSError as problem:
        said = str(problem)
    assert not said or re.search(r"perf_event_open failed with E[A-Z]+ |another program", said)


def test_a_machine_whose_system_call_is_not_known(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "abacus")
    with pytest.raises(OSError, match="not known on abacus"):
        LinuxKernel().open(b"", 0, -1)
