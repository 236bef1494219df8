"""Busy is not ill: what is slow while others use the node is not judged, and the exit code says so."""

import json

import numpy as np
import pytest

from ridgeline.validate.command import _show
from ridgeline.validate.judge.outcome import Outcome, screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import SUSPECTS, UNMEASURED
from ridgeline.validate.measure import validation_levels
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, Stage
from ridgeline.validate.report.page import write_report
from ridgeline.validate.validation_options import ValidationOptions
from simulated_system import all_pairs


def nodes(others=None, **quantities) -> Measurements:
    """Return nodes with these figures; others: quantity -> node -> share of its processors that others used."""
    first = next(iter(quantities.values()))
    measurements = Measurements([f"n{k}" for k in range(len(first))], node_of_rank=list(range(len(first))))
    measurements.node_quantities = [
        NodeQuantity(name, "", True, np.repeat(np.asarray(values, float)[:, None], 3, axis=1))
        for name, values in quantities.items()
    ]
    measurements.others = others or {}
    return measurements


SLOW_SECOND = [4e11, 3e11, 4e11, 4e11]


def test_ranks_that_get_too_little_of_their_processors_make_a_node_busy_not_suspect():
    verdict = screen(nodes(cpu_share=[1.0, 0.33, 1.0, 1.0], stream=SLOW_SECOND))
    assert verdict.suspects == []
    assert verdict.exit_code == UNMEASURED
    assert verdict.sentence.startswith(
        "could not measure: n1 is busy: its ranks got 33 % of their processors"
    )
    assert "not judged: stream: 3" in verdict.sentence
    assert (verdict.nodes[1].verdict, verdict.nodes[1].use) == ("busy", False)
    assert verdict.good_nodes() == ["n0", "n2", "n3"]


@pytest.mark.parametrize(("share", "code"), [(0.0, SUSPECTS), (0.049, SUSPECTS), (0.3, UNMEASURED)])
def test_a_slow_node_is_ill_if_it_was_idle_and_busy_if_others_used_it(share, code):
    verdict = screen(nodes({"stream": {1: share, 2: 0.9}}, stream=SLOW_SECOND))
    assert verdict.exit_code == code
    assert [b.name for b in verdict.busy] == ["n1"] * (code == UNMEASURED)  # n2 is busy, yet not slow
    if code == UNMEASURED:
        assert "other processes used 30 % of its processors" in verdict.busy[0].sentence


def test_load_during_one_stage_is_no_excuse_in_another():
    figures = {"stream": SLOW_SECOND, "peak": SLOW_SECOND}
    verdict = screen(nodes({"stream": {1: 0.5}}, **figures))
    assert [s.quantities for s in verdict.suspects] == [["peak"]]
    assert verdict.exit_code == SUSPECTS


def test_wrong_memory_and_counters_have_no_excuse():
    measurements = nodes(cpu_share=[1.0, 0.2, 1.0])
    measurements.errors = {1: ["2 wrong words"]}
    measurements.counters = {"mc0/ue_count": {"before": [0] * 3, "after": [1, 0, 0], "grown": {0: 1}}}
    verdict = screen(measurements)
    assert [s.name for s in verdict.suspects] == ["n1", "n0"] or [s.name for s in verdict.suspects] == [
        "n0",
        "n1",
    ]
    assert verdict.nodes[1].verdict == "suspect"


def test_memory_that_others_took_is_no_illness():
    measurements = nodes(stream=[4e11, 4e11])
    measurements.no_room = {0: ["rank 0: not enough memory was free: 3 GB"]}
    verdict = screen(measurements)
    assert (verdict.exit_code, verdict.suspects) == (UNMEASURED, [])
    assert "not enough memory" in verdict.sentence


def test_links_of_a_busy_node_are_not_judged():
    values = np.full((6, 6), 1e10)
    values[1, 4] = values[4, 1] = 5e9
    system = all_pairs(values)
    system.others = {"bandwidth": {4: 0.4}}
    verdict = screen(system)
    assert (verdict.exit_code, verdict.suspects) == (UNMEASURED, [])
    assert "link nid1 - nid4: bandwidth" in verdict.busy[0].sentence
    values[1, :] = values[:, 1] = 5e9
    ill = all_pairs(values)
    ill.others = {"bandwidth": {4: 0.4}}
    assert [(s.kind, s.nodes) for s in screen(ill).suspects] == [("node", [1])]


