"""Figures that were recorded: one line each, added, read again; damaged lines are named and left out."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness import history
from harness.history import MachineKey, Record

RECORD = Record(
    date="2026-11-22T10:00:00+00:00",
    commit="0123456789ab",
    row="isend",
    name="bandwidth of mpi4py / C, 64 KiB",
    repeats=(0.95, 0.94, 0.97),
    goal=">= 0.98",
    unit="",
    note="6.6 against 6.9 GB/s",
    cpu="AMD EPYC",
    family_model="26/2",
    cores=2,
    caches="L1 48K",
    load=0.1,
    source="python benchmarks/quick.py --record",
)
HERE = RECORD.machine


def complaints(path: Path) -> tuple[list[Record], list[str]]:
    said: list[str] = []
    return history.read(path, said.append), said


def test_what_is_added_is_read_again_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cpu.jsonl"
    other = replace(RECORD, name="umlauts ä and | bars", repeats=(3.0,))
    history.append(path, [RECORD])
    history.append(path, [other, RECORD])
    assert complaints(path) == ([RECORD, other, RECORD], [])


def test_a_line_says_what_was_measured_when_and_the_median_of_its_repeats() -> None:
    content = json.loads(RECORD.line())
    assert list(content)[:5] == ["date", "commit", "row", "name", "value"]
    assert content["value"] == 0.95
    assert RECORD.line().count("\n") == 1


def test_without_a_file_there_are_no_records(tmp_path: Path) -> None:
    assert complaints(tmp_path / "none.jsonl") == ([], [])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda line: line[: len(line) // 2], "it is not JSON"),
        (lambda line: "[1, 2]", "it is not a JSON object"),
        (lambda line: line.replace('"commit"', '"comit"'), "it has no 'commit'"),
        (lambda line: line.replace("[0.95, 0.94, 0.97]", "[]"), "its 'repeats' are not a list of numbers"),
        (lambda line: line.replace("0.94, ", "NaN, "), "its 'repeats' are not a list of numbers"),
        (lambda line: line.replace("0.94, ", "true, "), "its 'repeats' are not a list of numbers"),
        (lambda line: line.replace('">= 0.98"', "0.98"), "its 'goal' is not a string"),
        (lambda line: line.replace('"cores": 2', '"cores": "2"'), "its 'cores' or 'load' is not a number"),
    ],
)
def test_a_damaged_line_is_named_and_the_others_count(tmp_path: Path, damage, reason: str) -> None:
    path = tmp_path / "cpu.jsonl"
    path.write_text(f"{RECORD.line()}\n{damage(RECORD.line().strip())}\n{RECORD.line()}")
    assert complaints(path) == ([RECORD, RECORD], [f"cpu.jsonl:3: {reason}. The line is left out."])


def test_bytes_that_are_no_text_damage_only_their_line(tmp_path: Path) -> None:
    path = tmp_path / "cpu.jsonl"
    path.write_bytes(b"\xff\xfe\n" + RECORD.line().encode())
    records, said = complaints(path)
    assert records == [RECORD]
    assert len(said) == 1


def test_a_line_that_was_cut_off_damages_no_line_that_is_added(tmp_path: Path) -> None:
    path = tmp_path / "cpu.jsonl"
    path.write_text(RECORD.line() + RECORD.line()[:30])
    history.append(path, [RECORD])
    records, said = complaints(path)
    assert records == [RECORD, RECORD]
    assert [line.split(": ")[0] for line in said] == ["cpu.jsonl:2"]


def test_the_last_record_has_the_repeats_of_all_runs_of_its_commit() -> None:
    records = [
        replace(RECORD, commit="old", repeats=(0.5,)),
        replace(RECORD, repeats=(0.9,)),
        replace(RECORD, name="another", repeats=(7.0,)),
        replace(RECORD, repeats=(0.91, 0.92)),
    ]
    found = history.last(records, HERE)
    assert {name: record.repeats for name, record in found.items()} == {
        RECORD.name: (0.9, 0.91, 0.92),
        "another": (7.0,),
    }


@pytest.mark.parametrize(
    "other",
    [MachineKey("AMD EPYC", "25/17", 2), MachineKey("AMD EPYC", "26/2", 4), MachineKey("x", "26/2", 2)],
)
def test_records_of_other_machines_do_not_count(other: MachineKey) -> None:
    assert history.last([RECORD], other) == {}


def test_each_model_has_a_file_of_its_own() -> None:
    assert HERE.file_name == "amd-epyc-26-2.jsonl"
    xeon = MachineKey("Intel(R) Xeon(R) Processor @ 2.80GHz", "6/85", 2)
    assert xeon.file_name == "intel-xeon-processor-2-80ghz-6-85.jsonl"


def test_the_history_of_this_checkout_can_be_read() -> None:
    for path in history.FOLDER.glob("*.jsonl"):
        records, said = complaints(path)
        assert records
        assert not said
        assert {record.machine.file_name for record in records} == {path.name}
        dates = [record.date for record in records]
        assert dates == sorted(dates)
