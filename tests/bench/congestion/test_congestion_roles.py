"""The congestion benchmark without a network: who does what, how long a test runs, the table of three blocks."""

from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI

from ridgeline.bench.congestion import network_tests
from ridgeline.bench.congestion.congestion_benchmark import assign_roles
from ridgeline.bench.congestion.congestion_figures import COLUMNS, NetworkSummary, make_rows
from ridgeline.bench.congestion.network_tests import TESTS, ring_order, run_test
from ridgeline.runtime.errors import ConfigError, VerificationError

MIB = 2.0**20


def test_nodes_of_the_paper():
    # Fig. 5: 9658 nodes, 5795 test, 3863 congest, at least 965 per kind.
    roles = assign_roles(range(9658), fraction=0.4)
    assert len(roles.test_nodes) == 5795
    sizes = [len(nodes) for nodes in roles.background_nodes.values()]
    assert (sum(sizes), min(sizes), len(sizes)) == (3863, 965, 4)


@pytest.mark.parametrize(
    ("nodes", "testers", "kinds"),
    [
        (3, 2, [1]),
        (4, 2, [2]),
        (5, 2, [3]),
        (6, 2, [2, 2]),
        (8, 2, [2, 2, 2]),
        (10, 2, [2] * 4),
        (20, 4, [4] * 4),
    ],
)
def test_few_nodes_have_fewer_kinds_of_traffic(nodes, testers, kinds):
    roles = assign_roles(range(nodes))
    assert len(roles.test_nodes) == testers
    assert [len(found) for found in roles.background_nodes.values()] == kinds
    used = [*roles.test_nodes, *(node for found in roles.background_nodes.values() for node in found)]
    assert sorted(used) == list(range(nodes))


def test_lanes_are_ranks_of_equal_local_number():
    nodes = [0] * 3 + [1] * 3 + [2] * 2 + [3] * 2  # ranks of nodes
    local = [0, 1, 2, 0, 1, 2, 0, 1, 0, 1]
    for seed in range(20):
        roles = assign_roles(nodes, fraction=0.5, seed=seed)
        lanes = [*roles.testers, *(lane for _, lane in roles.background)]
        assert sorted(sum(lanes, roles.resting)) == list(range(10))
        for lane in lanes:
            assert len({local[rank] for rank in lane}) == 1
            assert len({nodes[rank] for rank in lane}) == len(lane) >= 2
        assert [roles.lane_of(rank) for rank in roles.resting] == [None] * len(roles.resting)
        assert all(roles.lane_of(rank) == i for i, lane in enumerate(lanes) for rank in lane)
        # The third ranks of nodes 0 and 1 find each other only on the same side.
        same_side = ({0, 1} <= set(roles.test_nodes)) or not {0, 1} & set(roles.test_nodes)
        assert roles.resting == ([] if same_side else [2, 5])
    assert {tuple(assign_roles(nodes, seed=s).test_nodes) for s in range(9)} > {(0, 1)}


@pytest.mark.parametrize(
    ("nodes", "options", "words"),
    [
        (2, {}, "congestion requires at least 3 nodes, .* and there are 2"),
        (4, {"fraction": 1.0}, "fraction 1.0"),
        (4, {"fraction": 0.0}, "fraction 0.0"),
        (4, {"kinds": ("flood",)}, "--background flood: give at least one kind, .* Kinds: all-to-all"),
        (4, {"kinds": ("incast", "incast")}, "each at most once"),
        (3, {"kinds": ("incast",)}, "--background incast requires two nodes, but only one of 3 nodes"),
    ],
)
def test_refusals(nodes, options, words):
    with pytest.raises(ConfigError, match=words):
        assign_roles(range(nodes), **options)


class Clockwork:
    """A pattern of which every repetition takes `pace` seconds of a clock that it drives itself."""

    def __init__(self, pace, wrong=False):
        self.now, self.pace, self.wrong = 0.0, pace, wrong
        self.rings, self.repetitions, self.freed = [], 0, False

    def prepare(self, ring):
        self.rings.append(ring)

    def repeat(self, times):
        times[:] = self.pace
        self.now += self.pace * times.size
        self.repetitions += times.size

    def verify(self):
        if self.wrong:
            raise VerificationError(f"ring {self.rings[-1]}")

    def free(self):
        self.freed = True


@pytest.fixture
def run(monkeypatch):
    def run(pattern, *arguments):
        monkeypatch.setattr(network_tests, "time", SimpleNamespace(perf_counter=lambda: pattern.now))
        return run_test(MPI.COMM_SELF, pattern, *arguments)

    return run


def test_a_fast_network_takes_all_repetitions(run):
    pattern = Clockwork(1e-5)
    rounds, problem = run(pattern, 200, 200, 1.0, None)
    assert problem is None
    assert pattern.freed
    assert {times.size for times in rounds[:-1]} == {200}
    assert pattern.rings == list(range(len(rounds)))
    assert pattern.repetitions >= 401 * len(rounds[:-3])  # the last rings may find little time left
    assert 1.0 <= pattern.now < 1.0 + 401e-5
    pattern = Clockwork(1e-5)
    assert [times.size for times in run(pattern, 8, 1, 1.0, 3)[0]] == [8, 8, 8]
    assert pattern.repetitions == 3 * (1 + 1 + 8)  # warm-up, one after the pause, timed


@pytest.mark.parametrize("pace", [0.05, 0.4, 7.0])
def test_a_slow_network_ends_in_time(run, pace):
    pattern = Clockwork(pace)
    rounds, _ = run(pattern, 200, 200, 1.0, None)
    assert all(times.size >= 1 for times in rounds)
    assert pattern.now <= 1.0 + 6 * pace


def test_the_first_wrong_ring_is_reported(run):
    rounds, problem = run(Clockwork(1e-3, wrong=True), 5, 1, 1.0, 4)
    assert len(rounds) == 4
    assert str(problem) == "ring 0"


def test_rings_are_random_and_the_same_for_all():
    orders = [ring_order((1, 0, ring), 6) for ring in range(30)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len({tuple(order) for order in orders}) > 20
    assert orders[3] == ring_order((1, 0, 3), 6)


def test_table_of_the_paper():
    units = dict(zip((test.key for test in TESTS), (1e-6, MIB, 1e-6)))
    printed = {
        "isolated": [(3.1, 5.2), (1009.1, 183.1), (66.4, 95.0)],
        "congested": [(7.1, 55.0), (663.2, 181.5), (162.1, 312.2)],
    }
    figures = {
        (block, test.key): NetworkSummary(a * units[test.key], b * units[test.key], 0.0, 1.0, 9, 1)
        for block, values in printed.items()
        for test, (a, b) in zip(TESTS, values)
    }
    rows = make_rows(figures)
    block, _, mean, last, _ = COLUMNS
    cells = [(mean.cell(row), last.cell(row)) for row in rows]
    assert cells[:6] == [(f"{a:.1f}", f"{b:.1f}") for values in printed.values() for a, b in values]
    assert cells[6:] == [("2.3X", "10.6X"), ("1.5X", "1.0X"), ("2.4X", "3.3X")]
    blocks = [block.cell(row) for row in rows]
    assert [i for i, text in enumerate(blocks) if text] == [0, 3, 6]
    figures["isolated", "allreduce"] = NetworkSummary(0.0, 0.0, 0.0, 1.0, 9, 1)
    assert mean.cell(make_rows(figures)[-1]) == "-"
    assert np.isclose(rows[1]["mean"], 1009.1 * MIB)
