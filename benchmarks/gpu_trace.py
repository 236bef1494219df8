"""What overlaps in a step of Gray-Scott on GPUs: a trace of streams and host, and the share that is hidden.

    mpiexec -n 4 python benchmarks/gpu_trace.py [--size N] [--dtype float64] [--steps S] [--file trace.json]

Open the file with ui.perfetto.dev: a process is a rank, its threads are the streams "faces" and "rest" and the host.
The size is that of a rank's block in each direction; the ranks are cut along z. With NUMBA_ENABLE_CUDASIM=1 and
--size 6 it shows, without a GPU, that everything runs.
"""

import argparse
from pathlib import Path

import numpy as np

from ridgeline.runtime.compile_cache import configure_kernel_cache


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=512, help="cells of a rank in each direction")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--steps", type=int, default=10, help="that are traced, after as many others")
    parser.add_argument("--file", type=Path, default=Path("gray_scott_trace.json"))
    arguments = parser.parse_args()
    configure_kernel_cache()
    from mpi4py import MPI

    from ridgeline.blocks.cartesian import decompose
    from ridgeline.jit.random import PHILOX_7
    from ridgeline.models.gray_scott.device.engine_cuda import CudaEngine
    from ridgeline.models.gray_scott.device.stream_trace import HOST, StreamTrace, hidden_share, write_trace
    from ridgeline.models.gray_scott.physics import coefficients
    from ridgeline.parallel.communicator import ends_job_on_error
    from ridgeline.runtime.context import Context

    comm = MPI.COMM_WORLD
    with ends_job_on_error(comm):
        n, dtype = arguments.size, np.dtype(arguments.dtype).type
        cartesian, block = decompose(comm, (comm.size * n, n, n), (comm.size, 1, 1), (True,) * 3)
        c = coefficients(0.2, 0.1, 0.02, 0.048, 0.01, 1.0, dtype)
        engine = CudaEngine(block, cartesian, c, (PHILOX_7, 42), dtype, Context(comm))
        engine.compile()
        engine.host()[0][:] = 1.0
        engine.commit()
        for step in range(arguments.steps):
            engine.advance(step, 1)
        engine.trace = StreamTrace()
        comm.Barrier()
        for step in range(arguments.steps, 2 * arguments.steps):
            engine.advance(step, 1)
        events = engine.trace.events(comm.rank)
        shares = comm.gather(hidden_share(events, ("faces", HOST), "rest"))
        gathered = comm.gather(events)
        if gathered is not None and shares is not None:
            write_trace(arguments.file, [event for events in gathered for event in events])
            print(
                f"{engine.method}; {arguments.steps} steps of {n}^3 {arguments.dtype} on each of {comm.size}"
            )
            print(
                f"of the work on faces and of their exchange, hidden behind the sweep: {min(shares):.3f} at least"
            )
            print(f"trace: {arguments.file}")


if __name__ == "__main__":
    main()
