"""The search for work on streams that nothing puts in order."""

import numpy as np
import pytest

from stream_order import HOST, StreamOrder, addresses


def test_addresses_of_a_part_of_a_matrix():
    whole = np.zeros((4, 5))
    first = whole.ctypes.data
    assert addresses(whole[1:3, ::2]).tolist() == [first + 8 * at for at in (5, 7, 9, 10, 12, 14)]


def test_an_event_puts_a_stream_behind_another():
    order, numbers = StreamOrder(), np.zeros(3)
    one, other, done = order.stream(), order.stream(), order.event()
    order.work(one, writes=[numbers], what="the first")
    done.record(one)
    order.work(one, writes=[numbers[:1]], what="the second")
    done.wait(other)
    order.work(other, reads=[numbers[1:]], what="the third")
    with pytest.raises(AssertionError, match="the fourth is not put behind the second"):
        order.work(other, reads=[numbers[:1]], what="the fourth")


def test_a_number_that_is_read_must_not_be_written_meanwhile():
    order, numbers = StreamOrder(), np.zeros(3)
    one, other = order.stream(), order.stream()
    for stream in (one, other):
        order.work(stream, reads=[numbers], what=f"read {stream is other}")
    with pytest.raises(AssertionError, match="write is not put behind read True"):
        order.work(one, writes=[numbers], what="write")


def test_the_host_waits_for_streams_and_streams_never_come_before_their_launch():
    order, numbers = StreamOrder(), np.zeros(3)
    stream = order.stream()
    order.work(HOST, writes=[numbers])
    order.work(stream, reads=[numbers])
    stream.synchronize()
    order.work(HOST, writes=[numbers])
    order.work(stream, reads=[numbers], what="copy")
    with pytest.raises(AssertionError, match="is not put behind copy"):
        order.work(HOST, writes=[numbers])
