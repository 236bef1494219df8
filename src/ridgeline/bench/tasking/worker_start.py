"""The time to start workers: processes of a pool, interpreters, and a process that has MPI.

Rizvi and Hale, Sec. III.A, state about 400 ms for addprocs(), which starts a worker of Julia. A trial takes tenths of
a second, so that few of them are made. The workers of a trial start at the same time, and it ends when all are ready.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_all_start_methods, get_context

from ridgeline.bench.tasking.trials import Series, Trials
from ridgeline.bench.tasking.worker_functions import ANSWER_TIMEOUT, nothing
from ridgeline.runtime.environment import child_environment
from ridgeline.runtime.errors import RidgelineError

MOST_TRIALS, MOST_WARM_UP = 5, 1
# What a process does until it is ready, beside starting the interpreter.
_INTERPRETERS = {
    "Python interpreter": "pass",
    "Python with NumPy": "import numpy",
    "Python with MPI": "from ridgeline.runtime.mpi_import import install; install(); from mpi4py import MPI",
    "rank of Ridgeline, kernels not loaded": "import ridgeline.parallel.job, ridgeline.parallel.allreduce, numba",
}


def measure_start(trials: Trials, workers: Sequence[int]) -> list[Series]:
    """Measure the start of every number of workers in every way; first comes a process that does nothing."""
    few = Trials(min(trials.count, MOST_TRIALS), min(trials.warm_up, MOST_WARM_UP))
    programs = {name: [sys.executable, "-c", code] for name, code in _INTERPRETERS.items()}
    true = shutil.which("true")
    if true is not None:
        programs = {"process that does nothing (true)": [true], **programs}
    series = []
    for count in workers:
        for name, command in programs.items():
            entry = Series("start", name, "start", workers=count)
            series.append(entry.with_seconds(few.run(partial(_processes, command, count))))
        for method in get_all_start_methods():
            if method != "fork":  # this process has MPI and threads
                entry = Series("start", f"multiprocessing, {method}", "start", workers=count)
                series.append(entry.with_seconds(few.run(partial(_workers, method, count))))
    return series


def _processes(command: Sequence[str], count: int) -> float:
    """Return the seconds until `count` processes of a command, started together, have ended."""
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            command, env=child_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        for _ in range(count)
    ]
    for process in running:
        if process.wait(ANSWER_TIMEOUT):
            raise RidgelineError(f"{' '.join(command)} ended with exit code {process.returncode}.")
    return time.perf_counter() - start


def _workers(method: str, count: int) -> float:
    """Return the seconds until `count` workers of multiprocessing, started together, have run an empty function."""
    context = get_context(method)
    start = time.perf_counter()
    running = [context.Process(target=nothing) for _ in range(count)]  # type: ignore[attr-defined]
    for process in running:
        process.start()
    for process in running:
        process.join(ANSWER_TIMEOUT)
        if process.exitcode != 0:
            raise RidgelineError(
                f"a worker of multiprocessing ({method}) ended with exit code {process.exitcode}."
            )
    return time.perf_counter() - start
