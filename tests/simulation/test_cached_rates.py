"""Rates that jobs keep for each other: their age, other machines, damaged files, nodes that were busy."""

import json
import os
import time

import pytest
from mpi4py import MPI

from ridgeline.simulation import limits as module
from ridgeline.simulation.limits import KEPT_SECONDS, cached_rates

KEY = {"host": "a", "ranks": 2, "of": "peak"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "busiest_share", lambda comm, since: 0.0)
    return tmp_path / "cache" / "limits"


def ask(rate: float, key=KEY, fresh=False):
    return cached_rates(MPI.COMM_SELF, key, lambda: {"rate": rate}, None, fresh)


def change(folder, **changed) -> None:
    """Change what the only file of the folder holds."""
    (file,) = folder.glob("*.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


def test_the_second_job_takes_what_the_first_measured(folder):
    first = ask(1.0)
    assert (first.rates, first.age, first.others_share) == ({"rate": 1.0}, 0.0, 0.0)
    second = ask(2.0)
    assert second.rates == {"rate": 1.0}
    assert 0.0 < second.age < 60.0


@pytest.mark.parametrize("key", [{**KEY, "host": "b"}, {**KEY, "ranks": 4}, {**KEY, "of": "caches"}])
def test_another_machine_job_or_rate_has_its_own(folder, key):
    ask(1.0)
    assert ask(2.0, key).rates == {"rate": 2.0}
    assert ask(3.0).rates == {"rate": 1.0}


def test_a_file_of_another_machine_in_its_place_is_not_believed(folder):
    ask(1.0)
    change(folder, key={**KEY, "host": "b"})
    assert ask(2.0).rates == {"rate": 2.0}


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (KEPT_SECONDS - 60, 1.0),
        (KEPT_SECONDS + 60, 2.0),
        (-60, 2.0),  # the clock was set back
    ],
)
def test_rates_are_taken_while_they_are_young(folder, age, expected):
    ask(1.0)
    change(folder, measured=time.time() - age)
    assert ask(2.0).rates == {"rate": expected}


@pytest.mark.parametrize(("others", "expected"), [(0.04, 1.0), (0.4, 2.0)])
def test_what_was_measured_on_a_busy_node_is_told_and_not_kept(folder, monkeypatch, others, expected):
    monkeypatch.setattr(module, "busiest_share", lambda comm, since: others)
    assert ask(1.0).others_share == others
    assert ask(2.0).rates == {"rate": expected}


@pytest.mark.parametrize(
    "changed",
    [
        {"rates": {"rate": "fast"}}, {"rates": {"rate": float("nan")}}, {"rates": {"rate": 0.0}}, {"rates": {}},
        {"rates": [1.0]}, {"measured": None}, {"measured": 10**400}, {"others_share": 0.4}, {"key": None},
    ],
)  # fmt: skip
def test_a_damaged_file_is_measured_again_and_replaced(folder, changed):
    ask(1.0)
    change(folder, **changed)
    assert ask(2.0).rates == {"rate": 2.0}
    assert ask(3.0).rates == {"rate": 2.0}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_no_record_is_measured_again(folder, content):
    ask(1.0)
    (file,) = folder.glob("*.json")
    file.write_bytes(content)
    assert ask(2.0).rates == {"rate": 2.0}


def test_fresh_rates_replace_older_ones(folder):
    ask(1.0)
    assert ask(2.0, fresh=True).rates == {"rate": 2.0}
    assert ask(3.0).rates == {"rate": 2.0}


def test_old_files_are_deleted(folder):
    ask(1.0)
    (old,) = folder.glob("*.json")
    long_ago = time.time() - KEPT_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    ask(1.0, {**KEY, "host": "b"})
    assert not old.exists()
    assert len(list(folder.glob("*.json"))) == 1


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(folder, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ridgeline.runtime.user_cache.replace_file", full)
    assert ask(1.0).rates == {"rate": 1.0}
    assert ask(2.0).rates == {"rate": 2.0}
