"""Predictions by what is predicted: a case of any model, or a benchmark with a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ridgeline.config.case import Case
from ridgeline.config.check import nearest
from ridgeline.config.machine_file import MachineFile
from ridgeline.runtime.errors import ConfigError
from ridgeline.study.prediction.allocation import Allocation
from ridgeline.study.prediction.blocks import predict_blocks
from ridgeline.study.prediction.hpcg import HpcgBox, predict_hpcg
from ridgeline.study.prediction.navier_stokes import Iterations, predict_navier_stokes
from ridgeline.study.prediction.prediction import Prediction
from ridgeline.study.prediction.turbulence import predict_turbulence

BENCHMARKS = ("hpcg",)
Predict = Callable[[Allocation], Prediction]


def predict_case(case: Case, place: Allocation, iterations: Iterations | None = None) -> Prediction:
    """Return what a case needs and takes on an allocation. No MPI, no fields, no communication.

    iterations: of the solves of Navier-Stokes. Raises DecompositionError for ranks that do not fit, ConfigError for
    iterations of a model that solves nothing.
    """
    model: Any = case
    if case.run.model == "navier_stokes":
        return predict_navier_stokes(model, place, iterations)
    if iterations is not None:
        raise ConfigError(f"--iterations is for navier_stokes, and the case's model is {case.run.model}")
    return predict_turbulence(model, place) if case.run.model == "turbulence" else predict_blocks(case, place)


def predict_benchmark(name: str, settings: Sequence[str], place: Allocation) -> Prediction:
    """Return what an iteration of a benchmark takes. settings: its sizes, as "nx=104". Raises ConfigError."""
    if name not in BENCHMARKS:
        raise ConfigError(f"{name}: no benchmark that can be predicted; need one of {', '.join(BENCHMARKS)}")
    known = list(HpcgBox.__dataclass_fields__)
    found = {}
    for word in settings:
        key, _, value = word.partition("=")
        if key not in known or not value.isascii() or not value.isdigit():
            near = nearest(key, known)
            hint = f" Did you mean '{near}'?" if near and near != key else ""
            raise ConfigError(
                f"--set {word}: {name} needs {', '.join(f'{one}=INTEGER' for one in known)}.{hint}"
            )
        found[key] = int(value)
    return predict_hpcg(HpcgBox(**found), place)


def sweep(
    predict: Predict, machine: MachineFile, nodes: Sequence[int], ranks_per_node: int | None
) -> list[Prediction]:
    """Return the predictions on several numbers of nodes."""
    return [predict(Allocation.of(machine, number, ranks_per_node)) for number in nodes]
