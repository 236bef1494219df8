"""The table of the ranks stays small at 10^4 of them, and no slow rank is averaged away."""

import json

import numpy as np
import pytest

from ridgeline.runtime.regions import Regions
from ridgeline.simulation.report import MOST_ROWS, gather_ranks
from ridgeline.simulation.step_times import StepClock


class Many:
    """Rank 0 of many: the others' numbers are its own, but those of a slow one, twice as large."""

    rank = 0

    def __init__(self, size, slow):
        self.size, self.slow = size, slow

    def Gather(self, sent, received):
        received[...] = sent
        received[self.slow] *= 2.0

    def bcast(self, value):
        return value


def clock_of(n_calls=3) -> StepClock:
    """Return the clock of calls of one step of 1.5 s, 1 s of it computing."""
    clock = StepClock(Regions(), ("compute",))
    clock.first, clock.first_steps = np.array([4.0, 1.0, 5.0]), 1
    steps = np.ones(n_calls, np.int64)
    clock.distribution.add(1 + np.cumsum(steps), steps, np.tile([[1.0], [0.5], [1.5]], n_calls))
    return clock


SIZES = [(1, 0, 1), (MOST_ROWS, 17, 1), (MOST_ROWS + 1, MOST_ROWS, 2), (10_000, 9_999, 20)]


@pytest.mark.parametrize(("size", "slow", "per_row"), SIZES)
def test_a_row_is_of_one_rank_until_there_are_too_many(size, slow, per_row):
    found = gather_ranks(Many(size, slow), clock_of(), {"output": 0.25, "checkpoint": 0.0})
    assert found["ranks_per_row"] == per_row
    assert found["rank"] == list(range(0, size, per_row))
    assert (found["first_steps"], found["steady_steps"]) == (1, 3)
    assert list(found["first"]) == list(found["steady"]) == ["compute", "other", "total"]
    total = found["steady"]["total"]
    others = [value for i, value in enumerate(total) if i != slow // per_row]
    assert others == [4.5] * (len(total) - 1)
    in_its_row = min(per_row, size - slow // per_row * per_row)
    assert total[slow // per_row] == pytest.approx(4.5 * (in_its_row + 1) / in_its_row, rel=1e-5)
    assert found["first"]["compute"][slow // per_row] >= 4.0
    assert found["between"]["output"][slow // per_row] >= 0.25
    if per_row == 1:
        assert "most" not in found
    else:
        assert found["most"]["steady"]["total"][slow // per_row] == 9.0
        assert found["most"]["first"]["compute"][slow // per_row] == 8.0
    assert len(json.dumps(found)) < 100_000
