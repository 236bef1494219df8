"""The time of an iteration of HPCG: figures of each implementation, comparison of residuals, refusals, CSV."""

import csv
import io
import math

import pytest
from mpi4py import MPI

from bench_tools import measure
from ridgeline.bench.benchmark import find_benchmark
from ridgeline.bench.hpcg.hpcg_comparison import compare_histories
from ridgeline.bench.hpcg.hpcg_options import BoxPerRank, divide_box, scaling_figures
from ridgeline.bench.result import to_csv
from ridgeline.runtime.errors import ConfigError, VerificationError

LAW = BoxPerRank(104)


def test_weak_scaling_keeps_the_box_of_a_rank():
    assert LAW.weak({"nx": 24, "ny": None, "nz": None}, 1, 8) == {}


def test_strong_scaling_keeps_the_global_box():
    for n_ranks in (2, 4, 8, 16):
        found = LAW.strong({"nx": 64, "ny": 32, "nz": 32}, 1, n_ranks)
        grid = [found[name] for name in ("npx", "npy", "npz")]
        assert math.prod(grid) == n_ranks
        assert [found[name] * parts for name, parts in zip(("nx", "ny", "nz"), grid)] == [64, 32, 32]
    assert LAW.strong({"nx": 64}, 1, 1) == {}
    assert LAW.strong({"nx": 16, "npz": 2}, 2, 1) == {
        "nx": 16,
        "ny": 16,
        "nz": 32,
        "npx": 1,
        "npy": 1,
        "npz": 1,
    }


def test_a_box_is_divided_with_the_least_surface():
    assert divide_box((64, 32, 32), 2) == ((32, 32, 32), (2, 1, 1))
    assert divide_box((32, 32, 64), 4) == ((16, 32, 32), (2, 1, 2))  # of three such, the most ranks in x
    # 48 / 3 is the only cut into thirds that leaves a multiple of 8 points.
    assert divide_box((32, 48, 32), 3) == ((32, 16, 32), (1, 3, 1))


@pytest.mark.parametrize(
    ("settings", "ranks", "words"),
    [
        ({"nx": 12}, 1, "nx = 12"),
        ({"nx": 20}, 2, "nx = 20"),
        (
            {"nx": 80, "ny": 16, "nz": 16},
            3,
            "80 x 16 x 16 cannot be divided over 3 ranks.*Leave 3 out of --ranks",
        ),
        ({"nx": 16}, 2, "16 x 16 x 16 cannot be divided over 2 ranks"),
    ],
)
def test_boxes_against_the_rules(settings, ranks, words):
    with pytest.raises(ConfigError, match=words):
        LAW.strong(settings, 1, ranks)
    if ranks == 1:
        with pytest.raises(ConfigError, match=words):
            LAW.weak(settings, 1, ranks)


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
        ({"implementations": ["fast"]}, "implementation is fast, but it must be reference, optimised or c"),
        ({"iterations": 0}, "iterations is 0"),
        ({"repeats": 0}, "repeats is 0"),
        ({"nx": 8}, "nx = 8"),
        ({"npx": 3}, "the product must be the number of ranks, 1"),
    ],
)
def test_options_out_of_range(options, words):
    with pytest.raises(ConfigError, match=words):
        measure("hpcg-iteration", MPI.COMM_SELF, **{"nx": 16, **options})


def test_figures_and_their_csv(monkeypatch):
    """Plain C is one of the three; where no compiler is, a note says so."""
    result = measure("hpcg-iteration", MPI.COMM_SELF, nx=16, iterations=3, repeats=1)
    names = [one["implementation"] for one in result.rows]
    assert names in (["reference", "optimised", "c"], ["reference", "optimised"])
    assert len(names) == 3 or "Plain C is left out" in result.notes[0]
    for one in result.rows:
        assert one["flops"] * one["seconds"] == pytest.approx(
            result.rows[0]["flops"] * result.rows[0]["seconds"]
        )
        assert one["seconds"] <= one["median"]
        assert one["rows"] == 16**3
        assert one["speedup"] == result.rows[0]["seconds"] / one["seconds"]
        assert one["residual"] == pytest.approx(result.rows[0]["residual"], rel=1e-9)
    table = list(csv.DictReader(io.StringIO(to_csv(result))))
    assert [one["implementation"] for one in table] == names
    assert float(table[1]["seconds"]) == result.rows[1]["seconds"]
    assert table[0]["box"] == "16 x 16 x 16"
    found = scaling_figures(result.to_dict())
    assert [one.labels["implementation"] for one in found] == [
        {"c": "plain C"}.get(name, name) for name in names
    ]
    assert {one.points for one in found} == {16**3}
    monkeypatch.setenv("MPICC", "no-such-compiler")
    without = measure("hpcg-iteration", MPI.COMM_SELF, nx=16, iterations=1, repeats=1)
    assert [one["implementation"] for one in without.rows] == ["reference", "optimised"]
    assert without.notes[0].startswith("Plain C is left out: no C compiler")


def test_a_study_of_hpcg_times_iterations():
    assert find_benchmark("hpcg").scaling == "hpcg-iteration"
    assert find_benchmark("hpcg-iteration").scaling.law == LAW
