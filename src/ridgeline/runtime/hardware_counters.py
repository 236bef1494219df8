"""Memory traffic as the hardware counts it, where the kernel lets this user read it: `perf_event_open`.

- The counters of the memory controllers (uncore), of reads and writes of a whole node. They are opened by the names
  that the kernel gives them, with the kernel's events, units and scales. They need perf_event_paranoid <= 0 or the
  capability CAP_PERFMON. This is the measured traffic of Godoy et al., SC-W 2023, Eq. 5b.
- Otherwise the cache misses of this process and its threads, as the maker of the processor defines them. They are
  reported as misses, not as traffic, because prefetched lines and writes may be missing in them.

Where neither is available, an OSError says why. Nothing is estimated, and nothing here communicates.
Source: perf_event_open(2); linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ridgeline.runtime.node_topology import parse_cpu_list

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_HARDWARE, _CACHE_MISSES = 0, 3  # PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES
_DEVICES = "sys/bus/event_source/devices"
_ATTRIBUTE_BYTES = 64  # of the first version of perf_event_attr, which every kernel accepts
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_TIMES = 0b11  # read_format: the time that a counter was enabled and that it ran
_ANSWER = struct.Struct("=QQQ")
# The devices and events of Intel's server and desktop processors.
_CONTROLLERS = (
    ("uncore_imc_[0-9]*", {"read": "cas_count_read", "write": "cas_count_write"}),
    ("uncore_imc_free_running*", {"read": "data_read", "write": "data_write"}),
    ("uncore_imc", {"read": "data_reads", "write": "data_writes"}),
)
_UNITS = {"MiB": 2.0**20, "KiB": 2.0**10, "Bytes": 1.0, "64Bytes": 64.0}


class Kernel(Protocol):
    """The calls to the operating system: open a counter, read it and close it."""

    def open(self, attributes: bytes, thread: int, processor: int) -> int:
        """Call perf_event_open. Raises OSError."""

    def read(self, descriptor: int) -> bytes:
        """Return value, time enabled, time running, 8 bytes each. Raises OSError."""

    def close(self, descriptor: int) -> None:
        """Close the counter."""


class LinuxKernel:
    """The kernel that this process runs on."""

    def open(self, attributes: bytes, thread: int, processor: int) -> int:
        """Call perf_event_open for a thread on any processor, or with thread -1 for all threads on one processor."""
        number = _SYSCALLS.get(platform.machine())
        if number is None:
            raise OSError(
                errno.ENOSYS, f"the number of this system call is not known on {platform.machine()}"
            )
        call = ctypes.CDLL(None, use_errno=True).syscall
        no_group, no_flags = ctypes.c_int(-1), ctypes.c_ulong(0)
        where = ctypes.c_int(thread), ctypes.c_int(processor)
        descriptor = call(ctypes.c_long(number), attributes, where[0], where[1], no_group, no_flags)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return int(descriptor)

    def read(self, descriptor: int) -> bytes:
        return os.read(descriptor, _ANSWER.size)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)


@dataclass(frozen=True)
class _Event:
    """An event. name: in `HardwareCounters.read`. kind, config: the kernel's numbers. scale: of one count."""

    name: str
    kind: int
    config: int
    scale: float
    flags: int

    def attributes(self) -> bytes:
        """Return perf_event_attr: type, size, config, period, sample_type, read_format, flags, zeros."""
        return struct.pack(
            "=IIQQQQQ", self.kind, _ATTRIBUTE_BYTES, self.config, 0, 0, _TIMES, self.flags
        ).ljust(_ATTRIBUTE_BYTES, b"\0")


@dataclass(frozen=True)
class _Counter:
    """An open counter. name: "read", "write" or "misses". scale: bytes, or misses, of one count."""

    name: str
    descriptor: int
    scale: float


