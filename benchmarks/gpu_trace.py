"""What overlaps in a step of Gray-Scott on GPUs: a trace of streams and host, and the share that is hidden.

    mpiexec -n 4 python benchmarks/gpu_trace.py [--size N] [--dtype float64] [--steps S] [--steps-per-launch 2]
        [--file trace.json]

Open the file with ui.perfetto.dev: a process is a rank, its threads are the streams "faces" and "rest" and the host.
The size is that of a rank's block in each direction; the ranks are cut along z. With NUMBA_ENABLE_CUDASIM=1 and
--size 6 it shows, without a GPU, that everything runs. `ridgeline run --trace FILE` traces any run.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

FACES = ("sweep next to faces", "pack", "exchange")  # what the sweep of the rest shall hide


def advance(engine: Any, steps: int) -> None:
    """Advance by so many steps."""
    done = 0
    while done < steps:
        done += engine.advance(done, steps - done)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=512, help="cells of a rank in each direction")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--steps", type=int, default=10, help="number of traced steps, after as many others")
    parser.add_argument("--steps-per-launch", type=int, choices=(1, 2), default=1)
    parser.add_argument("--file", type=Path, default=Path("gray_scott_trace.json"))
    arguments = parser.parse_args()
    from mpi4py import MPI

    from ridgeline.blocks.cartesian import decompose
    from ridgeline.jit.random import PHILOX_7
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
    from ridgeline.models.gray_scott.physics import coefficients
    from ridgeline.parallel.communicator import ends_job_on_error
    from ridgeline.runtime.context import Context
    from ridgeline.runtime.regions import Regions, Timeline, hidden_share
    from ridgeline.simulation.meters import write_trace

    comm = MPI.COMM_WORLD
    with ends_job_on_error(comm):
        n, dtype = arguments.size, np.dtype(arguments.dtype).type
        of_launch = arguments.steps_per_launch
        cartesian, block = decompose(
            comm, (comm.size * n, n, n), (comm.size, 1, 1), (True,) * 3, of_launch if comm.size > 1 else 1
        )
        c = coefficients(0.2, 0.1, 0.02, 0.048, 0.01, 1.0, dtype)
        regions = Regions()
        engine = CudaEngine(block, cartesian, c, (PHILOX_7, 42), dtype, Context(comm, "cuda", 1, regions))
        engine.set_steps_per_sweep(of_launch)
        engine.compile()
        engine.host()[0][:] = 1.0
        engine.commit()
        advance(engine, arguments.steps)
        comm.Barrier()
        begin = time.perf_counter()
        advance(engine, arguments.steps)
        engine.nonfinite()  # which waits for the device
        took = comm.allreduce((time.perf_counter() - begin) / arguments.steps, MPI.MAX)
        comm.Barrier()
        origin = time.perf_counter()
        timeline = regions.timeline = Timeline()
        advance(engine, arguments.steps)
        spans = timeline.spans()
        shares = comm.gather(hidden_share(spans, FACES, "rest"))
        write_trace(str(arguments.file), comm, spans, origin)
        if shares is not None:
            print(
                f"{engine.method}; {arguments.steps} steps of {n}^3 {arguments.dtype} on each of {comm.size}"
            )
            print(
                f"of the work on faces and of their exchange, hidden behind the sweep: {min(shares):.3f} at least"
            )
            print(f"a step without a trace: {took * 1e6:.1f} us")
            print(f"trace: {arguments.file}")


if __name__ == "__main__":
    main()
