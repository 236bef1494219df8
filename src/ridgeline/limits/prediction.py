"""A prediction: the parts of a step with their seconds, what follows from them, and what could not be predicted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ridgeline.limits.allocation import Allocation, MissingMetric, between

Kind = Literal["node", "network"]


@dataclass(frozen=True)
class Part:
    """Seconds of one part of a step, of one rank. kind: whether nodes or the network make it vary.

    seconds is None where the machine file lacks the figure `lacks`.
    """

    name: str
    kind: Kind
    seconds: float | None
    lacks: str = ""

    @classmethod
    def of(cls, name: str, kind: Kind, seconds: Callable[[], float]) -> Part:
        """Return a part whose seconds are computed, or say which figure they lack."""
        try:
            return cls(name, kind, seconds())
        except MissingMetric as absent:
            return cls(name, kind, None, absent.key)


def exchange_kind(place: Allocation) -> Kind:
    """Return what makes an exchange of all ranks vary: one node, or the network between several."""
    return "node" if place.nodes == 1 else "network"


def traffic(
    place: Allocation, volume: float, share: str, flops: float = 0.0, working_set: float = math.inf
) -> float:
    """Return the seconds of a rank that moves `volume` bytes and does `flops` operations: the larger of both times.

    share: key of the share of the bandwidth that the code reaches; 1 without one (see `optimistic`).
    Raises FigureAbsent.
    """
    seconds = volume / (place.bandwidth(working_set) * (place.find(share) or 1.0))
    peak = place.find("device.peak" if place.on_devices else "node.peak")
    return seconds if peak is None or flops == 0 else max(seconds, flops / place.of_rank("peak"))


def optimistic(place: Allocation, share: str) -> tuple[str, ...]:
    """Return the bound that follows from a share that the machine file does not have."""
    if place.find(share) is not None:
        return ()
    return (f"the full bandwidth is taken: the machine file has no {share}",)


@dataclass(frozen=True)
class Prediction:
    """What a case needs and takes on an allocation. Bytes, seconds; of one step, or one iteration of a benchmark."""

    case: str
    place: Allocation
    parts: tuple[Part, ...]
    steps: int = 1
    memory_per_rank: float | None = None
    output_bytes: float = 0.0
    flops: float = 0.0  # of a step, on all ranks
    process_grid: tuple[int, ...] = ()
    bounds: tuple[
        str, ...
    ] = ()  # why the time is a lower bound although all parts are predicted, a sentence each
    notes: tuple[str, ...] = ()

    @property
    def least_seconds(self) -> float:
        """Seconds that a step takes at least: the sum of the parts that could be predicted."""
        return math.fsum(part.seconds or 0.0 for part in self.parts)

    @property
    def seconds(self) -> float | None:
        """Seconds of a step; None where a part could not be predicted."""
        return None if self.lacks else self.least_seconds

    @property
    def lacks(self) -> dict[str, str]:
        """Which parts could not be predicted, and the figure each lacks."""
        return {part.name: part.lacks for part in self.parts if part.seconds is None}

    @property
    def is_bound(self) -> bool:
        """Whether the step takes this time at least, and nobody says how much more."""
        return bool(self.lacks or self.bounds)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Seconds between which 80 % of steps are expected; None of a lower bound, or where a spread is not known.

        The spreads of computation, of exchanges, and of the model add up in squares.
        """
        spreads = {"node": self.place.find("variability.node"), "network": self._network_spread()}
        sums = {
            kind: math.fsum(part.seconds or 0.0 for part in self.parts if part.kind == kind)
            for kind in spreads
        }
        if self.is_bound or any(sums[kind] > 0 and spreads[kind] is None for kind in sums):
            return None
        widths = [sums[kind] * (spreads[kind] or 0.0) for kind in sums]
        width = math.hypot(*widths, self.least_seconds * (self.place.find("variability.model") or 0.0))
        return self.least_seconds - width, self.least_seconds + width

    def _network_spread(self) -> float | None:
        rows = self.place.machine.network_variability
        if not rows:
            return None
        return between(
            [row.nodes.value for row in rows], [row.spread.value for row in rows], self.place.nodes
        )

    @property
    def memory_of_rank(self) -> float | None:
        """Bytes that a rank has, None if the machine file does not say."""
        try:
            return self.place.of_rank("memory")
        except MissingMetric:
            return None

    @property
    def output_seconds(self) -> float | None:
        """Seconds of all outputs, None if the machine file does not say how fast it writes."""
        if self.output_bytes == 0:
            return 0.0
        whole, one = self.place.find("storage.write"), self.place.find("storage.write_node")
        rates = [rate for rate in (whole, one and one * self.place.nodes) if rate]
        return self.output_bytes / min(rates) if rates else None

    @property
    def least_node_hours(self) -> float:
        """Node hours that all steps and outputs take at least."""
        return self.place.nodes * (self.steps * self.least_seconds + (self.output_seconds or 0.0)) / 3600

    @property
    def node_hours(self) -> float | None:
        """Node hours of all steps and outputs; None where a part or the outputs could not be predicted."""
        return None if self.lacks or self.output_seconds is None else self.least_node_hours

    def to_dict(self) -> dict[str, Any]:
        """Return everything for JSON, in SI units."""
        return {
            "case": self.case,
            "machine": self.place.machine.machine.name,
            "nodes": self.place.nodes,
            "ranks_per_node": self.place.ranks_per_node,
            "process_grid": list(self.process_grid),
            "seconds": self.seconds,
            "least_seconds": self.least_seconds,
            "interval": self.interval,
            "parts": {part.name: part.seconds for part in self.parts},
            "lacks": self.lacks,
            "bounds": list(self.bounds),
            "steps": self.steps,
            "flops": self.flops,
            "memory_per_rank": self.memory_per_rank,
            "memory_of_rank": self.memory_of_rank,
            "output_bytes": self.output_bytes,
            "output_seconds": self.output_seconds,
            "node_hours": self.node_hours,
            "least_node_hours": self.least_node_hours,
            "notes": list(self.notes),
        }
