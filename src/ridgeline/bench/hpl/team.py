"""The threads of a rank that share the tiles of an update, while the first of them does what cannot be shared.

Threads are Python's. Each calls compiled code that runs without the interpreter's lock, for milliseconds or more at a
time. The first thread alone communicates: it factors the next panel while the others begin with the tiles, and joins
them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

Tile = tuple[int, int]  # first column, and the one after the last


class TileTeam:
    """n_threads threads, the caller being one of them. A context manager."""

    def __init__(self, n_threads: int) -> None:
        self._pool = ThreadPoolExecutor(n_threads - 1, "hpl") if n_threads > 1 else None
        self.n_threads, self._n_others = n_threads, n_threads - 1
        self._others: list[Future[None]] = []
        self._left: Iterator[Tile] = iter(())

    def __enter__(self) -> TileTeam:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._left = iter(())
            self._pool.shutdown()

    def start(self, action: Callable[[int, int], None], tiles: Iterable[Tile]) -> None:
        """Let the other threads begin with the tiles. Who takes which is left to chance, the result is not."""
        self._action, self._left = action, iter(list(tiles))
        if self._pool is not None:
            self._others = [self._pool.submit(self._work) for _ in range(self._n_others)]

    def finish(self, poll: Callable[[], object] | None = None) -> None:
        """Join the others until all tiles are done; call `poll` between tiles."""
        self._work(poll)
        for other in self._others:
            other.result()
        self._others = []

    def _work(self, poll: Callable[[], object] | None = None) -> None:
        left, action = self._left, self._action
        for start, stop in left:  # a list's iterator gives each item once, whoever asks
            action(start, stop)
            if poll is not None:
                poll()


def tiles(start: int, stop: int, n_threads: int, widest: int, narrowest: int) -> list[Tile]:
    """Cut columns start ... stop - 1 into tiles: wide ones first, narrow ones last, so that threads end together.

    Each tile is two thirds of a thread's even share of what is left, within limits. A product packs its left factor
    once a tile, so that few tiles cost less.
    """
    found = []
    while start < stop:
        share = -(-2 * (stop - start) // (3 * n_threads)) if n_threads > 1 else stop - start
        width = min(max(share, narrowest), widest, stop - start)
        found.append((start, start + width))
        start += width
    return found
