"""Wall-clock timers of named phases."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Timers:
    """Seconds spent in named phases on this rank. A phase may be entered any number of times, not nested."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent in the `with` block to `name`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - start

    def reset(self) -> None:
        """Forget all phases; timing starts again from zero."""
        self.seconds.clear()
