"""Counters that grew while nodes were validated: who is blamed, who is warned of, and what means nothing."""

import json

import numpy as np
import pytest

from ridgeline.validate.command import _show
from ridgeline.validate.counter_kinds import NEVER, kind_of
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Bounds, Thresholds
from ridgeline.validate.measure.counters import by_name
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity
from ridgeline.validate.report.page import write_report


def system(**grown) -> Measurements:
    """Three equal nodes; counters of node n1 grew by so much, "_" in their names for "/"."""
    measurements = Measurements(["n0", "n1", "n2"], node_of_rank=[0, 1, 2])
    measurements.node_quantities = [NodeQuantity("stream", "B/s", True, np.full((3, 3), 1e10))]
    counters = {name.replace("__", "/"): by for name, by in grown.items()}
    before = [dict.fromkeys(counters, 7) for _ in range(3)]
    after = [dict(node) for node in before]
    after[1] = {name: 7 + by for name, by in counters.items()}
    measurements.counters = by_name(before, after)
    return measurements


@pytest.mark.parametrize(
    ("grown", "what"),
    [
        ({"mc0__ue_count": 1}, "uncorrected memory errors"),
        ({"mc0__ce_count": 100}, "corrected memory errors"),
        ({"pci 0000:23:00.0__aer_dev_fatal": 1}, "fatal PCI Express errors"),
        ({"eth0__carrier_down_count": 1}, "link flaps"),
        ({"cxi0__link_restarts/1763728200": 1}, "link flaps"),
        ({"mlx5_0__port1/symbol_error": 1000}, "interface errors"),
    ],
)
def test_flaps_and_hardware_errors_above_their_threshold_make_a_suspect(grown, what):
    verdict = screen(system(**grown))
    (suspect,) = verdict.suspects
    assert (suspect.kind, suspect.name, verdict.exit_code) == ("node", "n1", 1)
    (name, by), *_ = grown.items()
    assert suspect.reasons == [f"{what} during the validation: {name.replace('__', '/')} +{by}"]
    assert suspect.advice
    assert verdict.good_nodes() == ["n0", "n2"]
    assert verdict.warnings == []


@pytest.mark.parametrize(
    ("grown", "what"),
    [
        ({"eth0__rx_errors": 1}, "interface errors"),
        ({"mlx5_0__port1/symbol_error": 2}, "interface errors"),
        ({"cxi0__hni_pcs_uncorrected_cw": 5}, "interface errors"),
        ({"mc1__ce_count": 1}, "corrected memory errors"),
        ({"eth0__rx_dropped": 60, "eth1__tx_dropped": 40}, "dropped packets"),
        ({"tcp__RetransSegs": 1000}, "retransmissions"),
        ({"cpu__core_throttle_count": 100}, "thermal throttling"),
        ({"mpich__network_timeouts": 28}, "network time-outs"),
        ({"cxi2__pct_spt_timeouts": 1}, "network time-outs"),
        ({"cxi0__retry/spt_timeouts": 3}, "network time-outs"),
        ({"pci 0000:23:00.0__aer_dev_correctable": 40}, "corrected PCI Express errors"),
    ],
)
def test_few_errors_and_time_outs_are_warnings_that_keep_the_node(grown, what):
    verdict = screen(system(**grown))
    (warning,) = verdict.warnings
    assert (warning.node, warning.name) == (1, "n1")
    assert warning.text.startswith(f"{what} during the validation: ")
    assert all(name.replace("__", "/") in warning.text for name in grown)
    assert (verdict.suspects, verdict.exit_code) == ([], 0)
    assert verdict.sentence == "healthy: 3 nodes, no suspects; 1 node with warnings"
    assert verdict.good_nodes() == ["n0", "n1", "n2"]
    assert verdict.nodes[1].reasons == [f"warning: {warning.text}"]


@pytest.mark.parametrize(
    "grown",
    [
        {"tcp__RetransSegs": 999},
        {"eth0__rx_dropped": 99},
        {"cxi0__hni_pcs_corrected_cw": 10**9},
        {"mpich__lpe_net_match_priority_0": 10**9},
        {"cpu__core_throttle_count": 99},
    ],
)
def test_what_is_usual_says_nothing(grown):
    verdict = screen(system(**grown))
    assert (verdict.suspects, verdict.warnings) == ([], [])


def test_a_site_sets_both_thresholds_of_a_kind():
    counters = {"mc0__ce_count": 3, "tcp__RetransSegs": 40, "eth0__carrier_down_count": 5}
    own = {
        "memory_corrected": Bounds(4, NEVER),
        "retransmissions": Bounds(40, 41),
        "link_flaps": Bounds(2, 6),
    }
    verdict = screen(system(**counters), Thresholds(counters=own))
    assert (verdict.exit_code, len(verdict.warnings)) == (0, 2)
    strict = Thresholds(counters={"link_flaps": Bounds(1, 5), "timeouts": Bounds(1, 2)})
    assert screen(system(**counters), strict).exit_code == 1
    assert screen(system(cxi0__pct_spt_timeouts=2), strict).exit_code == 1


