"""Matrices go from row owners to column owners and back, by every method, whatever the counts."""

from collections.abc import Sequence
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.fourier.exchanges import plain_transpose as module
from ridgeline.fourier.exchanges.plain_transpose import Direction, check_limits
from ridgeline.fourier.exchanges.tuned_transpose import Transpose
from ridgeline.fourier.tuning import METHODS, TransposeTuning
from ridgeline.runtime.errors import ConfigError, DecompositionError

QUICK_RANKS = (3,)

TIMEOUT = 300


def entry(direction: int, variable: int, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A number that names its place: distinct for every (direction, variable, row, column)."""
    rows, columns = np.meshgrid(rows, columns, indexing="ij")
    return (direction * 10 + variable + 1) * 1000.0 + rows + 1j * (columns + 1)


def first(counts: Sequence[int], rank: int) -> int:
    return sum(counts[:rank])


def row_views(transpose: Transpose, table: Direction, variable: int, row: int):
    """(columns, view into the arena) of each segment of one of my rows."""
    cuts = table.segment_columns
    for s, (begin, end) in enumerate(pairwise(cuts)):
        at = table.row_start[variable, row, s]
        yield np.arange(begin, end), transpose.arena[at : at + end - begin]


def column_views(transpose: Transpose, table: Direction, variable: int, row: int):
    """(my columns, view into the arena) of each group of any row."""
    cuts = table.group_columns
    for g, (begin, end) in enumerate(pairwise(cuts)):
        at = table.column_start[variable, row, g]
        yield np.arange(begin, end), transpose.arena[at : at + end - begin]


PLACES = ("tile", "agreement", "allocate")  # what a transpose is told beside its tuning


def make(comm, rows, columns, n_forward, n_inverse, dtype, **options) -> Transpose:
    places = {name: options.pop(name) for name in PLACES if name in options}
    return Transpose(comm, rows, columns, n_forward, n_inverse, dtype, TransposeTuning(**options), **places)


def write_rows(transpose: Transpose, chunk: range, my_row: int, came: bool) -> None:
    """Fill rows of a chunk; came: they hold what came back before, until they are overwritten."""
    forward, n_inverse = transpose.forward, transpose.inverse.n_variables
    for row, v in product(chunk, range(forward.n_variables)):
        for cs, view in row_views(transpose, forward, v, row):
            if came and v < n_inverse:
                np.testing.assert_array_equal(view, entry(1, v, [my_row + row], cs)[0])
            view[:] = entry(0, v, [my_row + row], cs)[0]


def answer_columns(transpose: Transpose, chunk: range, n_rows: int, my_column: int) -> None:
    """Check what came to columns of a chunk, and write what goes back."""
    forward, inverse = transpose.forward, transpose.inverse
    n_forward, n_inverse = forward.n_variables, inverse.n_variables
    for row, v in product(range(n_rows), range(max(n_forward, n_inverse))):
        for cs, view in column_views(transpose, forward if v < n_forward else inverse, v, row):
            inside = (cs >= chunk.start) & (cs < chunk.stop)
            if v < n_forward:
                expected = entry(0, v, [row], my_column + cs)[0]
                np.testing.assert_array_equal(view[inside], expected[inside])
            if v < n_inverse:
                view[inside] = entry(1, v, [row], my_column + cs)[0][inside]


def there_and_back(
    comm, rows: Sequence[int], columns: Sequence[int], n_forward: int, n_inverse: int, **kwargs
) -> None:
    dtype = kwargs.pop("dtype", np.complex128)
    transpose = make(comm, rows, columns, n_forward, n_inverse, dtype, **kwargs)
    my_row, my_column = first(rows, comm.rank), first(columns, comm.rank)
    for turn in range(2):  # twice: the second finds the first's numbers in every region
        forward, inverse = transpose.forward, transpose.inverse
        assert (forward.n_variables, inverse.n_variables) == (n_forward, n_inverse)
        forward.open()
        for chunk, cut in enumerate(pairwise(forward.chunks)):
            write_rows(transpose, range(*cut), my_row, came=turn > 0)
            forward.start(chunk)
            forward.progress()
        forward.finish()
        inverse.open()
        for chunk, cut in enumerate(pairwise(inverse.chunks)):
            answer_columns(transpose, range(*cut), sum(rows), my_column)
            inverse.start(chunk)
            inverse.progress()
        inverse.finish()
    for row in range(rows[comm.rank]):
        for v in range(n_inverse):
            for cs, view in row_views(transpose, inverse, v, row):
                np.testing.assert_array_equal(view, entry(1, v, [my_row + row], cs)[0])


UNEVEN = ((5, 4, 3, 7), (9, 2, 6, 5))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("batch", "n_forward", "n_inverse"), [(1, 4, 3), (2, 4, 3), (3, 4, 3), (4, 4, 3), (2, 3, 5), (4, 1, 1)]
)
def test_there_and_back(comm, method: str, batch: int, n_forward: int, n_inverse: int) -> None:
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    there_and_back(comm, rows, columns, n_forward, n_inverse, batch=batch, method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [((1, 1, 1, 1), (1, 1, 1, 1)), ((4, 0, 2, 3), (0, 7, 1, 2)), ((8, 8, 8, 8), (33, 1, 16, 15))],
)
def test_counts(comm, method: str, rows: Sequence[int], columns: Sequence[int]) -> None:
    there_and_back(
        comm, rows[: comm.size], columns[: comm.size], 2, 3, batch=2, method=method, dtype=np.complex64
    )


@pytest.mark.parametrize("ranks_per_node", [1, 2, 4])
def test_staging_through_nodes(comm, ranks_per_node: int) -> None:
    if comm.size % ranks_per_node:
        pytest.skip("unequal nodes")
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    there_and_back(comm, rows, columns, 4, 3, batch=3, method="node", ranks_per_node=ranks_per_node)


def test_staging_needs_equal_nodes(comm) -> None:
    if comm.size != 3:
        pytest.skip("needs 3 ranks")
    with pytest.raises(DecompositionError, match="the 3 ranks are divided equally over the nodes"):
        make(comm, (1, 1, 1), (1, 1, 1), 1, 1, np.complex64, method="node", ranks_per_node=2)


@pytest.mark.parametrize(("tile", "n_chunks"), [(1, 2), (4, 3), (16, 4), (5, 9)])
def test_overlap_in_chunks_of_tiles(comm, tile: int, n_chunks: int) -> None:
    rows, columns = (13, 9, 12, 11)[: comm.size], (33, 36, 48, 40)[: comm.size]
    options = {"method": "ialltoallv", "batch": 2, "tile": tile, "n_chunks": n_chunks}
    transpose = make(comm, rows, columns, 4, 3, np.complex128, **options)
    assert np.all(transpose.forward.group_columns[:-1] % tile == 0)
    assert len(transpose.inverse.chunks) - 1 == min(n_chunks, -(-33 // tile))
    assert len(transpose.forward.chunks) - 1 == min(n_chunks, *rows)
    there_and_back(comm, rows, columns, 4, 3, **options)


@pytest.mark.parametrize("method", METHODS)
def test_fewer_variables(comm, method: str) -> None:
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    for n in (1, 2, 3):
        transpose = make(comm, rows, columns, 4, 4, np.complex128, method=method, batch=3)
        transpose.arena[:] = -1
        comm.Barrier()  # before any rank writes where all may share
        for v in range(4):
            for row in range(rows[comm.rank]):
                for cs, view in row_views(transpose, transpose.forward, v, row):
                    view[:] = entry(0, v, [first(rows, comm.rank) + row], cs)[0]
        transpose.forward.exchange(n)
        mine = range(first(rows, comm.rank), first(rows, comm.rank) + rows[comm.rank])
        for v in range(4):
            for row in range(sum(rows)):
                for cs, view in column_views(transpose, transpose.forward, v, row):
                    expected = entry(0, v, [row], first(columns, comm.rank) + cs)[0]
                    moved = v < n or row in mine
                    if moved:
                        np.testing.assert_array_equal(view, expected)
                    elif transpose.method not in ("alltoall", "shared"):  # padding; what their owner wrote
                        assert np.all(view == -1)


@pytest.mark.parametrize("method", METHODS)
def test_arena_holds_each_entry_once_per_side(comm, method: str) -> None:
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    transpose = make(comm, rows, columns, 3, 4, np.complex64, method=method, batch=2)
    touched = np.zeros(len(transpose.arena), int)
    for row in range(rows[comm.rank]):
        for v in range(4):
            for _, view in row_views(transpose, transpose.inverse, v, row):
                touched[np.arange(len(view)) + (view.ctypes.data - transpose.arena.ctypes.data) // 8] += 1
    for row in range(sum(rows)):
        for v in range(4):
            for _, view in column_views(transpose, transpose.inverse, v, row):
                touched[np.arange(len(view)) + (view.ctypes.data - transpose.arena.ctypes.data) // 8] += 1
    own = 4 * rows[comm.rank] * columns[comm.rank]
    assert np.count_nonzero(touched == 2) == own, "the own block is one place for both sides"
    assert touched.max() <= 2
    begin = transpose.plan.place(0, comm.rank, True) if transpose.method == "shared" else 0
    assert np.all(touched[begin : begin + own] == 2)
    sides = 4 * (rows[comm.rank] * sum(columns) + sum(rows) * columns[comm.rank])
    assert touched.sum() == sides
    assert np.array_equal(transpose.forward.row_start, transpose.inverse.row_start[:3])
    assert np.array_equal(transpose.forward.column_start, transpose.inverse.column_start[:3])
    assert transpose.arena.ctypes.data % 64 == 0


def test_auto_measures_and_all_ranks_agree(comm, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))
    rows, columns = (16,) * comm.size, (64,) * comm.size
    per_node = 2 if comm.size == 4 else None
    transpose = make(comm, rows, columns, 4, 3, np.complex64, batch=2, ranks_per_node=per_node)
    assert len(set(comm.allgather((transpose.method, str(transpose.trial))))) == 1
    if comm.size == 1:
        assert transpose.method == "alltoallv"
        assert transpose.trial is None
    else:
        expected = {"alltoallv", "ialltoallv", "alltoall"} | ({"node"} if comm.size == 4 else {"shared"})
        assert set(transpose.trial.seconds) == expected
        assert transpose.method == transpose.trial.taken
        again = make(comm, rows, columns, 4, 3, np.complex64, batch=2, ranks_per_node=per_node)
        assert (again.method, again.trial.earlier_run) == (transpose.method, True)
        other = make(comm, rows, columns, 4, 3, np.complex128, batch=2, ranks_per_node=per_node)
        assert not other.trial.earlier_run
    there_and_back(comm, rows, columns, 4, 3, batch=2, ranks_per_node=per_node)


def test_arena_in_memory_of_the_caller(comm) -> None:
    given = []

    def allocate(n: int, dtype: np.dtype) -> np.ndarray:
        given.append(np.empty(n, dtype))
        return given[-1]

    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    there_and_back(comm, rows, columns, 2, 2, allocate=allocate, dtype=np.complex64, method="alltoallv")
    assert len(given) == 1
    assert given[0].dtype == np.complex64


def test_rows_of_a_process_grid_agree_on_a_method(comm) -> None:
    if comm.size != 4:
        pytest.skip("needs 4 ranks")
    row = comm.Split(comm.rank // 2, comm.rank)
    # Padding is for the first row alone: both must leave it out.
    columns = (8, 8) if comm.rank < 2 else (1, 63)
    transpose = make(row, (8, 8), columns, 2, 2, np.complex64, agreement=comm)
    assert set(transpose.trial.seconds) == {"alltoallv", "ialltoallv", "shared"}
    assert len(set(map(str, comm.allgather((transpose.method, transpose.trial))))) == 1
    row.Free()


class CountingComm:
    """A communicator that adds up what collective exchanges hand to other ranks."""

    def __init__(self, comm, totals: list[int] | None = None) -> None:
        self.inner = comm
        self.totals = [0, 0] if totals is None else totals

    def __getattr__(self, name: str):
        return getattr(self.inner, name)

    def _count(self, sizes: Sequence[int]) -> None:
        for peer, size in enumerate(sizes):
            if peer != self.inner.rank and size:
                self.totals[0] += int(size)
                self.totals[1] += 1

    def Split(self, color: int, key: int):
        return CountingComm(self.inner.Split(color, key), self.totals)

    def Alltoall(self, send, receive) -> None:
        self._count([send[1] * send[2].Get_size()] * self.inner.size)
        self.inner.Alltoall(send, receive)

    def Alltoallv(self, send, receive) -> None:
        self._count(send[1] * send[3].Get_size())
        self.inner.Alltoallv(send, receive)

    def Ialltoallv(self, send, receive):
        self._count(send[1] * send[3].Get_size())
        return self.inner.Ialltoallv(send, receive)

    def Alltoallw(self, send, receive) -> None:
        self._count([count * kind.Get_size() for count, kind in zip(send[1], send[3])])
        self.inner.Alltoallw(send, receive)


@pytest.mark.parametrize("method", [method for method in METHODS if method != "shared"])
@pytest.mark.parametrize("batch", [1, 3, 4])
def test_bytes_and_messages_are_those_that_mpi_gets(comm, method: str, batch: int) -> None:
    rows, columns = (counts[: comm.size] for counts in UNEVEN)
    counting = CountingComm(comm)
    per_node = 2 if comm.size == 4 else 1
    options = {"method": method, "batch": batch, "ranks_per_node": per_node}
    transpose = make(counting, rows, columns, 4, 3, np.complex64, **options)
    for direction, n in ((transpose.forward, None), (transpose.inverse, None), (transpose.forward, 2)):
        counting.totals[:] = 0, 0
        direction.exchange(n)
        assert counting.totals == [direction.bytes_sent(n), direction.messages(n)]
    if method in ("alltoallv", "ialltoallv") or (method == "node" and comm.size < 4):
        entries = rows[comm.rank] * (sum(columns) - columns[comm.rank])
        assert transpose.forward.bytes_sent() == 4 * 8 * entries
    if method == "alltoallv":
        assert transpose.forward.messages() == (comm.size - 1) * -(-4 // batch)
    assert transpose.inverse.bytes_held() == 3 * 8 * sum(rows) * columns[comm.rank]


@pytest.mark.parametrize("method", ["alltoallv", "ialltoallv"])
@pytest.mark.parametrize("counts", [UNEVEN, ((0, 3, 2, 1), (4, 0, 1, 2)), ((5, 0, 0, 0), (1, 2, 1, 3))])
def test_both_sides_of_a_call_begin_at_different_addresses(comm, method: str, counts) -> None:
    """At equal addresses, Open MPI's non-blocking collectives would send what is to be received."""
    rows, columns = (some[: comm.size] for some in counts)
    transpose = make(comm, rows, columns, 2, 3, np.complex128, method=method, batch=2, n_chunks=2)
    for forward, direction in ((True, transpose.forward), (False, transpose.inverse)):
        for chunk in range(len(direction.chunks) - 1):
            for send, receive in transpose._exchange.calls(forward, chunk, direction.n_variables):
                moved = max(send[1].sum(), receive[1].sum())
                assert send[0].ctypes.data != receive[0].ctypes.data or moved == 0


def test_places_past_two_to_the_31(comm) -> None:
    """The own block of rank 0 is 2^31 numbers and more, untouched; the messages lie behind it."""
    if comm.size != 2 or MPI.Get_version()[0] < 4:
        pytest.skip("needs 2 ranks and an MPI library of version 4")
    rows, columns = (65536, 1), (32769, 1)
    enough = True
    try:
        transpose = make(comm, rows, columns, 1, 1, np.complex64, method="alltoallv")
    except MemoryError:
        enough = False
    if not comm.allreduce(enough, MPI.LAND):
        pytest.skip("no 16 GiB of addresses")
    edge = transpose.forward.row_start[0, :, -1] if comm.rank == 0 else transpose.forward.row_start[0, :, 0]
    assert comm.rank == 1 or edge.min() > 2**31 - 1
    last = transpose.forward.segment_columns
    size = last[-1] - last[-2] if comm.rank == 0 else last[1]
    for row, at in enumerate(edge):
        transpose.arena[at : at + size] = row + 1j * np.arange(size)
    transpose.forward.exchange()
    came = transpose.forward.column_start[0, :, 0]
    if comm.rank == 0:
        np.testing.assert_array_equal(
            transpose.arena[came[-1] : came[-1] + columns[0]], 1j * np.arange(columns[0])
        )
    else:
        np.testing.assert_array_equal(transpose.arena[came[:-1]], np.arange(65536))


def test_wrong_use(comm) -> None:
    n = comm.size
    with pytest.raises(ValueError, match="counts of rows and of columns"):
        make(comm, [1] * (n + 1), [1] * n, 1, 1, np.complex64)
    with pytest.raises(ValueError, match="must not be negative"):
        make(comm, [-1] * n, [1] * n, 1, 1, np.complex64)
    with pytest.raises(ValueError, match="complex numbers, not float32"):
        make(comm, [1] * n, [1] * n, 1, 1, np.float32)
    with pytest.raises(ValueError, match="must be from 1 to 4"):
        make(comm, [1] * n, [1] * n, 1, 1, np.complex64, batch=5)
    with pytest.raises(
        ConfigError, match=r'"alltoallw"\. It must be alltoallv, ialltoallv, alltoall, node, shared'
    ):
        make(comm, [1] * n, [1] * n, 1, 1, np.complex64, method="alltoallw")
    transpose = make(comm, [4] * n, [4] * n, 2, 2, np.complex64, method="ialltoallv", n_chunks=2)
    with pytest.raises(RuntimeError, match="the next is 0"):
        transpose.forward.start(1)
    with pytest.raises(RuntimeError, match="2 chunks, but only 0 were started"):
        transpose.forward.finish()
    with pytest.raises(ValueError, match="planned for 2"):
        transpose.forward.start(0, 3)
    transpose.forward.start(0, 1)
    with pytest.raises(RuntimeError, match="the same number of variables"):
        transpose.forward.start(1, 2)
    transpose.forward.start(1, 1)
    transpose.forward.finish()


def test_old_mpi_is_told_its_limit() -> None:
    check_limits(2**31 - 1, 3)
    check_limits(2**40, 4)
    with pytest.raises(DecompositionError, match="MPI library of version 4"):
        check_limits(2**31, 3)


@pytest.mark.parametrize("method", ["alltoallv", "ialltoallv"])
def test_an_exchange_is_under_way_from_its_first_start_to_its_end(comm, monkeypatch, method):
    """What is computed between chunks counts: an overlapped exchange is not faster than the messages were."""
    clock = iter(range(0, 10_000, 7))
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    rows, columns = [8] * comm.size, [6] * comm.size
    transpose = make(comm, rows, columns, 2, 2, np.complex128, method=method)
    assert transpose.under_way == 0
    if comm.size > 1:
        assert (len(transpose.forward.chunks) > 2) == (method == "ialltoallv")
    for chunk in range(len(transpose.forward.chunks) - 1):
        transpose.forward.start(chunk)
        next(clock)  # what the caller computes
    transpose.forward.finish()
    n = len(transpose.forward.chunks) - 1
    assert (transpose.forward.under_way, transpose.inverse.under_way) == (7 * (n + 1), 0)
    transpose.inverse.exchange()
    assert transpose.under_way == 7 * (n + 1) + 7
    transpose.free()
