"""What NVML counts and knows, with a module that exists only in the test."""

import pynvml

from fake_nvml import FakeGpu, FakeNvml
from ridgeline.validate.counter_kinds import kind_of
from ridgeline.validate.measure.nvml_readings import (
    pci_address,
    read_gpu_counters,
    read_gpu_parts,
    unusable_gpus,
)

NEW = FakeGpu(
    ecc={(0, 0): 3, (0, 1): 9, (1, 0): 1, (1, 1): 2},
    rows=(1, 2, 1, 0),
    links={0: {0: 5, 2: 7, 3: 1}, 3: {0: 1, 1: 2}},
    violations={1: 2_500_000_000, 3: 999_999},
    fields={271: 7_000_000},
)
OLD = FakeGpu(
    "00000001:AF:00.0", ecc=None, rows=None, pages=(2, 1), replays=None, violations={}, fields={}, power=None
)


def test_counters_of_a_new_and_an_old_gpu():
    nvml = FakeNvml(NEW, OLD)
    new, old = "GPU 0 (0000:3b:00.0)", "GPU 1 (0001:af:00.0)"
    found = read_gpu_counters(nvml)
    assert found == {
        f"{new}/ecc_corrected_volatile": 3,
        f"{new}/ecc_corrected_aggregate": 9,
        f"{new}/ecc_uncorrected_volatile": 1,
        f"{new}/ecc_uncorrected_aggregate": 2,
        f"{new}/rows_remapped_corrected": 1,
        f"{new}/rows_remapped_uncorrected": 2,
        f"{new}/pcie_replays": 0,
        f"{new}/nvlink_replays": 6,
        f"{new}/nvlink_recoveries": 2,
        f"{new}/nvlink_crc_errors": 8,
        f"{new}/ms_slowed_by_heat": 2500,
        f"{new}/ms_slowed_by_board": 0,
        f"{new}/ms_slowed_by_power_brake": 7,
        f"{old}/pages_retired": 3,
    }
    assert nvml.is_open == 0
    assert all(kind_of(name) is not None for name in found)  # each is judged


def test_parts_for_the_inventory_and_gpus_that_no_site_would_use():
    assert read_gpu_parts(FakeNvml(NEW)) == {
        f"GPU 0 (0000:3b:00.0) {part}": value
        for part, value in {
            "name": "NVIDIA H100",
            "memory": "80 GiB",
            "ECC": "on",
            "power limit": "700 W",
            "NVLinks": "2",
            "row remapping": "pending",
        }.items()
    }
    assert unusable_gpus(FakeNvml(NEW, OLD)) == {}
    assert unusable_gpus(FakeNvml(OLD, FakeGpu(rows=(0, 9, 0, 1)))) == {
        "0000:3b:00.0": "a faulty row of its memory could not be remapped, according to NVML"
    }


def test_without_a_driver_or_a_gpu_there_is_nothing():
    for nvml in (FakeNvml(driver=False), FakeNvml()):
        assert read_gpu_counters(nvml) == read_gpu_parts(nvml) == unusable_gpus(nvml) == {}


def test_the_real_module_has_every_name_that_the_fake_one_has():
    names = [name for name in dir(FakeNvml) if name.startswith(("nvml", "NVML"))]
    assert len(names) > 20
    for name in names:
        assert hasattr(pynvml, name), name
        value = getattr(FakeNvml, name)
        assert not isinstance(value, int) or value == getattr(pynvml, name) or name.endswith("MAX_LINKS"), (
            name
        )


def test_addresses_are_those_of_sysfs():
    assert pci_address(b"00000000:3B:00.0\x00\x00") == "0000:3b:00.0"
    assert pci_address("0001:AF:00.0") == "0001:af:00.0"
