"""Measurements of systems that do not exist, with known bad nodes and links."""

from dataclasses import dataclass

import numpy as np

from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PairQuantity


@dataclass
class System:
    """What was simulated, and which nodes and links (smaller number first) are bad."""

    measurements: Measurements
    nodes: set[int]
    links: set[tuple[int, int]]

    def scores(self, verdict: Verdict) -> dict[str, float]:
        """Return precision and recall of nodes and of links. A bad link of a bad node may be blamed or not."""
        nodes = {s.nodes[0] for s in verdict.suspects if s.kind == "node"}
        links = {(s.nodes[0], s.nodes[1]) for s in verdict.suspects if s.kind == "link"}
        hidden = {link for link in self.links if self.nodes.intersection(link)}
        return {
            "node precision": len(nodes & self.nodes) / max(len(nodes), 1),
            "node recall": len(nodes & self.nodes) / max(len(self.nodes), 1),
            "link precision": len(links & self.links) / max(len(links), 1),
            "link recall": len(links & self.links) / max(len(self.links - hidden), 1),
        }


def simulate(
    n: int = 10_000, rounds: int = 16, repeats: int = 5, noise: float = 0.02, bad_nodes: int = 100,
    bad_links: int = 200, slowdown: float = 0.10, stalls: float = 0.0, seed: int = 0,
) -> System:  # fmt: skip
    """Return a system whose pairs were measured in random rounds.

    Half of the bad nodes have slow networks, the others slow memory. noise: relative, of every single figure; stalls:
    share of figures that take longer by an exponentially distributed factor.
    """
    random = np.random.default_rng(seed)
    permuted = [random.permutation(n)[: n // 2 * 2].reshape(-1, 2) for _ in range(rounds)]
    first, second = np.unique(np.sort(np.concatenate(permuted), axis=1), axis=0).T
    bad = random.choice(n, bad_nodes, replace=False)
    network, memory = bad[: bad_nodes // 2], bad[bad_nodes // 2 :]
    speed = np.ones(n)
    speed[network] = 1 - slowdown
    link_speed = np.minimum(speed[first], speed[second])
    healthy = np.flatnonzero(link_speed == 1)
    slow = random.choice(healthy, bad_links, replace=False)
    link_speed[slow] = 1 - slowdown
    memory_speed = np.ones(n)
    memory_speed[memory] = 1 - slowdown

    def measure(times):
        """Return figures [parts, repeats] of exact times."""
        shape = (len(times), repeats)
        factor = np.where(random.random(shape) < stalls, 1 + random.exponential(1.0, shape), 1.0)
        return times[:, None] * factor * (1 + noise * random.standard_normal(shape))

    measurements = Measurements([f"nid{node:05d}" for node in range(n)])
    measurements.node_of_rank = list(range(n))
    measurements.node_quantities = [
        NodeQuantity("triad", "B/s", True, 4e11 / measure(1 / memory_speed)),
    ]
    measurements.pair_quantities = [
        PairQuantity("bandwidth", "B/s", True, first, second, 2.3e10 / measure(1 / link_speed)),
        PairQuantity("latency", "s", False, first, second, 2e-6 * measure(1 / link_speed)),
    ]
    links = {(int(first[row]), int(second[row])) for row in slow}
    return System(measurements, set(map(int, bad)), links)


def with_rails(
    n: int, rails: int, slow=(), slow_links=(), factor=0.7, noise=0.01, repeats=5, seed=0, name="bandwidth"
) -> Measurements:
    """Return one quantity of all pairs of nodes over all rails, with interfaces hsn0, hsn1, ...

    slow: (node, rail) or (node, None) for all of its interfaces; slow_links: (a, b, rail).
    """
    random = np.random.default_rng(seed)
    parts = []
    for rail in range(rails):
        first, second = np.triu_indices(n, 1)
        speed = np.ones(len(first))
        for node, which in slow:
            if which in (rail, None):
                speed[(first == node) | (second == node)] = factor
        for a, b, which in slow_links:
            if which in (rail, None):
                speed[(first == a) & (second == b)] = factor
        parts.append((first, second, speed, np.full(len(first), rail)))
    first, second, speed, rail_of = (np.concatenate(column) for column in zip(*parts))
    figures = 2.3e10 * speed[:, None] * (1 + noise * random.standard_normal((len(speed), repeats)))
    measurements = Measurements([f"nid{node}" for node in range(n)], node_of_rank=list(range(n)))
    higher = name != "latency"
    if not higher:
        figures = 2e4 / figures
    measurements.pair_quantities = [
        PairQuantity(name, "B/s" if higher else "s", higher, first, second, figures, rail_of)
    ]
    measurements.interfaces = {node: [f"hsn{rail}" for rail in range(rails)] for node in range(n)}
    return measurements


def all_pairs(values, names=None, quantity="bandwidth", repeats=3, noise=0.005, seed=0) -> Measurements:
    """Return measurements of one quantity of all pairs; values: [n, n] exact rates, or times for "latency"."""
    random = np.random.default_rng(seed)
    n = len(values)
    first, second = np.triu_indices(n, 1)
    exact = np.asarray(values, float)[first, second]
    figures = exact[:, None] * (1 + noise * random.standard_normal((len(exact), repeats)))
    higher = quantity != "latency"
    measurements = Measurements(names or [f"nid{node}" for node in range(n)], node_of_rank=list(range(n)))
    measurements.pair_quantities = [
        PairQuantity(quantity, "B/s" if higher else "s", higher, first, second, figures)
    ]
    return measurements
