"""Predictions from a machine file: the nodes that a job gets, the parts of a step with their seconds, and their sums.

A figure that the machine file lacks is never guessed: the part that needs it has no seconds, and the prediction is a
lower bound that names the figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ridgeline.config.machine_file import MachineFile, Quantity
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.node_load import MOST_OTHERS

Kind = Literal["node", "network"]


class MissingMetric(Exception):
    """A prediction needs a figure that the machine file does not have. key: "network.injection"."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True)
class Allocation:
    """Nodes of a machine with equally many ranks each. Ranks compute on devices where the machine has some."""

    machine: MachineFile
    nodes: int
    ranks_per_node: int

    @classmethod
    def of(cls, machine: MachineFile, nodes: int, ranks_per_node: int | None = None) -> Allocation:
        """Return an allocation, by default with the machine file's ranks of a node, its devices of a node, or one.

        Raises ConfigError for fewer than one node or rank, or more nodes than the machine has.
        """
        there = machine.machine.nodes
        if nodes < 1:
            most = f"1 to {there.value:g}" if there else "at least 1"
            raise ConfigError(f"the number of nodes is {nodes}, but it must be {most}.")
        if there is not None and nodes > there.value:
            described = f"{there.value:g} node{'s' * (there.value != 1)}"
            raise ConfigError(
                f"the number of nodes is {nodes}, but the machine file of {machine.machine.name} describes "
                f"{described}. Use at most {described}, or a machine file that was measured on more."
            )
        if ranks_per_node is None:
            known = machine.node.ranks or machine.device.count
            ranks_per_node = int(known.value) if known else 1
        if ranks_per_node < 1:
            raise ConfigError(f"--ranks-per-node is {ranks_per_node}, but it must be at least 1.")
        return cls(machine, nodes, ranks_per_node)

    @property
    def ranks(self) -> int:
        """Ranks on all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def on_devices(self) -> bool:
        """Whether ranks compute on devices."""
        return self.machine.device.count is not None

    def figure(self, key: str) -> float:
        """Return a figure by its key, "section.name", in SI units. Raises MissingMetric."""
        found = self.find(key)
        if found is None:
            raise MissingMetric(key)
        return found

    def find(self, key: str) -> float | None:
        """Return a figure by its key, None if the machine file does not have it."""
        section, _, name = key.partition(".")
        quantity: Quantity | None = getattr(getattr(self.machine, section), name, None)
        return None if quantity is None else quantity.value

    def of_rank(self, name: str) -> float:
        """Return a rank's share of "memory", "memory_bandwidth" or "peak" of its node's devices, or of its node.

        Raises MissingMetric.
        """
        if self.on_devices:
            return self.figure(f"device.{name}") * self.figure("device.count") / self.ranks_per_node
        return self.figure(f"node.{name}") / self.ranks_per_node

    def bandwidth(self, working_set: float = math.inf) -> float:
        """Return a rank's bandwidth in B/s: of its memory, or of caches that hold `working_set` bytes of each rank.

        Raises MissingMetric.
        """
        if not self.on_devices:
            fits = [
                level.bandwidth.value
                for level in self.machine.cache
                if level.capacity.value >= working_set * self.ranks_per_node
            ]
            if fits:
                return max(fits) / self.ranks_per_node
        return self.of_rank("memory_bandwidth")


def between(places: Sequence[float], values: Sequence[float], place: float) -> float:
    """Interpolate at `place` > 0, linearly in its logarithm; beyond the known places, return the nearest value."""
    order = np.argsort(places)
    known = np.log(np.asarray(places, float)[order])
    return float(np.interp(math.log(place), known, np.asarray(values, float)[order]))


@dataclass(frozen=True)
class Part:
    """Seconds of one part of a step on one rank. kind: whether its time varies with nodes or with the network.

    seconds is None where the machine file lacks the figure `lacks`.
    """

    name: str
    kind: Kind
    seconds: float | None
    lacks: str = ""

    @classmethod
    def of(cls, name: str, kind: Kind, seconds: Callable[[], float]) -> Part:
        """Return a part with the result of seconds(), or with the figure that it lacks."""
        try:
            return cls(name, kind, seconds())
        except MissingMetric as absent:
            return cls(name, kind, None, absent.key)


def exchange_kind(place: Allocation) -> Kind:
    """Return what the time of an exchange of all ranks varies with: one node, or the network between several."""
    return "node" if place.nodes == 1 else "network"


def traffic(
    place: Allocation, volume: float, share: str, flops: float = 0.0, working_set: float = math.inf
) -> float:
    """Return the seconds of a rank that moves `volume` bytes and does `flops` operations: the larger of both times.

    share: key of the share of the bandwidth that the code reaches; without that figure it is 1 (see `optimistic`).
    Raises MissingMetric.
    """
    seconds = volume / (place.bandwidth(working_set) * (place.find(share) or 1.0))
    peak = place.find("device.peak" if place.on_devices else "node.peak")
    return seconds if peak is None or flops == 0 else max(seconds, flops / place.of_rank("peak"))


def optimistic(place: Allocation, share: str) -> tuple[str, ...]:
    """Return the bound that follows from a share that the machine file does not have."""
    if place.find(share) is not None:
        return ()
    return (f"the full bandwidth is assumed: the machine file has no {share}",)


def busy_machine(name: str, share: float) -> str:
    """Return the sentence about a machine file whose figures were measured while others used the node."""
    return (
        f"The file of {name} was measured while other processes used {share:.0%} of the busiest node. The machine "
        "may be faster than predicted."
    )


@dataclass(frozen=True)
class Prediction:
    """What a case needs on an allocation, in bytes and seconds, for one step or one iteration of a benchmark."""

    case: str
    place: Allocation
    parts: tuple[Part, ...]
    steps: int = 1
    memory_per_rank: float | None = None
    output_bytes: float = 0.0
    flops: float = 0.0  # of a step, on all ranks
    process_grid: tuple[int, ...] = ()
    # Sentences that say why the time is a lower bound although all parts are predicted.
    bounds: tuple[str, ...] = ()
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
        """The parts that could not be predicted, with the figure that each lacks."""
        return {part.name: part.lacks for part in self.parts if part.seconds is None}

    @property
    def is_bound(self) -> bool:
        """Whether the time is only a lower bound."""
        return bool(self.lacks or self.bounds)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Seconds between which 80 % of steps are expected; None for a lower bound, or if a spread is not known.

        The spreads of computation, of exchanges, and of the model add up in squares.
        """
        rows = self.place.machine.network_variability
        network = None
        if rows:
            nodes, spreads_there = [row.nodes.value for row in rows], [row.spread.value for row in rows]
            network = between(nodes, spreads_there, self.place.nodes)
        spreads = {"node": self.place.find("variability.node"), "network": network}
        sums = {
            kind: math.fsum(part.seconds or 0.0 for part in self.parts if part.kind == kind)
            for kind in spreads
        }
        if self.is_bound or any(sums[kind] > 0 and spreads[kind] is None for kind in sums):
            return None
        widths = [sums[kind] * (spreads[kind] or 0.0) for kind in sums]
        width = math.hypot(*widths, self.least_seconds * (self.place.find("variability.model") or 0.0))
        return self.least_seconds - width, self.least_seconds + width

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes on the case, and the one on a machine that others used while it was measured."""
        others = self.place.machine.machine.others_share
        if others is None or others.value <= MOST_OTHERS:
            return self.notes
        return (*self.notes, busy_machine(self.place.machine.machine.name, others.value))

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
            "notes": list(self.all_notes),
        }
