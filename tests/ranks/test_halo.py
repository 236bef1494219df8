"""Halo exchange against a plain NumPy global array, for every process grid of the ranks at hand."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.blocks.block import BlockArray
from ridgeline.blocks.cartesian import decompose
from ridgeline.blocks.halo import HaloExchange, HaloPlan, HostPacker
from ridgeline.parallel.partition import factorizations

QUICK_RANKS = (3,)

SHAPE = (13, 14, 15)  # no extent divides by 2, 3 and 4 alike; blocks of 3 cells and more
GRIDS = list(factorizations(MPI.COMM_WORLD.size))
PERIODIC = [(True, True, True), (False, False, False), (True, False, True), (False, True, False)]
UNTOUCHED = -7.0


def global_values(field: int, version: int, dtype: np.dtype) -> np.ndarray:
    """A different number in every cell, field and version; exact in float32."""
    cells = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    return (cells + 3000 * field + 20000 * version).astype(dtype)


def expected(block, values: np.ndarray, corners: bool, wrap=(True, True, True)) -> np.ndarray:
    """Owned and ghost cells of a block, cut out of the global array; UNTOUCHED where nobody sends."""
    known: np.ndarray = np.array(True)
    axes_outside: np.ndarray = np.array(0)
    index = []
    for axis, (offset, n) in enumerate(zip(block.offset_global, block.shape_local)):
        local = np.arange(-block.ghost, n + block.ghost)
        place = offset + local
        beyond = (local < 0) | (local >= n)
        inside = (place >= 0) & (place < SHAPE[axis])
        sent = (inside | block.periodic[axis]) & (~beyond | wrap[axis] | (block.process_grid[axis] > 1))
        along = [-1 if a == axis else 1 for a in range(3)]
        known = known & sent.reshape(along)
        axes_outside = axes_outside + beyond.reshape(along)
        index.append(place % SHAPE[axis])
    known = known & (axes_outside <= (3 if corners else 1))
    return np.where(known, values[np.ix_(*index)], values.dtype.type(UNTOUCHED))


def fill(block, fields, version: int) -> list[np.ndarray]:
    """Set owned cells to the version's values and all else to UNTOUCHED; return the global arrays."""
    everywhere = []
    for f, field in enumerate(fields):
        values = global_values(f, version, field.flat.dtype)
        field.flat[:] = UNTOUCHED
        owned = tuple(slice(o, o + n) for o, n in zip(block.offset_global, block.shape_local))
        field.owned[...] = values[owned]
        everywhere.append(values)
    return everywhere


def cases() -> Iterator[tuple]:
    """All combinations of what changes the messages; what does not is spread over them in turn."""
    changes = itertools.product(GRIDS, (1, 2, 3), (False, True), PERIODIC, ("pack", "datatypes"))
    spread = itertools.cycle(itertools.product((np.float64, np.float32), (2, 1, 3), (1, 2)))
    for (grid, ghost, corners, periodic, method), (dtype, n_fields, threads) in zip(changes, spread):
        yield grid, ghost, corners, periodic, method, dtype, n_fields, threads


@pytest.mark.parametrize(
    ("grid", "ghost", "corners", "periodic", "method", "dtype", "n_fields", "threads"), list(cases())
)
def test_ghosts_are_the_neighbours_cells(
    comm, grid, ghost, corners, periodic, method, dtype, n_fields, threads
) -> None:
    cartesian, block = decompose(comm, SHAPE, grid, periodic, ghost)
    sets = [[BlockArray.allocate(block, dtype) for _ in range(n_fields)] for _ in range(2)]
    exchange = HaloExchange.of_fields(cartesian, sets, corners=corners, method=method, n_threads=threads)
    for version in range(3):
        turn = version % 2
        everywhere = fill(block, sets[turn], version)
        other = [field.flat.copy() for field in sets[1 - turn]]
        exchange.start(turn)
        exchange.progress()
        exchange.finish(turn)
        for field, values in zip(sets[turn], everywhere):
            np.testing.assert_array_equal(field.ghosted, expected(block, values, corners))
        for field, before in zip(sets[1 - turn], other):
            np.testing.assert_array_equal(field.flat, before)
    exchange.free()
    cartesian.Free()


