"""Trials and the rows that they give."""

import pytest

from ridgeline.bench.tasking.trials import Series, Trials, tabulate
from ridgeline.runtime.errors import ConfigError


def test_warm_up_is_thrown_away():
    values = iter(range(10))
    assert Trials(3, 2).run(lambda: float(next(values))) == [2.0, 3.0, 4.0]
    assert next(values) == 5
    assert Trials(3, 2).kept(range(5)) == [2.0, 3.0, 4.0]
    assert Trials(3, 2).total == 5


@pytest.mark.parametrize("numbers", [(0, 1), (3, -1)])
def test_numbers_out_of_range_are_refused(numbers):
    with pytest.raises(ConfigError, match=r"It must be [01] or more\.$"):
        Trials(*numbers)


def test_rows_hold_what_tukey_leaves_and_the_ratio_to_their_own_baseline():
    c = Series("futures", "C", "spawn", (1.0, 2.0, 3.0, 2.0, 2.0, 90.0), workers=2, baseline=True)
    python = Series("futures", "Python", "spawn", (6.0, 10.0), workers=2)
    other = Series("futures", "Python", "spawn", (6.0,), workers=4)
    none = Series("futures", "C", "spawn", workers=4, baseline=True, reason="no C compiler")
    rows = tabulate([python, c, other, none])
    assert [row.get("seconds") for row in rows] == [8.0, 2.0, 6.0, None]
    assert [row.get("over_c") for row in rows] == [4.0, 1.0, None, None]
    assert [row.get("outliers") for row in rows] == [0, 1, 0, None]  # fences of the second: 0.875 and 3.875
    assert rows[0]["deviation"] == pytest.approx(8.0**0.5)
    assert rows[2]["deviation"] is None
    assert rows[3]["note"] == "no C compiler"
