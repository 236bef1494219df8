"""Noticing that another process of this machine has ended, by a thread that sleeps until the kernel reports it."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ridgeline.runtime.signals import hold_stop_signals


def process_space() -> str:
    """Identify the space in which process numbers are unique: a boot of a machine, a container; "" if unknown.

    Two ranks of one node may be in containers that number their processes separately.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


class ProcessWatch:
    """A thread that calls a function once, with the number of the first process that ends. It costs no time.

    Processes of other users, containers and hosts cannot be watched, nor any process with kernels before Linux 5.3.
    """

    def __init__(self, processes: Iterable[int], ended: Callable[[int], None]) -> None:
        """Watch processes by their numbers. A process that has ended already counts as one that ends now."""
        self._ended = ended
        self._process_of: dict[int, int] = {}
        gone = None
        for number in processes:
            try:
                self._process_of[os.pidfd_open(number)] = number
            except ProcessLookupError:
                gone = number
            except (AttributeError, OSError):
                continue
        self._wake, self._closed = os.pipe()
        if gone is not None:
            ended(gone)
        elif self._process_of:
            threading.Thread(target=self._wait, name="process watch", daemon=True).start()

    def close(self) -> None:
        """Stop watching; `ended` is not called from now on."""
        with suppress(OSError):
            os.close(self._closed)

    def _wait(self) -> None:
        hold_stop_signals()  # in this thread, because they are for the thread that computes
        poll = select.poll()
        for descriptor in (self._wake, *self._process_of):
            poll.register(descriptor, select.POLLIN | select.POLLHUP)
        ready = [descriptor for descriptor, _ in poll.poll()]
        if self._wake not in ready:
            self._ended(self._process_of[ready[0]])
