"""Hash tables of global numbers: consecutive, scattered, clashing and huge ones."""

import numpy as np
import pytest

from ridgeline.sparse import number_table

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
    table = number_table.empty_table(numbers.size)
    assert table.size >= 2 * numbers.size
    assert number_table.fill_table(numbers, table) == -1
    order = RNG.permutation(numbers.size)
    others = np.setdiff1d(np.concatenate([numbers + 1, np.arange(40)]), numbers)
    wanted = np.concatenate([numbers[order], others])
    places = np.empty(wanted.size, np.int32)
    number_table.look_up(wanted, numbers, table, places)
    expected = np.concatenate([order, np.full(others.size, -1)])
    np.testing.assert_array_equal(places, expected)
    # In rows of all lengths, with successors that are one higher and with ones that are not.
    indptr = np.append(0, np.cumsum(np.arange(wanted.size) % 5))
    indptr = np.append(indptr[indptr < wanted.size], wanted.size)
    places[:] = -7
    assert number_table.look_up_rows(indptr, wanted, numbers, table, places) == others.size
    np.testing.assert_array_equal(places, expected)
    missing, which, distinct = (np.empty(others.size, kind) for kind in (np.int64, np.int32, np.int64))
    free = number_table.empty_table(others.size)
    assert number_table.number_missing(places, wanted, free, missing, distinct, which) == others.size
    np.testing.assert_array_equal(missing, numbers.size + np.arange(others.size))
    np.testing.assert_array_equal(distinct[which], others)


def test_a_number_twice_is_told() -> None:
    assert number_table.fill_table(np.array([5, 9, 5, 9]), number_table.empty_table(4)) == 2


def test_missing_numbers_are_counted_once_and_renumbered() -> None:
    numbers, wanted = np.array([10, 11]), np.array([10, 7, 11, 8, 7, 7])
    table = number_table.empty_table(2)
    number_table.fill_table(numbers, table)
    places = np.empty(6, np.int32)
    assert number_table.look_up_rows(np.array([0, 3, 6]), wanted, numbers, table, places) == 4
    missing, which, distinct = np.empty(4, np.int64), np.empty(4, np.int32), np.empty(4, np.int64)
    free = number_table.empty_table(4)
    assert number_table.number_missing(places, wanted, free, missing, distinct, which) == 2
    np.testing.assert_array_equal(distinct[:2], [7, 8])
    number_table.renumber(missing, which, np.array([20, 30], np.int32), places)
    np.testing.assert_array_equal(places, [0, 20, 1, 30, 20, 20])
