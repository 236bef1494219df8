"""What a model writes of its own, and its regions: at their steps, resumed with the rest, in the report."""

import numpy as np
import pytest

from decay_model import Decay, decay_case, run
from ridgeline.config.intervals import Interval
from ridgeline.models.contract import Recorder, Region, SolveCount
from ridgeline.runtime.errors import DivergedError

RANKS = (1, 3)
QUICK_RANKS = (3,)


class Log:
    """A recorder of the model's own: a list of steps."""

    def __init__(self, path, attributes, keep, kept):
        self.path, self.attributes, self.keep = path, attributes, keep
        self.steps = list(kept[: keep or 0])
        self.closed = False

    @property
    def count(self):
        return len(self.steps)

    def write(self, step):
        self.steps.append(step)
        return 8

    def close(self):
        self.closed = True


class Logging(Decay):
    """The decay model, which keeps a log."""

    def __init__(self, kept=(), path="log", **more):
        super().__init__(**more)
        self.kept, self.path, self.logs = kept, path, []

    def recorders(self, case, comm):
        def begin(attributes, keep):
            self.logs.append(Log(self.path, attributes, keep, self.kept))
            return self.logs[-1]

        return [*super().recorders(case, comm), Recorder("log", self.path, Interval(7), begin)]

    def regions(self):
        """Seconds of a step, more on later ranks, and 100 more of the first."""
        n = self.now
        return {"decay": Region(100.0 + n * (1.0 + self.context.comm.rank), 10.0 * n, 20.0 * n, n)}

    def solves(self):
        return {"nothing": SolveCount(4, 6, 2)}


def test_a_further_output_is_written_at_its_steps(comm, folder, monkeypatch):
    model = Logging()
    report = run(comm, monkeypatch, decay_case(folder), model)
    (log,) = model.logs
    assert (log.steps, log.closed, log.keep) == ([0, 7, 14], True, None)
    assert log.attributes["run.steps"] == 20
    assert {7, 14} <= {*model.calls}, "the model was stepped over a further output"
    assert report["files"]["log"] == "log"


def test_a_further_output_is_resumed(comm, folder, monkeypatch):
    with pytest.raises(RuntimeError, match="power"):
        run(comm, monkeypatch, decay_case(folder), Logging(crash_at=16))
    comm.Barrier()
    model = Logging(kept=(0, 7, 14, 99))
    run(comm, monkeypatch, decay_case(folder), model, resume="auto")
    assert (model.logs[0].keep, model.logs[0].steps) == (3, [0, 7, 14])
    again = Logging(path="elsewhere")
    short = decay_case(folder)
    run(comm, monkeypatch, short, again, resume="auto")
    assert again.logs[0].keep is None


def test_nothing_that_is_not_finite_is_written(comm, folder, monkeypatch):
    model = Logging(spoil_at=7)
    off = {"every": 0, "series_every": 0, "spectra_every": 0}
    with pytest.raises(DivergedError):
        run(comm, monkeypatch, decay_case(folder, **off), model)
    assert model.logs[0].steps == [0]


def test_regions_of_all_ranks_are_in_the_report(comm, folder, monkeypatch):
    """Those of the steady steps: the first call did two of the twenty."""
    report = run(comm, monkeypatch, decay_case(folder), Logging())
    row = report["regions"]["decay"]
    assert row["seconds"] == pytest.approx(18 * (1.0 + np.mean(range(comm.size))))
    assert (row["seconds_max"], row["bytes"]) == (18.0 * comm.size, 18 * 20.0 * comm.size)
    assert row["calls"] == 18
    assert report["solves"]["nothing"]["iterations_per_solve"] == 1.5
    assert "regions" not in run(comm, monkeypatch, decay_case(folder / "plain"), Decay())
