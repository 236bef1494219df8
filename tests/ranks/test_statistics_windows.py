"""Statistics in windows: added up they are one long window, and a resumed run writes the same windows."""

from types import SimpleNamespace

import numpy as np
import pytest

import ridgeline
from ridgeline.analysis.windows import add_windows, averages_of
from ridgeline.config.intervals import Interval
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.io.bp_sums import fingerprint
from ridgeline.io.checkpoint import CheckpointStore
from ridgeline.models.navier_stokes.flow_statistics import SAMPLED_STEP, Statistics
from ridgeline.models.navier_stokes.problem import FlowState
from ridgeline.models.navier_stokes.recorders import statistics_recorder
from ridgeline.runtime.errors import OutputError

RANKS = (1, 2, 3)
TIMEOUT = 150
VISCOSITY = 0.3
TIMES = np.concatenate([[0.0], np.cumsum(np.random.default_rng(1).uniform(0.05, 0.2, 20))])


class Run:
    """The statistics of a flow that is a random function of the step, as a time loop records them."""

    def __init__(self, comm, path, homogeneous=("x", "z"), **window):
        mesh = BoxMesh.box((2, 3, 2), (1.0, 2.0, 3.0), periodic=(True, False, True))
        self.comm, self.grid = comm, ElementGrid(mesh, 3, comm.size, comm.rank)
        self.statistics = Statistics(comm, self.grid, ElementGeometry(self.grid), 1, 0.0, VISCOSITY)
        intervals = {"statistics_every": Interval(2), "statistics_window": Interval(**window)}
        output = SimpleNamespace(
            statistics=str(path), format="auto", homogeneous=homogeneous, interval=intervals.get
        )
        self.now = None
        (self.recorder,) = statistics_recorder(
            SimpleNamespace(output=output), comm, self.grid, self.statistics, lambda: self.now
        )
        self.record = None

    def begin(self, keep=None):
        attributes = {"model.viscosity": VISCOSITY, "grid.order": 3}
        self.record = self.recorder.open(attributes, keep)
        return self

    def write(self, *steps):
        for step in steps:
            a, b, c, d = np.random.default_rng(step).normal(size=4)
            x, y, z = self.grid.coordinates
            s, k = np.sin(2 * np.pi * x / 3), np.cos(2 * np.pi * z)
            u = np.stack([5 + y + a * s + b * y, c * s * y * k, 3 + d * k + a])
            self.now = FlowState(TIMES[step], u, 10 + a * y + b * s, np.stack([y + c * k * s]))
            self.record.write(step)

    def close(self):
        self.record.close()
        self.comm.Barrier()


def opened(path):
    with ridgeline.open(path) as data:
        return data.load()


@pytest.mark.parametrize("homogeneous", [("x", "z"), ("x",), ()])
def test_windows_add_up_to_one_long_window(comm, folder, homogeneous):
    found = []
    for name, window in (("long.bp", 0), ("windows.bp", 6)):
        run = Run(comm, folder / name, homogeneous, steps=window).begin()
        run.write(*range(0, 21, 2))
        assert run.record.count == (0 if not window else 3)
        run.close()
        found.append(opened(folder / name))
    long, windows = found
    assert long.step.values.tolist() == [20]
    assert windows.step.values.tolist() == [6, 12, 18, 20]
    np.testing.assert_array_equal(windows.time, TIMES[[6, 12, 18, 20]])
    np.testing.assert_allclose(windows.averaging_time[:, 0], np.diff(TIMES[[0, 6, 12, 18, 20]]))
    assert windows.samples[:, 0].values.tolist() == [3, 3, 3, 1]
    assert "uu" in averages_of(windows)
    assert abs(windows.uu - long.uu.isel(step=0)).max() > 0.1, "the windows differ"
    total = add_windows(windows)
    assert (float(total.samples), int(total.windows)) == (10, 4)
    assert float(total.averaging_time) == pytest.approx(TIMES[20])
    assert set(averages_of(total)) == set(averages_of(long))
    for name in averages_of(long):
        np.testing.assert_allclose(total[name], long[name].isel(step=0), rtol=1e-11, atol=1e-11, err_msg=name)


def test_ends_of_windows_at_model_times_are_samples(comm, folder):
    """The recorder is due at multiples of the window, too; a window without samples is not written."""
    run = Run(comm, folder / "s.bp", time=0.5)
    assert run.recorder.intervals == (Interval(2), Interval(time=0.5))
    run.begin().write(0, 1, *range(8, 21))
    run.close()
    data = opened(folder / "s.bp")
    ends = [n for n in range(8, 21) if n == 20 or int(TIMES[n] / 0.5) > int(TIMES[max(n - 1, 1)] / 0.5)]
    ends[0] = 8  # the first sample after many multiples ends one window
    assert data.step.values.tolist() == sorted(set(ends))
    assert float(data.averaging_time.sum()) == pytest.approx(TIMES[20])


def saved(run, folder):
    with CheckpointStore(run.comm, folder / "saved") as store:
        store.save(run.statistics.state(), step=9, time=TIMES[9], identity={})
    return run.record.count, run.record.fingerprint


def test_a_run_that_is_killed_and_resumed_writes_the_same_windows(comm, folder):
    """On the same ranks the same bits; on one rank the same but for rounding. Nothing is closed before."""
    whole = Run(comm, folder / "whole.bp", steps=6).begin()
    whole.write(*range(0, 21, 2))
    whole.close()
    expected = opened(folder / "whole.bp")
    killed = Run(comm, folder / "s.bp", steps=6).begin()
    killed.write(0, 2, 4, 6, 8)
    count, mark = saved(killed, folder)
    killed.write(10, 12, 14, 16, 18)  # two windows more, which the resumed run cuts off
    assert (count, killed.record.count) == (1, 3)
    comm.Barrier()
    assert comm.rank or fingerprint(str(folder / "s.bp"), count) == mark
    alone = comm.Split(comm.rank)
    for on, exact in ((comm, True), (alone, False)):
        if on is comm or comm.rank == 0:
            run = Run(on, folder / "s.bp", steps=6)
            with CheckpointStore(on, folder / "saved") as store:
                store.load(run.statistics.state(), {}, later=(SAMPLED_STEP,))
            run.statistics.restored(8)
            run.begin(keep=count).write(*range(10, 21, 2))
            run.close()
        comm.Barrier()
        found = opened(folder / "s.bp")
        comm.Barrier()  # before rank 0 alone cuts off what the others read
        assert found.step.values.tolist() == expected.step.values.tolist() == [6, 12, 18, 20]
        for name in found.data_vars:
            if exact:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=str(name))
            else:
                np.testing.assert_allclose(found[name], expected[name], atol=1e-12, err_msg=str(name))
    alone.Free()


def test_other_averages_are_not_continued_in_the_same_file(comm, folder):
    run = Run(comm, folder / "s.bp", steps=2).begin()
    run.write(0, 2, 4)
    run.close()
    with pytest.raises(
        OutputError, match=r"holds .* but this run writes .* output\.statistics to another name"
    ):
        Run(comm, folder / "s.bp", ("x",), steps=2).begin(keep=2)
