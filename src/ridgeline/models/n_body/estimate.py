"""The needs of an N-body run before it runs: decomposition, memory, output, least work and predicted time.

Nothing here uses MPI or allocates fields. Particles are taken to be spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ridgeline.fourier.decomposition import (
    Dealias,
    PencilGrid,
    ProcessGrid,
    Truncation,
    check_process_grid,
    choose_process_grid,
)
from ridgeline.fourier.ghost_planes import CORNERS, buffer_shape
from ridgeline.fourier.sizes import (
    Share,
    VariableCounts,
    exchange_bytes,
    messages,
    transform_flops,
    work_bytes,
)
from ridgeline.io.bp_attributes import BYTES_OF_VERTEX
from ridgeline.limits.exchange_costs import RankGroup, all_to_all, neighbours, without_latency
from ridgeline.limits.prediction import Allocation, Part, Prediction, exchange_kind, optimistic, traffic
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.n_body.force_law import ForceLaw, force_law
from ridgeline.models.n_body.settings import NBodyCase
from ridgeline.models.pencil_boxes import boxes_of
from ridgeline.particles.ghosts import check_reach
from ridgeline.particles.particles import POSITION, capacity_for
from ridgeline.runtime.errors import DecompositionError

DEALIAS: Dealias = "none"  # the mesh has all modes except Nyquist's
# The transforms of the density and of three forces; the plan is created for both.
FORWARD, BACK = VariableCounts(0, 1, 1), VariableCounts(3, 0, 0)
BOTH = VariableCounts(3, 1, 1)
WORD = 8  # bytes of a float64
STATE = 6  # words of a particle's position and momentum
MOST_COUNTED = 512  # up to so many ranks the modes of each are counted exactly
# Floating-point operations. Deposit: 3 positions, 8 weights of 2 products and a sum. Interpolation: 3 x 8 sums more.
PER_DEPOSIT, PER_INTERPOLATION = 3 * 3 + 8 * 3, 3 * 3 + 4 * 2 + 3 * 8 * 3
# A near pair: 3 differences, 5 for s, a square root, a division, 2 products, 10 for the polynomial, 2 and 6 to add.
PER_PAIR = 3 + 5 + 1 + 1 + 2 + 10 + 2 + 6
PER_PUSH = 3 * 2 * 3  # two kicks and a drift of three components
PER_MODE = 16  # the gradient: a product with the potential, and three with slopes
# For the prediction: the entry of machine files with the measured share of peak, exchanges of one variable each, and
# messages in a direction that is cut among ranks.
SHARE = "codes.n_body"
CALLS = FORWARD.combined + BACK.inward
SIDES = 2


def process_grid(case: NBodyCase, n_ranks: int) -> ProcessGrid:
    """Return the process grid (P_r, P_c) of a case on n_ranks ranks.

    It is the one of the settings, if they have one. Otherwise it is the one with the fewest ghosts, and among those
    the one with the fewest rows. Raises DecompositionError if none fits the ranks, the lattice and the matching
    radius.
    """
    grid, requested = case.grid, case.grid.process_grid
    radius = case.gravity.radius
    truncations = Truncation(grid.shape, DEALIAS), Truncation((grid.lattice,) * 3, DEALIAS)

    def cost(pair: ProcessGrid) -> tuple[bool, float, ProcessGrid]:
        too_thin = radius is not None and grid.shape[0] // max(pair) < radius
        return too_thin, expected_ghosts(case, pair, False), pair

    if requested == "auto" and grid.decomposition == "pencils":
        pairs = [(rows, n_ranks // rows) for rows in range(1, n_ranks + 1) if n_ranks % rows == 0]
        for pair in sorted(pairs, key=cost):
            try:
                return _checked_grid(case, pair, truncations)
            except DecompositionError:
                continue
    chosen = choose_process_grid(truncations[0], n_ranks, grid.decomposition, 1, requested)
    return _checked_grid(case, chosen, truncations)


def _checked_grid(
    case: NBodyCase, grid: ProcessGrid, truncations: tuple[Truncation, Truncation]
) -> ProcessGrid:
    """Return the process grid; raise DecompositionError if it does not fit the mesh, lattice or matching radius."""
    gravity = case.gravity
    if gravity.radius is not None:
        boxes = boxes_of(gravity.shape, grid, (gravity.length,) * 3)
        check_reach(boxes, gravity.radius * gravity.cell)
    for truncation in truncations:
        check_process_grid(truncation, grid)
    return grid


def short_range_law(case: NBodyCase) -> ForceLaw | None:
    """Return the short-range force of a case; None if the mesh alone computes forces."""
    gravity = case.gravity
    return None if gravity.radius is None else force_law(gravity.radius, gravity.softening, gravity.filter)


def expected_ghosts(case: NBodyCase, grid: ProcessGrid, from_ranks: bool) -> float:
    """Return the expected number of ghosts on a rank; from_ranks: only those that come from other ranks."""
    gravity = case.gravity
    if gravity.radius is None:
        return 0.0
    n = gravity.shape[0]
    edges = [n / grid[0], n / grid[1], float(n)]
    counted = [not from_ranks or parts > 1 for parts in (*grid, 1)]
    around = math.prod(edge + 2 * gravity.radius * each for edge, each in zip(edges, counted))
    return (around - math.prod(edges)) * gravity.n_global / n**3


def near_pairs(case: NBodyCase) -> float:
    """Return the number of pairs of particles within the matching radius."""
    gravity = case.gravity
    if gravity.radius is None:
        return 0.0
    density = gravity.n_global / gravity.shape[0] ** 3
    return 0.5 * gravity.n_global * density * 4 / 3 * math.pi * gravity.radius**3


def near_work(case: NBodyCase) -> tuple[float, float]:
    """Return flops and bytes of memory traffic of a step's substeps on all ranks: near forces, kicks and drifts."""
    n, substeps = case.gravity.n_global, case.substeps
    flops = substeps * (PER_PAIR * near_pairs(case) + PER_PUSH * n)
    return flops, float(substeps * n * WORD * 2 * STATE)


