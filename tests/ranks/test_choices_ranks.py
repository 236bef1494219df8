"""Ways to compute that ranks time together."""

from pathlib import Path

import pytest

from ridgeline.parallel import autotuner as module
from ridgeline.parallel.autotuner import TuningResult, choose, recall

RANKS = (1, 2, 3, 4)
TIMEOUT = 60


@pytest.fixture(autouse=True)
def cache(comm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user's cache be an empty folder."""
    monkeypatch.setenv("RIDGELINE_CACHE_DIR", comm.bcast(str(tmp_path)))


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


def test_the_slowest_rank_counts(comm, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    last = comm.rank == comm.size - 1
    ways = {"even": clock.candidate(1.0), "slow on one": clock.candidate(1.5 if last else 0.1)}
    seconds = {"even": {"total": 1.0, "fft": 0.75}, "slow on one": {"total": 1.5, "fft": 1.125}}
    assert choose(ways, "key", comm) == TuningResult(
        "even", {name: pytest.approx(parts) for name, parts in seconds.items()}
    )
    known = recall("key", comm)
    assert known is not None
    assert (known.taken, known.earlier_run) == ("even", True)


def test_a_choice_is_kept_and_small_gains_do_not_count(comm, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    ways = {"first": clock.candidate(1.0), "slower": clock.candidate(2.0), "hardly": clock.candidate(0.99)}
    assert choose(ways, "a", comm).taken == "first"
    ways = {"first": clock.candidate(1.0), "slower": clock.candidate(2.0), "faster": clock.candidate(0.5)}
    assert choose(ways, "b", comm).taken == "faster"
    assert choose(ways, "a", comm).taken == "faster"  # it was not among the candidates before
    spent = clock.now
    known = choose({"faster": clock.candidate(9.0), "slower": clock.candidate(1.0)}, "b", comm)
    assert (known.taken, known.earlier_run) == ("faster", True)
    assert clock.now == spent
    others = {"third": clock.candidate(1.0), "fourth": clock.candidate(2.0)}
    assert choose(others, "b", comm).taken == "third"  # what was chosen is not a candidate
    assert clock.now > spent


def test_candidates_may_communicate(comm) -> None:
    def gather() -> dict[str, float]:
        comm.allgather(comm.rank)
        return {}

    def barrier() -> dict[str, float]:
        comm.Barrier()
        return {}

    assert choose({"gather": gather, "barrier": barrier}, "key", comm).taken in ("gather", "barrier")


def test_the_time_of_one_unit_of_work_counts_and_what_is_far_behind_is_not_timed_again(
    comm, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    calls: list[str] = []

    def way(name: str, seconds: float):
        def call() -> dict[str, float]:
            calls.append(name)
            return clock.candidate(seconds)()

        return call

    ways = {"one": way("one", 1.0), "three": way("three", 2.4), "slow": way("slow", 9.0)}
    trial = choose(ways, "key", comm, {"three": 3.0, "slow": 3.0})
    assert trial.taken == "three"
    assert {name: parts["total"] for name, parts in trial.seconds.items()} == {
        "one": pytest.approx(1.0), "three": pytest.approx(0.8), "slow": pytest.approx(3.0)
    }  # fmt: skip
    assert [calls.count(name) for name in ways] == [16, 16, 2]  # with those of the duel


def test_a_slow_moment_of_the_first_is_no_defeat(comm, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    calls: list[None] = []

    def disturbed() -> dict[str, float]:
        calls.append(None)
        return clock.candidate(2.0 if len(calls) <= 6 else 1.0)()

    trial = choose({"first": disturbed, "other": clock.candidate(1.5)}, "key", comm)
    assert trial.taken == "first"
    assert trial.seconds["first"]["total"] == pytest.approx(1.0)
    assert len(calls) == 10  # the duel ends once it is lost


def test_a_candidate_may_switch_to_itself_before_it_is_timed(comm, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    present: list[str] = []

    def way(name: str, seconds: float):
        def call() -> dict[str, float]:
            if present != [name]:
                clock.now += 100.0  # allocates
                present[:] = [name]
            return clock.candidate(seconds)()

        return call

    trial = choose({"first": way("first", 1.0), "other": way("other", 0.5)}, "key", comm)
    assert {name: parts["total"] for name, parts in trial.seconds.items()} == {"first": 1.0, "other": 0.5}
