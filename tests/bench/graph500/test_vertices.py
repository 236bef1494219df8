"""Blocks of vertices: every vertex has one owner, also with more ranks than vertices."""

import numpy as np
import pytest

from ridgeline.bench.graph500.graph import VertexBlocks


@pytest.mark.parametrize(("total", "ranks"), [(8, 1), (8, 3), (8, 8), (2, 5), (1024, 7)])
def test_ranks_own_all_vertices_in_order(total, ranks):
    blocks = VertexBlocks(total, ranks)
    owned = [np.arange(blocks.first(rank), blocks.first(rank) + blocks.count(rank)) for rank in range(ranks)]
    np.testing.assert_array_equal(np.concatenate(owned), np.arange(total))
    for rank, vertices in enumerate(owned):
        assert (blocks.owner(vertices) == rank).all()
        np.testing.assert_array_equal(blocks.local(vertices), np.arange(vertices.size))