def test_one_event_that_several_counters_of_a_device_count_is_one_event():
    own = Thresholds(counters={"memory_corrected": Bounds(10, NEVER), "timeouts": Bounds(3, NEVER)})
    same = system(**{"mc0__ce_count": 9, "mc0__dimm3 (A1)/ce_count": 9})
    assert screen(same, own).warnings == []
    same = system(**{"cxi0__pct_spt_timeouts": 2, "cxi0__retry/spt_timeouts": 2})
    assert screen(same, own).warnings == []
    two = system(**{"cxi0__link_restarts/17": 1, "cxi0__link_restarts/18": 1})
    assert screen(two, Thresholds(counters={"link_flaps": Bounds(3, 3)})).warnings == []
    assert screen(two, Thresholds(counters={"link_flaps": Bounds(2, 3)})).warnings != []


def test_kinds_do_not_mix():
    for name, key in {
        "mc0/ce_count": "memory_corrected",
        "mc0/dimm3 (DIMM_A1)/ue_count": "memory_uncorrected",
        "card0/umc/ue": "memory_uncorrected",
        "eth0/aer_dev_fatal": "pcie_fatal",
        "cxi0/aer_dev_nonfatal": "pcie_uncorrected",
        "tcp/RetransSegs": "retransmissions",
        "tcp/InErrs": "link_errors",
        "job/network_timeouts": "job_timeouts",
        "cxi0/retry/nacks": "retransmissions",
        "left/memory": "left_memory",
    }.items():
        assert kind_of(name).key == key, name
    assert kind_of("cxi0/hni_pcs_corrected_cw") is None
    assert kind_of("eth0/rx_bytes") is None


def test_findings_are_on_the_page_in_json_and_on_the_screen(tmp_path, capsys):
    measurements = Measurements.from_dict(
        json.loads(json.dumps(system(mc0__ue_count=1, eth0__rx_errors=12).to_dict()))
    )
    verdict = screen(measurements)
    page = write_report(measurements, verdict, tmp_path).read_text()
    assert 'id="warnings"' in page
    stored = json.loads((tmp_path / "report.json").read_text())["verdict"]
    _show(measurements, verdict)
    screen_text = capsys.readouterr().out
    text = (
        "interface errors during the validation: eth0/rx_errors +12. Check the state and speed of the interface that "
        "is named, its cable and its switch port."
    )
    assert text in page
    assert stored["warnings"] == [{"node": 1, "name": "n1", "text": text}]
    assert f"warning: node n1: {text}" in screen_text
    assert "mc0/ue_count +1" in screen_text
    assert stored["suspects"][0]["name"] == "n1"


def test_the_values_of_the_nodes_are_on_the_screen(capsys):
    measurements = Measurements(
        ["n0", "n1", "n2"],
        node_quantities=[
            NodeQuantity("stream", "B/s", True, np.array([[40e9], [36e9], [42e9]])),
            NodeQuantity("allocation", "s", False, np.array([[np.nan], [2e-6], [np.nan]])),
            NodeQuantity("peak", "FLOP/s", True, np.full((3, 1), np.nan)),
        ],
    )
    _show(measurements, screen(system()))
    lines = capsys.readouterr().out.splitlines()
    assert "stream: median 40 GB/s, worst 36 GB/s on n1" in lines
    assert "allocation: 2 us" in lines
    assert not any(line.startswith("peak") for line in lines)


def resent(*by: int) -> Measurements:
    """Equal nodes, which sent so many segments again."""
    measurements = Measurements([f"n{node}" for node in range(len(by))], node_of_rank=[*range(len(by))])
    measurements.node_quantities = [NodeQuantity("stream", "B/s", True, np.full((len(by), 3), 1e10))]
    before = [{"tcp/RetransSegs": 7} for _ in by]
    measurements.counters = by_name(before, [{"tcp/RetransSegs": 7 + count} for count in by])
    return measurements


def test_whoever_sends_again_is_told_as_the_sender_and_the_node_in_common_is_named():
    verdict = screen(resent(78, 435, 1003, 2333))
    assert {warning.name: warning.text for warning in verdict.warnings} == {
        "n2": "retransmissions during the validation: tcp/RetransSegs +1003. This node is the sender, so the "
        "receiver or the path to it may be at fault. Compare with the other nodes of the job.",
        "n3": "retransmissions during the validation: tcp/RetransSegs +2333. This node is the sender, so the "
        "receiver or the path to it may be at fault. Compare with the other nodes of the job.",
        "n0": "every other node retransmitted messages (+435 or more), but this one hardly any (+78): this node, or "
        "the path to it, may lose them",
    }
    assert verdict.exit_code == 0


@pytest.mark.parametrize("by", [(0, 5000), (0, 0, 5000), (300, 435, 2333), (500, 500, 500), (0, 99, 1000)])
def test_no_node_is_named_for_what_others_do_not_have_in_common(by):
    assert not any("every other node" in warning.text for warning in screen(resent(*by)).warnings)
