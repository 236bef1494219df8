"""Formulas of pairs, the order of calls in a ping-pong, and which ranks are paired."""

import numpy as np
import pytest

from ridgeline.bench.pairs.point_to_point import choose_pairs
from ridgeline.limits.messages import bandwidth, message_rate, one_way, ping_pong
from ridgeline.parallel.layout import Layout
from ridgeline.parallel.payload import Buffer
from ridgeline.runtime.errors import ConfigError


def test_formulas_against_hand_numbers():
    assert one_way(0.02, 10_000) == 1e-6  # 10,000 round trips of 2 us
    assert bandwidth(2**20, 64 * 20, 0.1) == 13_421_772_800.0
    assert bandwidth(1000, 64, 1.0, pairs=3, directions=2) == 384_000.0
    assert bandwidth(0, 64, 1.0) == 0.0
    assert message_rate(64 * 100, 0.002) == 3_200_000.0
    assert message_rate(10, 2.0, pairs=4, directions=2) == 40.0


class Recorder:
    """A communicator that writes down what is called."""

    rank = 0

    def __init__(self):
        self.calls = []

    def Send(self, message, partner, tag):
        self.calls.append(("send", message[1], partner))

    def Recv(self, message, partner, tag):
        self.calls.append(("receive", message[1], partner))


class StagedBuffer(Buffer):
    """Memory of a device that is an array of the host; copies are written down."""

    def __init__(self, n_bytes, calls):
        super().__init__(n_bytes)
        self.staged, self.calls = True, calls

    def stage_out(self, n_bytes):
        self.calls.append(("out", n_bytes))

    def stage_in(self, n_bytes):
        self.calls.append(("in", n_bytes))


@pytest.mark.parametrize("first", [True, False])
def test_ping_pong_sends_and_receives_in_turn(first):
    comm, round_trip = Recorder(), [("send", 5, 3), ("receive", 5, 3)]
    assert ping_pong(comm, 3, first, Buffer(8), 5, iterations=4, warm_up=3) > 0
    assert comm.calls == 7 * (round_trip if first else round_trip[::-1])


def test_staged_ping_pong_copies_before_each_send_and_after_each_receive():
    comm = Recorder()
    ping_pong(comm, 1, True, StagedBuffer(8, comm.calls), 5, iterations=1, warm_up=1)
    assert comm.calls == 2 * [("out", 5), ("send", 5, 1), ("receive", 5, 1), ("in", 5)]
    comm = Recorder()
    ping_pong(comm, 1, False, StagedBuffer(8, comm.calls), 5, iterations=1, warm_up=0)
    assert comm.calls == [("receive", 5, 1), ("in", 5), ("out", 5), ("send", 5, 1)]


def layout(*nodes):
    local = [list(nodes[:i]).count(node) for i, node in enumerate(nodes)]
    return Layout(nodes, tuple(local), tuple(f"n{i}" for i in range(max(nodes) + 1)))


def test_choice_of_pairs():
    five = layout(0, 0, 0, 1, 1)
    assert choose_pairs(five, "halves", None) == [(0, 2), (1, 3)]
    assert choose_pairs(five, "neighbours", None) == [(0, 1), (2, 3)]
    assert choose_pairs(five, "node-halves", None) == [(0, 3), (1, 4)]
    assert choose_pairs(five, "neighbours", 1) == [(0, 1)]


@pytest.mark.parametrize(
    ("nodes", "pairing", "asked", "words"),
    [
        ((0,), "halves", 1, "1 rank does not form a pair. Start at least 2 ranks, as with -n 2"),
        ((0, 0, 0), "node-halves", None, "--pairing node-halves requires at least 2 nodes"),
        ((0, 0, 0), "halves", 2, "--pairs 2: the number must be 1 with 3 ranks"),
        ((0, 0), "halves", 0, "--pairs 0: the number must be 1 with 2 ranks"),
    ],
)
def test_pairs_that_are_not_there(nodes, pairing, asked, words):
    with pytest.raises(ConfigError, match=words):
        choose_pairs(layout(*nodes), pairing, asked)


def test_message_is_the_first_bytes_of_the_buffer():
    buffer = Buffer(7)
    buffer.write(np.arange(7, dtype=np.uint8))
    array, count, _ = buffer.message(3)
    assert array is buffer.host
    assert count == 3
    assert buffer.read(3).tolist() == [0, 1, 2]
