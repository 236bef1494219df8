"""Ways to compute that ranks time together."""

from pathlib import Path

import pytest

from ridgeline.parallel import choices as module
from ridgeline.parallel.choices import Trial, choose, remember_trial, remembered_trial

RANKS = (1, 2, 3, 4)
TIMEOUT = 60


@pytest.fixture
def choices(comm, tmp_path: Path) -> Path:
    return Path(comm.bcast(str(tmp_path))) / "choices.json"


class Clock:
    """Time that only the candidates spend."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(module.time, "perf_counter", lambda: self.now)

    def candidate(self, seconds: float):
        def call() -> dict[str, float]:
            self.now += seconds
            return {"fft": 0.75 * seconds}

        return call


def test_the_slowest_rank_counts(comm, choices, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    last = comm.rank == comm.size - 1
    ways = {"even": clock.candidate(1.0), "slow on one": clock.candidate(1.5 if last else 0.1)}
    seconds = {"even": {"total": 1.0, "fft": 0.75}, "slow on one": {"total": 1.5, "fft": 1.125}}
    assert choose(ways, "key", comm, choices) == Trial(
        "even", {name: pytest.approx(parts) for name, parts in seconds.items()}
    )
    comm.Barrier()  # rank 0 writes
    known = remembered_trial(choices, "key")
    assert known is not None
    assert (known.taken, known.earlier_run) == ("even", True)


def test_a_choice_is_kept_and_small_gains_do_not_count(
    comm, choices, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    ways = {"first": clock.candidate(1.0), "slower": clock.candidate(2.0), "hardly": clock.candidate(0.99)}
    assert choose(ways, "a", comm, choices).taken == "first"
    ways = {"first": clock.candidate(1.0), "slower": clock.candidate(2.0), "faster": clock.candidate(0.5)}
    assert choose(ways, "b", comm, choices).taken == "faster"
    assert choose(ways, "a", comm, choices).taken == "first"
    spent = clock.now
    known = choose({"faster": clock.candidate(9.0), "slower": clock.candidate(1.0)}, "b", comm, choices)
    assert (known.taken, known.earlier_run) == ("faster", True)
    assert clock.now == spent
    others = {"third": clock.candidate(1.0), "fourth": clock.candidate(2.0)}
    assert choose(others, "b", comm, choices).taken == "third"  # what was chosen is no candidate
    assert clock.now > spent


def test_a_choice_without_its_seconds_stands_and_is_timed(
    comm, choices, monkeypatch: pytest.MonkeyPatch
) -> None:
    if comm.rank == 0:
        remember_trial(choices, "old", Trial("slower", {}))
    comm.Barrier()
    clock = Clock(monkeypatch)
    ways = {"faster": clock.candidate(1.0), "slower": clock.candidate(2.0)}
    trial = choose(ways, "old", comm, choices)
    assert (trial.taken, trial.earlier_run) == ("slower", False)
    assert [parts["total"] for parts in trial.seconds.values()] == [pytest.approx(1.0), pytest.approx(2.0)]


def test_candidates_may_communicate(comm, choices) -> None:
    def gather() -> dict[str, float]:
        comm.allgather(comm.rank)
        return {}

    def barrier() -> dict[str, float]:
        comm.Barrier()
        return {}

    assert choose({"gather": gather, "barrier": barrier}, "key", comm, choices).taken in ("gather", "barrier")


def test_the_time_of_one_unit_of_work_counts_and_what_is_far_behind_is_not_timed_again(
    comm, choices, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    calls: list[str] = []

    def way(name: str, seconds: float):
        def call() -> dict[str, float]:
            calls.append(name)
            return clock.candidate(seconds)()

        return call

    ways = {"one": way("one", 1.0), "three": way("three", 2.4), "slow": way("slow", 9.0)}
    trial = choose(ways, "key", comm, choices, {"three": 3.0, "slow": 3.0})
    assert trial.taken == "three"
    assert {name: parts["total"] for name, parts in trial.seconds.items()} == {
        "one": pytest.approx(1.0), "three": pytest.approx(0.8), "slow": pytest.approx(3.0)
    }  # fmt: skip
    assert [calls.count(name) for name in ways] == [10, 10, 2]  # with those of the duel


def test_a_slow_moment_of_the_first_is_no_defeat(comm, choices, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    calls: list[None] = []

    def disturbed() -> dict[str, float]:
        calls.append(None)
        return clock.candidate(2.0 if len(calls) <= 6 else 1.0)()

    trial = choose({"first": disturbed, "other": clock.candidate(1.5)}, "key", comm, choices)
    assert trial.taken == "first"
    assert trial.seconds["first"]["total"] == pytest.approx(1.0)
