"""The energy of a node from fake trees: RAPL and where it starts again, pm_counters, NVML; reasons where none is."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from ridgeline.runtime.energy import SAMPLE_SECONDS, EnergyMeter, nvml_counters

NOT_SUPPORTED, DRIVER_NOT_LOADED = 3, 9  # what NVML returns
RANGE = 262_143_328_850  # microjoules, of a Xeon


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def no_gpus():
    raise OSError("libnvidia-ml.so.1 does not load, so there is no NVIDIA driver on this machine")


def write(folder: Path, **files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    return folder


def zone(root: Path, number: str, name: str, energy: int) -> Path:
    folder = root / "sys/class/powercap" / f"intel-rapl:{number}"
    return write(folder, name=name, energy_uj=energy, max_energy_range_uj=RANGE)


def cray(root: Path, energy: int, freshness: int, **more) -> Path:
    folder = root / "sys/cray/pm_counters"
    return write(folder, energy=f"{energy} J 1452113124443142 us", freshness=freshness, startup=17, **more)


@pytest.fixture
def meter(tmp_path):
    return EnergyMeter(tmp_path, no_gpus, Clock())


def test_packages_and_their_memory_are_added_up_and_nothing_twice(tmp_path, meter):
    zones = {
        "0": ("package-0", 10_000_000), "0:0": ("core", 3_000_000), "0:1": ("dram", 4_000_000),
        "1": ("package-1", 20_000_000), "2": ("psys", 90_000_000),
    }  # fmt: skip
    for number, (name, energy) in zones.items():
        zone(tmp_path, number, name, energy)
    meter.start()
    for number, (name, energy) in zones.items():
        zone(tmp_path, number, name, energy + 1_500_000)
    meter.clock.now += 3.0
    used = meter.stop()
    assert used.joules == pytest.approx(4.5)
    assert used.covers == "processors and memory"
    assert used.counters == {
        "RAPL 0 package-0": pytest.approx(1.5),
        "RAPL 0:1 dram": pytest.approx(1.5),
        "RAPL 1 package-1": pytest.approx(1.5),
    }
    assert used.seconds == 3.0
    assert set(used.unreadable) == {"pm_counters", "NVML"}
    assert "not a Cray" in used.unreadable["pm_counters"]


def test_a_counter_that_starts_again_is_added_up(tmp_path, meter):
    zone(tmp_path, "0", "package-0", RANGE - 2_000_000)
    meter.start()
    zone(tmp_path, "0", "package-0", 5_000_000)
    meter.clock.now += 10.0
    used = meter.stop()
    assert used.joules == pytest.approx(7.0)
    assert used.exact_below == pytest.approx(RANGE * 1e-6 / 10.0)


def test_two_turns_between_samples_of_a_long_run(tmp_path, meter):
    """Both would be lost to one read at the end; each sample sees one."""
    zone(tmp_path, "0", "package-0", RANGE // 2)
    meter.start()
    for _ in range(4):
        meter.clock.now += SAMPLE_SECONDS
        for energy in (10, RANGE // 2):  # a sample at each half turn
            zone(tmp_path, "0", "package-0", energy)
            meter.sample()
            meter.clock.now += SAMPLE_SECONDS
    used = meter.stop()
    assert used.joules == pytest.approx(4 * RANGE * 1e-6)
    assert used.exact_below == pytest.approx(RANGE * 1e-6 / (2 * SAMPLE_SECONDS))


def test_samples_are_taken_no_more_often_than_asked(tmp_path, meter):
    folder = zone(tmp_path, "0", "package-0", 0)
    meter.start()
    (folder / "energy_uj").unlink()
    meter.clock.now += SAMPLE_SECONDS - 0.1
    meter.sample()
    write(folder, energy_uj=3_000_000)
    assert meter.stop().joules == pytest.approx(3.0)


def test_a_part_of_which_a_counter_is_lost_has_no_sum(tmp_path, meter):
    zone(tmp_path, "0", "package-0", 0)
    zone(tmp_path, "1", "package-1", 0)
    zone(tmp_path, "0:0", "dram", 0)
    meter.start()
    zone(tmp_path, "0:0", "dram", 2_000_000)
    write(tmp_path / "sys/class/powercap/intel-rapl:1", energy_uj="busy")
    used = meter.stop()
    assert (used.joules, used.covers) == (pytest.approx(2.0), "memory")
    assert used.unreadable["RAPL 1 package-1"].endswith("energy_uj does not begin with a number")


def test_what_may_not_be_read_is_named_with_the_reason(tmp_path, meter, monkeypatch):
    file = zone(tmp_path, "0", "package-0", 0) / "energy_uj"
    read = Path.read_text

    def refuse(path, *arguments, **more):
        if path == file:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *arguments, **more)

    monkeypatch.setattr(Path, "read_text", refuse)
    meter.start()
    used = meter.stop()
    assert (used.joules, used.covers) == (None, "")
    assert used.unreadable["RAPL 0 package-0"] == f"{file}: Permission denied"


def test_nothing_to_read_says_why(meter, tmp_path):
    meter.start()
    used = meter.stop()
    assert used.joules is None
    assert used.counters == {}
    assert used.exact_below is None
    assert used.unreadable == {
        "pm_counters": f"{tmp_path}/sys/cray/pm_counters does not exist, so this is not a Cray",
        "RAPL": f"{tmp_path}/sys/class/powercap has no zone of intel-rapl",
        "NVML": "libnvidia-ml.so.1 does not load, so there is no NVIDIA driver on this machine",
    }


def test_cray_s_counter_of_the_node_holds_all_the_others(tmp_path, meter):
    zone(tmp_path, "0", "package-0", 0)
    cray(tmp_path, 1000, 5, cpu_energy="400 J", accel0_energy="300 J 1 us")
    meter.start()
    zone(tmp_path, "0", "package-0", 2_000_000)
    cray(tmp_path, 1250, 35, cpu_energy="500 J", accel0_energy="390 J 1 us")
    meter.clock.now += 3.0
    used = meter.stop()
    assert (used.joules, used.covers) == (250.0, "the whole node")
    assert used.counters["pm_counters cpu_energy"] == 100.0
    assert used.counters["pm_counters accel0_energy"] == 90.0


def test_cray_s_counters_that_stand_still_are_not_believed(tmp_path, meter):
    cray(tmp_path, 1000, 5)
    meter.start()
    meter.clock.now += 2.0
    used = meter.stop()
    assert used.joules is None
    assert used.unreadable["pm_counters"] == "the freshness of its sensors stayed at 5 for 2.0 s"


def test_a_short_run_may_see_one_scan_only(tmp_path, meter):
    cray(tmp_path, 1000, 5)
    meter.start()
    meter.clock.now += 0.05
    assert meter.stop().joules == 0.0


@pytest.mark.parametrize("text", ["1000 W", "J", "", "1e3 J"])
def test_what_is_no_energy_is_not_read_as_one(tmp_path, meter, text):
    write(cray(tmp_path, 0, 1), energy=text)
    meter.start()
    used = meter.stop()
    assert used.joules is None
    assert "not a number of joules" in used.unreadable["pm_counters energy"]


def test_cray_s_counter_that_was_started_anew_is_lost(tmp_path, meter):
    cray(tmp_path, 1000, 5)
    meter.start()
    cray(tmp_path, 20, 9)
    meter.clock.now += 3.0
    used = meter.stop()
    assert used.joules is None
    assert "went back" in used.unreadable["pm_counters energy"]


class FakeNvml:
    """NVIDIA's library on a node with two GPUs, the second of which has no counter."""

    def __init__(self, state: int = 0, count: int = 2) -> None:
        self.state, self.count = state, count

    def nvmlInitWithFlags(self, flags):
        return self.state

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = self.count
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, device):
        device._obj.value = index.value + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device, energy):
        energy._obj.value = 7_000
        return NOT_SUPPORTED if device.value == 2 else 0


