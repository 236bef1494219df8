"""The report of HPCG 3.1: text with the official keys, so that scripts made for the official code read it.

A line is `group::key=value`, nested groups give more `::`, and numbers have six digits as the official code prints
them. The keys, their nesting and their order are those of version 3.1. One more group, "Agreement with Reference",
holds the tests that the rules do not ask for.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from ridgeline.bench.hpcg.rating import OFFICIAL_SECONDS, count_reads, count_writes
from ridgeline.bench.hpcg.record import EXPECTED_PLAIN, EXPECTED_PRECONDITIONED, HpcgRecord

VERSION = "3.1"
_NAME = "HPCG-Benchmark"
_RELEASE = "March 28, 2019"
_SYMMETRY = "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon"
_SLOW = "Performance results are most likely suboptimal"

Value = str | int | float
Group = list[tuple[str, "Value | Group"]]


def make_report(record: HpcgRecord) -> Group:
    """Return all keys in order: (key, value), or (key, group) with the keys below it. No communication."""
    return [
        ("Release date", _RELEASE),
        *_machine(record),
        *_problem(record),
        ("########## Memory Use Summary  ##########", ""),
        ("Memory Use Information", _memory(record)),
        ("########## V&V Testing Summary  ##########", ""),
        *_tests(record),
        ("########## Iterations Summary  ##########", ""),
        ("Iteration Count Information", _iterations(record)),
        ("########## Reproducibility Summary  ##########", ""),
        (
            "Reproducibility Information",
            [
                ("Result", _result(record.norms.passed)),
                ("Scaled residual mean", record.norms.mean),
                ("Scaled residual variance", record.norms.variance),
            ],
        ),
        ("########## Performance Summary (times in sec) ##########", ""),
        *_performance(record),
        ("Final Summary", _final(record)),
    ]


def report_text(report: Group) -> str:
    """Return the lines of the official file."""
    return "\n".join([_NAME, f"version={VERSION}", *_lines(report, ""), ""])


def report_name(moment: datetime) -> str:
    """Return the official name of the file."""
    return f"{_NAME}_{VERSION}_{moment:%Y-%m-%d_%H-%M-%S}.txt"


def to_dict(report: Group) -> dict[str, Any]:
    """Return the report for JSON: groups as dicts, one dict a level where keys repeat; headings left out."""
    keys = [key for key, _ in report]
    if len(set(keys)) < len(keys):
        starts = [place for place, key in enumerate(keys) if key == keys[0]]
        parts = [report[start:end] for start, end in zip(starts, [*starts[1:], len(report)])]
        return {str(part[0][1]): to_dict(part[1:]) for part in parts}
    return {
        key: to_dict(value) if isinstance(value, list) else _finite(value)
        for key, value in report
        if not key.startswith("#")
    }


def _finite(value: Value) -> Value | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _lines(group: Group, prefix: str) -> list[str]:
    lines = []
    for key, value in group:
        if isinstance(value, list):
            lines += [f"{prefix}{key}=", *_lines(value, f"{prefix}{key}::")]
        else:
            lines.append(f"{prefix}{key}={value:g}" if isinstance(value, float) else f"{prefix}{key}={value}")
    return lines


def _result(passed: bool) -> str:
    return "PASSED" if passed else "FAILED"


def _machine(record: HpcgRecord) -> Group:
    (nx, ny, nz), (npx, npy, npz) = record.local, record.process_grid
    return [
        (
            "Machine Summary",
            [("Distributed Processes", record.ranks), ("Threads per processes", record.threads)],
        ),
        (
            "Global Problem Dimensions",
            [("Global nx", npx * nx), ("Global ny", npy * ny), ("Global nz", npz * nz)],
        ),
        ("Processor Dimensions", [("npx", npx), ("npy", npy), ("npz", npz)]),
        (
            "Local Domain Dimensions",
            [("nx", nx), ("ny", ny), ("Lower ipz", 0), ("Upper ipz", npz - 1), ("nz", nz)],
        ),
    ]


def _problem(record: HpcgRecord) -> Group:
    coarse: Group = []
    for number, size in enumerate(record.sizes[1:], 1):
        coarse += [
            ("Grid Level", number),
            ("Number of Equations", size.rows),
            ("Number of Nonzero Terms", size.nonzeros),
            ("Number of Presmoother Steps", 1),
            ("Number of Postsmoother Steps", 1),
        ]
    finest = record.sizes[0]
    return [
        ("########## Problem Summary  ##########", ""),
        ("Setup Information", [("Setup Time", record.charges.set_up)]),
        (
            "Linear System Information",
            [("Number of Equations", finest.rows), ("Number of Nonzero Terms", finest.nonzeros)],
        ),
        (
            "Multigrid Information",
            [("Number of coarse grid levels", len(record.sizes) - 1), ("Coarse Grids", coarse)],
        ),
    ]


def _memory(record: HpcgRecord) -> Group:
    coarse: Group = []
    for number, n_bytes in enumerate(record.level_bytes[1:], 1):
        coarse += [("Grid Level", number), ("Memory used", n_bytes / 1e9)]
    finest = record.level_bytes[0] + record.vector_bytes
    total = finest + sum(record.level_bytes[1:]) + record.implementation_bytes
    return [
        ("Total memory used for data (Gbytes)", total / 1e9),
        ("Memory used for OptimizeProblem data (Gbytes)", record.implementation_bytes / 1e9),
        ("Bytes per equation (Total memory / Number of Equations)", total / record.sizes[0].rows),
        ("Memory used for linear system and CG (Gbytes)", finest / 1e9),
        ("Coarse Grids", coarse),
    ]


def _tests(record: HpcgRecord) -> Group:
    spectral, symmetry, agreement = record.spectral, record.symmetry, record.agreement
    plain: Group = [
        ("Maximum iteration count", spectral.plain),
        ("Expected iteration count", EXPECTED_PLAIN),
    ]
    preconditioned: Group = [
        ("Maximum iteration count", spectral.preconditioned),
        ("Expected iteration count", EXPECTED_PRECONDITIONED),
    ]
    return [
        (
            "Spectral Convergence Tests",
            [
                ("Result", _result(spectral.passed)),
                ("Unpreconditioned", plain),
                ("Preconditioned", preconditioned),
            ],
        ),
        (
            _SYMMETRY,
            [
                ("Result", _result(symmetry.passed)),
                ("Departure for SpMV", symmetry.spmv),
                ("Departure for MG", symmetry.multigrid),
            ],
        ),
        (
            "Agreement with Reference",
            [
                ("Result", _result(agreement.passed)),
                ("Largest difference for SpMV", agreement.spmv),
                ("Largest difference for MG", agreement.multigrid),
                ("Residual of the exact solution", agreement.solution),
                ("Misplaced columns", agreement.misplaced),
            ],
        ),
    ]


def _iterations(record: HpcgRecord) -> Group:
    charges = record.charges
    return [
        ("Result", _result(record.converged)),
        ("Reference CG iterations per set", charges.reference_iterations),
        ("Optimized CG iterations per set", charges.optimised_iterations),
        ("Total number of reference iterations", charges.reference_iterations * charges.sets),
        ("Total number of optimized iterations", charges.optimised_iterations * charges.sets),
    ]


def _performance(record: HpcgRecord) -> Group:
    charges, times, flops = record.charges, record.times, record.flops
    work = record.sizes, charges.sets, charges.optimised_iterations
    reads, writes = count_reads(*work).total, count_writes(*work).total

    def rate(amount: float, seconds: float) -> float:
        return amount / seconds / 1e9 if seconds > 0 else math.inf

    least, most, mean = record.allreduce
    return [
        (
            "Benchmark Time Summary",
            [
                ("Optimization phase", charges.optimisation),
                ("DDOT", times.dot),
                ("WAXPBY", times.waxpby),
                ("SpMV", times.spmv),
                ("MG", times.multigrid),
                ("Total", times.total),
            ],
        ),
        (
            "Floating Point Operations Summary",
            [
                ("Raw DDOT", flops.ddot),
                ("Raw WAXPBY", flops.waxpby),
                ("Raw SpMV", flops.spmv),
                ("Raw MG", flops.multigrid),
                ("Total", flops.total),
                ("Total with convergence overhead", charges.paid(flops.total)),
            ],
        ),
        (
            "GB/s Summary",
            [
                ("Raw Read B/W", rate(reads, times.total)),
                ("Raw Write B/W", rate(writes, times.total)),
                ("Raw Total B/W", rate(reads + writes, times.total)),
                (
                    "Total with convergence and optimization phase overhead",
                    rate(charges.paid(reads + writes), charges.charged_seconds),
                ),
            ],
        ),
        (
            "GFLOP/s Summary",
            [
                ("Raw DDOT", rate(flops.ddot, times.dot)),
                ("Raw WAXPBY", rate(flops.waxpby, times.waxpby)),
                ("Raw SpMV", rate(flops.spmv, times.spmv)),
                ("Raw MG", rate(flops.multigrid, times.multigrid)),
                ("Raw Total", rate(flops.total, times.total)),
                ("Total with convergence overhead", rate(charges.paid(flops.total), times.total)),
                ("Total with convergence and optimization phase overhead", record.rating),
            ],
        ),
        (
            "User Optimization Overheads",
            [
                ("Optimization phase time (sec)", charges.optimisation),
                (
                    "Optimization phase time vs reference SpMV+MG time",
                    charges.optimisation / record.reference_kernels,
                ),
            ],
        ),
        (
            "DDOT Timing Variations",
            [
                ("Min DDOT MPI_Allreduce time", least),
                ("Max DDOT MPI_Allreduce time", most),
                ("Avg DDOT MPI_Allreduce time", mean),
            ],
        ),
    ]


def _final(record: HpcgRecord) -> Group:
    if not record.valid:
        return [
            ("HPCG result is", "INVALID."),
            (
                "Please review the YAML file contents",
                "You may NOT submit these results for consideration.",
            ),
        ]
    lines: Group = [
        ("HPCG result is VALID with a GFLOP/s rating of", record.rating),
        (
            "HPCG 2.4 rating for historical reasons is",
            record.charges.rating_without_set_up(record.flops.total),
        ),
    ]
    if not record.optimised:
        names = ("ComputeDotProduct", "ComputeSPMV", "ComputeMG", "ComputeWAXPBY")
        lines += [(f"Reference version of {name} used", _SLOW) for name in names]
    site = "http://hpcg-benchmark.org"
    if record.times.total >= OFFICIAL_SECONDS:
        return [*lines, ("Please upload results from the YAML file contents to", site)]
    lines.append(("Results are valid but execution time (sec) is", record.times.total))
    if not record.quick:
        return [*lines, ("Official results execution time (sec) must be at least", OFFICIAL_SECONDS)]
    return [
        *lines,
        (
            "You have selected the QuickPath option",
            "Results are official for legacy installed systems with confirmation from the HPCG Benchmark leaders.",
        ),
        ("After confirmation please upload results from the YAML file contents to", site),
    ]
