"""What a job did to a node's counters: kept by the prolog, compared by the epilog, and who may meddle."""

import json
import os
import time
from pathlib import Path

import pytest

from ridgeline.runtime.errors import OutputError
from ridgeline.validate.command import _LaunchWatch
from ridgeline.validate.judge.outcome import SessionProgress, screen, write_progress
from ridgeline.validate.measure import prolog_readings
from ridgeline.validate.measure.counters import difference, read_output, set_back
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.prolog_readings import (
    VALIDATED,
    Job,
    Readings,
    count,
    count_output,
    forget_readings,
    keep_readings,
    load_readings,
)
from ridgeline.validate.validation_options import ValidationOptions

BEFORE = {"eth0/carrier_down_count": 3, "tcp/RetransSegs": 10}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "prolog"


def events(folder, number="77"):
    return Job("prolog", number, folder), Job("epilog", number, folder)


def test_a_link_that_flapped_during_the_job_is_seen(folder):
    prolog, epilog = events(folder)
    kept = count(prolog, "n1", {}, BEFORE)
    assert (kept.period, kept.remarks) == (VALIDATED, [])
    flapped = BEFORE | {"eth0/carrier_down_count": 5}
    found = count(epilog, "n1", flapped, flapped)  # nothing happened in the epilog's own seconds
    assert found.period == "since the prolog of job 77"
    assert difference(found.before, found.after) == {"eth0/carrier_down_count": 2}
    assert found.remarks[0].startswith(
        "counters are compared with those that the prolog of job 77 read 0.0 min before"
    )


def test_an_epilog_without_readings_says_so_and_what_it_compared(folder):
    own = BEFORE | {"tcp/RetransSegs": 11}
    for number, words in (
        ("78", f"{folder} has no counters of the prolog of job 78"),
        (None, "the number of the job is unknown"),
    ):
        found = count(Job("epilog", number, folder), "n1", BEFORE, own)
        assert words in found.remarks[0]
        assert (
            "Only their growth during the epilog is known, not how the job changed them" in found.remarks[0]
        )
        assert difference(found.before, found.after) == {"tcp/RetransSegs": 1}
        assert found.period == VALIDATED
    assert not folder.exists()


def test_nodes_and_jobs_do_not_mix_and_readings_go_after_use(folder):
    prolog, epilog = events(folder)
    count(prolog, "n1", {}, BEFORE)
    count(Job("prolog", "78", folder), "n1", {}, {})
    assert "has no counters" in count(epilog, "n2", BEFORE, BEFORE).remarks[0]
    forget_readings(folder, "n1", "77")
    assert "has no counters" in count(epilog, "n1", BEFORE, BEFORE).remarks[0]
    assert "has no counters" not in count(Job("epilog", "78", folder), "n1", {}, {}).remarks[0]


def test_a_job_number_leads_nowhere_else(folder):
    for number in ("../../evil", "88[3].server", "a/b", "..", "x" * 300):
        count(Job("prolog", number, folder), "n1", {}, BEFORE)
        assert load_readings(folder, "n1", number).counters == BEFORE
    assert {path.parent for path in folder.parent.parent.rglob("*.json")} == {folder}


def test_a_node_that_was_started_again_counts_from_there(folder, monkeypatch):
    prolog, epilog = events(folder)
    count(prolog, "n1", {}, {"cxi0/pct_timeouts": 4})
    monkeypatch.setattr(prolog_readings, "read_boot", lambda: "another")
    found = count(epilog, "n1", {}, {"cxi0/pct_timeouts": 9})
    assert difference(found.before, found.after) == {"cxi0/pct_timeouts": 9}
    assert "rebooted after the prolog of job 77" in found.remarks[-1]


def test_counters_that_ran_over_were_set_back_or_are_gone_are_told_apart(folder):
    before = {"over": 2**32 - 5, "far": 2**64 - 1, "back": 50, "gone/x": 1, "same": 7}
    after = {"over": 10, "far": 0, "back": 7, "same": 7}
    assert difference(before, after) == {"over": 15, "far": 1, "back": 7}
    assert set_back(before, after) == ["back"]
    prolog, epilog = events(folder)
    count(prolog, "n1", {}, before)
    assert count(epilog, "n1", {}, after).remarks[1:] == [
        "counters that the prolog of job 77 read no longer exist, nor does their device: gone/x.",
        "counters that the prolog of job 77 read were reset, and are counted from then on: back.",
    ]


def test_files_are_closed_to_others_and_old_ones_go(folder):
    count(Job("prolog", "1", folder), "n1", {}, BEFORE)
    (old,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, old.stat().st_mode & 0o777) == (0o700, 0o600)
    past = time.time() - 100 * 86400
    other = folder / "somebody.txt"
    other.write_text("not ours")
    for path in (old, other):
        os.utime(path, (past, past))
    count(Job("prolog", "2", folder), "n1", {}, BEFORE)
    assert sorted(path.name for path in folder.iterdir()) == ["n1-2.counters.json", "somebody.txt"]


