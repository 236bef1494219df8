"""The plan of an exchange, for more ranks than are at hand: what is sent is what is expected."""

import itertools

import numpy as np

from ridgeline.blocks.block import Block, Box, all_directions
from ridgeline.blocks.halo import HaloPlan
from ridgeline.runtime.aligned import CACHE_LINE

SHAPE = (11, 13, 17)


def global_cells(block: Block, box: Box) -> np.ndarray:
    """Flat global index of every cell of a box, periodic."""
    axes = [
        (offset + start + np.arange(n)) % total
        for offset, start, n, total in zip(block.offset_global, box.start, box.shape, SHAPE)
    ]
    return np.ravel_multi_index(np.ix_(*axes), SHAPE)


def test_every_message_meets_its_counterpart() -> None:
    grids = [(1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 2), (3, 1, 2), (4, 3, 2), (1, 5, 3)]
    all_periodic = itertools.product((False, True), repeat=3)
    for grid, periodic, corners in itertools.product(grids, all_periodic, [False, True]):
        case = f"{grid=}, {periodic=}, {corners=}"
        n_ranks = int(np.prod(grid))
        plans = [
            HaloPlan(Block.of_rank(SHAPE, grid, rank, periodic, 2), 3, 4, corners) for rank in range(n_ranks)
        ]
        posted = {}
        for rank, plan in enumerate(plans):
            for message in plan.messages:
                key = (message.rank, rank, message.receive_tag)
                assert key not in posted, case  # neighbours that coincide are told apart by tags
                posted[key] = (message, plan.block)
        for rank, plan in enumerate(plans):
            for message in plan.messages:
                assert message.rank != rank, case
                expected, block = posted.pop((rank, message.rank, message.send_tag))
                assert message.send.shape == expected.receive.shape, case
                assert message.items == expected.items == 3 * message.send.cells, case
                sent = global_cells(plan.block, message.send)
                np.testing.assert_array_equal(sent, global_cells(block, expected.receive), err_msg=case)
            for wrap in plan.wraps:
                assert wrap.source.shape == wrap.target.shape, case
                source = global_cells(plan.block, wrap.source)
                np.testing.assert_array_equal(source, global_cells(plan.block, wrap.target), err_msg=case)
        assert not posted, case


def test_sent_cells_are_owned_and_received_ones_are_each_ghost_once() -> None:
    for corners in (False, True):
        block = Block.of_rank(SHAPE, (3, 1, 2), 3, ghost=2)
        plan = HaloPlan(block, 1, 8, corners)
        filled = np.zeros([n + 4 for n in block.shape_local], int)
        for box in [m.receive for m in plan.messages] + [w.target for w in plan.wraps]:
            filled[tuple(slice(s + 2, s + 2 + n) for s, n in zip(box.start, box.shape))] += 1
        for box in [m.send for m in plan.messages] + [w.source for w in plan.wraps]:
            for start, n, owned in zip(box.start, box.shape, block.shape_local):
                assert 0 <= start <= start + n <= owned, f"{corners=}"
        outside = sum(np.ix_(*[np.r_[1, 1, np.zeros(n, int), 1, 1] for n in block.shape_local]))
        np.testing.assert_array_equal(
            filled, (outside > 0) & (outside <= (3 if corners else 1)), err_msg=f"{corners=}"
        )


def test_two_steps_of_a_star_have_all_they_need_and_no_more() -> None:
    """Followed cell by cell from the owned ones, where other ranks have a part."""
    for grid, periodic in itertools.product([(2, 1, 1), (1, 3, 2), (2, 2, 2)], [True, False]):
        for rank in range(int(np.prod(grid))):
            block = Block.of_rank(SHAPE, grid, rank, (periodic,) * 3, ghost=2)
            plan = HaloPlan(block, 1, 8, wrap=(False, False, False), star=True)
            inside = np.zeros([n + 6 for n in block.shape_local], bool)
            inside[3:-3, 3:-3, 3:-3] = True
            needed = inside.copy()
            for _ in range(2):
                star = [np.roll(needed, shift, axis) for axis in range(3) for shift in (-1, 1)]
                needed = np.logical_or.reduce([needed, *star])
            came = np.zeros(inside.shape, int)
            for message in plan.messages:
                box = zip(message.receive.start, message.receive.shape)
                came[tuple(slice(s + 3, s + 3 + n) for s, n in box)] += 1
            for cell in np.argwhere(needed & ~inside):
                local = [c - 3 for c in cell]
                direction = tuple(int(c >= n) - int(c < 0) for c, n in zip(local, block.shape_local))
                foreign = any(d and p > 1 for d, p in zip(direction, grid))
                comes = foreign and block.neighbour(direction) is not None
                assert came[tuple(cell)] == comes, f"{grid=}, {periodic=}, {rank=}, {local=}"
            assert came.sum() == came[needed & ~inside].sum(), f"{grid=}, {periodic=}, {rank=}: nothing else"


def test_layers_may_be_fewer_than_ghosts() -> None:
    block = Block.of_rank(SHAPE, (2, 1, 1), 0, ghost=2)
    message = HaloPlan(block, 1, 8, layers=1).messages[1]
    assert (message.send, message.receive) == (Box((5, 0, 0), (1, 13, 17)), Box((6, 0, 0), (1, 13, 17)))


def test_messages_lie_apart_in_the_buffer_on_cache_lines() -> None:
    plan = HaloPlan(Block.of_rank(SHAPE, (2, 2, 2), 0, ghost=1), 3, 8, corners=True)
    ends = 0
    for message in plan.messages:
        assert message.offset * 8 % CACHE_LINE == 0
        assert message.offset >= ends
        ends = message.offset + message.items
    assert plan.buffer_items == ends
    assert plan.messages_sent == 26
    assert plan.bytes_sent == 8 * sum(message.items for message in plan.messages)
    assert plan.directions == tuple(all_directions())


def test_axis_that_the_sweep_wraps_drops_out() -> None:
    block = Block.of_rank(SHAPE, (2, 1, 1), 0)
    plan = HaloPlan(block, 1, 8, corners=True, wrap=(False, True, False))
    assert plan.directions == ((-1, 0, 0), (1, 0, 0), (-1, -1, 0), (-1, 1, 0), (1, -1, 0), (1, 1, 0))
    assert [wrap.target.start for wrap in plan.wraps] == [(0, -1, 0), (0, 13, 0)]


def test_one_rank_without_periodic_directions_moves_nothing() -> None:
    plan = HaloPlan(Block(SHAPE, (1, 1, 1), (0, 0, 0), (False,) * 3), 2, 8, corners=True)
    assert (plan.messages, plan.wraps, plan.buffer_items, plan.bytes_sent) == ((), (), 0, 0)
