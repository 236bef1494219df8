"""Threads that share a loop over pieces of work, and the time that each spends on transforms and on packing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Clock:
    """Seconds that one worker spent in transforms and in packing and unpacking."""

    __slots__ = ("fft", "pack")

    def __init__(self) -> None:
        self.fft = 0.0
        self.pack = 0.0


class Workers:
    """A fixed number of threads, the calling one among them, each with a number and a clock.

    The functions that they call must release the GIL for most of their time, as compiled kernels and transforms do.
    """

    def __init__(self, n: int) -> None:
        self.clocks = [Clock() for _ in range(n)]
        self._pool = ThreadPoolExecutor(n - 1) if n > 1 else None

    def __len__(self) -> int:
        """Number of workers."""
        return len(self.clocks)

    def run(self, pieces: Sequence[T], work: Callable[[int, T], None]) -> None:
        """Call work(worker, piece) for every piece, by the next free worker; worker 0 is this thread.

        What `work` raises is raised again when all threads have finished.
        """
        if self._pool is None or len(pieces) == 1:
            for piece in pieces:
                work(0, piece)
            return
        rest = iter(pieces)  # shared: the interpreter hands out one piece at a time

        def take(worker: int) -> None:
            for piece in rest:
                work(worker, piece)

        others = [self._pool.submit(take, worker) for worker in range(1, len(self.clocks))]
        try:
            take(0)
        finally:
            for other in others:
                other.result()

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()
