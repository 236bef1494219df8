"""Pieces of work on a stream: each second belongs to the innermost one, and events are used again."""

import pytest

pytest.importorskip("numba_cuda", reason='numba-cuda is not installed: pip install "numba-cuda[cu13]"')

from device_time import DeviceTime
from ridgeline.jit import cuda_clock
from ridgeline.jit.cuda_clock import DeviceClock


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> DeviceTime:
    return DeviceTime(monkeypatch)


def test_seconds_of_inner_pieces_are_not_the_outer_ones(device: DeviceTime) -> None:
    clock = DeviceClock(0, ("waits",))
    for step in (1, 2):
        with clock("solve"):
            device.now += 1.0
            with clock("gather"):
                device.now += 2.0
                with clock("operator"):
                    device.now += 4.0
                device.now += 8.0
            with clock("solve"):  # within itself
                device.now += 16.0
        device.now += 32.0
        with clock("operator"):
            device.now += 64.0
        assert clock.seconds["operator"] == 68.0 * (step - 1), "nothing is read before the stream is through"
        clock.collect()
        expected = {"waits": 0.0, "solve": 17.0, "gather": 10.0, "operator": 68.0}
        assert clock.seconds == {name: step * seconds for name, seconds in expected.items()}
    assert device.made == 2 * 5, "events of the first step are those of the second"
    clock.reset()
    assert set(clock.seconds.values()) == {0.0}


def test_an_error_ends_a_piece(device: DeviceTime) -> None:
    clock = DeviceClock(0)

    def fail() -> None:
        with clock("solve"), clock("operator"):
            device.now += 1.0
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    with clock("other"):
        device.now += 2.0
    clock.collect()
    assert clock.seconds == {"solve": 0.0, "operator": 1.0, "other": 2.0}


def test_simulated_devices_take_no_time(device: DeviceTime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_clock, "simulated", lambda: True)
    clock = DeviceClock(0)
    with clock("solve"):
        device.now += 1.0
    clock.collect()
    assert not any(clock.seconds.values())
