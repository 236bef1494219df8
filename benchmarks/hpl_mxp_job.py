"""One MPI job of benchmarks/hpl_mxp.py: HPL, HPL-MxP and matrix products on the same ranks and threads, in turn."""

import json
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.hpl_run import product_rate
from ridgeline.bench.hpl.hpl_solve import solve_mixed, solve_system
from ridgeline.bench.hpl.record import HplSettings, MxpRun
from ridgeline.bench.hpl.sizes import hpl_block, mxp_block, nearest_square
from ridgeline.parallel.communicator import ends_job_on_error
from ridgeline.runtime.blas import blas_libraries


def figures(run: MxpRun) -> dict[str, Any]:
    """Return what a row needs of a run."""
    return {
        "seconds": [run.factor_seconds, run.solve_seconds, run.refine_seconds],
        "rate": run.flops_per_second,
        "iterations": run.iterations,
        "scaled_residual": run.scaled_residual,
        "passed": run.passed,
    }


def main() -> None:
    asked = json.loads(sys.argv[1])
    comm = MPI.COMM_WORLD.Dup()
    n, threads = asked["n"], asked["threads"]
    p, q = nearest_square(comm.size)
    with ends_job_on_error(comm):
        rounds = []
        # Kernels are compiled, and pages of BLAS touched, by small systems.
        solve_system(comm, HplSettings(512, 64, p, q, threads))
        solve_mixed(comm, HplSettings(512, 64, p, q, threads))
        for _ in range(asked["rounds"]):
            products = {
                kind: product_rate(comm, np.dtype(kind), threads, mxp_block(n))
                for kind in ("float32", "float64")
            }
            hpl = solve_system(comm, HplSettings(n, asked["hpl_nb"] or hpl_block(n), p, q, threads))
            mxp = solve_mixed(comm, HplSettings(n, asked["mxp_nb"] or mxp_block(n), p, q, threads))
            hpl_figures = {"seconds": hpl.seconds, "rate": hpl.flops_per_second, "passed": hpl.passed}
            rounds.append({"products": products, "hpl": hpl_figures, "mxp": figures(mxp)})
        narrow = {}
        for storage in asked["storages"]:
            narrow[storage] = figures(solve_mixed(comm, HplSettings(n, mxp_block(n), p, q, threads), storage))
        if comm.rank == 0:
            library = asdict(blas_libraries()[0]) | {"words": str(blas_libraries()[0])}
            print(json.dumps({"rounds": rounds, "narrow": narrow, "blas": library}))


if __name__ == "__main__":
    main()
