"""What each output and each checkpoint of a run cost: bytes, seconds and B/s, in bounded memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MOST_ROWS = 256  # writes of one kind that have a row of their own


@dataclass(frozen=True)
class Write:
    """One output or checkpoint. step: that it holds; bytes: before compression, of all ranks;
    seconds: of the slowest rank.

    The seconds are those of the whole call: the computation of the fields that are written is part of it.
    """

    step: int
    bytes: int
    seconds: float

    @property
    def rate(self) -> float:
        """Return B/s."""
        return self.bytes / self.seconds if self.seconds else 0.0


class WriteLog:
    """The writes of one kind. All are counted; beyond MOST_ROWS every second one, then every fourth, ... is kept."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.seconds = 0.0
        self.every = 1  # a row is kept for each so many writes
        self.rows: list[Write] = []
        self._slowest: Write | None = None
        self._fastest: Write | None = None

    def record(self, write: Write) -> None:
        """Count a write."""
        if self._slowest is None or write.rate < self._slowest.rate:
            self._slowest = write
        if self._fastest is None or write.rate > self._fastest.rate:
            self._fastest = write
        if self.count % self.every == 0:
            self.rows.append(write)
        if len(self.rows) > MOST_ROWS:
            self.rows, self.every = self.rows[::2], 2 * self.every
        self.count += 1
        self.bytes += write.bytes
        self.seconds += write.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return the part of a report: totals, the slowest and the fastest write by B/s, and the rows."""
        return {
            "count": self.count,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "bytes_per_second": self.bytes / self.seconds if self.seconds else 0.0,
            "slowest": _row(self._slowest),
            "fastest": _row(self._fastest),
            "rows_every": self.every,
            "rows": [_row(write) for write in self.rows],
        }


def _row(write: Write | None) -> dict[str, Any] | None:
    return None if write is None else {**asdict(write), "bytes_per_second": write.rate}
