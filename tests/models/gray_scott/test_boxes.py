"""The boxes of a block cover every cell once, and those that are sent come first."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ridgeline.blocks.block import Block
from ridgeline.blocks.overlap import split_for_overlap

FACES = list(itertools.product(range(3), (-1, 1)))


@pytest.mark.parametrize("shape", [(8, 7, 9), (1, 1, 1), (2, 5, 3), (3, 2, 2)])
@pytest.mark.parametrize("ghost", [1, 2, 3])
def test_boxes_tile_the_block_and_hold_what_is_sent(shape, ghost):
    block = Block(shape, (1, 1, 1), (0, 0, 0), ghost=ghost)
    for n in range(len(FACES) + 1):
        for faces in itertools.combinations(FACES, n):
            count, early = np.zeros(shape, int), np.zeros(shape, bool)
            first, rest = split_for_overlap(block, set(faces))
            wider = replace(block, ghost=3)
            assert split_for_overlap(wider, set(faces), ghost) == (first, rest), "layers may be fewer"
            for box in first + rest:
                cells = tuple(slice(a, b) for a, b in zip(box[::2], box[1::2]))
                assert count[cells].size > 0
                count[cells] += 1
                if box in first:
                    early[cells] = True
            assert (count == 1).all()
            for axis, side in faces:
                layer = [slice(None)] * 3
                layer[axis] = slice(0, ghost) if side < 0 else slice(-ghost, None)
                assert early[tuple(layer)].all()
