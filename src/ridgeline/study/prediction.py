"""Predictions of a case of any model, or of a benchmark with a size, on a machine by its name.

Machines are those whose files are shipped, a user's own file, and the machine at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ridgeline.bench.hpcg.hpcg_options import DEFAULT_POINTS, SIZES, BoxPerRank
from ridgeline.bench.hpcg.prediction import HpcgBox, predict_hpcg
from ridgeline.config.case import AnyCase
from ridgeline.config.check import did_you_mean, nearest
from ridgeline.config.machine_file import MachineFile, read_machine_file
from ridgeline.io.machine_file import machine_file_here
from ridgeline.limits.prediction import Allocation, Prediction
from ridgeline.models.prediction import predict_case
from ridgeline.runtime.errors import ConfigError, DecompositionError, RidgelineError

HERE = "here"  # the machine at hand, as `ridgeline bench machine-file` wrote it
SHIPPED = Path(__file__).resolve().parent / "machines"
BENCHMARKS = ("hpcg",)
Predict = Callable[[Allocation], Prediction]


def shipped() -> list[str]:
    """Return the names of the machine files that come with Ridgeline, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def find_machine(name: str) -> MachineFile:
    """Return a machine by its name, "here", or the path of a machine file (with a slash, or ending in .toml).

    Raises ConfigError for an unknown name, with the nearest one, and for a file that is not a machine file.
    """
    if "/" in name or name.endswith(".toml"):
        return read_machine_file(Path(name))
    if name == HERE:
        path = machine_file_here()
        if not path.is_file():
            raise ConfigError(
                f"--machine {HERE}: this machine has no machine file ({path}). Known machines: "
                f"{', '.join(shipped())}. Write a file for this machine with `ridgeline bench machine-file`."
            )
        return read_machine_file(path)
    if name.lower() not in shipped():
        hint = did_you_mean(name, [*shipped(), HERE])
        raise ConfigError(
            f"--machine {name[:60]}: unknown machine{hint} Known machines: {', '.join(shipped())}, {HERE}. The path "
            "of a machine file (.toml) is possible too."
        )
    return read_machine_file(SHIPPED / f"{name.lower()}.toml")


def machine_here() -> MachineFile | None:
    """Return the machine at hand, None if it has no machine file. Raises ConfigError for a damaged one."""
    path = machine_file_here()
    return read_machine_file(path) if path.is_file() else None


def predict_benchmark(name: str, settings: Sequence[str], place: Allocation) -> Prediction:
    """Return what an iteration of a benchmark takes. settings: its sizes, as "nx=104". Raises ConfigError.

    Sizes that are left out follow the benchmark's rule.
    """
    if name not in BENCHMARKS:
        raise ConfigError(
            f"{name}: this benchmark cannot be predicted. Benchmarks with predictions: {', '.join(BENCHMARKS)}."
        )
    known = list(SIZES)
    found = {}
    for word in settings:
        key, _, value = word.partition("=")
        if key not in known or not value.isascii() or not value.isdigit():
            near = nearest(key, known)
            hint = f" Did you mean '{near}'?" if near and near != key else ""
            raise ConfigError(
                f"--set {word}: this is not a size of {name}.{hint} Known sizes: "
                f"{', '.join(f'{one}=INTEGER' for one in known)}."
            )
        found[key] = int(value)
    return predict_hpcg(HpcgBox(*BoxPerRank(DEFAULT_POINTS).box(found)), place)


def line_for_check(case: AnyCase, ranks: int, machine: str | None) -> str | None:
    """Return what `ridgeline check` says about a case on a machine; None if none is named and this one has no file.

    On the machine at hand all ranks are on one node. Raises ConfigError for an unknown machine.
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
        f"{least}{found.least_seconds:.4g} s per step, {within}{more}{found.least_node_hours:.4g} node hours"
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
