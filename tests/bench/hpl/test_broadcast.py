"""Along which ways panels are broadcast: everyone gets them once, and the modified ring spares the next owner."""

import pytest

from ridgeline.bench.hpl.broadcast import receivers, sender
from ridgeline.bench.hpl.record import BROADCASTS


@pytest.mark.parametrize("algorithm", BROADCASTS)
@pytest.mark.parametrize("size", range(1, 10))
def test_everyone_is_reached_once(algorithm, size):
    reached, ahead = [0], [0]
    while ahead:
        found = receivers(algorithm, ahead.pop(), size)
        reached += found
        ahead += found
    assert sorted(reached) == list(range(size))
    assert all(sender(algorithm, position, size) < position for position in range(1, size))


def test_ways_are_those_of_hpl():
    ways = {name: [sender(name, position, 7) for position in range(1, 7)] for name in BROADCASTS}
    assert ways["1ring"] == [0, 1, 2, 3, 4, 5]
    assert ways["1ringM"] == [0, 0, 2, 3, 4, 5]
    assert ways["2ring"] == [0, 1, 2, 0, 4, 5]
    assert ways["2ringM"] == [0, 0, 2, 3, 0, 5]


@pytest.mark.parametrize("size", range(2, 8))
def test_the_next_owner_forwards_nothing_in_modified_rings(size):
    assert receivers("1ringM", 1, size) == receivers("2ringM", 1, size) == []
