"""The scaling study of HPCG: which boxes and process grids, ratios, refusals, comparison of residuals, CSV."""

import csv
import io
import math

import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.hpcg.study import (
    add_ratios,
    compare_histories,
    default_sweep,
    divide_box,
    divisions,
)
from ridgeline.bench.result import to_csv
from ridgeline.runtime.errors import ConfigError, VerificationError


def test_numbers_of_ranks():
    assert default_sweep(1) == [1]
    assert default_sweep(16) == [1, 2, 4, 8, 16]
    assert default_sweep(6) == [1, 2, 4, 6]


def test_weak_scaling_keeps_the_box_of_a_rank():
    assert divisions(24, "weak", [1, 2, 8]) == [
        (1, (24, 24, 24), (1, 1, 1)),
        (2, (24, 24, 24), (2, 1, 1)),
        (8, (24, 24, 24), (2, 2, 2)),
    ]


def test_strong_scaling_keeps_the_global_box():
    counts = [1, 2, 4, 8, 16]
    found = divisions(16, "strong", counts)
    assert [n_ranks for n_ranks, _, _ in found] == counts
    for n_ranks, box, grid in found:
        assert math.prod(grid) == n_ranks
        assert tuple(points * parts for points, parts in zip(box, grid)) == (64, 32, 32)
    assert found[-1][1] == (16, 16, 16)


def test_a_box_is_divided_with_the_least_surface():
    assert divide_box((64, 32, 32), 2) == ((32, 32, 32), (2, 1, 1))
    assert divide_box((32, 32, 64), 4) == ((16, 32, 32), (2, 1, 2))  # of three such, the most ranks in x
    # 48 / 3 is the only cut into thirds that leaves a multiple of 8 points.
    assert divide_box((32, 48, 32), 3) == ((32, 16, 32), (1, 3, 1))


@pytest.mark.parametrize(
    ("edge", "mode", "counts", "words"),
    [
        (12, "weak", [1], "nx = 12"),
        (20, "strong", [1], "nx = 20"),
        (16, "strong", [3, 5], "80 x 16 x 16 cannot be divided over 3 ranks"),
    ],
)
def test_boxes_against_the_rules(edge, mode, counts, words):
    with pytest.raises(ConfigError, match=words):
        divisions(edge, mode, counts)


def row(local, ranks, path, seconds):
    return {"local": local, "ranks": ranks, "path": path, "seconds": seconds}


def test_ratios():
    rows = [
        row("16^3", 2, "reference", 6.0),
        row("16^3", 4, "reference", 8.0),
        row("16^3", 4, "optimised", 2.0),
    ]
    rows.append(row("32^3", 1, "optimised", 1.0))
    add_ratios(rows, "weak")
    assert [one["efficiency"] for one in rows] == [1.0, 0.75, 1.0, 1.0]
    assert [one["speedup"] for one in rows] == [1.0, 1.0, 4.0, None]
    add_ratios(rows, "strong")
    assert rows[1]["efficiency"] == 6.0 * 2 / (8.0 * 4)


def test_histories_must_agree_and_fall():
    right = [0.5, 1e-3, 1e-9]
    compare_histories({"reference": right, "optimised": [0.5, 1e-3 * (1 + 1e-9), 3e-9]}, "16^3")
    with pytest.raises(
        VerificationError, match=r"scaled residual 1 is 0\.0011 in the optimised implementation"
    ):
        compare_histories({"reference": right, "optimised": [0.5, 1.1e-3, 1e-9]}, "16^3")
    with pytest.raises(VerificationError, match="scaled residual 1 is nan"):
        compare_histories({"reference": right, "optimised": [0.5, math.nan, 1e-9]}, "16^3")
    for last in (math.nan, 1.5, math.inf):
        with pytest.raises(VerificationError, match="the residual of the optimised implementation"):
            compare_histories({"optimised": [0.5, last]}, "16^3")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "odd"}, "mode = odd: weak, strong are possible"),
        ({"implementations": ["fast"]}, "implementation 'fast' is unknown; choose from reference, optimised"),
        ({"iterations": 0}, "iterations = 0"),
        ({"repeats": 0}, "repeats = 0"),
        ({"sweep": [1, 2]}, "a sweep with 2 ranks: the job has 1"),
        ({"sweep": [0]}, "a sweep with 0 ranks"),
        ({"local": [8]}, "nx = 8"),
    ],
)
def test_options_out_of_range(options, words):
    with pytest.raises(ConfigError, match=words):
        measure("hpcg-scaling", MPI.COMM_SELF, **{"local": [16], **options})


def test_figures_and_their_csv():
    result = measure("hpcg-scaling", MPI.COMM_SELF, local=[16], iterations=3, repeats=1)
    assert [one["path"] for one in result.rows] == ["reference", "optimised"]
    for one in result.rows:
        assert one["flops"] * one["seconds"] == pytest.approx(
            result.rows[0]["flops"] * result.rows[0]["seconds"]
        )
        assert one["efficiency"] == 1.0
        assert one["rows"] == 16**3
    assert result.rows[0]["residual"] == pytest.approx(result.rows[1]["residual"], rel=1e-9)
    table = list(csv.DictReader(io.StringIO(to_csv(result))))
    assert [one["path"] for one in table] == ["reference", "optimised"]
    assert float(table[1]["seconds"]) == result.rows[1]["seconds"]
    assert table[0]["box"] == "16 x 16 x 16"
