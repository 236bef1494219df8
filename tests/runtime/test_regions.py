"""Time belongs to the innermost region; work adds up."""

import pytest

from ridgeline.runtime import regions as module
from ridgeline.runtime.regions import Regions


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def test_inner_time_is_not_the_outer_ones(clock: list[float]) -> None:
    regions = Regions()
    with regions("gmres", 10.0, 80.0):
        clock[0] += 1.0
        with regions("schwarz"):
            clock[0] += 2.0
        clock[0] += 4.0
    clock[0] += 8.0
    with regions("gmres", 1.0):
        clock[0] += 16.0
    assert regions.table["gmres"].seconds == 21.0
    assert regions.table["schwarz"].seconds == 2.0
    assert (regions.table["gmres"].flops, regions.table["gmres"].bytes) == (11.0, 80.0)
    assert regions.table["gmres"].calls == 2


def test_an_error_closes_the_region(clock: list[float]) -> None:
    regions = Regions()

    def fail() -> None:
        with regions("cg"):
            clock[0] += 1.0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    clock[0] += 5.0
    with regions("other"):
        clock[0] += 1.0
    assert regions.table["cg"].seconds == 1.0
    assert regions.table["other"].seconds == 1.0


def test_counting_and_forgetting() -> None:
    regions = Regions()
    regions.count("cg", 2.0, 3.0)
    regions.count("cg", 2.0, 3.0)
    assert (regions.table["cg"].flops, regions.table["cg"].bytes) == (4.0, 6.0)
    regions.reset()
    assert not regions.table


def test_seconds_measured_elsewhere_are_taken_from_the_open_region(clock: list[float]) -> None:
    regions = Regions()
    with regions("step"):
        clock[0] += 4.0
        regions.charge("transforms", 3.0)
        clock[0] += 2.0
    regions.charge("transforms", 0.5)
    assert (regions.seconds("step"), regions.seconds("transforms")) == (3.0, 3.5)
    assert regions.seconds("never") == 0.0
    assert set(regions.table) == {"step", "transforms"}
