"""One MPI job of benchmarks/hpl.py: rates of DGEMM, HPL and LAPACK's LU, in turn. Prints them as JSON on rank 0.

mpiexec -n 2 python benchmarks/hpl_job.py '{"n": 8000, "nb": 256, "threads": 1, "rounds": 3}'
"""

import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg
from mpi4py import MPI

from harness.ranks import wait_asleep
from ridgeline.bench.hpl.hpl_run import product_rate
from ridgeline.bench.hpl.hpl_solve import solve_system
from ridgeline.bench.hpl.record import HplSettings, operations
from ridgeline.parallel.communicator import ends_job_on_error
from ridgeline.runtime.blas import blas_libraries, blas_threads


def lapack_rate(comm: MPI.Comm, n: int, threads: int) -> float:
    """Return the FLOP/s of lu_factor on rank 0 with so many threads, the others asleep. The time of HPL has more:
    the substitution, which counts nothing at these sizes."""
    seconds = np.inf
    if comm.rank == 0:
        a = np.asfortranarray(np.random.default_rng(0).random((n, n)))
        with blas_threads(threads):
            start = perf_counter()
            scipy.linalg.lu_factor(a, overwrite_a=True, check_finite=False)
            seconds = perf_counter() - start
    wait_asleep(comm)
    return operations(n) / float(comm.bcast(seconds))


def measure(comm: MPI.Comm, asked: dict[str, Any]) -> dict[str, Any]:
    """Return rates in FLOP/s by name, one of every round; those of DGEMM are the better of before and after HPL."""
    threads = asked["threads"]
    settings = HplSettings(asked["n"], asked["nb"], 1, comm.size, threads=threads)
    solve_system(comm, HplSettings(4 * asked["nb"], asked["nb"], 1, comm.size, threads=threads))  # a cold one
    rates: dict[str, list[float]] = {"dgemm": [], "hpl": [], "lapack": []}
    phases, residual = {}, 0.0
    for _ in range(asked["rounds"]):
        before = product_rate(comm, np.float64, threads)
        run = solve_system(comm, settings)
        rates["dgemm"].append(max(before, product_rate(comm, np.float64, threads)))
        rates["hpl"].append(run.flops_per_second)
        rates["lapack"].append(lapack_rate(comm, asked["n"], threads * comm.size))
        if run.flops_per_second == max(rates["hpl"]):
            phases = run.phases
        residual = max(residual, run.residual)
        if not run.passed:
            residual = float("inf")
    return {"rates": rates, "phases": phases, "residual": residual, "blas": str(blas_libraries()[0])}


def main() -> None:
    with ends_job_on_error(MPI.COMM_WORLD):
        result = measure(MPI.COMM_WORLD, json.loads(sys.argv[1]))
        if MPI.COMM_WORLD.rank == 0:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
