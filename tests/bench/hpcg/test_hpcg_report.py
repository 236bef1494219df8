"""HPCG's report: keys, nesting, order and digits of the official one; what it says when a test fails."""

import json
import math
from dataclasses import replace
from datetime import datetime

import pytest

from ridgeline.bench.hpcg.hpcg_report import (
    AgreementTest,
    HpcgRecord,
    SpectralTest,
    SymmetryTest,
    make_report,
    report_name,
    report_text,
    to_dict,
)
from ridgeline.bench.hpcg.implementation import Times
from ridgeline.bench.hpcg.rating import Charges, LevelSize

# What version 3.1 printed for 16^3 points on one rank (published figures); the memory is that of its own arrays.
OFFICIAL = """\
HPCG-Benchmark
version=3.1
Release date=March 28, 2019
Machine Summary=
Machine Summary::Distributed Processes=1
Machine Summary::Threads per processes=1
Global Problem Dimensions=
Global Problem Dimensions::Global nx=16
Global Problem Dimensions::Global ny=16
Global Problem Dimensions::Global nz=16
Processor Dimensions=
Processor Dimensions::npx=1
Processor Dimensions::npy=1
Processor Dimensions::npz=1
Local Domain Dimensions=
Local Domain Dimensions::nx=16
Local Domain Dimensions::ny=16
Local Domain Dimensions::Lower ipz=0
Local Domain Dimensions::Upper ipz=0
Local Domain Dimensions::nz=16
########## Problem Summary  ##########=
Setup Information=
Setup Information::Setup Time=0.0205922
Linear System Information=
Linear System Information::Number of Equations=4096
Linear System Information::Number of Nonzero Terms=97336
Multigrid Information=
Multigrid Information::Number of coarse grid levels=3
Multigrid Information::Coarse Grids=
Multigrid Information::Coarse Grids::Grid Level=1
Multigrid Information::Coarse Grids::Number of Equations=512
Multigrid Information::Coarse Grids::Number of Nonzero Terms=10648
Multigrid Information::Coarse Grids::Number of Presmoother Steps=1
Multigrid Information::Coarse Grids::Number of Postsmoother Steps=1
Multigrid Information::Coarse Grids::Grid Level=2
Multigrid Information::Coarse Grids::Number of Equations=64
Multigrid Information::Coarse Grids::Number of Nonzero Terms=1000
Multigrid Information::Coarse Grids::Number of Presmoother Steps=1
Multigrid Information::Coarse Grids::Number of Postsmoother Steps=1
Multigrid Information::Coarse Grids::Grid Level=3
Multigrid Information::Coarse Grids::Number of Equations=8
Multigrid Information::Coarse Grids::Number of Nonzero Terms=64
Multigrid Information::Coarse Grids::Number of Presmoother Steps=1
Multigrid Information::Coarse Grids::Number of Postsmoother Steps=1
########## Memory Use Summary  ##########=
Memory Use Information=
Memory Use Information::Total memory used for data (Gbytes)=0.00293857
Memory Use Information::Memory used for OptimizeProblem data (Gbytes)=0
Memory Use Information::Bytes per equation (Total memory / Number of Equations)=717.424
Memory Use Information::Memory used for linear system and CG (Gbytes)=0.00258607
Memory Use Information::Coarse Grids=
Memory Use Information::Coarse Grids::Grid Level=1
Memory Use Information::Coarse Grids::Memory used=0.000308216
Memory Use Information::Coarse Grids::Grid Level=2
Memory Use Information::Coarse Grids::Memory used=3.8968e-05
Memory Use Information::Coarse Grids::Grid Level=3
Memory Use Information::Coarse Grids::Memory used=5.312e-06
########## V&V Testing Summary  ##########=
Spectral Convergence Tests=
Spectral Convergence Tests::Result=PASSED
Spectral Convergence Tests::Unpreconditioned=
Spectral Convergence Tests::Unpreconditioned::Maximum iteration count=11
Spectral Convergence Tests::Unpreconditioned::Expected iteration count=12
Spectral Convergence Tests::Preconditioned=
Spectral Convergence Tests::Preconditioned::Maximum iteration count=1
Spectral Convergence Tests::Preconditioned::Expected iteration count=2
Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon=
Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon::Result=PASSED
Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon::Departure for SpMV=6.29632e-05
Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon::Departure for MG=3.71658e-06
########## Iterations Summary  ##########=
Iteration Count Information=
Iteration Count Information::Result=PASSED
Iteration Count Information::Reference CG iterations per set=50
Iteration Count Information::Optimized CG iterations per set=50
Iteration Count Information::Total number of reference iterations=59750
Iteration Count Information::Total number of optimized iterations=59750
########## Reproducibility Summary  ##########=
Reproducibility Information=
Reproducibility Information::Result=PASSED
Reproducibility Information::Scaled residual mean=3.66234e-41
Reproducibility Information::Scaled residual variance=0
########## Performance Summary (times in sec) ##########=
Benchmark Time Summary=
Benchmark Time Summary::Optimization phase=2.38419e-07
Benchmark Time Summary::DDOT=1.30756
Benchmark Time Summary::WAXPBY=0.699755
Benchmark Time Summary::SpMV=7.1738
Benchmark Time Summary::MG=47.1471
Benchmark Time Summary::Total=56.3567
Floating Point Operations Summary=
Floating Point Operations Summary::Raw DDOT=1.47821e+09
Floating Point Operations Summary::Raw WAXPBY=1.47821e+09
Floating Point Operations Summary::Raw SpMV=1.18643e+10
Floating Point Operations Summary::Raw MG=6.51332e+10
Floating Point Operations Summary::Total=7.99539e+10
Floating Point Operations Summary::Total with convergence overhead=7.99539e+10
GB/s Summary=
GB/s Summary::Raw Read B/W=8.77158
GB/s Summary::Raw Write B/W=2.02881
GB/s Summary::Raw Total B/W=10.8004
GB/s Summary::Total with convergence and optimization phase overhead=10.3485
GFLOP/s Summary=
GFLOP/s Summary::Raw DDOT=1.1305
GFLOP/s Summary::Raw WAXPBY=2.11246
GFLOP/s Summary::Raw SpMV=1.65384
GFLOP/s Summary::Raw MG=1.38149
GFLOP/s Summary::Raw Total=1.41871
GFLOP/s Summary::Total with convergence overhead=1.41871
GFLOP/s Summary::Total with convergence and optimization phase overhead=1.35936
User Optimization Overheads=
User Optimization Overheads::Optimization phase time (sec)=2.38419e-07
User Optimization Overheads::Optimization phase time vs reference SpMV+MG time=0.000260879
DDOT Timing Variations=
DDOT Timing Variations::Min DDOT MPI_Allreduce time=0.0760264
DDOT Timing Variations::Max DDOT MPI_Allreduce time=0.0760264
DDOT Timing Variations::Avg DDOT MPI_Allreduce time=0.0760264
Final Summary=
Final Summary::HPCG result is VALID with a GFLOP/s rating of=1.35936
Final Summary::HPCG 2.4 rating for historical reasons is=1.41871
Final Summary::Reference version of ComputeDotProduct used=Performance results are most likely suboptimal
Final Summary::Reference version of ComputeSPMV used=Performance results are most likely suboptimal
Final Summary::Reference version of ComputeMG used=Performance results are most likely suboptimal
Final Summary::Reference version of ComputeWAXPBY used=Performance results are most likely suboptimal
Final Summary::Results are valid but execution time (sec) is=56.3567
Final Summary::Official results execution time (sec) must be at least=1800
"""
TIMES = Times(
    total=56.3567, dot=1.30756, waxpby=0.699755, spmv=7.1738, multigrid=47.1471, allreduce=0.0760264
)
RECORD = HpcgRecord(
    ranks=1,
    threads=1,
    local=(16, 16, 16),
    process_grid=(1, 1, 1),
    sizes=tuple(LevelSize(n**3, (3 * n - 2) ** 3) for n in (16, 8, 4, 2)),
    level_bytes=(2_500_000, 308_216, 38_968, 5_312),
    vector_bytes=86_070,
    implementation_bytes=0,
    charges=Charges(1195, 50, 50, seconds=56.3567, set_up=0.0205922, optimisation=2.38419e-07),
    reference_kernels=2.38419e-07 / 0.000260879,
    reference_times=TIMES,
    times=TIMES,
    allreduce=(0.0760264,) * 3,
    spectral=SpectralTest(11, 1),
    symmetry=SymmetryTest(6.29632e-05, 3.71658e-06),
    agreement=AgreementTest(1e-16, 1e-16, 0.0, 0),
    reference_residual=3.66234e-41,
    optimised_residual=3.66234e-41,
    residuals=(3.66234e-41,) * 1195,
    quick=False,
    optimised=False,
)


