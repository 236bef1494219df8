"""The result of Graph500 from searches that are right, or of which some, or all, are wrong."""

import csv
from dataclasses import replace

import pytest
from mpi4py import MPI

from ridgeline.bench.graph500.graph500_options import Graph500Options
from ridgeline.bench.graph500.graph500_run import official_lines, to_result
from ridgeline.bench.graph500.official_output import INVALID, SearchRecord
from ridgeline.bench.result import to_csv

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


def test_all_outputs_tell_of_every_search():
    roots = 5, 7, 9
    searches = [replace(RIGHT, kernel=kernel, root=root) for kernel in ("bfs", "sssp") for root in roots]
    options = Graph500Options(scale=5, roots=len(roots))
    result = to_result(MPI.COMM_SELF, options, FACTS | {"NBFS": len(roots)}, searches, TOOK)
    told = [(row["kernel"], row["search"], row["root"], row["valid"]) for row in result.to_dict()["rows"]]
    assert told == [(k, i, r, "yes") for k in ("bfs", "sssp") for i, r in enumerate(roots, 1)]
    rows = list(csv.DictReader(to_csv(result).splitlines()))
    assert [(row["kernel"], row["root"]) for row in rows] == [(one.kernel, str(one.root)) for one in searches]
    lines = official_lines(result, options)
    assert [line for line in lines if "!" in line] == [
        f"{kernel:4} harmonic_mean_TEPS:     !  200" for kernel in ("bfs", "sssp")
    ]
    assert (
        result.notes[-1]
        == "This is not an official run, which has 64 roots, edge factor 16 and the seeds 2 and 3."
    )


def test_an_official_run_is_not_said_to_be_none():
    searches = [replace(RIGHT, root=root) for root in range(64)]
    result = to_result(MPI.COMM_SELF, Graph500Options(scale=5), FACTS | {"NBFS": 64}, searches, TOOK)
    assert not any("official" in note for note in result.notes)


def test_right_searches_have_their_rate():
    result = to_result(MPI.COMM_SELF, Graph500Options(scale=5, roots=2), FACTS, [RIGHT, RIGHT], TOOK)
    assert result.failures == []
    assert result.rows[0]["rate"] == 200
    assert result.extra["summaries"]["bfs"]["rate"]["harmonic_mean"] == pytest.approx(200)
