"""Numba's threads of this process, as many as its compiled loops shall use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba

from ridgeline.runtime.errors import ConfigError


def check_threads(n_threads: int, what: str) -> None:
    """Raise ConfigError unless Numba was started with at least n_threads threads. what: the message's first words."""
    available = int(numba.config.NUMBA_NUM_THREADS)
    if not 1 <= n_threads <= available:
        raise ConfigError(
            f"{what}: Numba was started with {available}, so 1 to {available} are possible; set NUMBA_NUM_THREADS "
            f"before the program starts"
        )


@contextmanager
def numba_threads(n_threads: int) -> Iterator[None]:
    """Let compiled loops use n_threads threads inside the block."""
    before = numba.get_num_threads()
    numba.set_num_threads(n_threads)
    try:
        yield
    finally:
        numba.set_num_threads(before)