def pairs(text: str) -> list[tuple[str, str]]:
    return [tuple(line.rsplit("=", 1)) for line in text.splitlines() if "=" in line]


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def test_the_report_is_the_official_one() -> None:
    lines = report_text(make_report(RECORD)).splitlines()
    assert lines[0] == "HPCG-Benchmark"
    ours = [line for line in lines if not line.startswith("Agreement with Reference")]
    assert len(lines) - len(ours) == 6
    expected = pairs(OFFICIAL)
    assert [key for key, _ in pairs("\n".join(ours))] == [key for key, _ in expected]
    for (key, value), (_, wanted) in zip(pairs("\n".join(ours)), expected):
        if number(wanted) is None:
            assert value == wanted, key
        else:  # its figures were made from times with more digits than it prints
            assert float(value) == pytest.approx(float(wanted), rel=2e-5), key
            assert len(value) <= len(wanted) + 1, key


def test_keys_are_said_in_json_too() -> None:
    content = to_dict(make_report(RECORD))
    json.dumps(content, allow_nan=False)
    assert content["Spectral Convergence Tests"]["Unpreconditioned"]["Maximum iteration count"] == 11
    assert content["Multigrid Information"]["Coarse Grids"]["2"]["Number of Equations"] == 64
    assert not any(key.startswith("#") for key in content)
    silent = replace(RECORD, times=replace(TIMES, waxpby=0.0))
    content = to_dict(make_report(silent))
    assert content["GFLOP/s Summary"]["Raw WAXPBY"] is None
    assert "GFLOP/s Summary::Raw WAXPBY=inf" in report_text(make_report(silent))


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"spectral": SpectralTest(13, 1)}, "spectral convergence"),
        ({"spectral": SpectralTest(11, 3)}, "spectral convergence"),
        ({"symmetry": SymmetryTest(1.5, 0.0)}, "symmetry"),
        ({"symmetry": SymmetryTest(0.0, math.nan)}, "symmetry"),
        ({"agreement": AgreementTest(0.0, 1e-9, 0.0, 0)}, "agreement with the reference"),
        ({"agreement": AgreementTest(0.0, math.nan, 0.0, 0)}, "agreement with the reference"),
        ({"agreement": AgreementTest(0.0, 0.0, 0.0, 1)}, "agreement with the reference"),
        ({"optimised_residual": 3.7e-41}, "residual of the reference"),
        # A history that the variance does not show, for these residuals are small.
        ({"residuals": (3.66234e-41, 1e-5)}, "residual of the reference"),
        ({"residuals": (3.66234e-41, 0.1)}, "equal norms of all sets"),
        ({"residuals": (3.66234e-41, math.nan)}, "equal norms of all sets"),
    ],
)
def test_any_failure_makes_it_invalid(change, failure) -> None:
    record = replace(RECORD, **change)
    assert failure in record.failures
    lines = report_text(make_report(record)).splitlines()
    assert "Final Summary::HPCG result is=INVALID." in lines
    assert sum("=FAILED" in line for line in lines) == len(record.failures)
    assert not any("VALID with" in line for line in lines)


def test_what_is_official_depends_on_the_time() -> None:
    long = replace(RECORD, times=replace(TIMES, total=1800.0), optimised=True)
    last = report_text(make_report(long)).splitlines()[-1]
    assert (
        last
        == "Final Summary::Please upload results from the YAML file contents to=http://hpcg-benchmark.org"
    )
    quick = report_text(make_report(replace(RECORD, quick=True)))
    assert "You have selected the QuickPath option=" in quick


def test_name_of_the_file() -> None:
    assert report_name(datetime(2026, 1, 2, 3, 4, 5)) == "HPCG-Benchmark_3.1_2026-01-02_03-04-05.txt"
