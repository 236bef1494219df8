"""The side channel: who died, fell silent, failed or said goodbye, told once by rank 0."""

import itertools
import json
import queue

import pytest

from ridgeline.runtime.node_load import Reading
from ridgeline.validate import watchdog
from ridgeline.validate.watchdog import connect, own_addresses, start_watch

TIMEOUT = 20  # seconds until a test gives up


class OneRank:
    """What start_watch needs of a communicator, for one rank of several in this process."""

    card = None

    def __init__(self, rank, size, reached=()):
        self.rank, self.size, self.reached = rank, size, list(reached)

    def bcast(self, value):
        OneRank.card = value if self.rank == 0 else OneRank.card
        return OneRank.card

    def gather(self, value):
        return self.reached if self.rank == 0 else None


@pytest.fixture
def job(monkeypatch):
    """Start rank 0 of `size` ranks; return its watch and the queue of troubles. Everything is quick here."""
    for name, value in {"_INTERVAL": 0.05, "_SILENT_SECONDS": 1.0, "_GRACE": 0.1}.items():
        monkeypatch.setattr(watchdog, name, value)
    started = []

    def start(size, reached=None):
        troubles = queue.Queue()
        watch = start_watch(OneRank(0, size, [True] * size if reached is None else reached), troubles.put)
        started.append(watch)
        return watch, troubles

    yield start
    for watch in started:
        watch.close()


def rank(number, size):
    """Start the watch of another rank."""
    return start_watch(OneRank(number, size), print)


def bare(number, **says):
    """Connect as a rank that says one thing and then nothing more."""
    addresses, port, token = OneRank.card
    peer = connect(addresses, port, token)
    said = {"rank": number, "stage": "", "step": "", "partner": None, "failure": ""} | says
    peer.sendall(json.dumps(said).encode() + b"\n")
    peer.recv(100)  # rank 0 has taken it
    return peer


def test_a_rank_that_fails_is_told_with_its_words(job):
    _, troubles = job(2)
    other = rank(1, 2)
    other.fail("ValueError: no")
    trouble = troubles.get(timeout=TIMEOUT)
    other.close()
    assert (trouble.outcome, trouble.failures) == ("failed", {1: "ValueError: no"})
    assert "rank 1 failed: ValueError: no" in trouble.detail
    assert (trouble.silent, trouble.died) == ([], [])


def test_a_process_that_ends_is_told_as_dead_not_as_silent(job):
    watch, troubles = job(3)
    other = rank(2, 3)
    watch.begin("pairs", "system", 60.0)
    bare(1).close()
    trouble = troubles.get(timeout=TIMEOUT)
    other.close()
    assert (trouble.outcome, trouble.stage, trouble.died, trouble.silent) == ("failed", "pairs", [1], [])
    assert "the process of rank 1 ended without a message" in trouble.detail


def test_a_silent_rank_and_who_waits_for_it_are_told_when_the_time_is_over(job):
    watch, troubles = job(4)
    peers = [rank(1, 4), bare(2), rank(3, 4)]
    watch.begin("pairs", "system", 2.0)
    for peer in (peers[0], peers[2]):
        peer.begin("pairs", "system", 2.0)
    peers[0].note("latency", partner=2)
    trouble = troubles.get(timeout=TIMEOUT)
    for peer in peers:
        peer.close()
    assert (trouble.outcome, trouble.silent, trouble.waiting) == ("hung", [2], {1: 2})
    assert "no sign of life from rank 2" in trouble.detail


def test_late_ranks_say_how_busy_their_nodes_are(job, monkeypatch):
    looks = itertools.count()

    def half_used_by_others():
        second = float(next(looks))
        return Reading("boot", 4, used=2 * second, own=0.0, wall=second)

    monkeypatch.setattr(watchdog, "read_load", half_used_by_others)
    watch, troubles = job(2)
    other = rank(1, 2)
    for one in (other, watch):
        one.begin("pairs", "system", 0.5)
    trouble = troubles.get(timeout=TIMEOUT)
    other.close()
    assert trouble.outcome == "hung"
    assert trouble.others.keys() == {0, 1}
    assert all(0.3 < share <= 0.5 for share in trouble.others.values())


def test_ranks_that_end_in_order_are_no_trouble(job):
    watch, troubles = job(3)
    others = [rank(1, 3), rank(2, 3)]
    watch.begin("memory", "node", 60.0)
    watch.end()
    for other in others:
        other.close()
    watch.close()
    assert troubles.empty()


def test_strangers_are_not_let_in(job):
    _, troubles = job(2)
    addresses, port, token = OneRank.card
    assert connect(addresses, port, token[::-1]) is None
    other = rank(1, 2)
    other.close()
    assert troubles.empty()


def test_a_rank_that_reaches_nobody_is_known_and_not_awaited(job, monkeypatch):
    watch, troubles = job(2, [True, False])
    assert watch.unreachable == [1]
    monkeypatch.setattr(OneRank, "card", ([], 1, "token"))
    alone = rank(1, 2)
    alone.note("latency", 0)  # to nobody
    alone.close()
    watch.begin("pairs", "system", 0.3)
    trouble = troubles.get(timeout=TIMEOUT)
    assert (trouble.outcome, trouble.silent) == ("hung", [])


def test_a_rank_without_rank_0_ends_itself(job, monkeypatch):
    codes = queue.Queue()
    monkeypatch.setattr(watchdog.os, "_exit", codes.put)
    watch, _ = job(2)
    rank(1, 2)
    watch.close()
    assert codes.get(timeout=TIMEOUT) == 2


def test_addresses_end_with_the_loopback():
    addresses = own_addresses()
    assert addresses[-1].startswith("127.")
    assert len(set(addresses)) == len(addresses)
