"""Thousands of settings that nobody means, through `check`: each is taken, or refused by one of our errors, at once.

Seeded, so that a failure comes back: the message holds the settings. What runs is all of `ridgeline check` but the
measurement of STREAM. `run` gets those that `check` takes, if they are small.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from ridgeline.config.load import load_case
from ridgeline.models import case_class
from ridgeline.runtime.errors import RidgelineError
from ridgeline.simulation.check import plan_case
from settings_fuzz import SMALLEST, mutated, within

CASES = 1000
SECONDS = 5  # of one case; a hang is a failure
RUNS, RUN_SECONDS, MOST_BYTES = 30, 400, 60e6  # the first run compiles


def checked(monkeypatch: pytest.MonkeyPatch, path: Path, document: Any, ranks: int) -> bool:
    """Take a document through `ridgeline check` as if the file `path` had held it; say whether it is valid."""
    monkeypatch.setattr("ridgeline.config.load.parse_toml", lambda path, text: document)
    try:
        with within(SECONDS):
            plan_case(load_case(path, case_class).case, (), ranks)
    except RidgelineError:
        return False
    except BaseException as error:
        pytest.fail(f"{type(error).__name__}: {error} of {ranks} ranks and {document!r:.6000}")
    return True


@pytest.mark.parametrize("model", SMALLEST)
@pytest.mark.filterwarnings("error")
def test_check_takes_or_refuses_whatever_it_gets(model, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "case.toml"
    path.write_text("")
    rng = random.Random(f"{model} 13")
    valid = 0
    for number in range(CASES):
        document = mutated(rng, model, strength=0.0 if number % 3 else 0.25)
        valid += checked(monkeypatch, path, document, rng.choice([1, 1, 2, 3, 7]))
    assert valid > CASES / 50, "nearly all is refused: too little is tried"


@pytest.mark.slow
@pytest.mark.parametrize("model", SMALLEST)
def test_what_check_takes_runs_or_ends_by_one_of_our_errors(model, monkeypatch, tmp_path):
    from mpi4py import MPI  # not above: `check` needs none

    from ridgeline.models import create
    from ridgeline.models.memory_check import memory_needed
    from ridgeline.runtime.context import Context
    from ridgeline.simulation import report
    from ridgeline.simulation.case_run import RunCaller, run_case

    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    rng = random.Random(f"{model} run")
    done = 0
    while done < RUNS:
        document = mutated(rng, model, strength=0.0)
        document["run"] |= {"threads": 1, "device": "cpu", "steps": rng.choice([1, 2, 3])}
        document.pop("output", None)  # paths would leave the folder
        document.pop("checkpoint", None)
        monkeypatch.setattr("ridgeline.config.load.parse_toml", lambda path, text, taken=document: taken)
        (tmp_path / f"{done}").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / f"{done}")
        (tmp_path / f"{done}" / "case.toml").write_text("")
        try:
            loaded = load_case("case.toml", case_class)
            if memory_needed(plan_case(loaded.case, (), 1)[0]) > MOST_BYTES:
                continue
        except RidgelineError:
            continue
        done += 1
        try:
            with within(RUN_SECONDS):
                run_case(
                    loaded.case, create(model), Context(MPI.COMM_WORLD), caller=RunCaller(progress=False)
                )
        except RidgelineError:
            pass
        except BaseException as error:
            pytest.fail(f"{type(error).__name__}: {error} of {document!r:.6000}")
