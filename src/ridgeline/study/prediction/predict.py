"""Predictions by what is predicted: a case of any model, or a benchmark with a size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ridgeline.bench.hpcg.prediction import HpcgBox, predict_hpcg
from ridgeline.config.case import AnyCase
from ridgeline.config.check import nearest
from ridgeline.config.machine_file import MachineFile
from ridgeline.limits.allocation import Allocation
from ridgeline.limits.prediction import Prediction
from ridgeline.models.prediction import predict_case
from ridgeline.runtime.errors import ConfigError, DecompositionError, RidgelineError
from ridgeline.study.prediction.machines import find_machine, machine_here

BENCHMARKS = ("hpcg",)
Predict = Callable[[Allocation], Prediction]


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


def line_for_check(case: AnyCase, ranks: int, machine: str | None) -> str | None:
    """Return what `ridgeline check` says of a case on a machine; None if none is named and this one has no file.

    On the machine at hand all ranks are on one node. Raises ConfigError for a machine that is named and is none.
    """
    if machine is not None:
        found = find_machine(machine)
        per_node = min(ranks, Allocation.of(found, 1).ranks_per_node)
        return _in_a_line(predict_case(case, Allocation.of(found, -(-ranks // per_node), per_node)))
    try:
        here = machine_here()
        return None if here is None else _in_a_line(predict_case(case, Allocation.of(here, 1, ranks)))
    except RidgelineError as why:
        return f"no prediction for this machine: {why}"


def _in_a_line(found: Prediction) -> str:
    least = "at least " if found.is_bound else ""
    more = least or ("at least " if found.node_hours is None else "")
    within = "80 % between {:.4g} and {:.4g} s, ".format(*found.interval) if found.interval else ""
    place = found.place
    return (
        f"predicted for {place.nodes} node{'s' * (place.nodes > 1)} of {place.machine.machine.name}: "
        f"{least}{found.least_seconds:.4g} s a step, {within}{more}{found.least_node_hours:.4g} node hours"
    )


def sweep(
    predict: Predict, machine: MachineFile, nodes: Sequence[int], ranks_per_node: int | None
) -> tuple[list[Prediction], list[str]]:
    """Return the predictions on several numbers of nodes, and a sentence for each number that the case does not fit.

    Raises DecompositionError if it fits none.
    """
    places = [Allocation.of(machine, number, ranks_per_node) for number in nodes]
    found, refused, first = [], [], None
    for place in places:
        try:
            found.append(predict(place))
        except DecompositionError as error:
            first = first or error
            refused.append(f"{place.nodes} node{'s' * (place.nodes > 1)}: {error}")
    if first is not None and not found:
        raise first
    return found, refused
