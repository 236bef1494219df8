"""Pairs: disjoint, everyone with everyone once, an odd one rests."""

from itertools import combinations, product

import pytest

from ridgeline.bench.pairs.pairing import check_pairs, halves, neighbours, node_halves, tournament
from ridgeline.runtime.errors import ConfigError

NUMBERS = [*range(2, 20), 33, 64]


def test_tournament_lets_everyone_meet_everyone_once():
    for n in NUMBERS:
        rounds = tournament(n)
        assert len(rounds) == n - 1 + n % 2, f"{n=}"
        for pairs in rounds:
            ranks = [rank for pair in pairs for rank in pair]
            assert len(set(ranks)) == len(ranks) == 2 * (n // 2), f"{n=}"
        assert sorted(pair for pairs in rounds for pair in pairs) == list(combinations(range(n), 2)), f"{n=}"


def test_tournament_of_nobody_has_no_pairs():
    for n in (0, 1):
        assert [pair for pairs in tournament(n) for pair in pairs] == [], f"{n=}"


def test_one_rank_rests_where_the_number_is_odd():
    for pairing, n in product([halves, neighbours], [0, 1, *NUMBERS]):
        case = f"{pairing.__name__}, {n=}"
        ranks = [rank for pair in pairing(n) for rank in pair]
        assert sorted(ranks) == list(range(n - n % 2)), case


def test_order_of_pairs_is_osus():
    assert halves(7) == [(0, 3), (1, 4), (2, 5)]
    assert neighbours(5) == [(0, 1), (2, 3)]


def test_halves_of_nodes():
    table = [
        ([0, 0, 1, 1], [(0, 2), (1, 3)]),
        ([0, 1, 0, 1], [(0, 1), (2, 3)]),  # ranks dealt out in turn
        ([0, 0, 0, 1], [(0, 3)]),  # twins that are not there
        ([0, 1, 2], [(0, 1)]),  # the last node rests
        ([0, 1, 2, 3], [(0, 2), (1, 3)]),
        ([0, 0, 0], []),
    ]
    for nodes, pairs in table:
        assert node_halves(nodes) == pairs, f"{nodes=}"


def test_number_of_pairs():
    assert check_pairs(None, 3, 6) == 3
    assert check_pairs(3, 3, 7) == 3
    assert check_pairs(1, 3, 7) == 1
    for asked in (0, -1, 4):
        with pytest.raises(ConfigError, match=f"^--pairs {asked}: the number must be 1 to 3 with 6 ranks. "):
            check_pairs(asked, 3, 6)
    with pytest.raises(
        ConfigError, match=r"1 rank does not form a pair\. Start at least 2 ranks, as with -n 2"
    ):
        check_pairs(1, 0, 1)
