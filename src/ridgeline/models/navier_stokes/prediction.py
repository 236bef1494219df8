"""A step of the spectral-element method: right-hand sides, iterations of each solve, projection, exchanges, sums.

Bytes and operations per stored point are those of the model's estimate; a solve takes as many of its iterations as
the caller says. The share of the bandwidth that a step reaches is NekBox's overall efficiency (Sec. 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ridgeline.limits.allocation import Allocation
from ridgeline.limits.exchange_costs import neighbours, sum_over_ranks, without_latency
from ridgeline.limits.prediction import Part, Prediction, exchange_kind, optimistic, traffic
from ridgeline.models.navier_stokes.estimate import (
    DOUBLE,
    PRECONDITIONER_LEVELS,
    Counts,
    estimate_sizes,
    part_sizes,
    shared_faces,
)

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.config import NavierStokesCase

SHARE = "codes.navier_stokes"
SOLVES = "pressure", "velocity"  # of a step; the velocity's are those of each scalar too


def predict(case: NavierStokesCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the prediction of a case; a solve without a number of iterations takes one, which is the least.

    Raises DecompositionError for more ranks than elements.
    """
    ranks = place.ranks
    plan = estimate_sizes(case, ranks)
    grid, most = part_sizes(case, ranks)
    counts, mesh = Counts.of(case), grid.mesh
    of_pressure, of_velocity = (iterations.get(solve, 1.0) for solve in SOLVES)
    points = most * grid.n**3
    c = counts.fields
    faces, pairs = shared_faces(mesh, ranks)
    # As the estimate counts them: a field's right-hand side and the divergence; each operator; each smaller level.
    lower = 2.0 * (PRECONDITIONER_LEVELS - 1)
    words = DOUBLE * (c * (1 + of_velocity) + 1 + of_pressure) + counts.single * lower * of_pressure
    calls = 1 + (1 + len(case.scalar)) * (1 + of_velocity) + (1 + lower) * of_pressure
    sent, messages = 2.0 * faces * grid.n**2 * words / ranks, 2.0 * pairs * calls / ranks
    sums = of_pressure + 2 * of_velocity * (1 + len(case.scalar))  # one of GMRES, two of conjugate gradients

    def region(name: str, *terms: tuple[float, tuple[float, float]]) -> Part:
        flops = math.fsum(times * each[0] for times, each in terms) * points
        moved = math.fsum(times * each[1] for times, each in terms) * points
        return Part.of(name, "node", lambda: traffic(place, moved, SHARE, flops, plan.memory_per_rank))

    pressure, velocity = counts.pressure_iteration(), counts.conjugate_gradient_iteration()
    projection = (
        (1.0, counts.projection(counts.pressure_vectors)),
        (c, counts.projection(counts.velocity_vectors)),
    )
    all_parts = counts.step()
    one_each = [(1.0, pressure), (float(c), velocity), *projection]
    rest = (
        all_parts[0] - math.fsum(times * each[0] for times, each in one_each),
        all_parts[1] - math.fsum(times * each[1] for times, each in one_each),
    )
    bounds = optimistic(place, SHARE)
    if not iterations:
        bounds += ("each solve takes one iteration: --iterations pressure=N says how many it takes",)
    kind = exchange_kind(place)
    return Prediction(
        case=f"navier_stokes, {mesh.n_elements} elements of order {case.grid.order}",
        place=place,
        parts=(
            region("advection and right-hand sides", (1.0, rest)),
            region("pressure iterations", (of_pressure, pressure)),
            region("velocity iterations", (of_velocity * c, velocity)),
            region("projection", *projection),
            Part.of("gather-scatter", kind, lambda: neighbours(place, sent, messages)),
            Part.of("global sums", kind, lambda: sums * sum_over_ranks(place)),
        ),
        steps=case.run.steps,
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        process_grid=plan.process_grid,
        bounds=bounds,
        notes=without_latency(place),
    )
