"""Benchmarks of what a high-level language costs where ranks communicate: pingpong and bsp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.shared_options import SIZES, Placement, RanksPerNode
from ridgeline.runtime.declared_options import OptionSpec

LANGUAGES = ("C", "mpi4py", "numba-mpi")


Languages = Annotated[
    tuple[str, ...],
    OptionSpec(
        f"Language to measure: {', '.join(LANGUAGES[:-1])} or {LANGUAGES[-1]}.", flags=("--language",)
    ),
]


@dataclass(frozen=True)
class PingPongOptions(BenchmarkOptions):
    """Options of pingpong."""

    sizes: Annotated[tuple[int, int], SIZES] = (1, 2**20)
    trials: Annotated[int, OptionSpec("Number of timed trials of each size.", minimum=1)] = 100
    warm_up: Annotated[int, OptionSpec("Number of trials before the timed ones.", minimum=0)] = 10
    batch: Annotated[int, OptionSpec("Number of round trips in a trial.", minimum=1)] = 10
    languages: Languages = LANGUAGES
    ranks_per_node: RanksPerNode = None


@dataclass(frozen=True)
class BspOptions(BenchmarkOptions):
    """Options of bsp."""

    iterations: Annotated[int, OptionSpec("Number of timed iterations.", minimum=1)] = 100
    reads: Annotated[int, OptionSpec("8-byte loads per iteration.", minimum=0, flags=("--reads", "-r"))] = (
        100_000
    )
    writes: Annotated[
        int, OptionSpec("8-byte stores per iteration.", minimum=0, flags=("--writes", "-w"))
    ] = 100_000
    flops: Annotated[
        int, OptionSpec("Floating-point operations per iteration.", minimum=0, flags=("--flops", "-f"))
    ] = 100_000
    communications: Annotated[
        tuple[int, ...], OptionSpec("Messages per iteration.", minimum=0, flags=("--communications", "-c"))
    ] = (10, 100)
    size: Annotated[int, OptionSpec("Size of a message.", unit="B", minimum=0)] = 8
    words: Annotated[
        int,
        OptionSpec(
            "Number of 8-byte words in the array that is read and written, a power of two.", minimum=1
        ),
    ] = 65_536
    sweep: Annotated[tuple[int, ...], OptionSpec("Number of ranks in the ring.", otherwise="all")] = ()
    placement: Annotated[
        Placement,
        OptionSpec(
            "Choose the ranks of --sweep node after node (packed), or from each node in turn (spread)."
        ),
    ] = "packed"
    ranks_per_node: RanksPerNode = None
    languages: Languages = LANGUAGES


BENCHMARKS = (
    Benchmark(
        name="pingpong",
        short="Compare ping-pongs in C and from Python.",
        summary="Time a round trip of a message in C, through mpi4py, and through numba-mpi in compiled code.",
        pattern="rank 0 and the first rank of another node, or rank 1 if there is one node, send with MPI_Send and "
        "receive with MPI_Recv. All languages run in the same process with the same MPI library, and take turns in "
        "every trial.",
        formula="latency = round trip / 2, the mean over trials without outliers (Tukey's rule, 1.5 interquartile "
        "ranges); throughput = harmonic mean of size / latency.",
        details="This is the measurement of Fig. 9 of Rizvi and Hale. C is compiled when the benchmark starts, and "
        "numba-mpi (GPL-3.0) is measured if it is installed. The row of a missing language says why it is missing. "
        "Messages are sent from host memory only, because the cost of GPU memory arises in the MPI library and is "
        "the same for all three; `ridgeline bench latency --device cuda` measures it.",
        options=PingPongOptions,
        function="pingpong.measure_pingpong",
    ),
    Benchmark(
        name="bsp",
        short="Compare a ring of ranks in C and Python.",
        summary="Time a ring of ranks that alternate computation and communication, in C, with mpi4py and numba-mpi.",
        pattern="in each iteration every rank loads R words of an array, stores W words, and does F floating-point "
        "operations in a chain (x = x / 2 + 1). It then C times sends a message to the next rank of the ring and "
        "receives one from the previous rank (MPI_Isend, MPI_Recv, MPI_Wait).",
        formula="time of an iteration = reads + writes + flops + communications, each the mean over ranks, and then "
        "over iterations without outliers (Tukey's rule).",
        details="The work of a rank does not depend on the number of ranks, so that --sweep measures weak scaling. "
        "With mpi4py, compiled kernels compute and Python communicates; with numba-mpi, one compiled loop does both. "
        "These are the measurements of Figs. 6-8 of Rizvi and Hale. The row of a missing language says why it is "
        "missing. Arrays and messages are in host memory only.",
        options=BspOptions,
        function="bsp.measure_bsp",
    ),
)