class HardwareCounters:
    """Open counters, which count from the moment that they are opened. A context manager that closes them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._counters: list[_Counter] = []

    def __enter__(self) -> HardwareCounters:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def add(self, event: _Event, thread: int, processor: int) -> None:
        """Open a counter of an event. Raises OSError."""
        descriptor = self._kernel.open(event.attributes(), thread, processor)
        self._counters.append(_Counter(event.name, descriptor, event.scale))

    def read(self) -> dict[str, float]:
        """Return the counts by name. Raises OSError if one cannot be read, or if it never ran.

        If the processor has fewer counters than were opened, each runs for a part of the time. Its count is then
        scaled to the whole time, as perf does.
        """
        counts: dict[str, float] = {}
        for counter in self._counters:
            answer = self._kernel.read(counter.descriptor)
            if len(answer) != _ANSWER.size:
                raise OSError(f"a counter returned {len(answer)} bytes instead of {_ANSWER.size}")
            value, enabled, running = _ANSWER.unpack(answer)
            if enabled and not running:
                raise OSError("another program uses the processor's counters")
            share = running / enabled if enabled else 1.0
            counts[counter.name] = counts.get(counter.name, 0.0) + counter.scale * value / share
        return counts

    def close(self) -> None:
        """Close all counters."""
        while self._counters:
            self._kernel.close(self._counters.pop().descriptor)


def open_misses(root: Path = Path("/"), kernel: Kernel | None = None) -> HardwareCounters:
    """Return counters of the cache misses ("misses") of the threads of this process and of those that they start.

    Raises OSError with one line that says why there are none.
    """
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    event = _Event("misses", _HARDWARE, _CACHE_MISSES, 1.0, flags)
    threads = [int(path.name) for path in (root / "proc/self/task").iterdir()]
    return _open("cache misses", [(event, thread, -1) for thread in threads], root, kernel)


def open_controllers(root: Path = Path("/"), kernel: Kernel | None = None) -> HardwareCounters:
    """Return counters of the bytes that all memory controllers of this node "read" and "write".

    Raises OSError with one line that says why there are none.
    """
    events: list[tuple[_Event, int, int]] = []
    for pattern, names in _CONTROLLERS:
        for device in sorted((root / _DEVICES).glob(pattern)):
            if all((device / "events" / event).exists() for event in names.values()):
                processors = parse_cpu_list((device / "cpumask").read_text())
                for name, event in names.items():
                    events += [(_named_event(device, name, event), -1, processor) for processor in processors]
        if events:
            break
    if not events:
        raise OSError(f"memory controllers: {root / _DEVICES} has no device with events for reads and writes")
    return _open("memory controllers", events, root, kernel)


def _open(
    what: str, events: Sequence[tuple[_Event, int, int]], root: Path, kernel: Kernel | None
) -> HardwareCounters:
    counters = HardwareCounters(kernel or LinuxKernel())
    try:
        for event, thread, processor in events:
            counters.add(event, thread, processor)
    except OSError as problem:
        counters.close()
        raise OSError(_reason(what, problem, root)) from None
    return counters


def _reason(what: str, problem: OSError, root: Path) -> str:
    """Return in one line the kernel's error, what it lets users count, and whether it has any counter."""
    name = errno.errorcode.get(problem.errno or 0, "no number")
    words = f"{what}: perf_event_open failed with {name} ({problem.strerror or problem})"
    try:
        words += (
            f"; perf_event_paranoid is {(root / 'proc/sys/kernel/perf_event_paranoid').read_text().strip()}"
        )
    except OSError:
        words += "; there is no perf_event_paranoid"
    devices = root / _DEVICES
    if not any((devices / cpu).exists() for cpu in ("cpu", "cpu_core", "armv8_pmuv3_0")):
        words += "; this machine shows no hardware counters of a processor"
    return words


def _named_event(device: Path, name: str, event: str) -> _Event:
    """Return an event as the kernel describes it. Raises OSError if the description is not understood."""
    kind = (device / "type").read_text().strip()
    config = 0
    for term in (device / "events" / event).read_text().strip().split(","):
        key, _, value = term.partition("=")
        layout = re.fullmatch(r"config:(\d+)(?:-(\d+))?", (device / "format" / key).read_text().strip())
        if layout is None:
            raise OSError(f"memory controllers: {device / 'format' / key} has an unknown form")
        config |= int(value or "1", 0) << int(layout[1])
    scale = float(_optional(device / "events" / f"{event}.scale", "1"))
    unit = _optional(device / "events" / f"{event}.unit", "")
    if unit not in _UNITS:
        raise OSError(f"memory controllers: {device} counts {event} in {unit!r}, which is an unknown unit")
    return _Event(name, int(kind), config, scale * _UNITS[unit], 0)


def _optional(file: Path, otherwise: str) -> str:
    return file.read_text().strip() if file.exists() else otherwise
