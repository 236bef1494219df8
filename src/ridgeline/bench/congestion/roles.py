"""Who takes the tests and who sends background traffic: nodes, shuffled, and lanes of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.bench.congestion.background import PATTERNS
from ridgeline.bench.congestion.congestion_options import DEFAULT_KINDS, LEAST_NODES
from ridgeline.parallel.layout import Layout, find_layout
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

LEAST_TESTERS = 2  # nodes: a ring


@dataclass(frozen=True)
class CongestionRoles:
    """Who does what. Lanes are ranks of equal local number on the nodes of one group, each with a communicator.

    test_nodes: numbers of the nodes that take the tests; background_nodes: kind of traffic -> its nodes; testers:
    lanes of ranks; background: (kind, lane) of its senders; resting: ranks that find no partner in their lane.
    """

    test_nodes: list[int]
    background_nodes: dict[str, list[int]]
    testers: list[list[int]]
    background: list[tuple[str, list[int]]]
    resting: list[int] = field(default_factory=list)

    def lane_of(self, rank: int) -> int | None:
        """Return the number of a rank's lane, testers before senders of background traffic; None if it rests."""
        lanes = [*self.testers, *(lane for _, lane in self.background)]
        return next((i for i, lane in enumerate(lanes) if rank in lane), None)


def assign_roles(
    node_of_rank: Sequence[int],
    fraction: float = 0.8,
    seed: int = 0,
    kinds: Sequence[str] = DEFAULT_KINDS,
) -> CongestionRoles:
    """Divide nodes, shuffled by seed, into testers and senders of background traffic, evenly over its kinds.

    fraction: share of the nodes that congest, rounded down, but at least two nodes test and one congests. A kind
    takes at least two nodes: with fewer, the first kinds alone are used; a single node's ranks exchange with
    themselves (all-to-all). Pure; raises ConfigError if that is not possible.
    """
    n_nodes = max(node_of_rank) + 1
    if not 0.0 < fraction < 1.0:
        raise ConfigError(
            f"fraction {fraction} of background traffic: it must lie between 0 and 1, as GPCNeT's 0.8"
        )
    unknown = [kind for kind in kinds if kind not in PATTERNS]
    if unknown or not kinds or len(set(kinds)) < len(kinds):
        raise ConfigError(
            f"background traffic {', '.join(kinds) or 'none'}: name each once, of {', '.join(PATTERNS)}"
        )
    if n_nodes < LEAST_NODES:
        raise ConfigError(
            f"congestion on {n_nodes} node{'s' * (n_nodes != 1)}: two take the tests and one congests at least; use "
            "3 or more, or let ranks count as nodes: -n 3 --ranks-per-node 1"
        )
    n_background = min(max(1, math.floor(fraction * n_nodes + 1e-9)), n_nodes - LEAST_TESTERS)
    if n_background == 1 and kinds[0] != "all-to-all":
        raise ConfigError(
            f"one node of {n_nodes} congests, which has nobody for {kinds[0]}: put all-to-all first, which it does "
            "with itself, or use more nodes or a larger fraction"
        )
    shuffled: list[int] = np.random.default_rng(seed).permutation(n_nodes).tolist()
    used = kinds[: max(1, n_background // 2)]
    background_nodes = {kind: sorted(shuffled[:n_background][i :: len(used)]) for i, kind in enumerate(used)}
    test_nodes = sorted(shuffled[n_background:])
    testers, resting = _lanes(node_of_rank, test_nodes, 2)
    background = []
    for kind, nodes in background_nodes.items():
        lanes, alone = _lanes(node_of_rank, nodes, min(2, len(nodes)))
        background += [(kind, lane) for lane in lanes]
        resting += alone
    return CongestionRoles(test_nodes, background_nodes, testers, background, sorted(resting))


def _lanes(node_of_rank: Sequence[int], nodes: list[int], least: int) -> tuple[list[list[int]], list[int]]:
    """Return lanes of at least `least` ranks of equal local number on the nodes, and the ranks left over."""
    ranks_of: dict[int, list[int]] = {node: [] for node in nodes}
    for rank, node in enumerate(node_of_rank):
        if node in ranks_of:
            ranks_of[node].append(rank)
    most = max(len(ranks) for ranks in ranks_of.values())
    lanes = [[ranks[i] for ranks in ranks_of.values() if len(ranks) > i] for i in range(most)]
    return (
        [lane for lane in lanes if len(lane) >= least],
        [rank for lane in lanes if len(lane) < least for rank in lane],
    )


def find_units(comm: MPI.Comm, ranks_per_node: int | None) -> tuple[Layout, list[str]]:
    """Return what counts as nodes, and a note if that is not what shares memory. Collective."""
    layout = find_layout(comm, ranks_per_node)
    if ranks_per_node is not None:
        return layout, [f"{ranks_per_node} consecutive ranks count as a node"]
    if layout.n_nodes >= LEAST_NODES:
        return layout, []
    if comm.size < LEAST_NODES:
        raise ConfigError(
            f"congestion with {comm.size} rank{'s' * (comm.size != 1)}: two take the tests and one congests at "
            "least; start 3 or more, as with -n 4"
        )
    few = f"{layout.n_nodes} node{'s' * (layout.n_nodes != 1)}: every rank counts as one, and they share"
    return find_layout(comm, 1), [f"{few} memory and cores, so the factors are not those of a network alone"]
