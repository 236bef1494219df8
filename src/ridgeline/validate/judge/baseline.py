"""Drift in time: this validation against a stored one of the same machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.units import number
from ridgeline.validate.judge.pair_screening import link_costs
from ridgeline.validate.judge.part_screening import part_name, parts_as_nodes
from ridgeline.validate.judge.rail_screening import Interfaces, by_rail, interface_name, rail_name
from ridgeline.validate.judge.statistics import Floats, costs, figure, steady
from ridgeline.validate.judge.suspects import GPU_SLOW, INTERFACE, NODE_SLOW, SYSTEM, Kind, Suspects, percent
from ridgeline.validate.judge.system_screening import column_direction, column_unit, system_figures
from ridgeline.validate.judge.thresholds import CPU_SHARE
from ridgeline.validate.judge.verdict import Drift
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PairQuantity

# Quantity now and in the baseline, the kind of part that it is of, and the name of a node's part, or of all (None).
_Compared = tuple[
    NodeQuantity | PairQuantity,
    NodeQuantity | PairQuantity,
    Literal["", "interface", "GPU"],
    Callable[[int | None], str],
]


def check_baseline(measurements: Measurements, baseline: Measurements) -> None:
    """Raise ConfigError, which says what differs, if the baseline belongs to another machine or to other options."""
    differing = [
        f"{key} is {_shown(measurements.machine.get(key))} here and {_shown(baseline.machine.get(key))} in the file"
        for key in sorted({*measurements.machine, *baseline.machine} - {"quick"})
        if measurements.machine.get(key) != baseline.machine.get(key)
    ]
    if not set(measurements.nodes) & set(baseline.nodes):
        more = ", ..." * (len(baseline.nodes) > 4)
        differing.append(f"none of its nodes ({', '.join(baseline.nodes[:4])}{more}) is in this job")
    if differing:
        raise ConfigError(
            f"--baseline: the file belongs to another machine ({'; '.join(differing)}). Choose a baseline of this "
            "machine, or store a new one with --save-baseline."
        )
    if measurements.machine.get("quick") != baseline.machine.get("quick"):
        with_it = "with" if baseline.machine.get("quick") else "without"
        raise ConfigError(
            f"--baseline: the file was stored {with_it} --quick, and measurements with and without --quick cannot be "
            f"compared. Validate {with_it} --quick, or store a new baseline with --save-baseline."
        )


def _shown(value: Any) -> str:
    """Return a value, or the values of a list, as people write them."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def compare_with_baseline(
    measurements: Measurements, baseline: Measurements, tolerance: float = 0.1
) -> list[Drift]:
    """Return the changes of every quantity: overall (medians), and of the nodes that drifted.

    Nodes are matched by host name. Those that are slower by more than `tolerance` (0.1 for 10 % more time) are listed
    as slow. The difference must be more than the noise of both validations, too. Those that are faster by as much are
    listed too, not as slow. A node's figure of a quantity of pairs is the median over its links. Raises ConfigError
    if the baseline is of another machine.
    """
    check_baseline(measurements, baseline)
    before = {name: index for index, name in enumerate(baseline.nodes)}
    common = [(index, before[name]) for index, name in enumerate(measurements.nodes) if name in before]
    drifts: list[Drift] = []
    for now, old, part, name_of in _comparable(measurements, baseline):
        costs_now, noise_now = _per_node(now, len(measurements.nodes))
        costs_old, noise_old = _per_node(old, len(baseline.nodes))
        pairs = [(i, j) for i, j in common if math.isfinite(costs_now[i]) and math.isfinite(costs_old[j])]
        if not pairs:
            continue
        change = np.array([costs_now[i] - costs_old[j] for i, j in pairs])
        cut = max(math.log1p(tolerance), 4.0 * math.hypot(noise_now, noise_old))
        # With one node, the GPUs of equal number are one GPU, which may drift alone.
        alone = part == "GPU" and len(pairs) == 1
        overall = 0.0 if alone else float(np.median(change))
        medians = [float(np.median([c[k] for k in ks])) for c, ks in zip((costs_now, costs_old), zip(*pairs))]
        if not alone:
            drifts.append(_drift(now, None, name_of(None), medians[1], medians[0], overall, overall >= cut))
        # What the whole system lost is the system's drift; a node has drifted if it lost more than that.
        for (i, j), lost in zip(pairs, change):
            if abs(lost) >= cut and abs(lost - overall) >= cut:
                drift = _drift(now, i, name_of(i), costs_old[j], costs_now[i], float(lost), bool(lost >= cut))
                drifts.append(replace(drift, part=part))
    return drifts + _system_drifts(measurements, baseline, tolerance)


