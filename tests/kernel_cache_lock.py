"""Processes that test at the same time and keep compiled kernels in one cache.

Numba numbers the data files of a function's kernels: it reads the index, takes the next free number, and writes both.
Two processes that save two kernels of one function at once would give both the same number, and one would load the
other's kernel ever after. Here they take turns.
"""

import fcntl
import functools
from collections.abc import Callable
from pathlib import Path


def lock_kernel_cache(folder: Path) -> None:
    """Let the processes that call this save and load kernels below `folder` one after the other. Imports Numba."""
    from numba.core.caching import IndexDataCacheFile

    path = folder / "tests.lock"

    def in_turn(method: Callable) -> Callable:
        @functools.wraps(method)
        def locked(*arguments):
            with path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed
                return method(*arguments)

        return locked

    IndexDataCacheFile.save = in_turn(IndexDataCacheFile.save)
    IndexDataCacheFile.load = in_turn(IndexDataCacheFile.load)
