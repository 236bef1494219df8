"""Effective bytes against a count of the cells that a 7-point stencil really touches."""

import itertools

import numpy as np
import pytest

from ridgeline.models.gray_scott.estimate import effective_bytes


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 4, 4), (2, 5, 3)])
def test_counts_the_cells_that_the_stencil_reads_and_writes(shape):
    read = np.zeros([n + 2 for n in shape], dtype=bool)
    offsets = [(0, 0, 0), *(d for d in itertools.product((-1, 0, 1), repeat=3) if sum(map(abs, d)) == 1)]
    for cell in np.ndindex(*shape):
        for offset in offsets:
            read[tuple(1 + c + o for c, o in zip(cell, offset))] = True
    assert effective_bytes(shape, 8, variables=2) == 16 * (read.sum() + np.prod(shape))


def test_is_the_papers_formula_in_a_cube():
    length = 1024
    fetch = length**3 - 8 - 12 * (length - 2)
    assert effective_bytes((length - 2,) * 3, 8) == 8 * (fetch + (length - 2) ** 3)
