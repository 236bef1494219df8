"""Fabrics that do not exist, with known bad parts: what the judge of links is tuned and tested on.

Noise, faults and seeds are in fabric_faults.toml. The model of a transfer: a pair's rate is the slowest part's on its
route, latencies add, and under adaptive routing a repeat is the mean over routes, weighted with their shares.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ridgeline.validate.fabric.fabric import Fabric
from ridgeline.validate.fabric.routes import RoutingMatrix, routing_matrix
from ridgeline.validate.judge.outcome import Outcome, screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements, PairQuantity
from ridgeline.validate.measure.session import group_rounds, node_rounds

RULES = tomllib.loads(Path(__file__).with_name("fabric_faults.toml").read_text())


def dragonfly(groups: int, switches: int, nodes: int, links: int = 1, nonminimal: float = 0.0) -> Fabric:
    """Return a dragonfly with all-to-all groups and so many links between each pair of groups."""
    number = np.arange(groups * switches).reshape(groups, switches)
    a, b = np.triu_indices(switches, 1)
    local = np.stack([number[:, a].ravel(), number[:, b].ravel()], axis=1)
    joined, used = [], np.zeros(groups, int)
    for _ in range(links):
        for g, h in zip(*np.triu_indices(groups, 1)):
            joined.append([number[g, used[g] % switches], number[h, used[h] % switches]])
            used[g] += 1
            used[h] += 1
    names = [f"x{1000 + g}s{s}" for g in range(groups) for s in range(switches)]
    return Fabric(
        names,
        np.repeat(number.ravel(), nodes),
        np.concatenate([local, np.array(joined)]),
        [f"x{1000 + g}" for g in range(groups)],
        np.repeat(np.arange(groups), switches),
        "dragonfly",
        nonminimal,
    )


def fat_tree(pods: int, leaves: int, nodes: int, aggregations: int, cores: int) -> Fabric:
    """Return a fat tree of three stages: each aggregation switch of a pod has its plane of cores."""
    leaf = np.arange(pods * leaves).reshape(pods, leaves)
    aggregation = leaf.size + np.arange(pods * aggregations).reshape(pods, aggregations)
    core = leaf.size + aggregation.size + np.arange(aggregations * cores).reshape(aggregations, cores)
    links = [[int(a), int(b)] for p in range(pods) for a in leaf[p] for b in aggregation[p]]
    links += [
        [int(aggregation[p, j]), int(c)] for p in range(pods) for j in range(aggregations) for c in core[j]
    ]
    names = [f"leaf{n}" for n in range(leaf.size)] + [f"aggregation{n}" for n in range(aggregation.size)]
    names += [f"core{n}" for n in range(core.size)]
    group_of = np.concatenate(
        [np.repeat(np.arange(pods), leaves), np.repeat(np.arange(pods), aggregations), np.full(core.size, -1)]
    )
    switch_of = np.repeat(leaf.ravel(), nodes)
    return Fabric(names, switch_of, np.array(links), [f"pod{p}" for p in range(pods)], group_of)


def torus(dimensions: list[int]) -> Fabric:
    """Return a torus of switches with one node each."""
    shape = tuple(dimensions)
    coordinates = np.stack(np.unravel_index(np.arange(int(np.prod(shape))), shape, "F"), axis=1)
    strides = np.concatenate([[1], np.cumprod(shape)[:-1]])
    links = []
    for dimension, length in enumerate(shape):
        ahead = coordinates.copy()
        ahead[:, dimension] = (ahead[:, dimension] + 1) % length
        links.append(np.stack([np.arange(len(coordinates)), ahead @ strides], axis=1))
    names = ["-".join(map(str, place)) for place in coordinates.tolist()]
    return Fabric(
        names,
        np.arange(len(coordinates)),
        np.concatenate(links),
        routing="dimension-order",
        coordinates=coordinates,
        dimensions=shape,
    )


SHAPES = {"dragonfly": dragonfly, "fat tree": fat_tree, "torus": torus}


def make_fabric(entry: dict[str, Any]) -> Fabric:
    """Return the fabric of an entry of fabric_faults.toml."""
    sizes = {k: v for k, v in entry.items() if k not in ("name", "shape", "placements", "first_seed")}
    return SHAPES[entry["shape"]](**sizes)


@dataclass
class Fault:
    """A bad part. element: its column of the routing matrix; size: extra time; in which quantities it shows."""

    element: int
    size: float
    bandwidth: bool = True
    latency: bool = True


@dataclass
class Plan:
    """Which pairs of nodes of a fabric are measured, by quantity prefix, with their routing matrices."""

    fabric: Fabric
    names: list[str]
    pairs: dict[str, tuple[Any, Any, RoutingMatrix]]


def make_plan(fabric: Fabric, seed: int = 0) -> Plan:
    """Return the pairs that the stages `pairs` and `group-pairs` measure."""
    n = len(fabric.switch_of)
    rounds = {"": node_rounds(n, None, False, seed)}
    groups = fabric.nodes_by_group()
    if any(len(members) > 1 for members in groups.values()):
        rounds["group "] = group_rounds(groups)
    pairs = {}
    for prefix, some in rounds.items():
        first, second = np.array([pair for one in some for pair in one], np.int64).T
        pairs[prefix] = (first, second, routing_matrix(fabric, first, second))
    return Plan(fabric, [f"nid{node:05d}" for node in range(n)], pairs)


def place_faults(plan: Plan, seed: int) -> list[Fault]:
    """Return 1 to 5 bad links or nodes, as fabric_faults.toml has it."""
    rules, random = RULES["faults"], np.random.default_rng(seed)
    start = plan.pairs[""][2].start
    faults: dict[int, Fault] = {}
    count = int(random.integers(rules["count"][0], rules["count"][1] + 1))
    while len(faults) < count:
        kind = 1 if random.random() < rules["link_share"] else 0
        element = int(random.integers(start[kind], start[kind + 1]))
        size = float(random.choice(rules["sizes"]))
        shows = str(random.choice(rules["shows_in"]))
        faults[element] = Fault(element, size, shows != "latency", shows != "bandwidth")
    return list(faults.values())


def extra_time(matrix: RoutingMatrix, faults: list[Fault], *, additive: bool) -> Any:
    """Return the extra time of each pair, float64 [n_pairs]: sums of latencies, or the slowest part of each route.

    Parts with a share of a pair's messages are on routes that are independent of each other.
    """
    result = np.zeros(matrix.matrix.shape[0])
    left = np.ones_like(result)
    for fault in sorted(faults, key=lambda fault: -fault.size):
        column = matrix.matrix[:, [fault.element]].toarray().ravel()
        result += column * fault.size * (1.0 if additive else left)
        left *= 1.0 - column
    return result


@dataclass
class Simulator:
    """Measures the pairs of a plan, again and again. times: exact ones of each quantity, in s or s/B."""

    plan: Plan
    faults: list[Fault]
    seed: int

    def __post_init__(self) -> None:
        """Draw the spread of the pairs, which stays."""
        noise, healthy = RULES["noise"], RULES["healthy"]
        self.random = np.random.default_rng([self.seed, 1])
        self.times = {}
        for prefix, (_, _, matrix) in self.plan.pairs.items():
            for name, higher in (("latency", False), ("bandwidth", True)):
                bad = [fault for fault in self.faults if (fault.bandwidth if higher else fault.latency)]
                extra = extra_time(matrix, bad, additive=not higher)
                if higher:
                    times = (1 + extra) / healthy["bandwidth"]
                else:
                    times = healthy["latency"] + matrix.hops * healthy["hop"] + 1e-6 * extra
                spread = 1 + noise["pair_spread"] * self.random.standard_normal(len(times))
                self.times[prefix + name] = times * spread

    def values(self, quantity: str) -> Any:
        """Return new measurements of a quantity, float64 [n_pairs, repeats]."""
        noise, times = RULES["noise"], self.times[quantity]
        shape = (len(times), noise["repeats"])
        stalled = self.random.random(shape) < noise["stalls"]
        late = np.where(stalled, 1 + self.random.exponential(1.0, shape), 1.0)
        values = times[:, None] * late * (1 + noise["sigma"] * self.random.standard_normal(shape))
        return 1 / values if quantity.endswith("bandwidth") else values

    def measure(self) -> Measurements:
        """Return what the stages of pairs would measure."""
        plan = self.plan
        measurements = Measurements(plan.names, node_of_rank=list(range(len(plan.names))))
        measurements.groups = plan.fabric.nodes_by_group()
        measurements.fabric = plan.fabric
        for quantity in self.times:
            higher = quantity.endswith("bandwidth")
            first, second, _ = plan.pairs["group " * quantity.startswith("group ")]
            measurements.pair_quantities.append(
                PairQuantity(quantity, "B/s" if higher else "s", higher, first, second, self.values(quantity))
            )
        return measurements

    def again(self, measurements: Measurements, nodes: dict[str, list[int]]) -> None:
        """Measure pairs of these nodes again, in these quantities; the better measurement counts."""
        for quantity in measurements.pair_quantities:
            ends = np.stack([quantity.first, quantity.second])
            rows = np.flatnonzero(np.isin(ends, nodes.get(quantity.name, [])).any(axis=0))
            new = self.values(quantity.name)
            worse = np.full_like(quantity.values, np.nan)
            old, new = quantity.values[rows], new[rows]
            # As `better` has it, for all rows at once: the larger geometric mean of rates, or the smaller of times.
            kept = (np.log(new).mean(axis=1) > np.log(old).mean(axis=1)) == quantity.higher_is_better
            worse[rows] = np.where(kept[:, None], old, new)
            quantity.values[rows] = np.where(kept[:, None], new, old)
            known = measurements.worse.get(quantity.name, np.empty((len(worse), 0)))
            measurements.worse[quantity.name] = np.hstack([known, worse])


def validate(simulator: Simulator, confirmations: int = 3) -> tuple[Measurements, Verdict]:
    """Return measurements and verdict, suspects measured again as `run_levels` does."""
    measurements = simulator.measure()
    outcome = Outcome(measurements, Thresholds(), None, None, lambda *_: None)
    before: set[tuple[str, int]] = set()
    for _ in range(confirmations):
        again = outcome.suspects(measurements)
        parts = {(quantity, node) for quantity, nodes in again.items() for node in nodes}
        if not parts or parts == before:
            break
        simulator.again(measurements, again)
        before = parts
    return measurements, screen(measurements)


def classes_of(plan: Plan, faults: list[Fault]) -> dict[int, set[int]]:
    """Return fault -> the elements that no measurement can tell from it, for the faults that can be identified.

    A fault can be identified if at least 3 pairs of one quantity cross it, no other fault, and are slowed down by at
    least 10 %. Its class are the elements whose columns are proportional on the pairs without another fault.
    """
    rules, healthy = RULES["identifiable"], RULES["healthy"]
    found: dict[int, set[int]] = {}
    for fault in faults:
        classes: list[set[int]] = []
        for additive in (False, True):
            if not (fault.latency if additive else fault.bandwidth):
                continue
            visible = 0
            alike: set[int] | None = None
            for _, _, matrix in plan.pairs.values():
                others = [
                    f.element for f in faults if f is not fault and (f.latency if additive else f.bandwidth)
                ]
                crossed = np.asarray(matrix.matrix[:, others].sum(axis=1)).ravel() if others else 0.0
                column = matrix.matrix[:, [fault.element]].toarray().ravel()
                base = healthy["latency"] + matrix.hops * healthy["hop"] if additive else 1e-6
                clear = (column > 0) & (crossed == 0)
                visible += int((clear & (column * fault.size * 1e-6 / base >= rules["slowdown"])).sum())
                # Proportional columns: as many entries, all on the same pairs, in one ratio.
                free = sparse.csr_array(matrix.matrix)[
                    np.flatnonzero(np.broadcast_to(crossed == 0, column.shape))
                ]
                here = column[np.broadcast_to(crossed == 0, column.shape)]
                norms = np.asarray(free.multiply(free).sum(axis=0)).ravel()
                cosine = (free.T @ here) / np.maximum(np.sqrt(norms * (here @ here)), 1e-300)
                same = set(np.flatnonzero(cosine > 1 - 1e-9).tolist()) if here.any() else None
                if same is not None:
                    alike = same if alike is None else alike & same
            if visible >= rules["pairs"] and alike:
                classes.append(alike)
        if classes:
            found[fault.element] = set.intersection(*classes)
    return found
