"""The benchmark of tasks: what they cost in Python, compiled Python and C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
from ridgeline.runtime.declared_options import OptionSpec
from ridgeline.runtime.machine import cores_available

ITEMS = ("creation", "switch", "futures", "notification", "channel", "initialise", "start", "jitter")


@dataclass(frozen=True)
class TaskingOptions(BenchmarkOptions):
    """Options of tasking."""

    items: Annotated[
        tuple[str, ...], OptionSpec("Operation to measure.", flags=("--item",), metavar="|".join(ITEMS))
    ] = ITEMS
    trials: Annotated[int, OptionSpec("Number of timed trials of each operation.", minimum=1)] = 100
    warm_up: Annotated[int, OptionSpec("Number of trials before the timed ones.", minimum=0)] = 10
    workers: Annotated[
        tuple[int, ...],
        OptionSpec(
            "Number of workers in futures, initialise and start.",
            minimum=1,
            otherwise="1, 2, 4, ... up to the number of cores here, at most 16",
        ),
    ] = ()
    fibonacci: Annotated[
        tuple[int, ...],
        OptionSpec("Number of Fibonacci numbers that a task of futures computes.", minimum=1, maximum=93),
    ] = (10, 90)
    n_bytes: Annotated[
        int, OptionSpec("Size of the array of initialise.", unit="B", minimum=8, flags=("--bytes",))
    ] = 50_000_000
    spawn: Annotated[
        bool, OptionSpec("Also measure mpi4py.futures with workers that MPI_Comm_spawn starts.")
    ] = False

    @property
    def threads(self) -> int:
        """Threads that the process may use."""
        return max(self.workers) if self.workers else cores_available()


BENCHMARKS = (
    Benchmark(
        name="tasking",
        short="Compare Python's tasks with threads in C.",
        summary="Compare the time of Python's tasks with that of threads in C, as in Figs. 1 to 5 of the Julia paper "
        "(Rizvi and Hale).",
        pattern="tasks of Python and threads of C run on one node, one operation at a time.",
        formula="time of an operation = seconds of a trial / number of operations in it.",
        details="""creation times the calls that make a task ready to run: generators, asyncio, threads,
pthread_create through ctypes with a compiled start routine, and pthread_create in C. switch times two tasks that
hand over to each other; kernel threads are bound to one core.

futures times one task, which is empty or computes n Fibonacci numbers, given to a pool of 1, 2, ... idle workers:
until the future exists (spawn), and until its result has arrived (spawn + fetch). The pools are threads, processes,
mpi4py.futures with the other ranks of the job (-n W+1 for W workers), and C.

notification times from just before the signal until the waiting task runs. channel times put, peek and take of
numbers in one task. start times 1, 2, ... workers from their call until all have run: processes, interpreters with
and without MPI, and workers of multiprocessing, in at most 5 trials. jitter times equal pieces of compiled work, with
and without garbage, and the longest delay of one of them; pauses of the collector; and the first call of a compiled
function.

initialise times filling an array of 50 MB that is divided among workers: C with OpenMP and with
pthreads, Numba, processes with shared memory, and MPI ranks.

All data are checked. By default there are 100 trials after 10 to warm up. Outliers more than 1.5 interquartile ranges
from the quartiles (Tukey's rule) are excluded from mean and median. C is compiled when the benchmark starts; without
a compiler, the rows of C say so.""",
        options=TaskingOptions,
        function="tasking_benchmark.measure_tasking",
    ),
)
