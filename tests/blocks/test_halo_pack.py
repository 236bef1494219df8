"""The host packer on its own: threads, and what it may share."""

import numpy as np
import pytest

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.halo import HaloPlan, HostPacker


def pack_all(shape, grid, n_threads: int, dtype, ghost: int) -> tuple[np.ndarray, np.ndarray]:
    """Pack random fields, unpack the buffer into another set; return the messages and the second set's cells."""
    block = Block.of_rank(shape, grid, 0, ghost=ghost)
    sets = [[BlockArray.allocate(block, dtype) for _ in range(2)] for _ in range(2)]
    rng = np.random.default_rng(7)
    for field in sets[0]:
        field.owned[...] = rng.random(block.shape_local)
    plan = HaloPlan(block, 2, np.dtype(dtype).itemsize, corners=True)
    packer = HostPacker(plan, sets, n_threads)
    packer.compile()
    assert all(np.all(field.flat == 0) for field in sets[1])
    packer.pack(0)
    for number, message in enumerate(plan.messages):
        sent = packer.send_buffer(0, number)
        packer.receive_buffer(1, number)[...] = sent
        at = tuple(slice(s, s + n) for s, n in zip(message.send.start, message.send.shape))
        parts = [field.owned[at].ravel() for field in sets[0]]
        np.testing.assert_array_equal(sent, np.concatenate(parts))
    packer.unpack(1)
    for field, filled in zip(*sets):
        field.owned[...] = rng.random(block.shape_local)
        filled.owned[...] = field.owned
    packer.copy_wraps(1)
    for f, field in enumerate(sets[1]):
        for number, message in enumerate(plan.messages):
            at = tuple(slice(s + ghost, s + ghost + n) for s, n in zip(*vars(message.receive).values()))
            part = packer.receive_buffer(1, number).reshape(2, *message.receive.shape)[f]
            np.testing.assert_array_equal(field.ghosted[at], part)
    messages = np.concatenate([packer.send_buffer(0, n) for n in range(len(plan.messages))])
    return messages, np.stack([field.ghosted for field in sets[1]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("grid", "ghost"), [((2, 1, 1), 1), ((1, 2, 2), 2), ((2, 2, 2), 3)])
def test_threads_pack_the_same_messages(grid, ghost, dtype, monkeypatch) -> None:
    monkeypatch.setattr("ridgeline.blocks.box_copies.THREADED_BYTES", 0)
    shape = (20, 21, 22)
    one = pack_all(shape, grid, 1, dtype, ghost)
    for n_threads in (2, 3):
        many = pack_all(shape, grid, n_threads, dtype, ghost)
        for serial, threaded in zip(one, many):
            np.testing.assert_array_equal(serial, threaded)