@pytest.mark.parametrize("method", ["pack", "datatypes"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
def test_cells_that_are_not_sent_may_be_computed_while_others_travel(comm, grid, corners, method) -> None:
    cartesian, block = decompose(comm, SHAPE, grid, ghost=2)
    fields = [BlockArray.allocate(block, np.float64)]
    exchange = HaloExchange.of_fields(cartesian, [fields], corners=corners, method=method)
    values = fill(block, fields, 0)[0]
    complete = fields[0].owned.copy()
    early = np.zeros(block.shape_local, bool)
    for direction in exchange.directions:
        sides = {0: slice(None), 1: slice(-2, None), -1: slice(None, 2)}
        early[tuple(sides[d] for d in direction)] = True
    fields[0].owned[~early] = UNTOUCHED
    exchange.start()
    fields[0].owned[~early] = complete[~early]
    exchange.finish()
    np.testing.assert_array_equal(fields[0].ghosted, expected(block, values, corners))
    exchange.free()
    cartesian.Free()


@pytest.mark.parametrize("wrap", [(True, True, False), (False, False, False), (True, False, True)])
@pytest.mark.parametrize("grid", GRIDS)
def test_axes_that_the_sweep_wraps_are_left_alone(comm, grid, wrap) -> None:
    cartesian, block = decompose(comm, SHAPE, grid, ghost=2)
    fields = [BlockArray.allocate(block, np.float64) for _ in range(2)]
    exchange = HaloExchange.of_fields(cartesian, [fields], corners=True, wrap=wrap, method="pack")
    everywhere = fill(block, fields, 0)
    exchange.exchange()
    for field, values in zip(fields, everywhere):
        np.testing.assert_array_equal(field.ghosted, expected(block, values, True, wrap))
    exchange.free()
    cartesian.Free()


def test_threads_fill_the_same_ghosts(comm, monkeypatch) -> None:
    monkeypatch.setattr("ridgeline.blocks.box_copies.THREADED_BYTES", 0)
    cartesian, block = decompose(comm, SHAPE, ghost=2)
    one, many = (BlockArray.allocate(block, np.float64, UNTOUCHED) for _ in range(2))
    one.owned[...] = np.random.default_rng(comm.rank).random(block.shape_local)
    many.owned[...] = one.owned
    for field, threads in ((one, 1), (many, 3)):
        exchange = HaloExchange.of_fields(
            cartesian, [[field]], corners=True, method="pack", n_threads=threads
        )
        exchange.exchange()
        exchange.free()
    assert not np.any(many.ghosted == UNTOUCHED)
    np.testing.assert_array_equal(one.ghosted, many.ghosted)
    cartesian.Free()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
def test_auto_chooses_alike_on_all_ranks(comm, grid, corners) -> None:
    cartesian, block = decompose(comm, SHAPE, grid, (True, False, True))
    sets = [[BlockArray.allocate(block, np.float64) for _ in range(2)] for _ in range(2)]
    exchange = HaloExchange.of_fields(cartesian, sets, corners=corners)
    assert len(set(comm.allgather(exchange.method))) == 1
    for turn in (1, 0):
        everywhere = fill(block, sets[turn], turn)
        exchange.exchange(turn)
        for field, values in zip(sets[turn], everywhere):
            np.testing.assert_array_equal(field.ghosted, expected(block, values, corners))
    exchange.free()
    cartesian.Free()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("grid", GRIDS)
def test_counts_are_those_of_the_geometry(comm, grid, corners) -> None:
    cartesian, block = decompose(comm, SHAPE, grid, (True, False, False), ghost=2)
    fields = [BlockArray.allocate(block, np.float32) for _ in range(3)]
    exchange = HaloExchange.of_fields(cartesian, [fields], corners=corners, method="pack")
    # Every ghost cell that is not on this rank nor beyond the boundary was sent by somebody.
    ranks = np.empty(SHAPE)
    for rank in range(comm.size):
        other = type(block).of_rank(SHAPE, grid, rank)
        ranks[tuple(slice(o, o + n) for o, n in zip(other.offset_global, other.shape_local))] = rank
    owner = expected(block, ranks, corners)
    foreign = np.count_nonzero((owner != UNTOUCHED) & (owner != comm.rank))
    assert exchange.bytes_sent == foreign * 3 * 4
    assert exchange.messages_sent == len(exchange.directions) == len(set(exchange.directions))
    for direction in exchange.directions:
        assert block.neighbour(direction) not in (None, comm.rank)
    if comm.size == 1:
        assert exchange.messages_sent == 0
    exchange.free()
    cartesian.Free()


def test_misuse_is_refused(comm) -> None:
    cartesian, block = decompose(comm, SHAPE)
    fields = [BlockArray.allocate(block, np.float64)]
    exchange = HaloExchange.of_fields(cartesian, [fields, fields], method="pack")
    with pytest.raises(RuntimeError, match="set 1 was not started"):
        exchange.finish(1)
    exchange.start(0)
    with pytest.raises(RuntimeError, match="set 0 is still in progress"):
        exchange.start(1)
    with pytest.raises(RuntimeError, match="set 1 was not started"):
        exchange.finish(1)
    exchange.finish(0)
    exchange.free()
    single = BlockArray.allocate(block, np.float32)
    with pytest.raises(ValueError, match="must have the same block, dtype and layout"):
        HaloExchange.of_fields(cartesian, [fields, [single]])
    with pytest.raises(ValueError, match="Sets of 1 and of 2"):
        HaloExchange.of_fields(cartesian, [fields, fields + fields])
    with pytest.raises(ValueError, match="at least one"):
        HaloExchange.of_fields(cartesian, [])
    elsewhere = type(block).of_rank(SHAPE, (comm.size + 1, 1, 1), comm.rank + 1)
    packer = HostPacker(HaloPlan(elsewhere, 1, 8), [[BlockArray.allocate(elsewhere, np.float64)]])
    with pytest.raises(ValueError, match=r"blocks\.cartesian\.decompose"):
        HaloExchange(cartesian, packer, "pack")
    cartesian.Free()


def test_step_allocates_nothing(comm) -> None:
    """What start and finish allocate is independent of the size of the faces."""
    import tracemalloc

    cartesian, block = decompose(comm, (96, 96, 96))
    fields = [BlockArray.allocate(block, np.float64) for _ in range(2)]
    for method in ("pack", "datatypes"):
        exchange = HaloExchange.of_fields(cartesian, [fields], method=method)
        exchange.exchange()
        tracemalloc.start()
        exchange.exchange()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8192
        exchange.free()
    cartesian.Free()
