"""Tukey's rule, by hand."""

import numpy as np

from ridgeline.bench.outliers import remove_outliers


def test_values_beyond_the_fences_are_removed():
    # Quartiles of 1 ... 9 with 100 and -50: x_25 = 2.5, x_75 = 7.5 (positions 2.5 and 7.5), fences -5 and 15.
    values = [5, 100, 1, 2, 3, 4, -50, 6, 7, 8, 9]
    assert remove_outliers(values).tolist() == [5, 1, 2, 3, 4, 6, 7, 8, 9]


def test_a_value_on_the_fence_is_kept():
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 16.0]  # quartiles 2 and 6, fences -4 and 12
    assert 16.0 not in remove_outliers(values)
    values[-1] = 12.0
    assert 12.0 in remove_outliers(values)
    assert 16.0 in remove_outliers([*values[:-1], 16.0], reach=2.5)


def test_no_value_one_value_and_equal_values_are_kept():
    assert remove_outliers([]).size == 0
    assert remove_outliers([3.0]).tolist() == [3.0]
    assert remove_outliers(np.full(7, 2.0)).size == 7
