"""Numbers in runs to ranges and back, against slicing one global array."""

import numpy as np
import pytest

from ridgeline.fourier.exchanges.redistribute import Redistribution, equal_ranges

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 60
N = 211


def runs_of(comm, dealing, n=N):
    """(start, count) of this rank's runs, all of one n, dealt in one of several ways."""
    if dealing == "in order":
        cuts = np.sort(np.random.default_rng(3).integers(0, n, comm.size - 1))
        ends = np.concatenate([[0], cuts, [n]])
        return ends[comm.rank : comm.rank + 1], np.diff(ends)[comm.rank : comm.rank + 1]
    cuts = np.unique(np.concatenate([[0, n], np.random.default_rng(4).integers(0, n, 40)]))
    start, count = cuts[:-1], np.diff(cuts)
    if dealing == "all on the last":
        mine = np.full(len(start), comm.rank == comm.size - 1)
    else:
        mine = np.random.default_rng(5).integers(0, comm.size, len(start)) == comm.rank
    return start[mine], count[mine]


def positions(start, count):
    return np.concatenate([np.arange(s, s + c) for s, c in zip(start, count)] or [np.zeros(0, int)])


@pytest.mark.parametrize("dealing", ["in order", "at random", "all on the last"])
@pytest.mark.parametrize("n", [N, 3])
def test_every_number_arrives(comm, dealing, n):
    whole = np.random.default_rng(1).random((n, 2)).view(complex)[:, 0]
    start, count = runs_of(comm, dealing, n)
    mine = positions(start, count)
    bounds = equal_ranges(n, comm.size)
    plan = Redistribution(comm, start, count, bounds)
    assert (plan.n_values, plan.n_range) == (len(mine), np.diff(bounds[comm.rank])[0])
    assert comm.size > 1 or plan.n_buffer == 0
    part = np.full(plan.n_range, np.nan, complex)
    plan.to_ranges(whole[mine], part)
    np.testing.assert_array_equal(part, whole[slice(*bounds[comm.rank])])
    back = np.full(len(mine), np.nan, complex)
    plan.to_runs(part, back, np.full(plan.n_buffer + 5, np.nan, complex))
    np.testing.assert_array_equal(back, whole[mine])


@pytest.mark.parametrize("dealing", ["in order", "at random"])
def test_ranges_may_leave_gaps(comm, dealing):
    """Batches of the equal ranges, one after the other, move all numbers piece by piece."""
    whole = np.random.default_rng(2).random(N).astype(np.float32)
    start, count = runs_of(comm, dealing)
    local = np.cumsum(count) - count
    back = np.full(int(count.sum()), np.nan, np.float32)
    for first in range(0, N, 17):
        bounds = equal_ranges(N, comm.size)
        bounds = np.minimum(bounds[:, :1] + [[first, first + 17]], bounds[:, 1:])
        plan = Redistribution(comm, start, count, bounds)
        part = whole[slice(*bounds[comm.rank])]
        values = np.full(plan.n_values, np.nan, np.float32)
        plan.to_runs(np.ascontiguousarray(part), values)
        at = local[plan.run] + plan.offset
        back[positions(at, plan.length)] = values
    np.testing.assert_array_equal(back, whole[positions(start, count)])


def test_runs_in_order_of_ranks_need_no_buffer(comm):
    start, count = runs_of(comm, "in order")
    plan = Redistribution(comm, start, count, equal_ranges(N, comm.size))
    assert plan.n_buffer == 0


def test_wrong_arrays_are_refused(comm):
    start, count = runs_of(comm, "at random")
    plan = Redistribution(comm, start, count, equal_ranges(N, comm.size))
    good = np.zeros(plan.n_range)
    with pytest.raises(ValueError, match="shape"):
        plan.to_ranges(np.zeros(plan.n_values + 1), good)
    with pytest.raises(ValueError, match="shape"):
        plan.to_runs(np.zeros(2 * plan.n_range)[::2], np.zeros(plan.n_values))
    if plan.n_buffer:
        with pytest.raises(ValueError, match="buffer"):
            plan.to_runs(good, np.zeros(plan.n_values), np.zeros(plan.n_buffer, np.float32))
