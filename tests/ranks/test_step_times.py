"""Times of steps and of ranks: merged without a loss, the worst named, of this run alone where it resumed."""

import json
from itertools import pairwise

import numpy as np
import pytest

from decay_model import Decay, decay_case, run
from ridgeline.simulation.step_times import PERCENTILES, StepDistribution

RANKS = (1, 2, 3)


def test_merged_times_are_those_of_all_ranks(comm):
    rng = np.random.default_rng(comm.rank)
    values = np.exp(rng.normal(-6.0, 0.5, (400 + 100 * comm.rank, 2)))
    mine = StepDistribution(("compute", "total"))
    steps = np.ones(len(values), np.int64)
    mine.add(np.cumsum(steps), steps, values.T)
    whole = mine.merge_ranks(comm)
    everything = np.concatenate(comm.allgather(values))
    for i, name in enumerate(whole.names):
        for percent in PERCENTILES:
            exact = np.quantile(everything[:, i], percent / 100, method="inverted_cdf")
            assert whole.percentile(name, percent) == pytest.approx(exact, rel=0.005)
        row = whole.to_dict()[name]
        assert (row["count"], row["min"]) == (len(everything), everything[:, i].min())
        places = comm.allgather((float(values[:, i].max()), int(values[:, i].argmax()) + 1))
        rank = int(np.argmax([seconds for seconds, _ in places]))
        worst = whole.worst(name)
        assert (worst.seconds, worst.step, worst.rank) == (*places[rank], rank)
    assert comm.allgather(json.dumps(whole.to_dict())) == [json.dumps(whole.to_dict())] * comm.size


def test_of_ranks_with_the_same_worst_time_the_first_is_named(comm):
    mine = StepDistribution(("total",))
    steps = np.array([1 + comm.rank])
    mine.add(9 + steps, steps, 3.0 * steps[np.newaxis])
    worst = mine.merge_ranks(comm).worst("total")
    assert (worst.seconds, worst.step, worst.steps, worst.rank) == (3.0, 10, 1, 0)


def test_ranks_without_a_step_change_nothing(comm):
    mine = StepDistribution(("total",))
    assert mine.merge_ranks(comm).to_dict() == {}


def check(report, comm, first, last):
    """What a report says of a run from a step to another, whose first call did two steps."""
    steps = last - first - 2
    times, ranks = report["step_times"], report["ranks"]
    assert list(times) == ["decay", "all-to-all", "other", "total"]
    for row in times.values():
        assert row["count"] == steps * comm.size
        ordered = [row["min"], *row["percentiles"].values(), row["max"]]
        assert all(a <= b for a, b in pairwise(ordered))
        assert first + 2 < row["worst"]["step"] <= last
        assert 0 <= row["worst"]["rank"] < comm.size
    assert (ranks["rank"], ranks["ranks_per_row"]) == (list(range(comm.size)), 1)
    assert (ranks["first_steps"], ranks["steady_steps"]) == (2, steps)
    total = np.array(ranks["steady"]["total"])
    np.testing.assert_allclose(
        sum(np.array(ranks["steady"][name]) for name in list(times)[:-1]), total, rtol=1e-4
    )
    assert total.max() == pytest.approx(report["seconds"]["steady"], rel=1e-5)
    assert max(ranks["first"]["total"]) == pytest.approx(report["seconds"]["first_step"], rel=1e-5)
    for name in ("output", "checkpoint"):
        phase = report["phases"][name]
        column = ranks["between"][name]
        assert (min(column), max(column)) == pytest.approx((phase["min"], phase["max"]), rel=1e-5)
    assert min(ranks["between"]["other"]) > 0


def test_a_run_reports_its_steps_its_ranks_and_its_writes(comm, folder, monkeypatch):
    report = run(comm, monkeypatch, decay_case(folder), Decay())
    check(report, comm, 0, 20)
    steps = {kind: [row["step"] for row in written["rows"]] for kind, written in report["writes"].items()}
    assert steps == {
        "data set": [0, 6, 12, 18],
        "series": [0, 3, 6, 9, 12, 15, 18],
        "spectra": [0, 4, 8, 12, 16, 20],
        "checkpoints": [5, 10, 15, 20],
    }
    fields = report["writes"]["data set"]
    assert [row["bytes"] for row in fields["rows"]] == [10 * 3 * 8] * 4
    assert fields["seconds"] == pytest.approx(sum(row["seconds"] for row in fields["rows"]))
    assert fields["bytes_per_second"] == pytest.approx(fields["bytes"] / fields["seconds"])
    assert report["writes"]["spectra"]["bytes"] == 6 * (4 * 8 + 4 * 4 + 16 * 8)
    with (folder / "s.csv").open() as series:
        assert report["writes"]["series"]["bytes"] == sum(map(len, list(series)[1:]))
    saved = report["checkpoint"]
    assert report["writes"]["checkpoints"]["bytes"] == saved["bytes_raw"] == 4 * 80
    if comm.rank == 0:
        stored = json.loads((folder / "u.bp.run.json").read_text())
        assert (stored["step_times"], stored["ranks"]) == (report["step_times"], report["ranks"])
        assert stored["writes"] == report["writes"]


def test_a_resumed_run_reports_its_own_steps(comm, folder, monkeypatch):
    with pytest.raises(RuntimeError, match="power"):
        run(comm, monkeypatch, decay_case(folder), Decay(crash_at=13))
    comm.Barrier()
    report = run(comm, monkeypatch, decay_case(folder), Decay(), resume="auto")
    check(report, comm, 10, 20)
    assert [row["step"] for row in report["writes"]["checkpoints"]["rows"]] == [15, 20]


def test_a_run_of_one_call_has_no_steady_step(comm, folder, monkeypatch):
    case = decay_case(folder)
    short = case.model_copy(update={"run": case.run.model_copy(update={"steps": 2})})
    report = run(comm, monkeypatch, short, Decay())
    assert report["step_times"] == {}
    assert (report["ranks"]["first_steps"], report["ranks"]["steady_steps"]) == (2, 0)


def test_the_slow_rank_is_named_in_its_phase(comm, folder, monkeypatch):
    """A rank that computes longer at one step: the others wait in the exchange of the next."""
    slow = comm.size - 1

    class Slow(Decay):
        def step(self, most, until):
            steps = super().step(most, until)
            if self.now >= 12 and comm.rank == slow and not self.calls.count(-1):
                self.calls.append(-1)
                # Seconds that nobody waits for: moved from the past of the open region, as threads' are.
                self.context.regions.charge("decay", 1e3)
            return steps

    worst = run(comm, monkeypatch, decay_case(folder), Slow())["step_times"]["decay"]["worst"]
    assert (worst["rank"], worst["step"]) == (slow, 12)