def test_what_others_could_have_planted_is_refused(folder, tmp_path):
    readings = Readings("77", "boot", 0.0, BEFORE)
    keep_readings(folder, "n1", readings)
    name = "n1-77.counters.json"
    folder.chmod(0o777)
    for action in (lambda: load_readings(folder, "n1", "77"), lambda: keep_readings(folder, "n1", readings)):
        with pytest.raises(OutputError, match="other users can write into"):
            action()
    folder.chmod(0o700)
    (folder / name).chmod(0o666)
    with pytest.raises(OutputError, match="does not belong to this user alone"):
        load_readings(folder, "n1", "77")
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="cannot use"):
        load_readings(folder, "n1", "77")
    keep_readings(folder, "n1", readings)  # replaces the link, does not follow it
    assert not (folder / name).is_symlink()
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(OutputError, match="is a symbolic link"):
        keep_readings(tmp_path / "link", "n1", readings)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(OutputError, match="does not belong to this user alone"):
        load_readings(folder, "n1", "77")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_root_uses_no_folder_of_another_user_nor_below_one(tmp_path):
    readings = Readings("77", "boot", 0.0, BEFORE)
    (tmp_path / "user").mkdir()
    os.chown(tmp_path / "user", 4711, 4711)
    for folder in (tmp_path / "user", tmp_path / "user" / "below"):
        with pytest.raises(OutputError, match="belongs to user 4711"):
            keep_readings(folder, "n1", readings)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"counters": 3}', "\0\0"])
def test_damaged_readings_are_none(folder, text):
    prolog, epilog = events(folder)
    count(prolog, "n1", {}, BEFORE)
    (folder / "n1-77.counters.json").write_text(text)
    found = count(epilog, "n1", BEFORE, BEFORE)
    assert "does not hold stored counters" in found.remarks[0]
    assert found.period == VALIDATED


def test_a_prolog_that_cannot_keep_its_readings_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    found = count(Job("prolog", "77", tmp_path / "file" / "below"), "n1", {}, BEFORE)
    assert "the counters are not stored" in found.remarks[0]
    assert (
        "the counters are not stored, because the number of the job is unknown"
        in count(Job("prolog", None, tmp_path), "n1", {}, {}).remarks[0]
    )


def test_the_default_folder_is_the_systems_or_the_users(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert prolog_readings.default_folder() == Path("/var/lib/ridgeline/prolog")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert prolog_readings.default_folder() == Path("/var/tmp/ridgeline-4711/prolog")


SUMMARY = "MPICH Slingshot Network Summary: {} network timeouts\n"


def test_the_time_outs_of_the_jobs_output_are_read_from_its_end(tmp_path):
    output = tmp_path / "slurm-77.out"
    with output.open("wb") as file:
        file.write(SUMMARY.format(1000).encode())  # of a job long ago, in a file that was written on
        file.seek(3 * 2**30)  # a hole: no byte of it is on the disk
        file.write(b"\xff\x00 0: " + SUMMARY.format(28).encode() + SUMMARY.format(2).encode() + b"\x80end")
    assert read_output(output) == {"mpich/network_timeouts": 30}
    job = Job("epilog", "77", tmp_path, str(output))
    counted = count(job, "n1", {}, {})
    count_output(job, counted)
    assert difference(counted.before, counted.after) == {"job/network_timeouts": 30}


def test_output_that_is_no_file_or_holds_no_summary_is_said(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(
        tmp_path / "pipe", os.O_RDWR
    )  # so that whoever opens it after all fails, and does not hang
    (tmp_path / "empty").write_text("")
    for name, words in (
        ("none", "cannot be read: No such file"),
        ("pipe", "cannot be read: it is not a regular file"),
        (".", "cannot be read: it is not a regular file"),
        ("empty", "has no network summary of Cray MPICH"),
    ):
        job = Job("epilog", "77", tmp_path, str(tmp_path / name))
        counted = count(job, "n1", {}, {})
        count_output(job, counted)
        assert words in counted.remarks[-1]
    os.close(writer)


def test_time_outs_of_the_whole_job_warn_and_blame_no_node():
    """Every node's epilog reads the same output: a suspect of each would drain them all."""
    measurements = Measurements(["n1"], node_of_rank=[0])
    measurements.counters = {
        "job/network_timeouts": {"before": [0], "after": [28], "grown": {0: 28}},
        "eth0/rx_errors": {"before": [3], "after": [5], "grown": {0: 2}},
    }
    measurements.counted = {0: "since the prolog of job 77"}
    measurements.remarks = ["n1: a remark"]
    verdict = screen(Measurements.from_dict(json.loads(json.dumps(measurements.to_dict()))))
    assert verdict.suspects == []
    assert verdict.notes == ["n1: a remark"]
    assert [warning.text.partition(". ")[0] for warning in verdict.warnings] == [
        "network time-outs of the whole job in Cray MPICH's summary since the prolog of job 77: "
        "job/network_timeouts +28",
        "interface errors since the prolog of job 77: eth0/rx_errors +2",
    ]


@pytest.mark.parametrize(("suspect", "code"), [('"never"', 0), ("20", 1)])
def test_time_outs_that_the_ranks_print_after_the_verdict_are_said(tmp_path, capsys, suspect, code):
    write_progress(str(tmp_path / "progress.json"), SessionProgress(code=0))
    (tmp_path / "site.toml").write_text(f"[thresholds.counters]\njob_timeouts = {{ suspect = {suspect} }}\n")
    options = ValidationOptions(thresholds=str(tmp_path / "site.toml"))
    watch = _LaunchWatch(str(tmp_path / "progress.json"))
    assert watch.judge(options, 0) == 0
    assert capsys.readouterr().out == ""
    watch.hear(f"healthy: 2 nodes\n{SUMMARY.format(28)}".encode())
    assert watch.judge(options, 0) == code
    assert "Cray MPICH's summary during the validation: 28" in capsys.readouterr().out


def test_what_processes_hold_is_compared_between_a_prolog_and_its_epilog_only(folder):
    prolog, epilog = events(folder)
    held, more = {"left/memory": 9000}, {"left/memory": 90000}
    for job in (Job(), prolog, Job("epilog", "78", folder)):
        found = count(job, "n1", held, more)
        assert difference(found.before, found.after) == {}
    count(prolog, "n1", {}, held)
    found = count(epilog, "n1", more, more)
    assert difference(found.before, found.after) == {"left/memory": 81000}
