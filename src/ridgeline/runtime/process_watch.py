"""Noticing that another process of this machine has ended: a thread that sleeps until the kernel says so."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ridgeline.runtime.signals import hold_stop_signals


def process_space() -> str:
    """Return where the number of a process means this process: a machine since its start, a container; "" if unknown.

    Two ranks of one node may be in containers that count processes each for itself.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


class ProcessWatch:
    """A thread that calls a function once, with the number of the first process that ends. It costs no time.

    Processes of other users, containers and hosts cannot be watched; kernels before Linux 5.3 watch none.
    """

    def __init__(self, processes: Iterable[int], ended: Callable[[int], None]) -> None:
        """Watch processes by their numbers. One that has ended already counts as one that ends now."""
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
        """Watch no longer; `ended` is not called from now on."""
        with suppress(OSError):
            os.close(self._closed)

    def _wait(self) -> None:
        hold_stop_signals()  # in this thread: they are for the one that computes
        poll = select.poll()
        for descriptor in (self._wake, *self._process_of):
            poll.register(descriptor, select.POLLIN | select.POLLHUP)
        found = [descriptor for descriptor, _ in poll.poll()]
        if self._wake not in found:
            self._ended(self._process_of[found[0]])
