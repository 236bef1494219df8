"""The benchmark of tasks: what they cost in Python, compiled Python and C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.machine import cores_available

ITEMS = ("creation", "switch", "futures", "notification", "channel", "initialise")


@dataclass(frozen=True)
class TaskingOptions(BenchmarkOptions):
    """Options of tasking."""

    items: Annotated[
        tuple[str, ...], OptionSpec("What to measure.", flags=("--item",), metavar="|".join(ITEMS))
    ] = ITEMS
    trials: Annotated[int, OptionSpec("Trials of each operation.", minimum=1)] = 100
    warm_up: Annotated[int, OptionSpec("Trials thrown away before them.", minimum=0)] = 10
    workers: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Workers of futures and of the parallel initialisation.",
            minimum=1,
            otherwise="1, 2, 4, ... to the cores here, at most 16",
        ),
    ] = ()
    fibonacci: Annotated[
        tuple[int, ...],
        OptionSpec("A task of futures computes so many Fibonacci numbers.", minimum=1, maximum=93),
    ] = (10, 90)
    n_bytes: Annotated[int, OptionSpec("Array to initialise.", unit="B", minimum=8, flags=("--bytes",))] = (
        50_000_000
    )
    spawn: Annotated[bool, OptionSpec("mpi4py.futures also with workers that MPI_Comm_spawn starts.")] = False

    @property
    def threads(self) -> int:
        """Threads that the process may use."""
        return max(self.workers) if self.workers else cores_available()


BENCHMARKS = (
    Benchmark(
        name="tasking",
        short="Compare Python's tasks with threads in C.",
        summary="Time the language's own tasks against threads of C: Figs. 1 to 5 of the Julia paper.",
        pattern="tasks of the language and threads of C on one node, one operation at a time.",
        formula="time of an operation = seconds of a trial / operations in it.",
        details="""creation: calls that make tasks ready to run: generators, asyncio, threads, pthread_create through
ctypes with a compiled start routine, and in C. switch: two tasks hand over to each other, kernel threads bound to one
core.

futures: one task, null or n Fibonacci numbers, to a pool of 1, 2, ... idle workers: until the future is there
(spawn), until its result is back (spawn + fetch): threads, processes, mpi4py.futures with the job's other
ranks (W workers from -n W+1), C.

notification: from just before the signal until the waiting task runs. channel: put, peek, take of numbers in
one task. initialise: an array of 50 MB cut among workers: C with OpenMP and pthreads, Numba, processes with
shared memory, MPI ranks.

All data are compared. 100 trials after 10; outliers beyond 1.5 interquartile ranges from the quartiles (Tukey) are
left out of mean and median. C is compiled on the spot; without a compiler its rows say so.""",
        options=TaskingOptions,
        function="tasking_benchmark.measure_tasking",
    ),
)
