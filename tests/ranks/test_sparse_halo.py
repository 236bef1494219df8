"""The halo of a sparse matrix, found from the matrix alone, against what every rank's numbers say."""

from itertools import pairwise

import numpy as np
import pytest

from ridgeline.sparse.halo import HaloPlanner, HaloVector, plan_sparse_halo

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 120
NAMES = ("blocks", "uneven blocks", "scattered", "all on the last", "no rows", "gaps")


def owners(name, comm, rng):
    """The owner of each number; -1: nobody has such a row."""
    if name == "blocks":
        return np.arange(200) * comm.size // 200
    if name == "uneven blocks":
        return np.minimum(np.arange(200) // 30, comm.size - 1)
    if name == "scattered":
        return rng.integers(0, comm.size, 157)
    if name == "all on the last":
        return np.full(60, comm.size - 1)
    if name == "no rows":
        return np.full(10, -1)
    owner = np.full(5000, -1)  # few rows with large gaps, fewer than blocks of numbers
    owner[[3, 4000, 4001, 4999]] = rng.integers(0, comm.size, 4)
    return owner


def matrix(name, comm):
    """Rows and columns of this rank, and those of all ranks: the same random numbers everywhere."""
    rng = np.random.default_rng(11)
    owner = owners(name, comm, rng)
    existing = np.flatnonzero(owner >= 0)
    lengths = rng.integers(0, 6, owner.size)  # rows without columns, columns twice, no symmetry
    columns = [rng.choice(existing, length) if existing.size else existing for length in lengths]
    rows = [rng.permutation(np.flatnonzero(owner == rank)) for rank in range(comm.size)]
    if "blocks" in name:
        rows = [np.sort(numbers) for numbers in rows]
    wanted = [np.concatenate([np.zeros(0, int), *(columns[row] for row in mine)]) for mine in rows]
    indptr = np.append(0, np.cumsum(lengths[rows[comm.rank]]))
    return owner, rows, wanted, indptr


CASES = pytest.mark.parametrize("name", list(NAMES))


@CASES
def test_parts_give_the_plan_of_the_whole(comm, name):
    _, rows, wanted, indptr = matrix(name, comm)
    mine, asked = rows[comm.rank], wanted[comm.rank]
    expected, whole = plan_sparse_halo(comm, mine, indptr, asked)
    planner, columns = HaloPlanner(comm, mine), np.full(asked.size, -7, np.int32)
    cuts = np.unique([0, mine.size // 3, mine.size // 2, mine.size])
    for first, end in pairwise(cuts):
        part = slice(indptr[first], indptr[end])
        planner.locate(indptr[first : end + 1], asked[part], columns[part])
    plan = planner.plan(columns)
    np.testing.assert_array_equal(columns, whole)
    for field, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(plan, field), value)


@CASES
def test_plan_and_exchange(comm, name):
    owner, rows, wanted, indptr = matrix(name, comm)
    mine, asked = rows[comm.rank], wanted[comm.rank]
    plan, columns = plan_sparse_halo(comm, mine, indptr, asked)
    external = np.setdiff1d(asked, mine)
    external = external[np.lexsort((external, owner[external]))]
    local = np.concatenate([mine, external])
    assert (plan.n_owned, plan.n_external) == (mine.size, external.size)
    assert columns.dtype == plan.send_index.dtype == np.int32
    np.testing.assert_array_equal(local[columns], asked)
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    gives = {rank: np.setdiff1d(wanted[rank], rows[rank]) for rank in others}
    gives = {rank: numbers[owner[numbers] == comm.rank] for rank, numbers in gives.items()}
    takes = {rank: external[owner[external] == rank] for rank in others}
    assert plan.neighbours == [rank for rank in others if gives[rank].size or takes[rank].size]
    for i, rank in enumerate(plan.neighbours):
        sent = mine[plan.send_index[plan.send_starts[i] : plan.send_starts[i + 1]]]
        np.testing.assert_array_equal(sent, gives[rank])
        received = external[plan.receive_starts[i] : plan.receive_starts[i + 1]]
        np.testing.assert_array_equal(received, takes[rank])
    # Two vectors under way at once, one of them in another order of its rows; used again after `free`.
    new_number = np.random.default_rng(comm.rank).permutation(mine.size).astype(np.int32)
    first, second = HaloVector(comm, plan), HaloVector(comm, plan.renumbered(new_number))
    assert first.bytes_sent == 8 * sum(numbers.size for numbers in gives.values())
    for step in range(3):
        first.owned[:] = mine + 0.25 * step
        second.owned[new_number] = -mine - 0.5 * step
        first.start()
        second.start()
        first.owned[:] = np.nan  # messages are packed
        first.finish()
        second.finish()
        np.testing.assert_array_equal(first.values[mine.size :], external + 0.25 * step)
        np.testing.assert_array_equal(second.values[mine.size :], -external - 0.5 * step)
        if step == 1:
            first.free()
            first.free()


def test_values_are_one_array(comm):
    _, rows, wanted, indptr = matrix("scattered", comm)
    plan, _ = plan_sparse_halo(comm, rows[comm.rank], indptr, wanted[comm.rank])
    vector = HaloVector(comm, plan)
    assert vector.values.size == plan.n_owned + plan.n_external
    assert not vector.values.any()
    assert np.shares_memory(vector.owned, vector.values)
    vector.free()  # before any exchange


@pytest.mark.parametrize(
    ("rows", "column", "words"),
    [
        ([[0, 1], [2, 3]], 77, "Column 77 has no owner"),
        ([[0, 1], [2, 3]], 4, "Column 4 has no owner"),
        ([[0, 1], [2, 1]], 0, "Row 1 has two owners"),
        ([[0, 1], [2, 3, 2]], 0, "Row 2 occurs twice on rank"),
        ([[0, 1], [2, 3]], -4, "has the number -4"),
    ],
)
def test_errors_are_raised_on_all_ranks(comm, rows, column, words):
    if comm.size == 1 and "owners" in words:
        pytest.skip("two owners need two ranks")
    last = comm.rank == comm.size - 1
    mine = np.array(rows[1] if last else rows[0] if comm.rank == 0 else [10 * comm.rank])
    with pytest.raises(ValueError, match=words):
        plan_sparse_halo(
            comm, mine, np.array([0, 1] + [1] * (mine.size - 1)), np.array([column if last else mine[0]])
        )
    assert comm.allreduce(1) == comm.size