def test_a_limit_of_the_whole_system_is_not_judged_while_one_node_is_busy():
    columns, rows = {"bandwidth": "MB/s"}, [{"bandwidth": 1e9}]
    limits = Thresholds(limits={"alltoall bandwidth": 2e9, "stream": 5e11})
    measurements = nodes({"alltoall": {3: 0.2}}, stream=[4e11] * 4)
    measurements.system = [{"benchmark": "alltoall", "columns": columns, "rows": rows}]
    verdict = screen(measurements, limits)
    assert {(s.kind, tuple(s.quantities)) for s in verdict.suspects} >= {("system", ("stream",))}
    assert not any("alltoall bandwidth" in s.quantities for s in verdict.suspects)
    assert "the whole system: alltoall bandwidth: 1 GB/s" in verdict.busy[0].sentence
    measurements.others = {}
    assert any("alltoall bandwidth" in s.quantities for s in screen(measurements, limits).suspects)


def test_less_of_a_processor_than_in_the_baseline_is_no_drift_into_illness():
    before, now = nodes(cpu_share=[1.0] * 3), nodes(cpu_share=[1.0, 1.0, 0.5])
    verdict = screen(now, Thresholds(cpu_share=0.1), before)
    assert (verdict.exit_code, verdict.suspects) == (0, [])


def test_a_rank_that_others_wait_for_on_a_busy_node_is_not_called_dead():
    measurements = nodes({"pairs": {2: 0.8}}, stream=[4e11] * 3)
    measurements.stages = [Stage("pairs", "system", 60.0, "hung", "late", [], {0: 2})]
    verdict = screen(measurements)
    assert (verdict.exit_code, verdict.suspects) == (UNMEASURED, [])
    assert "rank 2 kept others waiting" in verdict.busy[0].sentence
    measurements.stages[0].silent = [2]
    assert [s.name for s in screen(measurements).suspects] == ["n2"]


def test_busy_nodes_are_measured_again_until_the_quantities_stay_the_same():
    measurements = nodes({"stream": {1: 0.5}}, cpu_share=[1.0, 1.0, 0.5, 1.0], stream=SLOW_SECOND)
    again = Outcome(measurements, Thresholds(), None, None, lambda *_: None).suspects(measurements)
    assert again == {"cpu_share": [2], "stream": [1]}


def test_a_node_that_is_slow_in_something_new_is_measured_once_more(monkeypatch):
    """At first busy, then idle and slow in stream: one more turn must ask stream again."""
    answers = [{"cpu_share": [0]}, {"stream": [0]}, {"stream": [0]}]
    ran = []

    class One:
        rank = 0

        def bcast(self, value):
            return value

    class Session:
        comm, measurements, again, plan = One(), None, None, ValidationOptions()

        def rest(self):
            pass

    monkeypatch.setattr(
        validation_levels, "_run_step", lambda session, step, name, _: ran.append(name) or True
    )
    steps = [step for step in validation_levels.STEPS if step.name in ("compute", "stream")]
    validation_levels._confirm(Session(), steps, lambda _: answers.pop(0), lambda *_: None, 0.0)
    assert ran == ["compute again", "stream again (2)"]


def test_screen_page_and_json_say_busy(tmp_path, capsys):
    measurements = nodes({"stream": {1: 0.3}}, cpu_share=[1.0, 0.33, 1.0, 1.0], stream=SLOW_SECOND)
    stored = Measurements.from_dict(json.loads(json.dumps(measurements.to_dict())))
    verdict = screen(stored)
    assert verdict == screen(measurements)
    page = write_report(stored, verdict, tmp_path).read_text()
    _show(stored, verdict)
    said = capsys.readouterr().out
    for text in (page, said):
        assert "n1 is busy" in text
        assert "Find out what else runs there" in text
    assert json.loads((tmp_path / "report.json").read_text())["verdict"]["busy"][0]["name"] == "n1"
