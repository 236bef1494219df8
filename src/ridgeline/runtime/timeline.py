"""When parts of a program were at work, on the host and on streams of a device, while somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

HOST = "host"


class Piece(NamedTuple):
    """A piece of work: its name, its lane (HOST, or that of a stream), its begin and end by `time.perf_counter`."""

    name: str
    lane: str
    begin: float
    end: float


class Timeline:
    """Pieces of work of one rank, as they are noted.

    host: what `Regions` notes; sources: functions that return pieces of other lanes, and may wait for a device. Who
    works on a device adds one when first asked to work while there is a timeline.
    """

    def __init__(self) -> None:
        self.host: list[Piece] = []
        self.sources: list[Callable[[], Iterable[Piece]]] = []

    def pieces(self) -> list[Piece]:
        """Return all pieces, by their begin; waits for devices."""
        found = [*self.host, *(piece for source in self.sources for piece in source())]
        return sorted(found, key=lambda piece: (piece.begin, -piece.end))


def trace_events(pieces: Iterable[Piece], rank: int, origin: float) -> list[dict[str, Any]]:
    """Return pieces as complete events of Chrome's trace format, in microseconds since `origin`.

    A process of the trace is a rank, a thread of it a stream or the host.
    """
    return [
        {
            "name": piece.name,
            "ph": "X",
            "pid": rank,
            "tid": piece.lane,
            "ts": 1e6 * (piece.begin - origin),
            "dur": 1e6 * (piece.end - piece.begin),
        }
        for piece in pieces
    ]


def hidden_share(pieces: Sequence[Piece], names: Sequence[str], behind: str) -> float:
    """Return the share of the time of pieces of some names during which a piece of the lane `behind` was under way.

    1: all of it is hidden, 0: nothing, or there is nothing to hide.
    """
    cover = [piece for piece in pieces if piece.lane == behind]
    asked = [piece for piece in pieces if piece.name in names]
    whole = sum(piece.end - piece.begin for piece in asked)
    both = sum(max(0.0, min(a.end, b.end) - max(a.begin, b.begin)) for a in asked for b in cover)
    return both / whole if whole else 0.0
