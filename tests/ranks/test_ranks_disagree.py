"""Ranks with other settings, or that make other calls: one sentence on every rank, and no answer."""

import numpy as np
import pytest

import ridgeline
from ridgeline.parallel.allreduce import require_same_on_all_ranks
from ridgeline.runtime.errors import ConfigError
from ridgeline.simulation import report

RANKS = (2, 3)


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    """Run in one empty folder of all ranks, and measure no machine."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(report, "measure_limits", lambda *arguments: {})


def case(**parameters):
    return ridgeline.Case("gray_scott", 8, grid={"shape": (9, 8, 7)}, parameters={"noise": 0, **parameters})


def check_refused(comm, call, words):
    """Check that a call is refused on every rank with the same sentence."""
    with pytest.raises(ridgeline.RidgelineError) as caught:
        call()
    assert words in str(caught.value)
    assert comm.allgather(str(caught.value)) == [str(caught.value)] * comm.size


def test_the_first_that_differs_is_named(comm):
    require_same_on_all_ranks(comm, {"a": 1, "b": np.float64(0.1)}, "do so")
    last = comm.rank == comm.size - 1
    with pytest.raises(ConfigError) as caught:
        require_same_on_all_ranks(comm, {"a": 1, "b": 3 if last else 2}, "do so")
    assert str(caught.value) == f"the ranks disagree: b is 2 on rank 0, but 3 on rank {comm.size - 1}. Do so."
    with pytest.raises(ConfigError, match="a is not set on rank 0, but 1 on rank 1\\. Do so"):
        require_same_on_all_ranks(comm, {"a": 1} if comm.rank == 1 else {}, "do so")


def test_settings_are_the_same_on_all_ranks(comm):
    mine = case(F=0.03 if comm.rank == 0 else 0.05)
    check_refused(
        comm,
        lambda: ridgeline.Simulation(mine, progress=False),
        "the ranks disagree: model.F is 0.03 on rank 0, but 0.05 on rank 1. Start every rank with the same settings",
    )
    resume = "auto" if comm.rank == 1 else "never"
    check_refused(
        comm,
        lambda: ridgeline.Simulation(case(), progress=False, resume=resume),
        "resume is 'never' on rank 0, but 'auto' on rank 1",
    )
    many = case().replace({"run.threads": 4000 if comm.rank == 1 else 1})
    check_refused(comm, lambda: ridgeline.Simulation(many, progress=False), "run.threads is 4000")


def test_calls_are_the_same_on_all_ranks(comm):
    one = comm.rank == 1
    with ridgeline.Simulation(case(), progress=False) as simulation:
        mine = simulation.parts("U")["U"].local
        for call, words in [
            (
                lambda: simulation.advance(5 + one),
                "the call is 'advance(5)' on rank 0, but 'advance(6)' on rank 1",
            ),
            (
                lambda: simulation.advance(2.0 if one else 2),
                "'advance(2)' on rank 0, but 'advance(2.0)' on rank 1",
            ),
            (
                lambda: simulation.every(3 + one, print),
                "'every(3, ...)' on rank 0, but 'every(4, ...)' on rank 1",
            ),
            (
                lambda: simulation.save() if one else simulation.run(),
                "'run()' on rank 0, but 'save()' on rank 1",
            ),
            (
                lambda: simulation.change({"model.F": 0.03 + one}),
                "model.F is 0.03 on rank 0, but 1.03 on rank 1",
            ),
            (lambda: simulation.change({"model.F": -1 if one else 0.03}), "the changes: model.F is -1"),
            (lambda: simulation.set_fields({"UV"[one]: mine}), "set_fields(['U'])\" on rank 0"),
            (lambda: simulation.set_fields({"U": mine[: len(mine) - one]}), "must be this rank's part"),
            (
                lambda: simulation.fields("UV"[one]),
                "\"parts('U',)\" on rank 0, but \"parts('V',)\" on rank 1",
            ),
        ]:
            check_refused(comm, call, words)
        assert simulation.case == case()
        assert simulation.run()["run"]["last_step"] == 8


def test_one_rank_may_stop_all(comm):
    with ridgeline.Simulation(case(), progress=False) as simulation:
        simulation.every(3, lambda now: comm.rank == comm.size - 1 and now.stop())
        assert simulation.advance(8) == 3
        assert simulation.close()["run"]["ended"] == "closed"
