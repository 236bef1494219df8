"""A step of molecular dynamics: operations over the peak, ghosts and migrating atoms between neighbours, sums.

Forces are bound by arithmetic, not by memory. So the share that a machine file gives is one of the peak. It counts
the least operations of a step: each pair within the cut-off once. Lists of neighbours are in its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ridgeline.limits.allocation import Allocation
from ridgeline.limits.exchange_costs import neighbours, sum_over_ranks, without_latency
from ridgeline.limits.prediction import Part, Prediction, exchange_kind
from ridgeline.models.molecular_dynamics.estimate import estimate, traffic_of

if TYPE_CHECKING:
    from ridgeline.models.molecular_dynamics.config import MolecularDynamicsCase

SHARE = "codes.molecular_dynamics"
SUMS = 2  # over all ranks where lists are rebuilt: who goes far, and that nobody was lost


def predict(case: MolecularDynamicsCase, place: Allocation, iterations: Mapping[str, float]) -> Prediction:
    """Return the prediction of a case. Raises DecompositionError for boxes that are too thin."""
    ranks, lists = place.ranks, case.neighbour
    plan = estimate(case, ranks)
    nz, ny, nx = plan.process_grid
    sent, share = traffic_of(case, (nz, ny, nx)), place.find(SHARE)
    sums = (SUMS + lists.check) / lists.every
    kind = exchange_kind(place)
    absent = (f"the full peak is taken: the machine file has no {SHARE}",)
    no_kernels = ("the peak is that of devices, for which this model has no kernels yet",)

    def compute() -> float:
        return plan.work.flops / ranks / (place.of_rank("peak") * (share or 1.0))

    def exchange() -> float:
        return neighbours(place, sent.per_step(lists.every), sent.messages)

    return Prediction(
        case=f"molecular_dynamics, {case.melt.atoms} atoms",
        place=place,
        parts=(
            Part.of("forces, lists and integration", "node", compute),
            Part.of("ghosts and migration", kind, exchange),
            Part.of("global sums", kind, lambda: sums * sum_over_ranks(place)),
        ),
        steps=case.run.steps,
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        flops=plan.work.flops,
        process_grid=plan.process_grid,
        bounds=absent if share is None else (),
        notes=without_latency(place) + (no_kernels if place.on_devices else ()),
    )
