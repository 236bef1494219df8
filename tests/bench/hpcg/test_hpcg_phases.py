"""HPCG's flow: what is run how often, from what start, to what residual, and what is charged."""

import numpy as np
import pytest
from mpi4py import MPI

import bench_tools
from ridgeline.bench.hpcg import hpcg_run
from ridgeline.bench.hpcg.geometry import make_geometry
from ridgeline.bench.hpcg.hpcg_run import HpcgRun
from ridgeline.bench.hpcg.optimised_matrix import bytes_per_iteration
from ridgeline.bench.hpcg.reference import ReferenceImplementation
from ridgeline.limits.stream import StreamLimits, StreamRates
from ridgeline.runtime.errors import ConfigError

COMM = MPI.COMM_SELF
GEOMETRY = make_geometry(1, 0, 16, 16, 16)


class Watched(ReferenceImplementation):
    """The reference, which writes down its solves: (most iterations, tolerance, preconditioned, largest |x|)."""

    def __init__(self, comm, level, n_threads=1) -> None:
        super().__init__(comm, level)
        self.solves: list[tuple] = []

    def cg(self, b, x, max_iterations, tolerance, preconditioned=True, regions=None):
        self.solves.append((max_iterations, tolerance, preconditioned, float(np.abs(x.values).max())))
        return super().cg(b, x, max_iterations, tolerance, preconditioned, regions)


def test_flow_of_a_quick_run() -> None:
    benchmark = HpcgRun(COMM, GEOMETRY, 0, make_implementation=Watched)
    record = benchmark.run()
    goal = record.reference_residual
    assert goal == pytest.approx(3.66234e-41, rel=1e-5)  # as the official code prints it
    tests = [(50, 1e-12, False, 0.0)] * 2 + [(50, 1e-12, True, 0.0)] * 2
    assert benchmark.implementation.solves == [*tests, (500, goal, True, 0.0), (50, 0.0, True, 0.0)]
    assert record.valid
    assert not record.optimised
    assert (record.charges.sets, record.charges.optimised_iterations) == (1, 50)
    assert record.residuals == (goal,)
    assert [size.rows for size in record.sizes] == [4096, 512, 64, 8]
    assert [size.nonzeros for size in record.sizes] == [97336, 10648, 1000, 64]
    assert record.reference_gflops > 0


def test_sets_fill_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = HpcgRun(COMM, GEOMETRY, 2.5)
    asked = []
    monkeypatch.setattr(
        hpcg_run, "number_of_sets", lambda seconds, worst: asked.append((seconds, worst)) or 3
    )
    record = benchmark.run()
    assert asked[0][0] == 2.5
    assert asked[0][1] > 0
    assert len(record.residuals) == record.charges.sets == 3
    assert len(set(record.residuals)) == 1
    assert record.valid
    parts = record.times.dot + record.times.waxpby + record.times.spmv + record.times.multigrid
    assert 0 < parts <= record.charges.seconds == record.times.total
    assert record.charges.set_up > 0 < record.charges.optimisation
    assert record.implementation_bytes > 8 * record.sizes[0].nonzeros


def test_a_version_that_does_not_converge_is_not_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpcg_run, "MOST_ITERATIONS", 20)
    record = HpcgRun(COMM, GEOMETRY, 0).run()
    assert record.failures == ["residual of the reference"]
    assert record.charges.optimised_iterations == 20


def test_bytes_that_are_moved() -> None:
    benchmark = HpcgRun(COMM, GEOMETRY, 0)
    benchmark.set_up()
    benchmark.optimise()
    nonzeros = [(3 * n - 2) ** 3 for n in (16, 8, 4, 2)]
    moved = bytes_per_iteration(benchmark.implementation.level)
    # Both halves twice on the finer levels, once on the coarsest, once for A p; then vectors and the transfers.
    matrices = 8 * (3 * nonzeros[0] + 2 * sum(nonzeros[1:3]) + nonzeros[3])
    vectors = 8 * 4096 * 31
    assert matrices < moved < 1.35 * (matrices + vectors)


def test_share_of_stream_is_of_its_best_rate(monkeypatch) -> None:
    rates = StreamRates(copy=30e9, scale=28e9, add=33e9, triad=32e9)
    limits = StreamLimits(rates, rates, 50e9, 1, 1, "float64", 2**20, 1, 2**18, 7)
    monkeypatch.setattr(hpcg_run, "measure_stream", lambda *_: limits)
    result = bench_tools.measure("hpcg", COMM, nx=16, seconds=0)
    share = result.extra["bandwidth"] / 33e9
    assert result.extra["fraction_of_stream"] == pytest.approx(share)
    assert result.extra["stream"]["best"] == 33e9
    assert any(
        f"{share:.2f} of STREAM (add, streaming stores)" in note
        or f"{share:.2f} of STREAM (add, ordinary stores)" in note
        for note in result.notes
    )


def test_figures(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hpcg.dat").write_text("HPCG\n\n16 16 16\n0\n")
    result = bench_tools.measure("hpcg", COMM, stream=False)
    assert result.verified
    assert [row["part"] for row in result.rows] == ["MG", "SpMV", "DDOT", "WAXPBY", "all sets"]
    assert result.rows[-1]["share"] == 1.0
    assert result.extra["failures"] == []
    assert (result.extra["stream"], result.extra["fraction_of_stream"]) == (None, None)
    assert "VALID with a GFLOP/s rating" in result.extra["text"]
    assert any("VALID with a rating of" in note for note in result.notes)
    assert "Box and seconds are those of hpcg.dat." in result.notes


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seconds": -1.0}, "rt is -1.0, but it must be 0 or more"),
        ({"seconds": float("nan")}, "must be 0 or more"),
        ({"nz": 12}, "12"),
        ({"threads": 999}, "--threads 999"),
        ({"nx": 4096}, "GiB on a node"),
    ],
)
def test_refusals(options, words) -> None:
    with pytest.raises(ConfigError, match=words):
        bench_tools.measure("hpcg", COMM, **({"nx": 16} | options))
