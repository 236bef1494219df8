"""Regions by the clock of a GPU add up as those of CPUs do."""

from types import SimpleNamespace

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from device_time import DeviceTime
from ridgeline.models.navier_stokes.device.regions_cuda import DeviceRegions
from ridgeline.runtime import regions as module
from ridgeline.runtime.regions import Regions, Timeline


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> DeviceTime:
    return DeviceTime(monkeypatch)


def a_step(regions: Regions, device: DeviceTime) -> None:
    """Pass through regions that are nested as those of a solve."""
    with regions("projection"):
        device.now += 1.0
        with regions("gather-scatter", 3.0, 5.0):
            device.now += 2.0
            for _ in range(2):
                with regions("helmholtz"):
                    device.now += 4.0
            device.now += 8.0
    device.now += 16.0
    regions.count("helmholtz", 7.0, 11.0)
    with regions("cg"):
        device.now += 32.0
        with regions("cg", 1.0):
            device.now += 64.0


def test_a_step_is_that_of_the_host_s_clock(device: DeviceTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where host and device have one time."""
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: device.now))
    expected, found = Regions(), Regions()
    timed = DeviceRegions(found)
    for _ in range(3):
        a_step(expected, device)
        a_step(timed, device)
        timed.collect()
        assert found.table == expected.table
    assert found.total() == timed.total() == 3 * 115.0
    found.reset()  # as a run does after its start
    a_step(timed, device)
    timed.collect()
    assert found.total() == 115.0


def test_what_is_open_gives_the_device_s_seconds_away(device: DeviceTime, monkeypatch) -> None:
    """As figures within an output do."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    regions = Regions()
    timed = DeviceRegions(regions)
    with regions("output"):
        now[0] += 8.0
        with timed("other"):
            device.now += 3.0
        timed.collect()
    assert (regions.seconds("output"), regions.seconds("other")) == (5.0, 3.0)


def test_a_timeline_has_the_host_s_part(device: DeviceTime) -> None:
    regions = Regions()
    timed = DeviceRegions(regions)
    with timed("before"):
        pass
    regions.timeline = Timeline()
    a_step(timed, device)
    names = [span.name for span in regions.timeline.spans()]
    assert names == ["projection", "gather-scatter", "helmholtz", "helmholtz", "cg", "cg"]
