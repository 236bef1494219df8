"""The compiled channel: order, full and empty, wrap-around, two threads."""

import threading

import numba
import pytest

from ridgeline.bench.tasking import kernels as ring


@numba.njit(nogil=True)
def send_range(ends, items, first, n):
    """Put first, first + 1, ..., n numbers in all, waiting for room that another thread makes."""
    for i in range(n):
        while not ring.put(ends, items, first + i):
            pass


@numba.njit(nogil=True)
def receive_range(ends, items, first, n):
    """Take n numbers that another thread puts; return how many are not first, first + 1, ... (first >= 0)."""
    wrong = 0
    for i in range(n):
        item = ring.take(ends, items, -1)
        while item == -1:
            item = ring.take(ends, items, -1)
        wrong += item != first + i
    return wrong


def test_capacity_is_the_next_power_of_two():
    assert [ring.make_ring(n)[1].size for n in (1, 2, 3, 500, 512)] == [1, 2, 4, 512, 512]


def test_order_full_and_empty_over_many_rounds():
    ends, items = ring.make_ring(4)
    assert ring.peek(ends, items, -7) == ring.take(ends, items, -7) == -7
    for start in range(0, 30, 3):  # 3 of 4 places a round: begins at every place
        assert [ring.put(ends, items, start + i) for i in range(3)] == [True] * 3
        assert ring.peek(ends, items, -1) == start
        assert [ring.take(ends, items, -1) for _ in range(3)] == [start, start + 1, start + 2]
    assert ring.put_range(ends, items, 50, 9) == 4
    assert not ring.put(ends, items, 99)
    assert ring.peek_often(ends, items, 50, 3) == 0
    assert ring.peek_often(ends, items, 51, 3) == 3
    assert ring.take_range(ends, items, 51, 2) == 2
    assert ring.take_range(ends, items, 52, 2) == 0
    assert ring.take(ends, items, -1) == -1


@pytest.mark.parametrize("capacity", [1, 64])
def test_two_threads_lose_and_repeat_nothing(capacity):
    ends, items = ring.make_ring(capacity)
    n = 200 * capacity
    send_range(ends, items, 0, 0)
    receive_range(ends, items, 0, 0)
    sender = threading.Thread(target=send_range, args=(ends, items, 5, n), daemon=True)
    sender.start()
    assert receive_range(ends, items, 5, n) == 0
    sender.join()
    assert ends[ring.HEAD] == ends[ring.TAIL] == n
