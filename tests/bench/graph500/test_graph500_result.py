"""The result of Graph500 from searches of which some, or all, are wrong."""

import pytest
from mpi4py import MPI

from ridgeline.bench.graph500.declaration import Graph500Options
from ridgeline.bench.graph500.measure import official_lines, to_result
from ridgeline.bench.graph500.output import INVALID, SearchRecord

RIGHT = SearchRecord("bfs", 5, 0.5, 100, 0.1)
WRONG = SearchRecord("bfs", 7, 0.5, 0, 0.1, ("the root 7 has the parent 8, not itself",))
FACTS = {"NBFS": 2, "construction_time": 1.0}
TOOK = {"predicted": None, "seconds": 1.0, "all": 1.0}


@pytest.mark.parametrize("searches", [[RIGHT, WRONG], [WRONG, WRONG]])
def test_a_wrong_search_leaves_no_official_figure(searches):
    options = Graph500Options(scale=5, roots=2)
    result = to_result(MPI.COMM_SELF, options, FACTS, searches, TOOK)
    assert result.failures[0] == "bfs from root 7: the root 7 has the parent 8, not itself"
    assert not result.verified
    assert [row["valid"] for row in result.rows] == ["no" if one.failures else "yes" for one in searches]
    assert official_lines(result, options) == ["", INVALID]
    assert result.extra["summaries"] == {}


def test_right_searches_have_their_rate():
    result = to_result(MPI.COMM_SELF, Graph500Options(scale=5, roots=2), FACTS, [RIGHT, RIGHT], TOOK)
    assert result.failures == []
    assert result.rows[0]["rate"] == 200
    assert result.extra["summaries"]["bfs"]["rate"]["harmonic_mean"] == pytest.approx(200)
