"""How ranks or nodes are paired, as pure functions of numbers that give the same on every rank."""

from __future__ import annotations

from collections.abc import Sequence

from ridgeline.runtime.errors import ConfigError

Pair = tuple[int, int]


def halves(n: int) -> list[Pair]:
    """Pair i of the first half with i of the second, as osu_mbw_mr and osu_multi_lat do; an odd last one is free."""
    return [(i, i + n // 2) for i in range(n // 2)]


def neighbours(n: int) -> list[Pair]:
    """Pair 0 with 1, 2 with 3 and so on; an odd last one is free."""
    return [(i, i + 1) for i in range(0, n - 1, 2)]


def node_halves(node_of_rank: Sequence[int]) -> list[Pair]:
    """Pair the ranks of the first half of the nodes with those of equal local number in the second half.

    The last of an odd number of nodes is free, and so are ranks without a counterpart on a smaller node.
    """
    ranks_of: dict[int, list[int]] = {}
    for rank, node in enumerate(node_of_rank):
        ranks_of.setdefault(node, []).append(rank)
    nodes = sorted(ranks_of)
    return [pair for a, b in halves(len(nodes)) for pair in zip(ranks_of[nodes[a]], ranks_of[nodes[b]])]


def tournament(n: int) -> list[list[Pair]]:
    """Return rounds of disjoint pairs in which each meets each other once: n - 1 rounds, or n if n is odd.

    This is the circle method: one stays in its place, and the others move by one place in each round.
    """
    players: list[int] = list(range(n)) + [-1] * (n % 2)
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        meetings = zip(players[:half], reversed(players[half:]))
        rounds.append([(min(a, b), max(a, b)) for a, b in meetings if min(a, b) >= 0])
        players.insert(1, players.pop())
    return rounds


def check_pairs(pairs: int | None, available: int, n: int) -> int:
    """Return the number of pairs to use (default: all). Raises ConfigError if there are fewer."""
    if available == 0:
        raise ConfigError(
            f"{n} rank{'s do' if n != 1 else ' does'} not form a pair. Start at least 2 ranks, as with -n 2."
        )
    if pairs is None:
        return available
    if not 1 <= pairs <= available:
        raise ConfigError(
            f"--pairs {pairs}: the number must be 1{f' to {available}' * (available > 1)} with {n} ranks. More pairs "
            "require more ranks."
        )
    return pairs