def mesh_work(case: NBodyCase) -> tuple[float, float]:
    """Return flops and bytes of memory traffic of the mesh in a step on all ranks: from deposit to interpolation."""
    gravity, truncation = case.gravity, Truncation(case.grid.shape, DEALIAS)
    real = np.dtype(case.run.precision).itemsize
    n, points, modes = gravity.n_global, math.prod(gravity.shape), math.prod(gravity.shape) // 2
    flops = sum(
        transform_flops(truncation, sum(each.of_rows), sum(each.of_columns)) for each in (FORWARD, BACK)
    )
    flops += PER_MODE * modes + n * (PER_DEPOSIT + PER_INTERPOLATION)
    # Mass, modes and forces are written and read; positions are read twice, and forces at particles written.
    traffic = points * 2 * (WORD + 3 * real) + 2 * 2 * real * modes + n * WORD * (3 + 3 + 3)
    return flops, float(traffic)


def transposed(case: NBodyCase, grid: ProcessGrid) -> tuple[float, float]:
    """Return the bytes that a rank puts through the row and the column exchange in a step, its own part included."""
    real = np.dtype(case.run.precision).itemsize
    variables = FORWARD.combined + BACK.inward
    volume = float(variables * math.prod(case.grid.shape) * real / math.prod(grid))
    return (volume if grid[0] > 1 else 0.0), volume


def ghost_bytes(case: NBodyCase, grid: ProcessGrid) -> float:
    """Return the bytes of ghosts that a rank receives from others in a step."""
    return case.substeps * expected_ghosts(case, grid, True) * 3 * WORD


def least_work(case: NBodyCase, grid: ProcessGrid) -> Work:
    """Return the least work of a step on all ranks, with each near pair counted once a substep."""
    ranks, cut = math.prod(grid), sum(parts > 1 for parts in grid)
    (near_flops, near_bytes), (mesh_flops, mesh_bytes) = near_work(case), mesh_work(case)
    row, column = transposed(case, grid)
    moved = ranks * (row * (1 - 1 / grid[0]) + column * (1 - 1 / grid[1]) + ghost_bytes(case, grid))
    calls = sum(messages(grid, counts.of_rows, counts.of_columns, 1) for counts in (FORWARD, BACK))
    return Work(
        points=case.gravity.n_global,
        flops=near_flops + mesh_flops,
        bytes_memory=near_bytes + mesh_bytes,
        bytes_exchanged=moved,
        messages=float(calls + 2 * ranks * cut * case.substeps),
    )


def transform_bytes(case: NBodyCase, grid: ProcessGrid) -> float:
    """Return the bytes of the transforms' buffers and work arrays on the rank that needs most.

    Up to MOST_COUNTED ranks they are counted exactly. Beyond, each mode of a rank takes twice as many complex numbers
    as variables are exchanged at the same time.
    """
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    if math.prod(grid) > MOST_COUNTED:
        modes = math.prod(case.grid.shape) / 2 / math.prod(grid)
        return 2 * max(BOTH) * modes * itemsize
    share = Share.of(Truncation(case.grid.shape, DEALIAS), grid)
    row, column = np.unravel_index(int(np.argmax(share.modes)), share.modes.shape)
    first = PencilGrid(case.grid.shape, DEALIAS, grid, int(row + grid[0] * column))
    work = work_bytes(first, BOTH, case.run.threads, itemsize, "strided")
    return exchange_bytes(first, share, BOTH, 1, itemsize) + work


