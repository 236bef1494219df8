"""The coarse problem counted to 1000 ranks, and its keys."""

import numpy as np
import pytest
from mpi4py import MPI

from multigrid_cases import box
from ridgeline.elements.coarse.algebraic_cost import count_ranks
from ridgeline.elements.coarse.direct import WHOLE
from ridgeline.elements.coarse.hierarchy import build_hierarchy, keys_of
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.multigrid.level import PolynomialLevel


@pytest.fixture(scope="module")
def hierarchy():
    """Of 8000 elements."""
    mesh = box((20, 20, 20))
    positions = ElementGrid(mesh, 2).positions
    return build_hierarchy(
        MPI.COMM_SELF, *(PolynomialLevel(mesh, positions, (order,) * 3, ()) for order in (2, 1))
    )


def test_memory_and_messages_of_1000_ranks_are_bounded(hierarchy):
    """Eight elements a rank: what a rank holds by rows is its share, and neighbours are those around it."""
    total = hierarchy.rows.total
    assert total > 2 * WHOLE
    one, many = (count_ranks(hierarchy, ranks) for ranks in (1, 1000))
    assert sum(rank.rows for rank in many) == total == one[0].rows
    assert max(rank.rows for rank in many) <= 27
    assert max(rank.distributed for rank in many) < one[0].whole / 100
    assert all(rank.gathered <= 4 * WHOLE for rank in many)
    assert sum(rank.messages for rank in many) <= 10 * 1000 * 60


def test_keys_are_distinct_and_scattered():
    names = np.concatenate([np.arange(10**5), 2**51 + np.arange(10**5)])
    for level in (0, 1, 7):
        keys = keys_of(names, level)
        assert len(np.unique(keys)) == len(names)
        assert keys.min() >= 1
        assert keys.max() <= 2**52
        assert abs(np.corrcoef(names, keys)[0, 1]) < 0.02
    assert not np.array_equal(keys_of(names, 0), keys_of(names, 1))
