"""Seconds of exchanges: all-to-all in groups of ranks, halos of neighbours, sums over all ranks.

An all-to-all exchange in one node crosses links between devices, and links between packages where peers are in
another package. An exchange over several nodes is bound by what each node injects, and on a dragonfly also by the
global links: adaptive routing under load takes non-minimal paths, which cross two of them (Kim et al., ISCA 2008;
Aurora paper, Sec. 3.1). Each message costs an overhead beside its bytes (LogGP: Alexandrov et al., SPAA 1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ridgeline.limits.prediction import Allocation, MissingMetric, between


@dataclass(frozen=True)
class RankGroup:
    """Ranks of a communicator that exchange: `size` ranks whose numbers are `stride` apart."""

    size: int
    stride: int = 1

    def in_node(self, ranks_per_node: int) -> int:
        """Return how many of them share a node."""
        return max(1, min(self.size, ranks_per_node // self.stride))


def all_to_all(place: Allocation, group: RankGroup, volume: float, calls: float) -> float:
    """Return the seconds in which each rank sends `volume` bytes, including those to itself, in `calls` exchanges.

    Raises MissingMetric.
    """
    if group.size == 1:
        return 0.0
    inside = group.in_node(place.ranks_per_node)
    if inside == group.size:
        others = volume * (1 - 1 / group.size)
        if not place.on_devices:
            share = place.find("links.efficiency") or 1.0
            return others / (place.figure("links.between_ranks") * share)
        package = max(1, min(group.size, int(place.figure("device.per_package")) // group.stride))
        seconds = others / place.figure("links.between_devices")
        if package < group.size:
            seconds += volume * (1 - package / group.size) / place.figure("links.between_packages")
        return seconds / place.figure("links.efficiency")
    message = volume / (calls * group.size)
    leaving = volume * (1 - inside / group.size)
    overhead = place.find("network.message_overhead") or 0.0
    return leaving / network_rate(place, message) + calls * (group.size - inside) * overhead


def network_rate(place: Allocation, message: float) -> float:
    """Return a rank's share, in B/s, of what leaves its node in an all-to-all exchange of `message` bytes each.

    Raises MissingMetric.
    """
    rate = place.figure("network.injection") * efficiency(place, message)
    group = place.find("network.group_nodes")
    links = place.find("network.global_bandwidth")
    if group is not None and links is not None and place.nodes > group:
        rate = min(rate, links / place.figure("network.global_hops") / place.nodes)
    return rate / place.ranks_per_node


def efficiency(place: Allocation, message: float) -> float:
    """Return the share of the injection rate that an all-to-all exchange reaches, from the machine's [[all_to_all]].

    Interpolated linearly in the logarithms of message size and number of nodes. Raises MissingMetric.
    """
    rows = place.machine.all_to_all
    if not rows:
        raise MissingMetric("all_to_all")
    shares = {}
    for nodes in {row.nodes.value for row in rows}:
        of_nodes = [row for row in rows if row.nodes.value == nodes]
        sizes = [row.message.value if row.message else message for row in of_nodes]
        shares[nodes] = between(sizes, [row.efficiency.value for row in of_nodes], message)
    return between(list(shares), list(shares.values()), place.nodes)


def neighbours(place: Allocation, volume: float, messages: float) -> float:
    """Return the seconds in which each rank sends `volume` bytes in `messages` messages to neighbours in space.

    The ranks of a node are taken to be a cube of blocks, of whose faces 1 / ranks^(1/3) lie on the cube's surface.
    The full rate is taken, because no figure says how much of it neighbours reach. Unknown latencies are left out
    (see `without_latency`). Raises MissingMetric.
    """
    if volume == 0 or place.ranks == 1:
        return 0.0
    outside = place.ranks_per_node ** (-1 / 3) if place.nodes > 1 else 0.0
    seconds = 0.0
    if outside > 0:
        seconds += outside * volume / (place.figure("network.injection") / place.ranks_per_node)
        seconds += outside * messages * (place.find("network.latency") or 0.0)
    if outside < 1:
        link = "links.between_devices" if place.on_devices else "links.between_ranks"
        seconds += (1 - outside) * volume / place.figure(link)
        seconds += (1 - outside) * messages * (place.find("links.latency") or 0.0)
    return seconds


def without_latency(place: Allocation) -> tuple[str, ...]:
    """Return the bound that follows from latencies that `neighbours` leaves out as the machine file has none."""
    needed = ["network.latency"] if place.nodes > 1 else []
    needed += ["links.latency"] if place.ranks_per_node > 1 else []
    absent = [key for key in needed if place.find(key) is None]
    if not absent:
        return ()
    return (f"messages cost only the time of their bytes: the machine file has no {' and no '.join(absent)}",)


def sum_over_ranks(place: Allocation) -> float:
    """Return the seconds of an Allreduce of a number: as measured, or by recursive doubling. Raises MissingMetric."""
    if place.ranks == 1:
        return 0.0
    measured = place.find("network.allreduce")
    if measured is not None and place.nodes > 1:
        return measured
    seconds = math.ceil(math.log2(place.nodes)) * place.figure("network.latency") if place.nodes > 1 else 0.0
    if place.ranks_per_node > 1:
        seconds += math.ceil(math.log2(place.ranks_per_node)) * place.figure("links.latency")
    return seconds


def host_copies(place: Allocation, volume: float) -> float:
    """Return the seconds of copying `volume` bytes of a rank's messages from its device to the host and back.

    0 without devices, or where MPI sends from device memory. Raises MissingMetric.
    """
    if not place.on_devices or volume == 0 or place.figure("links.device_messages"):
        return 0.0
    return 2 * volume / place.figure("links.host_device")