def memory(case: NBodyCase, grid: ProcessGrid) -> dict[str, float]:
    """Return the bytes of memory on the rank that needs most, by their purpose."""
    gravity, ranks = case.gravity, math.prod(grid)
    real = np.dtype(case.run.precision).itemsize
    first = PencilGrid(gravity.shape, DEALIAS, grid, 0)  # the rank with the largest block
    z, y, x = first.block
    points, buffers = (z + 1) * (y + 1) * x, math.prod(buffer_shape(first, CORNERS))
    owned = gravity.n_global / ranks
    with_ghosts = owned + expected_ghosts(case, grid, False)
    near = 0.0
    if gravity.radius is not None:
        # Rows of owned particles and ghosts; sorted positions, places, order and cell; forces.
        near = WORD * (capacity_for(int(with_ghosts)) * (3 + 3 + 1.5) + 3 * capacity_for(int(owned)))
    return {
        "particles": float(WORD * capacity_for(int(owned)) * (STATE + 1 + 3)),
        "mesh": float(
            (points + buffers) * (WORD + 3 * real) + 3 * real * math.prod(gravity.shape) / 2 / ranks
        ),
        "short range": near,
        "transforms": transform_bytes(case, grid),
    }


def remarks(case: NBodyCase) -> tuple[str, ...]:
    """Return the remarks of `ridgeline check` that only this model has."""
    law = short_range_law(case)
    if law is None:
        return ("forces come from the mesh only, so they are softened over about three cells",)
    cell = case.gravity.cell
    return (
        f"the mean force agrees with Newton's law within {100 * law.error:.2g} %; it is matched at "
        f"{law.radius * cell:.4g} Mpc/h and softened by {1000 * law.softening * cell:.4g} kpc/h",
    )


def estimate(case: NBodyCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    grid, gravity = process_grid(case, n_ranks), case.gravity
    needed = memory(case, grid)
    outputs = case.outputs()
    owned = gravity.n_global / n_ranks
    written = 3 * WORD * len(case.output.variables)
    written += BYTES_OF_VERTEX if POSITION in case.output.variables else 0
    # The displacements of the lattice have transforms of their own, with some ten fields beside them.
    initial = 10 * WORD * owned
    return Estimate(
        process_grid=grid,
        block=PencilGrid(gravity.shape, DEALIAS, grid, 0).block,
        memory_per_rank=float(sum(needed.values())),
        output_bytes=float(outputs * written * gravity.n_global),
        outputs=outputs,
        checkpoint_bytes=float((STATE * gravity.n_global + 4) * WORD),
        work=least_work(case, grid),
        memory_between_steps=float(max(initial, 3 * STATE * WORD * owned)),
        remarks=remarks(case),
    )


def predict(case: NBodyCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the predicted time of a step. Raises DecompositionError if the case does not fit the ranks.

    Once halos have formed, near forces take several times as long, which cannot be known beforehand.
    """
    plan = estimate(case, place.ranks)
    rows, columns = plan.process_grid
    row, column = transposed(case, (rows, columns))

    def computed(work: tuple[float, float]) -> float:
        flops, moved = (each / place.ranks for each in work)
        return traffic(place, moved, SHARE, flops, plan.memory_per_rank)

    def exchanged() -> float:
        first = all_to_all(place, RankGroup(rows), row, CALLS)
        return first + all_to_all(place, RankGroup(columns, rows), column, CALLS)

    cut = SIDES * ((rows > 1) + (columns > 1)) * case.substeps
    kind, ghosts = exchange_kind(place), ghost_bytes(case, (rows, columns))
    return Prediction(
        case=f"n_body, {case.gravity.n_global} particles",
        place=place,
        parts=(
            Part.of("near forces", "node", lambda: computed(near_work(case))),
            Part.of("mesh", "node", lambda: computed(mesh_work(case))),
            Part.of("transposes", kind, exchanged),
            Part.of("ghosts", kind, lambda: neighbours(place, ghosts, cut)),
        ),
        steps=case.planned_steps(),
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        flops=plan.work.flops,
        process_grid=plan.process_grid,
        bounds=optimistic(place, SHARE) + without_latency(place),
        notes=("the particles are assumed to be evenly spread, and halos take longer",),
    )
