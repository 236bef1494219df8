"""A step of N-body gravity: near forces, the mesh with its transforms, their transposes, ghosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ridgeline.limits.allocation import Allocation
from ridgeline.limits.exchange_costs import RankGroup, all_to_all, neighbours, without_latency
from ridgeline.limits.prediction import Part, Prediction, exchange_kind, optimistic, traffic
from ridgeline.models.n_body.estimate import (
    BACK,
    FORWARD,
    estimate,
    ghost_bytes,
    mesh_work,
    near_work,
    transposed,
)

if TYPE_CHECKING:
    from ridgeline.models.n_body.config import NBodyCase

SHARE = "codes.n_body"
CALLS = FORWARD.combined + BACK.inward  # exchanges of one variable each
SIDES = 2  # messages of a direction that is cut


def predict(case: NBodyCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the prediction of a case whose particles are spread evenly. Raises DecompositionError.

    Later, where halos have formed, near forces take several times as long; nobody knows beforehand.
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
        steps=case.run.steps,
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        flops=plan.work.flops,
        process_grid=plan.process_grid,
        bounds=optimistic(place, SHARE),
        notes=("particles are taken to be spread evenly; halos take longer", *without_latency(place)),
    )
