"""Along which ways panels are broadcast: everyone gets them once, and the modified ring spares the next owner."""

from itertools import product

from ridgeline.bench.hpl.broadcast import parts_of, receivers, sender
from ridgeline.bench.hpl.record import BROADCASTS


def test_everyone_is_reached_once():
    for algorithm, size in product(BROADCASTS, range(1, 10)):
        case = f"{algorithm=}, {size=}"
        for part in range(parts_of(algorithm, size)):
            reached, ahead = [0], [0]
            while ahead:
                found = receivers(algorithm, ahead.pop(), size, part)
                reached += found
                ahead += found
            assert sorted(reached) == list(range(size)), case


def test_ways_are_those_of_hpl():
    ways = {
        name: [
            [sender(name, position, 7, part) for position in range(1, 7)] for part in range(parts_of(name, 7))
        ]
        for name in BROADCASTS
    }
    assert ways["1ring"] == [[0, 1, 2, 3, 4, 5]]
    assert ways["1ringM"] == [[0, 0, 2, 3, 4, 5]]
    assert ways["2ring"] == [[0, 1, 2, 0, 4, 5]]
    assert ways["2ringM"] == [[0, 0, 2, 3, 0, 5]]
    assert ways["long"][:2] == [[0, 1, 2, 3, 4, 5], [6, 0, 2, 3, 4, 5]]
    assert ways["longM"][:2] == [[0, 0, 2, 3, 4, 5], [0, 6, 0, 3, 4, 5]]
    assert [len(ways[name]) for name in BROADCASTS] == [1, 1, 1, 1, 6, 5]


def test_in_a_roll_all_but_the_owner_get_and_send_the_same():
    for name, size in product(["long", "longM"], [4, 7]):
        case = f"{name=}, {size=}"
        first, parts = size - parts_of(name, size), range(parts_of(name, size))
        for position in range(first, size):
            assert sum(len(receivers(name, position, size, part)) for part in parts) == len(parts) - 1, case
            assert sorted(sender(name, position, size, part) for part in parts)[0] == 0, case


def test_the_next_owner_forwards_nothing_in_modified_ways():
    for name, size in product(["1ringM", "2ringM", "longM"], range(2, 8)):
        assert not any(receivers(name, 1, size, part) for part in range(parts_of(name, size))), (
            f"{name=}, {size=}"
        )
