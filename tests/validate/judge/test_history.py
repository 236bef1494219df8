"""Validations over months: drift of a node against its own days, the fleet's figures, repeats of links, records."""

import json

import numpy as np
import pytest

from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.judge.history import append_entry, load_history, make_entry
from ridgeline.validate.judge.outcome import Outcome, screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.measure.counters import by_name
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity


def day(*streams, number=1, names=None, cpu_share=1.0, quick=True) -> Measurements:
    """Nodes with these rates of STREAM on one day."""
    names = names or [f"n{node}" for node in range(len(streams))]
    found = Measurements(names, node_of_rank=[*range(len(names))], created=f"2026-{number:02d}-03T10:00:00")
    found.settings = {"phase": "prolog", "quick": quick}
    found.node_quantities = [
        NodeQuantity("stream", "B/s", True, np.array([[rate] * 3 for rate in streams])),
        NodeQuantity("cpu_share", "1", True, np.full((len(streams), 3), cpu_share)),
    ]
    return found


def entries(*days: Measurements):
    return [make_entry(one, screen(one)) for one in days]


MONTHS = [day(rate, number=number) for number, rate in enumerate((4.0e10, 4.1e10, 3.9e10, 4.0e10), 1)]


def test_a_node_alone_that_became_slow_is_a_suspect():
    history = entries(*MONTHS)
    assert screen(day(3.8e10), history=history).exit_code == 0
    verdict = screen(day(2e10), history=history)
    (suspect,) = verdict.suspects
    assert suspect.reasons == [
        "stream: 20 GB/s where its own history has 40 GB/s (4 healthy figures), 100 % more time"
    ]
    assert screen(day(2e10), history=history[:2]).exit_code == 0  # two days are no reference


def test_a_slow_decay_over_months_is_seen():
    decay = [day(4e10 * 0.98**month, number=month + 1) for month in range(12)]
    history = entries(*decay)
    assert screen(day(4e10 * 0.98**5), history=history).exit_code == 0
    quiet = entries(*[day(4e10, number=month + 1) for month in range(12)])
    assert screen(day(4e10 * 0.98**8), history=quiet).exit_code == 1


def test_a_new_node_is_compared_with_the_fleet():
    history = entries(*[day(4e10, names=[f"n{number}"], number=1) for number in range(5)])
    verdict = screen(day(1e10, names=["new"]), history=history)
    assert "where the fleet's history has 40 GB/s (5 healthy figures)" in verdict.suspects[0].reasons[0]


def test_days_that_were_not_healthy_or_measured_otherwise_are_no_reference():
    bad = [
        make_entry(one, screen(one, Thresholds(limits={"stream": 3e10})))
        for one in (day(1e10, number=number) for number in range(1, 9))
    ]
    busy = entries(*[day(1e10, number=number, cpu_share=0.3) for number in range(1, 9)])
    other = entries(*[day(9e10, number=number, quick=False) for number in range(1, 9)])
    for history in (bad + busy, other):
        assert screen(day(1e10), history=history).suspects == []
    history = entries(*MONTHS) + bad + busy + other
    assert screen(day(2e10), history=history).exit_code == 1


def test_a_busy_node_has_not_drifted():
    assert screen(day(2e10, cpu_share=0.3), history=entries(*MONTHS)).suspects == []


def test_links_that_come_and_go_are_named():
    history = entries(*[day(4e10, 4e10, number=number) for number in range(1, 6)])
    for entry in history[1:4]:
        entry["suspects"] = [{"kind": "link", "name": "n0 - n1", "reasons": ["slow"]}]
    verdict = screen(day(4e10, 4e10), history=history)
    assert verdict.notes[-1] == (
        "link n0 - n1 was a suspect in 3 of 5 earlier validations (the first on 2026-02-03, the last on 2026-04-03), "
        "but is none now: its fault comes and goes."
    )
    assert verdict.exit_code == 0


def test_a_node_that_is_a_suspect_again_is_said_to_be_one():
    history = entries(*MONTHS)
    slow = screen(day(2e10, number=5), history=history)
    history.append(make_entry(day(2e10, number=5), slow))
    notes = screen(day(2e10, number=6), history=history).notes
    assert any("node n0 was a suspect in 1 of 5 earlier validations" in note for note in notes)


def test_the_file_has_a_line_for_each_validation_and_survives_a_cut(tmp_path):
    path = tmp_path / "history.jsonl"
    assert load_history(path) == []
    for one in MONTHS:
        append_entry(path, make_entry(one, screen(one)))
    with path.open("a") as file:
        file.write('{"ridgeline":"validate","ti')
    found = load_history(path)
    assert len(path.read_text().splitlines()) == 5
    assert len(found) == 4
    assert found[0]["values"]["stream"] == {"n0": 4e10}
    assert found[0]["verdict"].startswith("healthy")
    path.write_text("something else\n")
    with pytest.raises(ConfigError, match="holds no validations"):
        load_history(path)


def test_the_end_of_a_validation_writes_history_textfile_and_a_line_of_the_systems_log(tmp_path, monkeypatch):
    logged = []
    monkeypatch.setattr("syslog.syslog", lambda level, line: logged.append(line))
    measurements = day(4e10, 4e10)
    measurements.nodes[1] = 'odd"name'
    measurements.counters = by_name([{"mc0/ce_count": 1}, {}], [{"mc0/ce_count": 3}, {}])
    records = {
        "history": str(tmp_path / "h.jsonl"),
        "prometheus": str(tmp_path / "ridgeline.prom"),
        "syslog": True,
    }
    outcome = Outcome(measurements, Thresholds(), None, None, lambda *_: None, **records)
    assert outcome.finish() == 0
    assert json.loads((tmp_path / "h.jsonl").read_text())["warnings"].keys() == {"n0"}
    assert logged == (tmp_path / "h.jsonl").read_text().splitlines()
    lines = (tmp_path / "ridgeline.prom").read_text().splitlines()
    assert "ridgeline_validate_exit_code 0" in lines
    assert 'ridgeline_validate_node_state{node="n0",state="healthy"} 1' in lines
    assert (
        'ridgeline_validate_node_quantity{node="odd\\"name",quantity="stream",unit="B/s"} 40000000000'
        in lines
    )
    assert 'ridgeline_validate_node_counter_growth{node="n0",counter="mc0/ce_count"} 2' in lines
    assert (tmp_path / "ridgeline.prom").stat().st_mode & 0o777 == 0o644
    names = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    assert {line.split()[2] for line in lines if line.startswith("# TYPE")} == set(names)
