"""The record of an HPCG run, and the report of HPCG 3.1: text with the official keys, for scripts that read those.

A line of the report is `group::key=value`, nested groups add more `::`, and numbers have six digits as the official
code prints them. The keys, their nesting and their order are those of version 3.1. One more group, "Agreement with
Reference", holds the tests that the rules do not ask for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ridgeline.bench.hpcg.hpcg_options import HpcgOptions
from ridgeline.bench.hpcg.implementation import Times
from ridgeline.bench.hpcg.rating import (
    OFFICIAL_SECONDS,
    Charges,
    HpcgWork,
    LevelSize,
    Norms,
    count_flops,
    count_reads,
    count_writes,
    norms,
)
from ridgeline.bench.hpcg.validity import (
    EXPECTED_PLAIN,
    EXPECTED_PRECONDITIONED,
    AgreementTest,
    SpectralTest,
    SymmetryTest,
    reaches,
)
from ridgeline.bench.result import Result
from ridgeline.io.output_files import write_text
from ridgeline.runtime.files import check_folder

VERSION = "3.1"
_NAME = "HPCG-Benchmark"
_RELEASE = "March 28, 2019"
_SYMMETRY = "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon"
_SLOW = "Performance results are most likely suboptimal"

Value = str | int | float
Group = list[tuple[str, "Value | Group"]]


@dataclass(frozen=True)
class HpcgRecord:
    """All figures of one run, the same on all ranks.

    Times are in seconds of the slowest rank, memory is in bytes of all ranks.

    Attributes
    ----------
    local, process_grid : points of a rank's box and ranks, in x, y, z
    sizes, level_bytes : rows, non-zeros and memory of each level, finest first
    vector_bytes, implementation_bytes : memory of CG's vectors, and of what the optimisation phase made
    reference_kernels : one product and one V-cycle of the reference, mean of the calls
    reference_times, times : of the reference's iterations, and of all timed sets
    allreduce : the least, largest and mean time over ranks
    reference_residual, optimised_residual : scaled residuals that both reached
    residuals : scaled residual of each timed set
    optimised : False where the reference implementation takes the place of the optimised one
    """

    ranks: int
    threads: int
    local: tuple[int, int, int]
    process_grid: tuple[int, int, int]
    sizes: tuple[LevelSize, ...]
    level_bytes: tuple[int, ...]
    vector_bytes: int
    implementation_bytes: int
    charges: Charges
    reference_kernels: float
    reference_times: Times
    times: Times
    allreduce: tuple[float, float, float]
    spectral: SpectralTest
    symmetry: SymmetryTest
    agreement: AgreementTest
    reference_residual: float
    optimised_residual: float
    residuals: tuple[float, ...]
    quick: bool
    optimised: bool = True

    @property
    def norms(self) -> Norms:
        """The mean and variance of the scaled residuals of all sets."""
        return norms(self.residuals)

    @property
    def converged(self) -> bool:
        """Whether the optimised iteration, and every timed set, reached the reference's residual."""
        return all(
            reaches(value, self.reference_residual) for value in (self.optimised_residual, *self.residuals)
        )

    @property
    def failures(self) -> list[str]:
        """The names of the tests that failed, none for a valid result."""
        results = {
            "spectral convergence": self.spectral.passed,
            "symmetry": self.symmetry.passed,
            "agreement with the reference": self.agreement.passed,
            "residual of the reference": self.converged,
            "equal norms of all sets": self.norms.passed,
        }
        return [name for name, passed in results.items() if not passed]

    @property
    def valid(self) -> bool:
        """Whether every test passed."""
        return not self.failures

    @property
    def flops(self) -> HpcgWork:
        """The operations of all sets, as the specification counts them."""
        return count_flops(self.sizes, self.charges.sets, self.charges.optimised_iterations)

    @property
    def rating(self) -> float:
        """The official figure in GFLOP/s."""
        return self.charges.rating(self.flops.total)

    @property
    def reference_gflops(self) -> float:
        """The rate of the reference's own iterations in GFLOP/s, nothing charged."""
        work = count_flops(self.sizes, 1, self.charges.reference_iterations)
        return work.total / self.reference_times.total / 1e9


def make_report(record: HpcgRecord) -> Group:
    """Return all keys of the report in order: (key, value), or (key, group) for a group of keys. No communication."""
    charges = record.charges
    return [
        ("Release date", _RELEASE),
        *_machine(record),
        *_problem(record),
        ("########## Memory Use Summary  ##########", ""),
        ("Memory Use Information", _memory(record)),
        ("########## V&V Testing Summary  ##########", ""),
        *_tests(record),
        ("########## Iterations Summary  ##########", ""),
        (
            "Iteration Count Information",
            [
                ("Result", _result(record.converged)),
                ("Reference CG iterations per set", charges.reference_iterations),
                ("Optimized CG iterations per set", charges.optimised_iterations),
                ("Total number of reference iterations", charges.reference_iterations * charges.sets),
                ("Total number of optimized iterations", charges.optimised_iterations * charges.sets),
            ],
        ),
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
    """Return the text of the official file."""
    return "\n".join([_NAME, f"version={VERSION}", *_lines(report, ""), ""])


def report_name(moment: datetime) -> str:
    """Return the official name of the file for a moment of time."""
    return f"{_NAME}_{VERSION}_{moment:%Y-%m-%d_%H-%M-%S}.txt"


def check_output(options: HpcgOptions) -> Path:
    """Create the folder of the report and return it. Raises OutputError if nothing can be written there."""
    return check_folder(options.output, "the report", "--output")


def write_report(result: Result, options: HpcgOptions) -> list[str]:
    """Write the report under its official name and return the line that says where it is. Called on rank 0."""
    path = check_output(options) / report_name(datetime.now())
    write_text(path, result.extra["text"], "--output")
    return [f"report: {path}"]


def to_dict(report: Group) -> dict[str, Any]:
    """Return the report for JSON: groups as dicts, one dict a level where keys repeat; headings left out."""
    keys = [key for key, _ in report]
    if len(set(keys)) < len(keys):
        starts = [place for place, key in enumerate(keys) if key == keys[0]]
        parts = [report[start:end] for start, end in zip(starts, [*starts[1:], len(report)])]
        return {str(part[0][1]): to_dict(part[1:]) for part in parts}
    content: dict[str, Any] = {}
    for key, value in report:
        if isinstance(value, list):
            content[key] = to_dict(value)
        elif not key.startswith("#"):
            # JSON has neither infinity nor NaN.
            content[key] = None if isinstance(value, float) and not math.isfinite(value) else value
    return content


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
