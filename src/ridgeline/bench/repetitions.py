"""Message sizes and repetitions with the defaults of the OSU micro-benchmarks (7.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ridgeline.runtime.errors import ConfigError

LARGE_MESSAGE = 8192  # bytes; longer ones are repeated less often
WINDOW = 64  # messages in flight in tests of bandwidth
MAX_SIZE = 4 * 2**20  # bytes, point to point and one-sided
MAX_COLLECTIVE_SIZE = 2**20

# (iterations, warm-up) up to LARGE_MESSAGE, and above it.
_OSU = {
    "latency": ((10_000, 100), (1_000, 10)),
    "bandwidth": ((100, 10), (20, 2)),
    "collective": ((1_000, 100), (100, 10)),
}
Family = Literal["latency", "bandwidth", "collective"]


@dataclass(frozen=True)
class Repetitions:
    """How often a message of some size is repeated. iterations, warm_up: None for OSU's numbers of the family.

    Raises ConfigError if a given number is out of range.
    """

    family: Family
    iterations: int | None = None
    warm_up: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers given."""
        if self.iterations is not None and self.iterations < 1:
            raise ConfigError(
                f"iterations = {self.iterations} is not a number of repetitions; it must be >= 1"
            )
        if self.warm_up is not None and self.warm_up < 0:
            raise ConfigError(f"warm-up = {self.warm_up} is not a number of repetitions; it must be >= 0")

    def of(self, size: int) -> tuple[int, int]:
        """Return (iterations, warm-up) of messages of `size` bytes."""
        iterations, warm_up = _OSU[self.family][size > LARGE_MESSAGE]
        return (
            iterations if self.iterations is None else self.iterations,
            warm_up if self.warm_up is None else self.warm_up,
        )


def message_sizes(smallest: int, largest: int) -> list[int]:
    """Return the sizes from smallest to largest in bytes: 0 if asked for, then powers of two in between.

    A bound that is no power of two is kept as a size of its own. Raises ConfigError if there is no size.
    """
    if smallest < 0 or largest < smallest:
        raise ConfigError(
            f"sizes from {smallest} to {largest} B: the first must be >= 0, the last not below it"
        )
    powers = {2**k for k in range(largest.bit_length()) if smallest <= 2**k <= largest}
    return sorted(powers | {smallest, largest})
