"""Transposes in memory that the ranks of a node share: who waits for whom, what is counted, what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.ranks.test_transpose import UNEVEN, column_views, make, row_views

from ridgeline.fourier.exchanges import shared_memory
from ridgeline.runtime.errors import DecompositionError

RANKS = (1, 2, 3, 4)
QUICK_RANKS = (3,)
TIMEOUT = 240


def test_shared_memory_takes_no_message_and_half_the_memory(comm) -> None:
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    shared, sent = (make(comm, rows, columns, 4, 3, np.complex64, method=m) for m in ("shared", "alltoallv"))
    assert shared.forward.messages() == 0
    assert shared.forward.bytes_sent(2) == sent.forward.bytes_sent(2)
    assert shared.inverse.bytes_sent() == sent.inverse.bytes_sent()
    assert shared.memory() <= sent.memory()
    assert (shared.workspace is None) == (comm.size > 1)
    words = shared.describe()
    assert words.startswith("shared memory, of which other" if comm.size > 1 else "none on one rank")
    shared.free()
    assert not hasattr(shared, "arena")


def test_shared_memory_waits_for_readers_between_exchanges_of_one_direction(comm) -> None:
    if comm.size == 1:
        pytest.skip("needs others")
    rows, columns = (400,) * comm.size, (300,) * comm.size
    transpose = make(comm, rows, columns, 1, 1, np.complex128, method="shared")
    direction = transpose.forward
    for turn in range(20):
        direction.open()
        for row in range(400):
            for _, view in row_views(transpose, direction, 0, row):
                view[:] = turn
        direction.exchange()
        if turn % comm.size == comm.rank:  # one reads late and long, while the others go on
            for row in range(sum(rows)):
                for _, view in column_views(transpose, direction, 0, row):
                    assert np.all(view == turn)
    with pytest.raises(RuntimeError, match="Open the second one before it starts"):
        direction.start(0)
    transpose.free()


def test_shared_memory_is_refused_across_nodes_and_without_room(comm, monkeypatch) -> None:
    if comm.size == 1:
        pytest.skip("one rank shares nothing")
    even = (4,) * comm.size
    with pytest.raises(
        DecompositionError, match=f"requires all {comm.size} ranks of an exchange on one node"
    ):
        make(comm, even, even, 1, 1, np.complex64, method="shared", ranks_per_node=1)
    monkeypatch.setattr(shared_memory.shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
    with pytest.raises(DecompositionError, match="bytes for each of them in /dev/shm"):
        make(comm, even, even, 1, 1, np.complex64, method="shared")
    assert "shared" not in make(comm, even, even, 1, 1, np.complex64).trial.seconds


def test_an_arena_of_the_caller_is_not_shared(comm) -> None:
    if comm.size == 1:
        pytest.skip("one rank shares nothing")
    even = (4,) * comm.size
    transpose = make(comm, even, even, 1, 1, np.complex64, allocate=lambda n, dtype: np.zeros(n, dtype))
    assert "shared" not in transpose.trial.seconds
