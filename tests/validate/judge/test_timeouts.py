"""Time-outs of several nodes: who is blamed for them, and who is not."""

import json

import pytest

from ridgeline.validate.judge.history import make_entry
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


LATE, BROKEN = {"cxi0/pct_spt_timeouts": 4}, {"cxi3/aer_dev_nonfatal": 2}


def epilogs(counts, job="77"):
    """Return the verdicts of the epilogs of one job, one node after the other, which share a history."""
    history, verdicts = [], []
    for name, counted in counts.items():
        one = nodes(counted)
        one.nodes, one.settings = [name], {"phase": "epilog", "job": job}
        verdicts.append(screen(one, history=history))
        history.append(json.loads(json.dumps(make_entry(one, verdicts[-1]))))
    return verdicts


def test_epilogs_that_share_a_history_see_the_time_outs_of_the_whole_job():
    *_, last = epilogs({"a": LATE, "b": LATE, "c": {}, "d": BROKEN})
    (suspect,) = last.suspects
    assert suspect.name == "d"
    assert "2 of 4 nodes counted time-outs, and d, a likely target" in suspect.reasons[0]
    *_, last = epilogs({"a": {}, "b": {}, "c": LATE})
    assert last.suspects == []
    assert "No other node counted any, so this node" in last.warnings[0].text


def test_epilogs_of_other_jobs_and_nodes_without_either_are_left_alone():
    one = nodes(BROKEN)
    one.nodes, one.settings = ["d"], {"phase": "epilog", "job": "78"}
    other = nodes(LATE)
    other.nodes, other.settings = ["a"], {"phase": "epilog", "job": "77"}
    history = [make_entry(other, screen(other))] * 2
    assert screen(one, history=history).suspects == []
    *_, last = epilogs({"a": LATE, "b": LATE, "c": {}})
    assert (last.suspects, last.warnings) == ([], [])
