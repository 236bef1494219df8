"""Box copies against NumPy slices."""

from itertools import product

import numpy as np

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.box_copies import copy_boxes, copy_boxes_threaded

BLOCK = Block((11, 13, 17), (1, 1, 1), (0, 0, 0), ghost=2)
# (start, shape): faces across z, y, x, edges, a corner, a middle box, one cell, nothing.
BOXES = [
    ((0, 0, 0), (2, 13, 17)),
    ((0, 11, 0), (11, 2, 17)),
    ((0, 0, 15), (11, 13, 2)),
    ((0, 0, -2), (11, 13, 1)),
    ((-2, -2, 0), (2, 2, 17)),
    ((11, 0, -2), (2, 13, 2)),
    ((11, 13, 17), (2, 2, 2)),
    ((3, 4, 5), (5, 6, 7)),
    ((3, 4, 5), (1, 1, 1)),
    ((3, 4, 5), (0, 3, 3)),
]


def random_field(dtype, seed: int) -> BlockArray:
    field = BlockArray.allocate(BLOCK, dtype)
    field.flat[:] = np.random.default_rng(seed).random(field.flat.size)
    return field


def in_field(field: BlockArray, start) -> list[int]:
    z, y, x = start
    return [
        field.origin + z * field.plane_pitch + y * field.row_pitch + x,
        field.plane_pitch,
        field.row_pitch,
    ]


def cells(field: BlockArray, start, shape) -> np.ndarray:
    return field.ghosted[tuple(slice(s + 2, s + 2 + n) for s, n in zip(start, shape))]


def test_pack_and_unpack_equal_slices() -> None:
    for dtype, (start, shape) in product([np.float64, np.float32], BOXES):
        case = f"{dtype=}, {start=}, {shape=}"
        field, target = random_field(dtype, 1), random_field(dtype, 2)
        count = int(np.prod(shape))
        buffer = np.full(count + 10, -1, dtype)
        rows = [5, shape[1] * shape[2], shape[2]]
        copy_boxes(field.flat, buffer, np.array([in_field(field, start) + rows + list(shape)], np.uint64))
        np.testing.assert_array_equal(
            buffer[5 : 5 + count].reshape(shape), cells(field, start, shape), err_msg=case
        )
        assert np.all(buffer[:5] == -1), case
        assert np.all(buffer[5 + count :] == -1), case

        wanted = target.flat.copy()
        wanted_field = BlockArray(BLOCK, wanted, target.origin, target.row_pitch, target.plane_pitch)
        cells(wanted_field, start, shape)[...] = cells(field, start, shape)
        copy_boxes(buffer, target.flat, np.array([rows + in_field(target, start) + list(shape)], np.uint64))
        np.testing.assert_array_equal(target.flat, wanted, err_msg=case)


def test_field_wraps_onto_itself() -> None:
    field = random_field(np.float64, 3)
    owned = field.owned.copy()
    boxes = [
        in_field(field, (0, 0, 15)) + in_field(field, (0, 0, -2)) + [11, 13, 2],
        in_field(field, (0, 0, 0)) + in_field(field, (0, 0, 17)) + [11, 13, 2],
    ]
    copy_boxes(field.flat, field.flat, np.array(boxes, np.uint64))
    wrapped = np.pad(owned, ((0, 0), (0, 0), (2, 2)), mode="wrap")
    np.testing.assert_array_equal(field.ghosted[2:-2, 2:-2], wrapped)


def test_threads_copy_their_own_tables() -> None:
    fields = tuple(random_field(np.float64, seed) for seed in (4, 5))
    targets = tuple(BlockArray.allocate(BLOCK, np.float64) for _ in fields)
    boxes = np.zeros((3, 2, 2, 9), np.uint64)  # the second box of each thread and field is empty
    for thread, (start, planes) in enumerate([(0, 4), (4, 4), (8, 3)]):
        place = in_field(fields[0], (start, 0, 0))
        boxes[thread, :, 0] = place + place + [planes, 13, 17]
    copy_boxes_threaded(tuple(f.flat for f in fields), tuple(t.flat for t in targets), boxes)
    for target, field in zip(targets, fields):
        np.testing.assert_array_equal(target.owned, field.owned)
