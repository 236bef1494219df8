"""Pairs: disjoint, everyone with everyone once, an odd one rests."""

from itertools import combinations

import pytest

from ridgeline.bench.pairs.pairing import check_pairs, halves, neighbours, node_halves, partner_of, tournament
from ridgeline.runtime.errors import ConfigError

NUMBERS = [*range(2, 20), 33, 64]


@pytest.mark.parametrize("n", NUMBERS)
def test_tournament_lets_everyone_meet_everyone_once(n):
    rounds = tournament(n)
    assert len(rounds) == n - 1 + n % 2
    for pairs in rounds:
        ranks = [rank for pair in pairs for rank in pair]
        assert len(set(ranks)) == len(ranks) == 2 * (n // 2)
    assert sorted(pair for pairs in rounds for pair in pairs) == list(combinations(range(n), 2))


@pytest.mark.parametrize("n", [0, 1])
def test_tournament_of_nobody_has_no_pairs(n):
    assert [pair for pairs in tournament(n) for pair in pairs] == []


@pytest.mark.parametrize("n", [0, 1, *NUMBERS])
@pytest.mark.parametrize("pairing", [halves, neighbours])
def test_one_rank_rests_where_the_number_is_odd(pairing, n):
    ranks = [rank for pair in pairing(n) for rank in pair]
    assert sorted(ranks) == list(range(n - n % 2))


def test_order_of_pairs_is_osus():
    assert halves(7) == [(0, 3), (1, 4), (2, 5)]
    assert neighbours(5) == [(0, 1), (2, 3)]


@pytest.mark.parametrize(
    ("nodes", "pairs"),
    [
        ([0, 0, 1, 1], [(0, 2), (1, 3)]),
        ([0, 1, 0, 1], [(0, 1), (2, 3)]),  # ranks dealt out in turn
        ([0, 0, 0, 1], [(0, 3)]),  # twins that are not there
        ([0, 1, 2], [(0, 1)]),  # the last node rests
        ([0, 1, 2, 3], [(0, 2), (1, 3)]),
        ([0, 0, 0], []),
    ],
)
def test_halves_of_nodes(nodes, pairs):
    assert node_halves(nodes) == pairs


def test_partner():
    pairs = [(0, 3), (4, 1)]
    assert [partner_of(rank, pairs) for rank in range(5)] == [3, 4, None, 0, 1]


def test_number_of_pairs():
    assert check_pairs(None, 3, 6) == 3
    assert check_pairs(3, 3, 7) == 3
    assert check_pairs(1, 3, 7) == 1
    for asked in (0, -1, 4):
        with pytest.raises(ConfigError, match=f"^{asked} pairs of 6 ranks: there are 1 to 3; "):
            check_pairs(asked, 3, 6)
    with pytest.raises(ConfigError, match="1 rank makes no pair; start at least 2 ranks, as with -n 2"):
        check_pairs(1, 0, 1)
