"""What a run of the heat model on spectral elements needs, before it runs: no MPI, no allocation."""

from ridgeline.api import BoxMesh, ElementGrid, Estimate, Work

WORDS = 18  # of 8 bytes that a rank keeps per point: T, right-hand side, solver, geometry, numbers of points


def mesh_of(case) -> BoxMesh:
    """Return the mesh of the case."""
    periodic = (case.grid.boundary == "periodic",) * 3
    return BoxMesh.box(case.grid.shape, case.grid.lengths, periodic=periodic)


def estimate(case, n_ranks: int) -> Estimate:
    """Return parts, memory, output and least work, of one iteration a step, on n_ranks ranks."""
    grid = ElementGrid(mesh_of(case), case.grid.order, n_ranks)  # the part of rank 0 is the largest
    n, elements = grid.n, grid.n_elements_global
    points, outputs = elements * n**3, case.outputs()
    messages = 6.0 * n_ranks if n_ranks > 1 else 0.0
    sent = 8.0 * n**2 * (elements / n_ranks) ** (2 / 3) * messages  # by parts that are cubes
    return Estimate(
        process_grid=(n_ranks,),
        block=grid.shape,
        memory_per_rank=8.0 * WORDS * grid.n_points,
        output_bytes=8.0 * points * (outputs + 3),  # x, y and z once
        outputs=outputs,
        checkpoint_bytes=8.0 * points,
        work=Work(grid.n_unique, (6.0 * n + 14) * points, 80.0 * points, sent, messages),
    )
