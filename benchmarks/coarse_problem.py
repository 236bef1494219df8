"""The coarse problem of the elements' multigrid: counted for up to 1000 ranks, and iterations as the mesh grows.

    python benchmarks/coarse_problem.py             # some five minutes and 4 GB of memory, on one core
    python benchmarks/coarse_problem.py --quick     # does it run?

ranks: boxes of 64 elements a rank (4 x 4 x 4 in each of a x a x a ranks). One rank sets the hierarchy up, and
`elements.coarse.count` deals its rows out; no MPI. Bytes in float32, of the rank that has most. iterations: GMRES to
1e-8 on the stiffness matrix, with the multigrid of pressure solves, order 3 or 7, both coarse solvers where they can.
"""

import argparse
import time

import numpy as np
from mpi4py import MPI

from ridgeline.elements import mappings
from ridgeline.elements.coarse.algebraic_cost import count_ranks
from ridgeline.elements.coarse.hierarchy import build_hierarchy
from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.multigrid.cycle import SchwarzMultigrid
from ridgeline.elements.multigrid.level import PolynomialLevel
from ridgeline.elements.operator import ElementOperator
from ridgeline.krylov.gmres import gmres

COMM = MPI.COMM_SELF
ORDER = 3  # of the level above the coarse one


def box(elements: int, wavy: bool = False) -> BoxMesh:
    """Return the unit cube of elements^3 elements, as boxes or deformed by waves."""
    corners = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    mapping = mappings.wavy(*corners, 0.05) if wavy else None
    return BoxMesh.box((elements,) * 3, (1.0, 1.0, 1.0), mapping=mapping)


def count(a: int) -> None:
    """Print the row of a^3 ranks."""
    mesh = box(4 * a)
    positions = ElementGrid(mesh, ORDER).positions
    fine, coarse = (PolynomialLevel(mesh, positions, (order,) * 3, ()) for order in (ORDER, 1))
    start = time.perf_counter()
    hierarchy = build_hierarchy(COMM, fine, coarse)
    seconds = time.perf_counter() - start
    ranks = count_ranks(hierarchy, a**3)
    rows = " -> ".join(str(level.matrix.rows.total) for level in hierarchy.levels)
    most = [
        max(getattr(rank, name) for rank in ranks)
        for name in ("rows", "distributed", "whole", "messages", "sent", "gathered")
    ]
    mean = np.mean([rank.messages for rank in ranks])
    print(
        f"| {a**3} | {64 * a**3} | {rows} | {most[0]} | {most[1] / 1024:.0f} | {most[2] / 1024:.0f} | {most[3]} "
        f"({mean:.0f}) | {most[4] / 1024:.1f} | {most[5] / 1024:.1f} | {seconds:.1f} |",
        flush=True,
    )


def iterations(elements: int, order: int, wavy: bool) -> None:
    """Print the row of one mesh."""
    grid = ElementGrid(box(elements, wavy), order)
    geometry = ElementGeometry(grid)
    operator = ElementOperator(grid, geometry, GatherScatter(COMM, grid.ids), 1.0, 0.0, np.zeros(0, np.int64))
    b = np.sin(1.0 + 12.9898 * grid.ids.astype(np.float64) % 6283.0) * np.cos(78.233 * (grid.ids % 1000))
    inner = operator.inner
    b -= inner.dot(b, np.ones_like(b)) / inner.allreduce(np.array([inner.weights.sum()]))
    found, seconds = [], 0.0
    for coarse in ("amg",) if wavy else ("amg", "direct"):
        multigrid = SchwarzMultigrid(grid, geometry, COMM, coarse=coarse)
        x = np.zeros(grid.shape)
        start = time.perf_counter()
        result = gmres(operator, b, x, multigrid, 60, 1e-8 * float(inner.norm(b)[0]), 60)
        seconds = seconds or time.perf_counter() - start
        found.append(f"{coarse} {result.iterations}{'' if result.converged else ' (not converged)'}")
    kind = "wavy" if wavy else "box"
    print(
        f"| {kind} | {order} | {elements**3} | {(elements + 1) ** 3} | {', '.join(found)} | {seconds:.1f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="run only up to 64 ranks and 512 elements")
    parser.add_argument("--only", choices=["ranks", "iterations"], help="print only one of the two tables")
    settings = parser.parse_args()
    if settings.only != "iterations":
        print(
            "| ranks | elements | rows of the levels | rows | KiB by rows | KiB whole | messages (mean) "
            "| KiB sent | KiB gathered | set-up/s, one rank |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for a in (1, 2, 4) if settings.quick else (1, 2, 3, 4, 5, 6, 8, 10):
            count(a)
    if settings.only != "ranks":
        print("| mesh | order | elements | unknowns of the coarse problem | iterations | s of amg |")
        print("|---|---|---|---|---|---|")
        for wavy in (False, True):
            for elements in (4, 8) if settings.quick else (8, 12, 16, 24, 32):
                iterations(elements, 3, wavy)
        if not settings.quick:
            for elements in (4, 8, 12):
                iterations(elements, 7, False)


if __name__ == "__main__":
    main()
