"""The nodes and ranks that a job gets on a machine, and what one rank has of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ridgeline.config.machine_file import MachineFile, Quantity
from ridgeline.runtime.errors import ConfigError


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
        """Return an allocation; without ranks_per_node the machine file's, else its devices, else one.

        Raises ConfigError for fewer than one node or rank, or more nodes than the machine has.
        """
        there = machine.machine.nodes
        if nodes < 1 or (there is not None and nodes > there.value):
            most = f"1 to {there.value:g} nodes of {machine.machine.name}" if there else "at least 1 node"
            raise ConfigError(f"{nodes} nodes: need {most}")
        if ranks_per_node is None:
            known = machine.node.ranks or machine.device.count
            ranks_per_node = int(known.value) if known else 1
        if ranks_per_node < 1:
            raise ConfigError(f"--ranks-per-node {ranks_per_node}: need at least 1")
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
        """Return a figure by its key, "section.name", in SI units. Raises FigureAbsent."""
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
        """Return a rank's part of "memory", "memory_bandwidth" or "peak" of its node's devices, or of its node.

        Raises FigureAbsent.
        """
        if self.on_devices:
            return self.figure(f"device.{name}") * self.figure("device.count") / self.ranks_per_node
        return self.figure(f"node.{name}") / self.ranks_per_node

    def bandwidth(self, working_set: float = math.inf) -> float:
        """Return a rank's bandwidth in B/s: of its memory, or of the caches that hold working_set bytes a rank.

        Raises FigureAbsent.
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
    """Return the value at `place` > 0, linear in its logarithm between known places; beyond them, the nearest."""
    order = np.argsort(places)
    known = np.log(np.asarray(places, float)[order])
    return float(np.interp(math.log(place), known, np.asarray(values, float)[order]))
