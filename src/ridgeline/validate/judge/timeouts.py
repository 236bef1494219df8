"""Who caused the network time-outs of several nodes: one of them, the target that they share, or the fabric.

The node that counts a time-out is the initiator, which waited for another. The cause may be the fabric, the target,
or the hardware of a node (PCI Express, memory, processor), which is why the nodes of a job are looked at together.
Source: Ibeid et al. (MPI on Aurora), Sec. 3.8.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

FEWEST = 3  # nodes from which one that differs can be told from the others


@dataclass(frozen=True)
class Cause:
    """The likely cause of time-outs. suspects: nodes whose own errors explain them; target: the node that all others
    waited for, None if there is none.
    """

    sentence: str
    suspects: tuple[int, ...] = ()
    target: int | None = None


def find_cause(
    late: AbstractSet[int],
    broken: AbstractSet[int],
    nodes: Sequence[str],
    groups: Mapping[str, Sequence[int]],
) -> Cause:
    """Return the likely cause of time-outs on the nodes `late`.

    broken: nodes that counted errors of their own hardware or links; nodes: names of all nodes; groups: name ->
    numbers of nodes, such as those of a switch.
    """
    counted = f"{len(late)} of {len(nodes)} nodes counted time-outs"
    own = sorted(late & broken)
    if own:
        return Cause(
            f"{counted}, and {_names(own, nodes)} counted errors of its own hardware or link", tuple(own)
        )
    if len(broken) == 1 and len(late) > 1:
        (target,) = broken
        sentence = (
            f"{counted}, and {nodes[target]}, a likely target, counted errors of its own hardware or link"
        )
        return Cause(sentence, (target,))
    if len(nodes) < FEWEST:
        return Cause("The cause may be this node, the node that it waited for, or the path between them")
    if len(late) == 1:
        return Cause("No other node counted any, so this node or its own link is the likely cause")
    without = sorted(set(range(len(nodes))) - late)
    if len(without) == 1:
        return Cause(
            f"Every node except {nodes[without[0]]} counted time-outs, so that node or the path to it is the likely "
            "cause",
            target=without[0],
        )
    parts = {name: set(members) for name, members in groups.items() if 1 < len(members) < len(nodes)}
    for name, inside in parts.items():
        if late == inside:
            return Cause(
                f"All nodes of the group {name}, and no others, counted any: check its switch and uplinks"
            )
    for name, inside in parts.items():
        if late == set(range(len(nodes))) - inside:
            return Cause(
                f"All nodes except those of the group {name} counted any: check its switch and uplinks"
            )
    return Cause(
        f"{counted}, so the cause is likely a target or a link that they share, not one of these nodes: look at the "
        "fabric's own log"
    )


def _names(numbers: Sequence[int], nodes: Sequence[str]) -> str:
    return ", ".join(nodes[number] for number in numbers[:4]) + (" and others" if len(numbers) > 4 else "")
