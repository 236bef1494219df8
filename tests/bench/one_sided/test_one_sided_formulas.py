"""One-sided access: formulas by hand, lengths of pieces, parts of the job."""

import numpy as np
import pytest

from ridgeline.bench.exposed_memory import check_sums
from ridgeline.bench.one_sided.irregular_access import Pieces, message_rate, parts_of
from ridgeline.bench.one_sided.pair_access import bandwidth, latency
from ridgeline.parallel.payload import content, words_at
from ridgeline.runtime.errors import ConfigError, VerificationError


def test_formulas_by_hand():
    assert latency(0.2, 1000, "flush") == pytest.approx(200e-6)
    assert latency(0.2, 1000, "lock") == pytest.approx(200e-6)
    assert latency(0.2, 1000, "fence") == pytest.approx(100e-6)
    assert latency(0.2, 1000, "pscw") == pytest.approx(100e-6)
    assert bandwidth(1000, 64, 20, 0.5) == pytest.approx(2.56e6)
    assert message_rate(1_615_459, 0.9) == pytest.approx(1_794_954.4, rel=1e-6)  # Table 5, 1 x 8 nodes


@pytest.mark.parametrize("distribution", ["uniform", "log-uniform"])
def test_lengths_of_pieces(distribution):
    pieces = Pieces(16, 1024, distribution)
    words = pieces.draw(np.random.default_rng(1), 20_000)
    assert (words.min(), words.max()) == (2, 128)
    assert 8 * words.mean() == pytest.approx(pieces.mean_bytes(), rel=0.03)
    assert Pieces(64, 64, distribution).draw(np.random.default_rng(1), 3).tolist() == [8, 8, 8]


@pytest.mark.parametrize("bounds", [(0, 8), (16, 8), (8, 12), (4, 8)])
def test_bad_lengths_are_refused(bounds):
    with pytest.raises(ConfigError, match="multiples of 8"):
        Pieces(*bounds)


def test_parts_hold_all_ranks_once():
    assert parts_of(7, 3) == [range(0, 2), range(2, 4), range(4, 7)]
    assert parts_of(2, 1) == [range(2)]
    for ranks, communicators in ((1, 1), (3, 2), (4, 0)):
        with pytest.raises(ConfigError, match="each communicator requires at least two ranks"):
            parts_of(ranks, communicators)


def test_words_of_a_message_one_by_one():
    places = np.array([3, 0, 7], np.uint64)
    words = content(64, 2, 5, 9).view(np.uint64)
    np.testing.assert_array_equal(words_at(places, 2, 5, 9), words[[3, 0, 7]])


def test_the_first_wrong_number_is_named():
    check_sums(np.arange(4), np.arange(4), 1, 0)
    with pytest.raises(VerificationError, match=r"2 wrong numbers of 4 .* the first at 2: 7 instead of 2"):
        check_sums(np.array([0, 1, 7, 8]), np.arange(4), 1, 0)
