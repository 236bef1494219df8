"""The threads of a rank that share the tiles of an update, while the first of them does what cannot be shared.

Threads are Python's. Each calls compiled code that runs without the interpreter's lock, for milliseconds or more at a
time. Only the first thread communicates: it factors the next panel while the others begin with the tiles, and joins
them afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from math import inf
from threading import Condition
from types import TracebackType
from typing import NamedTuple

from ridgeline.runtime.blas import blas_threads

Tile = tuple[int, int]  # first column, and the one after the last


class _Task(NamedTuple):
    """A tile and what is done to it. number: how many tiles were submitted up to this one."""

    number: int
    action: Callable[[int, int], None]
    start: int
    stop: int

    def overlaps(self, start: float, stop: float) -> bool:
        """Return whether the tile has any of these columns."""
        return self.start < stop and start < self.stop


class TileTeam:
    """A context manager with n_threads threads, the caller being one of them, which call a BLAS of one thread each.

    Tiles are processed in the order in which they are submitted. A tile that has columns of an earlier one waits for
    it. The tiles of the next panel may therefore be submitted before all of this panel's are done, and no thread is
    idle in between.
    """

    def __init__(self, n_threads: int) -> None:
        self._pool = ThreadPoolExecutor(n_threads - 1, "hpl") if n_threads > 1 else None
        self._blas: AbstractContextManager[None] = blas_threads(1)
        self.n_threads = n_threads
        self._others: list[Future[None]] = []
        # Guards the tiles that are left, in order, and those that have begun.
        self._changed = Condition()
        self._left: deque[_Task] = deque()
        self._begun: list[_Task] = []
        self._submitted = 0

    def __enter__(self) -> TileTeam:
        self._blas.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.clear()
        if self._pool is not None:
            self._pool.shutdown()
        self._blas.__exit__(kind, error, trace)

    def start(self, action: Callable[[int, int], None], tiles: Iterable[Tile]) -> int:
        """Submit tiles to the other threads, after those that are left. Return how many were submitted so far.

        Which thread processes which tile is left to chance, but the result is not. Raises what another thread has
        raised in the meantime.
        """
        for other in [future for future in self._others if future.done()]:
            other.result()
            self._others.remove(other)
        with self._changed:
            tasks = [_Task(number, action, *tile) for number, tile in enumerate(tiles, self._submitted + 1)]
            self._left.extend(tasks)
            self._submitted += len(tasks)
        if self._pool is not None:
            self._others += [self._pool.submit(self.join) for _ in range(self.n_threads - 1)]
        return self._submitted

    def join(self, submitted: float = inf, poll: Callable[[], object] | None = None) -> None:
        """Process tiles until none of the first `submitted` is left to begin. Call `poll` after each."""
        while (task := self._take(submitted)) is not None:
            try:
                self.wait(task.number - 1, task.start, task.stop)
                task.action(task.start, task.stop)
            finally:
                with self._changed:
                    self._begun.remove(task)
                    self._changed.notify_all()
            if poll is not None:
                poll()

    def wait(self, submitted: float = inf, start: float = 0, stop: float = inf) -> None:
        """Wait for those of the first `submitted` tiles, all begun, that have columns start ... stop - 1."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    not any(task.number <= submitted and task.overlaps(start, stop) for task in self._begun)
                )
            )

    def finish(self, poll: Callable[[], object] | None = None) -> None:
        """Process tiles until all are done; call `poll` between tiles. Raises what another thread has raised."""
        self.join(poll=poll)
        for other in self._others:
            other.result()
        self._others = []

    def _take(self, submitted: float) -> _Task | None:
        """Return the next of the first `submitted` tiles, None if none is left."""
        with self._changed:
            if not self._left or self._left[0].number > submitted:
                return None
            task = self._left.popleft()
            self._begun.append(task)
            return task


def tiles(start: int, stop: int, n_threads: int, widest: int, narrowest: int) -> list[Tile]:
    """Cut columns start ... stop - 1 into tiles: wide ones first, narrow ones last, so that threads end together.

    The width of a tile is two thirds of a thread's even share of the remaining columns, within limits. A product
    packs its left factor once for each tile, so that fewer tiles cost less.
    """
    cut = []
    while start < stop:
        share = -(-2 * (stop - start) // (3 * n_threads)) if n_threads > 1 else stop - start
        width = min(max(share, narrowest), widest, stop - start)
        cut.append((start, start + width))
        start += width
    return cut