def _comparable(measurements: Measurements, baseline: Measurements) -> Iterator[_Compared]:
    """Yield every quantity with that of the baseline: of nodes, of their GPUs, and of pairs over each interface."""
    nodes, interfaces = measurements.nodes, measurements.interfaces
    stored = {q.name: q for q in (*baseline.node_quantities, *(q for q, _ in parts_as_nodes(baseline)))}
    for quantity in measurements.node_quantities:
        if quantity.name in stored:
            yield quantity, stored[quantity.name], "", lambda node: "" if node is None else nodes[node]
    for quantity, place in parts_as_nodes(measurements):
        if quantity.name in stored:
            yield quantity, stored[quantity.name], "GPU", partial(_name_of_gpu, measurements, place)
    for pairs in measurements.pair_quantities:
        known = next((q for q in baseline.pair_quantities if q.name == pairs.name), None)
        rails, before = by_rail(pairs), {} if known is None else by_rail(known)
        for rail in sorted(rails.keys() & before.keys()):
            if len(rails) > 1:
                yield (
                    rails[rail],
                    before[rail],
                    "interface",
                    partial(_name_of_interface, nodes, interfaces, rail),
                )
            else:
                yield rails[rail], before[rail], "", lambda node: "" if node is None else nodes[node]


def _name_of_gpu(measurements: Measurements, place: tuple[int, int], node: int | None) -> str:
    return "" if node is None else part_name(measurements.nodes[node], measurements.gpus.get(node, ()), place)


def _name_of_interface(nodes: Sequence[str], interfaces: Interfaces, rail: int, node: int | None) -> str:
    if node is None:
        return rail_name(interfaces, rail)
    return f"{nodes[node]} {interface_name(interfaces, node, rail)}"


def _system_drifts(measurements: Measurements, baseline: Measurements, tolerance: float) -> list[Drift]:
    """Return the median change of every column of the benchmarks of the whole system.

    These are not repeated: only twice the tolerance is drift.
    """
    drifts = []
    stored = {result["benchmark"]: result for result in baseline.system}
    for result in measurements.system:
        old = stored.get(result["benchmark"])
        if old is not None and any("block" in row for row in result["rows"]):
            drifts += _congestion_drifts(old, result, tolerance)
            continue
        if old is None or len(old["rows"]) != len(result["rows"]) or "unit" in result["columns"]:
            continue  # another sweep, or rows of several kinds of figures
        for key in result["columns"]:
            higher = column_direction(key)
            pairs = [(then.get(key), now.get(key)) for then, now in zip(old["rows"], result["rows"])]
            pairs = [(a, b) for a, b in pairs if isinstance(a, float) and isinstance(b, float) and a > 0 < b]
            if higher is None or not pairs:
                continue
            before, now = np.array(pairs).T
            change = float(np.median(costs(now, higher) - costs(before, higher)))
            unit = column_unit(key)
            medians = float(np.median(before)), float(np.median(now))
            slow = change >= math.log1p(2 * tolerance)
            name = f"{result['benchmark']} {key}"
            drifts.append(Drift(name, unit, None, "", *medians, math.expm1(change), slow))
    return drifts


def _congestion_drifts(old: dict[str, Any], new: dict[str, Any], tolerance: float) -> list[Drift]:
    """Return how the worst impact factors changed. They vary: only five times the tolerance is drift."""
    before = {figure_.name: figure_ for figure_ in system_figures([old])}
    drifts = []
    for now in system_figures([new]):
        if now.name in before:
            change = math.log(now.value / before[now.name].value)
            slow = change >= math.log1p(5 * tolerance)
            values = before[now.name].value, now.value
            drifts.append(Drift(now.name, now.unit, None, "", *values, math.expm1(change), slow))
    return drifts


def add_drifts(drifts: list[Drift], suspects: Suspects) -> None:
    """Suspect the nodes, or the system, that became slow."""
    for drift in drifts:
        # A node that gets less of its processor is busy, not faulty.
        if not drift.slow or drift.quantity == CPU_SHARE:
            continue
        reason = (
            f"{drift.quantity}: {number(drift.now, drift.unit)} where the baseline has "
            f"{number(drift.before, drift.unit)}, {percent(drift.slowdown)} more time"
        )
        nodes = [] if drift.node is None else [drift.node]
        kind: Kind = "system" if drift.node is None else drift.part or "node"
        advice = {"system": SYSTEM, "interface": INTERFACE, "GPU": GPU_SLOW}.get(kind, NODE_SLOW)
        name = drift.name if drift.part else ""
        suspects.add(kind, nodes, reason, advice, name=name, quantity=drift.quantity, slowdown=drift.slowdown)


def _per_node(quantity: NodeQuantity | PairQuantity, n_nodes: int) -> tuple[Floats, float]:
    """Return one cost a node and its noise."""
    if isinstance(quantity, NodeQuantity):
        return steady(costs(quantity.values, quantity.higher_is_better))[:2]
    links = link_costs(quantity)
    ends = np.concatenate([links.first, links.second])
    both = np.tile(links.cost, 2)
    per_node = np.full(n_nodes, np.nan)
    order = np.argsort(ends, kind="stable")
    for node, part in zip(*_split(ends[order], both[order])):
        per_node[node] = np.median(part)
    return per_node, links.noise


def _split(keys: NDArray[np.int64], values: Floats) -> tuple[NDArray[np.int64], list[Floats]]:
    unique, starts = np.unique(keys, return_index=True)
    return unique, np.split(values, starts[1:])


def _drift(
    quantity: NodeQuantity | PairQuantity,
    node: int | None,
    name: str,
    before: float,
    now: float,
    change: float,
    slow: bool,
) -> Drift:
    higher = quantity.higher_is_better
    return Drift(
        quantity.name,
        quantity.unit,
        node,
        name,
        figure(before, higher),
        figure(now, higher),
        math.expm1(change),
        slow,
    )
