"""Time-outs of several nodes: who is blamed for them, and who is not."""

import pytest

from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.timeouts import find_cause
from ridgeline.validate.measure.counters import by_name
from ridgeline.validate.measure.measurements import Measurements

NODES = [f"n{number}" for number in range(8)]
GROUPS = {"s0": [0, 1, 2, 3], "s1": [4, 5, 6, 7]}


@pytest.mark.parametrize(
    ("late", "broken", "suspects", "words"),
    [
        ({3}, set(), (), "No other node counted any, so this node"),
        ({3}, {3}, (3,), "and n3 counted errors of its own hardware"),
        ({0, 1, 5}, {5}, (5,), "and n5 counted errors of its own hardware"),
        ({0, 1, 5}, {6}, (6,), "n6, a likely target, counted errors"),
        ({0, 1, 5}, {6, 7}, (), "a target or a link that they share"),
        ({0, 1, 2, 3}, set(), (), "All nodes of the group s0, and no others"),
        ({4, 5, 6, 7}, set(), (), "All nodes of the group s1, and no others"),
        ({0, 1, 4}, set(), (), "3 of 8 nodes counted time-outs, so the cause is likely a target or a link"),
        (set(range(8)), set(), (), "8 of 8 nodes"),
    ],
)
def test_the_cause_is_looked_for_over_all_nodes(late, broken, suspects, words):
    cause = find_cause(late, broken, NODES, GROUPS)
    assert (cause.suspects, cause.target) == (suspects, None)
    assert words in cause.sentence


def test_the_only_node_without_time_outs_is_the_likely_target():
    cause = find_cause(set(range(8)) - {2}, set(), NODES, GROUPS)
    assert (cause.suspects, cause.target) == ((), 2)
    assert "Every node except n2" in cause.sentence


def nodes(*counted: dict[str, int]) -> Measurements:
    """Nodes whose counters grew so much."""
    measurements = Measurements([f"n{n}" for n in range(len(counted))], node_of_rank=[*range(len(counted))])
    measurements.counters = by_name([{} for _ in counted], counted)
    return measurements


def test_one_bad_target_drains_itself_and_none_of_its_initiators():
    late = {"cxi0/pct_spt_timeouts": 4}
    verdict = screen(nodes(late, {"cxi3/aer_dev_nonfatal": 2}, late, late))
    (suspect,) = verdict.suspects
    assert suspect.name == "n1"
    assert "3 of 4 nodes counted time-outs" in suspect.reasons[0]
    assert "cxi3/aer_dev_nonfatal +2" in suspect.reasons[0]
    assert [warning.name for warning in verdict.warnings] == ["n1", "n0", "n2", "n3"]


def test_time_outs_of_a_node_alone_do_not_take_it_offline():
    verdict = screen(nodes({"cxi0/pct_spt_timeouts": 400}))
    assert verdict.suspects == []
    assert "the node that it waited for" in verdict.warnings[0].text
