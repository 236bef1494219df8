"""What a run remembers of its estimates, and what `check` and `predict` make of it."""

import json
import os

import pytest

from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.models.earlier_runs import KEPT, earlier_ratios, remember_run

CASE = """
[run]
model = "gray_scott"
steps = 10
[grid]
shape = [20, 20, 20]
"""


@pytest.fixture
def case(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "case.toml"
    file.write_text(CASE)
    return load_case(file, case_class).case


def report(ratio=4.0, points=8000.0, steady=1.0, ranks=2, on_node=2, **more):
    return {
        "run": {"ranks": ranks, "ranks_on_node": on_node},
        "fraction_of_stream": 1.0 / ratio,
        "seconds": {"steady": steady},
        "seconds_per_step": 0.1,
        "work": {"points": points},
    } | more


def stored(tmp_path):
    (file,) = (tmp_path / "cache" / "estimates").glob("*.json")
    return file


def test_ratios_are_those_of_runs_of_about_this_size(case):
    assert earlier_ratios(case, 8000.0, "bound") is None
    for ratio, points in ((4.0, 8000.0), (6.0, 2000.0), (5.0, 70000.0), (50.0, 8e6), (0.5, 8.0)):
        remember_run(case, report(ratio, points))
    found = earlier_ratios(case, 8000.0, "bound")
    assert (found.runs, found.least, found.middle, found.greatest) == (3, 4.0, 5.0, 6.0)
    assert found.words("this") == "the steps of 3 earlier runs on this machine took 4 to 6 times this"
    assert earlier_ratios(case, 8000.0, "predicted") is None, "there was no machine file"
    other = case.model_copy(update={"run": case.run.model_copy(update={"precision": "float32"})})
    assert earlier_ratios(other, 8000.0, "bound") is None


@pytest.mark.parametrize(
    "changed",
    [{"steady": 0.01}, {"on_node": 1}, {"fraction_of_stream": None}],
    ids=["too short", "on several nodes", "no limit measured"],
)
def test_a_run_that_says_nothing_about_this_machine_is_not_stored(case, changed):
    remember_run(case, report(**changed))
    assert earlier_ratios(case, 8000.0, "bound") is None


def test_a_file_stays_small_private_and_survives_damage(case, tmp_path):
    for number in range(KEPT + 5):
        remember_run(case, report(1.0 + number))
    file = stored(tmp_path)
    content = json.loads(file.read_text())
    assert [content["runs"][0]["bound"], len(content["runs"])] == [pytest.approx(6.0), KEPT]
    assert file.stat().st_mode & 0o077 == 0
    damaged = [{"points": 8000.0}, {"points": "x", "precision": "float64", "bound": 1.0}, 7, None]
    damaged += [content["runs"][0] | {"bound": bound} for bound in (-1.0, 1e400, 3.0)]
    file.write_text(json.dumps({"runs": damaged}))
    assert earlier_ratios(case, 8000.0, "bound").middle == 3.0
    for text in ("", "[", '{"runs": 3}', "[]"):
        file.write_text(text)
        assert earlier_ratios(case, 8000.0, "bound") is None
    file.unlink()
    os.symlink("/etc/passwd", file)
    assert earlier_ratios(case, 8000.0, "bound") is None


def test_runs_of_another_estimate_are_not_compared(case, tmp_path):
    remember_run(case, report())
    file = stored(tmp_path)
    content = json.loads(file.read_text())
    content["runs"][0]["estimate"] = "of another release"
    file.write_text(json.dumps(content))
    assert earlier_ratios(case, 8000.0, "bound") is None
