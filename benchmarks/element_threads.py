"""What threads within ranks could bring to Navier-Stokes: the stiffness product on 2 threads against 2 ranks.

    python benchmarks/element_threads.py            # a minute, two quiet cores
    python benchmarks/element_threads.py --quick    # does it run?

The model has no threads. Here 1 rank applies the operator with 2: each has half of the elements, and after a barrier
half of the points that elements share. It is what a threaded model could do at best. Against it, 2 ranks of 1 thread
with the same elements and the exchange between them; and 1 rank of 1 thread. All in turn in one job.
"""

import argparse
import json
import sys
import time

from harness.ranks import run_job, wait_asleep

RANKS = 2
REPEATS = 8  # products between two looks at the clock


def _threaded(operator, u, out):
    """Return a function that applies the operator of one rank by RANKS threads."""
    import numba
    import numpy as np

    from ridgeline.elements.gather_scatter import OPERATIONS, make_kernels
    from ridgeline.elements.helmholtz import make_helmholtz
    from ridgeline.elements.tensor import GENERATED

    g = operator.geometry
    apply = make_helmholtz(u.shape[1], "float64", g.axis_aligned, GENERATED)
    combine = make_kernels(OPERATIONS["add"])[0]
    bounds = np.linspace(0, len(u), RANKS + 1).astype(np.int64)
    shape = (g.scale, g.volume, g.factors, g.mass, g.derivative, g.weights)
    elements, lists = np.arange(len(u)), operator.gather_scatter.local_lists

    @numba.njit(parallel=True)
    def on_threads(bounds, elements, u, shape, lists, out, fields):
        for t in numba.prange(bounds.size - 1):
            apply(elements[bounds[t] : bounds[t + 1]], u, 1.0, 0.0, *shape, out)
        for t in numba.prange(bounds.size - 1):
            combine(*lists, bounds[t], bounds[t + 1], fields)

    return lambda: on_threads(bounds, elements, u, shape, lists, out, out.reshape(1, -1))


def _operator(comm, mesh, order):
    """Return the operator on these ranks, a field and room for the product."""
    import numpy as np

    from ridgeline.elements.gather_scatter import GatherScatter
    from ridgeline.elements.geometry import ElementGeometry
    from ridgeline.elements.mesh import ElementGrid
    from ridgeline.elements.operator import ElementOperator

    grid = ElementGrid(mesh, order, comm.size, comm.rank)
    points = GatherScatter(comm, grid.ids)
    operator = ElementOperator(grid, ElementGeometry(grid), points, 1.0, 0.0, np.zeros(0, np.int64))
    return operator, np.sin(grid.ids * 0.37), np.empty(grid.shape)


def job(order: int, elements: int, seconds: float, wavy: bool) -> None:
    import numba
    import numpy as np
    from mpi4py import MPI

    from ridgeline.elements import mappings
    from ridgeline.elements.mesh import BoxMesh

    comm = MPI.COMM_WORLD
    mapping = mappings.wavy((0.0,) * 3, (1.0,) * 3, 0.05) if wavy else None
    mesh = BoxMesh.box((elements,) * 3, (1.0,) * 3, mapping=mapping)
    both = _operator(comm, mesh, order)
    runs = {"ranks": lambda: both[0].apply(both[1], both[2])}
    if comm.rank == 0:
        operator, u, serial = _operator(MPI.COMM_SELF, mesh, order)
        numba.set_num_threads(RANKS)
        on_threads = np.empty_like(u)
        runs |= {"one": lambda: operator.apply(u, serial), "threads": _threaded(operator, u, on_threads)}
        runs["one"]()
        runs["threads"]()
        if not np.allclose(on_threads, serial, atol=1e-12 * abs(serial).max()):
            raise SystemExit("error: the results of several threads and of one thread differ.")
    wait_asleep(comm)
    runs["ranks"]()
    times: dict[str, list[float]] = {name: [] for name in ("ranks", "one", "threads")}
    end = comm.bcast(time.monotonic() + seconds)
    while comm.bcast(time.monotonic() < end or len(times["ranks"]) < 5):
        for name, found in times.items():
            wait_asleep(comm)
            time.sleep(0.005)  # until the other rank sleeps
            if name == "ranks":
                comm.Barrier()
            elif comm.rank:
                continue
            start = time.perf_counter()
            for _ in range(REPEATS):
                runs[name]()
            if name == "ranks":
                comm.Barrier()
            found.append((time.perf_counter() - start) / REPEATS)
    if comm.rank == 0:
        best = {name: min(found[1:]) for name, found in times.items()}
        median = float(np.median(np.array(times["threads"][1:]) / np.array(times["ranks"][1:])))
        print(json.dumps({"best": best, "median": median}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="use few elements and two seconds for each row")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each row (10)")
    settings = parser.parse_args()
    print(
        "| mesh | order | elements | 1 rank ms | 2 ranks ms | 2 threads ms | speed of ranks over threads (median) |"
    )
    print("|---|---|---|---|---|---|---|")
    for wavy in (False, True):
        for order, elements in ((7, 4),) if settings.quick else ((7, 4), (7, 12), (11, 4), (11, 8)):
            seconds = 2.0 if settings.quick else settings.seconds
            found = run_job(
                __file__, RANKS, {"order": order, "elements": elements, "seconds": seconds, "wavy": wavy}
            )
            best = found["best"]
            print(
                f"| {'wavy' if wavy else 'box'} | {order} | {elements**3} | {1e3 * best['one']:.2f} | "
                f"{1e3 * best['ranks']:.2f} | {1e3 * best['threads']:.2f} | "
                f"{best['threads'] / best['ranks']:.2f} ({found['median']:.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        from ridgeline.parallel.job import prepare_rank

        prepare_rank(RANKS)
        job(**json.loads(sys.argv[1]))
    else:
        main()
