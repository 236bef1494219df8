"""The points of a sweep within one job: numbers of nodes and of ranks on each, and which ranks they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ridgeline.bench.shared_options import Placement
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import counted

if TYPE_CHECKING:
    from ridgeline.bench.shared_options import MessageOptions
    from ridgeline.parallel.layout import Layout

T = TypeVar("T")


@dataclass(frozen=True)
class SweepPoint:
    """One point: so many ranks on each of so many nodes, and their numbers in the job, in order."""

    nodes: int
    ranks_per_node: int
    ranks: tuple[int, ...]


def doubling(last: int) -> list[int]:
    """Return 1, 2, 4, ... and last."""
    return sorted({2**k for k in range(last.bit_length())} | {last})


def evenly(count: int, of: Sequence[T]) -> list[T]:
    """Return `count` of the items at equal distances, the first of them included."""
    return [of[place * len(of) // count] for place in range(count)]


def sweep_points(layout: Layout, options: MessageOptions, least_nodes: int = 1) -> list[SweepPoint]:
    """Return the points of `--sweep`, by nodes and then by ranks on a node. Each has at least 2 ranks.

    The numbers that the options name, or 1, 2, 4, ... and all. Only nodes that have so many ranks count. "packed"
    takes the first nodes and the first ranks of each, "spread" takes nodes and ranks at equal distances.

    Raises ConfigError for named numbers that the job does not have, and where no point is left.
    """
    ranks_of: dict[int, list[int]] = {}
    for rank, node in enumerate(layout.node_of_rank):
        ranks_of.setdefault(node, []).append(rank)
    most = max(map(len, ranks_of.values()))
    for flag, numbers, largest, what in (
        ("--nodes", options.nodes, layout.n_nodes, "node"),
        ("--per-node", options.per_node, most, "rank"),
    ):
        if numbers and max(numbers) > largest:
            raise ConfigError(
                f"{flag} {max(numbers)}: the job has {counted(largest, what)} at most. Name a smaller number, or "
                "start more ranks."
            )
    points = []
    for n_nodes in sorted(set(options.nodes)) or doubling(layout.n_nodes):
        for per_node in sorted(set(options.per_node)) or doubling(most):
            able = [ranks for ranks in ranks_of.values() if len(ranks) >= per_node]
            if least_nodes <= n_nodes <= len(able) and n_nodes * per_node >= 2:
                chosen = _choose(able, n_nodes, per_node, options.placement)
                points.append(SweepPoint(n_nodes, per_node, chosen))
    if not points:
        raise ConfigError(
            f"--sweep has no point with {'two nodes' if least_nodes > 1 else 'two ranks'} among the numbers of nodes "
            f"and ranks that it may use in this job of {counted(len(layout.node_of_rank), 'rank')} on "
            f"{counted(layout.n_nodes, 'node')}. Start more, or name larger numbers with --nodes and --per-node."
        )
    return points


def _choose(
    ranks_of_nodes: Sequence[Sequence[int]], n_nodes: int, per_node: int, placement: Placement
) -> tuple[int, ...]:
    """Return so many ranks of each of so many nodes, in the order of the job."""
    if placement == "packed":
        return tuple(sorted(rank for here in ranks_of_nodes[:n_nodes] for rank in here[:per_node]))
    return tuple(sorted(rank for here in evenly(n_nodes, ranks_of_nodes) for rank in evenly(per_node, here)))


def choose_ranks(layout: Layout, count: int, placement: Placement) -> list[int]:
    """Return `count` ranks in order: "packed" fills node after node, "spread" takes one from each node in turn."""
    places = zip(layout.node_of_rank, layout.local_rank)
    order = [
        ((node, local) if placement == "packed" else (local, node), rank)
        for rank, (node, local) in enumerate(places)
    ]
    return sorted(rank for _, rank in sorted(order)[:count])
