"""Hash tables from global numbers to local ones."""

import numpy as np
import pytest

from ridgeline.sparse import halo

RNG = np.random.default_rng(5)
NUMBERS = {
    "none": np.zeros(0, np.int64),
    "one": np.array([2**62]),
    "consecutive": np.arange(1000, 1999),
    "scattered": RNG.choice(2**62, 777),
    "strided": np.arange(500) * 4096,
    "shuffled": RNG.permutation(300),
}


@pytest.mark.parametrize("name", list(NUMBERS))
def test_every_number_is_found_and_no_other(name: str) -> None:
    numbers = NUMBERS[name].astype(np.int64)
    table = halo.empty_table(numbers.size)
    assert table.size >= 2 * numbers.size
    assert halo.fill_table(numbers, table) == -1
    order = RNG.permutation(numbers.size)
    others = np.setdiff1d(np.concatenate([numbers + 1, np.arange(40)]), numbers)
    wanted = np.concatenate([numbers[order], others])
    places = np.empty(wanted.size, np.int32)
    halo.look_up(wanted, numbers, table, places)
    expected = np.concatenate([order, np.full(others.size, -1)])
    np.testing.assert_array_equal(places, expected)
    # In rows of all lengths, with successors that are one higher and with ones that are not.
    indptr = np.append(0, np.cumsum(np.arange(wanted.size) % 5))
    indptr = np.append(indptr[indptr < wanted.size], wanted.size)
    places[:] = -7
    assert halo.look_up_rows(indptr, wanted, numbers, table, places) == others.size
    np.testing.assert_array_equal(places, expected)
    # The same, had the rows begun elsewhere.
    places[:] = -7
    assert halo.look_up_rows(indptr + 11, wanted, numbers, table, places) == others.size
    np.testing.assert_array_equal(places, expected)


def test_a_number_twice_is_told() -> None:
    assert halo.fill_table(np.array([5, 9, 5, 9]), halo.empty_table(4)) == 2


def test_distinct_numbers_are_found_in_their_order() -> None:
    numbers = np.array([7, 2**62, 7, 8, 2**62])
    which, distinct = np.empty(5, np.int32), np.empty(5, np.int64)
    assert halo.find_distinct(numbers, halo.empty_table(5), distinct, which) == 3
    np.testing.assert_array_equal(distinct[:3], [7, 2**62, 8])
    np.testing.assert_array_equal(which, [0, 1, 0, 2, 1])
