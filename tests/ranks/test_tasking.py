"""Tasking between ranks: futures through mpi4py, an array initialised by all, an error of rank 0 raised on all."""

import pytest

from bench_tools import measure
from ridgeline.bench.tasking import tasking_benchmark as tasking
from ridgeline.runtime.errors import RidgelineError

RANKS = (1, 3)
QUICK_RANKS = (3,)
TIMEOUT = 60


def test_futures_and_initialisation_use_the_ranks_there_are(comm):
    result = measure(
        "tasking",
        comm,
        items=["futures", "initialise"],
        trials=2,
        warm_up=1,
        workers=[1, 2, 5],
        fibonacci=[7],
        n_bytes=808,
    )
    if comm.rank:
        assert not result.rows
        return
    rows = [row for row in result.rows if "mpi4py" in row["primitive"]]
    assert {row["workers"] for row in rows} == {count for count in (1, 2, 5) if count < comm.size}
    assert all(row["trials"] == 2 for row in rows)
    assert len(rows) == 8 * min(comm.size - 1, 2)  # two tasks, two operations, two ways of waiting
    filled = [row["workers"] for row in result.rows if row["primitive"] == "MPI ranks"]
    assert filled == [count for count in (1, 2, 5) if count <= comm.size]
    assert any("needs ranks" in note for note in result.notes) == (comm.size == 1)


def test_an_error_on_rank_zero_is_raised_on_all(comm, monkeypatch):
    def fail(*arguments):
        raise RidgelineError("no more threads")

    monkeypatch.setattr(tasking, "measure_switch", fail)
    with pytest.raises(RidgelineError, match="no more threads"):
        measure("tasking", comm, items=["switch"], trials=1, warm_up=0)
