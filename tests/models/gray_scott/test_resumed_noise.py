"""Runs with noise that go on: with the random numbers that they began with."""

from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline.io.checkpoint_format import find_checkpoints, read_manifest
from ridgeline.runtime.errors import CheckpointError
from ridgeline.simulation import report

OLDER, NEWER = "philox4x32-10", "philox4x32-7"
KEY = "model.random_numbers"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Run in an empty folder, and measure no machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def small(folder, **parameters):
    """Return the settings of a run of 6 steps whose files are in a folder."""
    return ridgeline.Case(
        "gray_scott",
        6,
        grid={"shape": (9, 10, 11)},
        parameters={"noise": 0.1, **parameters},
        output={"path": f"{folder}.bp", "every": 3},
        checkpoint={"path": folder},
    )


def simulate(case, resume="never"):
    return ridgeline.Simulation(case, resume=resume, progress=False)


def fields_of(simulation):
    return [field.copy() for field in simulation.fields().values()]


def whole_run(folder, **parameters):
    with simulate(small(folder, **parameters)) as simulation:
        simulation.advance(6)
        return fields_of(simulation)


def interrupted(folder, **parameters):
    """Leave a run at step 3, with a checkpoint; return the identity in that."""
    with simulate(small(folder, **parameters)) as simulation:
        simulation.advance(3)
    return read_manifest(find_checkpoints(Path(folder))[0]).identity


def test_a_run_from_before_there_was_a_choice_goes_on_with_its_numbers():
    expected = whole_run("whole", random_numbers=OLDER)
    assert KEY not in interrupted("parts", random_numbers=OLDER)  # as such a run left it
    with simulate(small("parts"), resume="auto") as simulation:
        assert simulation.step == 3
        simulation.change({"model.F": 0.02})  # to what it is: new kernels, the same numbers
        simulation.advance(3)
        np.testing.assert_array_equal(fields_of(simulation), expected)
    assert KEY not in read_manifest(find_checkpoints(Path("parts"))[0]).identity
    with ridgeline.open("parts.bp") as data:
        assert data.attrs[KEY] == OLDER


def test_a_new_run_says_which_numbers_it_draws_and_goes_on_with_them():
    expected = whole_run("whole")
    assert interrupted("parts")[KEY] == NEWER
    with simulate(small("parts"), resume="auto") as simulation:
        simulation.advance(3)
        np.testing.assert_array_equal(fields_of(simulation), expected)
    with ridgeline.open("parts.bp") as data:
        assert data.attrs[KEY] == NEWER
    assert (whole_run("older", random_numbers=OLDER)[0] != expected[0]).all()


def test_other_numbers_than_the_checkpoint_s_are_refused():
    interrupted("parts")
    with pytest.raises(
        CheckpointError, match="the checkpoint has 'philox4x32-7', the run has nothing"
    ) as refusal:
        simulate(small("parts", random_numbers=OLDER), resume="auto")
    assert "with other parameters, start a new run with --set initial.kind=file --set" in str(refusal.value)


def test_a_run_that_finds_no_checkpoint_draws_the_newest():
    with simulate(small("nothing"), resume="auto") as simulation:
        simulation.advance(6)
        np.testing.assert_array_equal(fields_of(simulation), whole_run("whole"))