@pytest.fixture
def load_nvml(monkeypatch):
    """Let nvidia-ml-py find a library, or none where it is an error."""
    pynvml = pytest.importorskip("pynvml")
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def load(library):
        monkeypatch.setattr(pynvml, "CDLL", Mock(side_effect=[library]))

    return load


def test_the_gpus_of_nvml(load_nvml):
    load_nvml(FakeNvml())
    first, second = nvml_counters()
    assert (first.name, first.part, first.read()) == ("NVML GPU 0", "GPUs", 7.0)
    assert second.name == "NVML GPU 1"
    for _ in range(2):
        with pytest.raises(OSError, match="NVML failed: Not Supported"):
            second.read()


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (OSError("cannot open shared object file"), "no NVIDIA driver on this machine"),
        (object(), "NVML failed: Function Not Found"),
        (FakeNvml(state=DRIVER_NOT_LOADED), "NVML failed: Driver Not Loaded"),
        (FakeNvml(count=0), "NVML shows no GPU"),
    ],
)
def test_gpus_without_counters_say_why(library, words, load_nvml):
    load_nvml(library)
    with pytest.raises(OSError, match=words):
        nvml_counters()


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(
        OSError, match="the energy of GPUs needs the package nvidia-ml-py, which is not installed"
    ):
        nvml_counters()


def test_this_machine_answers_or_says_why():
    meter = EnergyMeter()
    meter.start()
    used = meter.stop()
    assert used.joules is None or used.joules >= 0.0
    assert used.counters or set(used.unreadable) >= {"pm_counters", "RAPL", "NVML"}
