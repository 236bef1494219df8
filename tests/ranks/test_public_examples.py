"""The examples with two ranks in the docstrings of what people import run, and show the same on both ranks."""

import pytest

import public_names
from ridgeline.simulation import report

RANKS = (2,)
THINGS = {name: t for name, t in public_names.documented().items() if public_names.needs_two_ranks(t)}


def test_there_are_such_examples(comm):
    assert {"ridgeline.Simulation", "ridgeline.api.decompose"} <= set(THINGS)


@pytest.mark.parametrize("name", THINGS)
def test_examples_run(comm, folder, monkeypatch, name):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})
    said = public_names.run_example(name, THINGS[name])
    assert not said, said
