"""Benchmarks of what a high-level language costs where ranks communicate: pingpong and bsp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.bench.shared_options import SIZES, RanksPerNode
from ridgeline.runtime.declared_options import OptionSpec

LANGUAGES = ("C", "mpi4py", "numba-mpi")


Languages = Annotated[
    tuple[str, ...],
    OptionSpec(f"{', '.join(LANGUAGES[:-1])} or {LANGUAGES[-1]}.", flags=("--language",)),
]


@dataclass(frozen=True)
class PingPongOptions(BenchmarkOptions):
    """Options of pingpong."""

    sizes: Annotated[tuple[int, int], SIZES] = (1, 2**20)
    trials: Annotated[int, OptionSpec("Timed trials of a size.", minimum=1)] = 100
    warm_up: Annotated[int, OptionSpec("Trials before the timed ones.", minimum=0)] = 10
    batch: Annotated[int, OptionSpec("Round trips of a trial.", minimum=1)] = 10
    languages: Languages = LANGUAGES
    ranks_per_node: RanksPerNode = None


@dataclass(frozen=True)
class BspOptions(BenchmarkOptions):
    """Options of bsp."""

    iterations: Annotated[int, OptionSpec("Timed iterations.", minimum=1)] = 100
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
    size: Annotated[int, OptionSpec("Of a message.", unit="B", minimum=0)] = 8
    words: Annotated[
        int, OptionSpec("8-byte words of the array read and written, a power of two.", minimum=1)
    ] = 65_536
    sweep: Annotated[tuple[int, ...], OptionSpec("Only so many ranks, the first ones.", otherwise="all")] = ()
    languages: Languages = LANGUAGES


BENCHMARKS = (
    Benchmark(
        name="pingpong",
        short="Compare ping-pongs in C and from Python.",
        summary="Time a message there and back in C, through mpi4py, and through numba-mpi in compiled code.",
        pattern="rank 0 and the first rank of another node (rank 1 if there is one node) send by MPI_Send and "
        "receive by MPI_Recv, in one process with one MPI library; the languages take turns in every trial.",
        formula="latency = round trip / 2, mean over trials without outliers (Tukey's rule, 1.5 interquartile "
        "ranges); throughput = harmonic mean of size / latency.",
        details="Sizes from 1 B to 1 MiB by default. As Fig. 9 of Rizvi and Hale. C is compiled on the spot; "
        "numba-mpi (GPL-3.0) is used where it is installed. A language that is missing has a row that says why. "
        "Messages lie in host memory only: what a GPU adds is in the MPI library, alike for all three; `bench "
        "latency --device cuda` measures it.",
        options=PingPongOptions,
        function="pingpong.measure_pingpong",
    ),
    Benchmark(
        name="bsp",
        short="Compare a ring of ranks in C and Python.",
        summary="Time a ring of ranks that compute and communicate in turn, in C, with mpi4py, and with numba-mpi.",
        pattern="per iteration every rank loads R words of an array, stores W, does F floating-point operations in a "
        "chain (x = x / 2 + 1), and C times sends a message forward on the ring and receives one from behind "
        "(MPI_Isend, MPI_Recv, MPI_Wait).",
        formula="time of an iteration = reads + writes + flops + communications, each a mean over ranks, then over "
        "iterations without outliers (Tukey's rule).",
        details="The work of a rank does not depend on their number: weak scaling, with --sweep. mpi4py computes in "
        "compiled kernels and communicates from Python; numba-mpi does all in one compiled loop. As Figs. 6-8 of "
        "Rizvi and Hale. A language that is missing has a row that says why. Arrays and messages lie in host "
        "memory only.",
        options=BspOptions,
        function="bsp.measure_bsp",
    ),
)
