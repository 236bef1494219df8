"""What a case needs on a machine and how long it takes, predicted by its model or from its model's estimate.

The `estimate.py` of a model may have a function `predict(case, place, iterations)`, and a tuple SOLVES with the names
of the linear solves of a step. Where it has no `predict`, the closed forms of the estimate are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from ridgeline.config.case import AnyCase
from ridgeline.limits.exchange_costs import host_copies, neighbours, without_latency
from ridgeline.limits.prediction import Allocation, Part, Prediction, exchange_kind, optimistic, traffic
from ridgeline.models import estimate


def predict_case(
    case: AnyCase, place: Allocation, iterations: Mapping[str, float] | None = None
) -> Prediction:
    """Return what a case needs on an allocation and how long it takes. No MPI, no fields, no communication.

    iterations: of the linear solves of a step, by their names (`solves_of`). Raises DecompositionError for ranks that
    do not fit the grid.
    """
    predict = getattr(estimate_module(case.run.model), "predict", None)
    if predict is None:
        return predict_from_estimate(case, place)
    prediction: Prediction = predict(case, place, iterations or {})
    return prediction


def solves_of(model: str) -> tuple[str, ...]:
    """Return the names of the linear solves of a step, whose iterations a prediction needs; most models have none."""
    return tuple(getattr(estimate_module(model), "SOLVES", ()))


def estimate_module(model: str) -> ModuleType:
    """Return the module that states what a run of a model needs."""
    return import_module(f"ridgeline.models.{model}.estimate")


def predict_from_estimate(case: AnyCase, place: Allocation) -> Prediction:
    """Return the prediction that follows from the estimate of a case alone. Raises DecompositionError.

    The time of a sweep is its least memory traffic over the bandwidth that the model reaches: the share of the
    machine's bandwidth that the machine file gives for the model, or all of it (Gray-Scott paper, Eqs. 4 and 5a).
    What a model's estimate has beside the traffic is added.
    """
    plan = estimate(case, place.ranks)
    work, ranks = plan.work, place.ranks
    model = case.run.model
    share = f"codes.{model}"
    moved, sent = work.bytes_memory / ranks, work.bytes_exchanged / ranks
    parts = [
        Part.of(
            "sweep",
            "node",
            lambda: traffic(place, moved, share, work.flops / ranks, plan.memory_per_rank),
        ),
        Part.of(
            "halo exchange",
            exchange_kind(place),
            lambda: neighbours(place, sent, work.messages / ranks),
        ),
    ]
    if plan.seconds_beside:
        parts.append(Part.of("arithmetic in caches and calls", "node", lambda: plan.seconds_beside))
    if place.on_devices:
        parts.append(Part.of("host-device copies", "node", lambda: host_copies(place, sent)))
    return Prediction(
        case=f"{model}, {' x '.join(map(str, case.grid.points()))} points",
        place=place,
        parts=tuple(parts),
        steps=case.planned_steps(),
        memory_per_rank=plan.memory_per_rank,
        output_bytes=plan.output_bytes,
        flops=work.flops,
        process_grid=plan.process_grid,
        bounds=optimistic(place, share) + without_latency(place),
    )
