"""Parts of nodes that are missing or run with less than they could, by the site's file, a baseline, or the peers."""

import json
import shutil

import pytest

from node_trees import write
from ridgeline.runtime.errors import ConfigError
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds, load_thresholds
from ridgeline.validate.measure.inventory import read_inventory
from ridgeline.validate.measure.measurements import Measurements

GPU, NIC = "sys/bus/pci/devices/0000:3b:00.0", "sys/bus/pci/devices/0000:23:00.0"
HEALTHY = {
    "sys/devices/system/cpu/present": "0-1",
    "sys/devices/system/cpu/online": "0-1",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": 3500000,
    "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq": 3500000,
    "proc/meminfo": "MemTotal: 528000000 kB",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 264000000 kB",
    "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 264000000 kB",
    "sys/class/net/hsn0/device/vendor": "0x17db",
    "sys/class/net/hsn0/operstate": "up",
    "sys/class/net/hsn0/speed": 200000,
    "sys/class/net/veth3/operstate": "up",
    "sys/class/infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)",
    "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
    "sys/class/cxi/cxi0/device/port/link": "up",
    "sys/class/cxi/cxi0/device/port/speed": "BS_200G",
    f"{GPU}/class": "0x030200",
    f"{GPU}/current_link_width": 16,
    f"{GPU}/max_link_width": 16,
    f"{GPU}/current_link_speed": "32.0 GT/s PCIe",
    f"{NIC}/class": "0x020000",
    f"{NIC}/current_link_width": 16,
    f"{NIC}/max_link_width": 16,
    f"{NIC}/current_link_speed": "16.0 GT/s PCIe",
}
FAULTS = {
    "core": ({"sys/devices/system/cpu/online": "0"}, "processors online is 0, but {} 0-1"),
    "clock": (
        {"sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq": 2000000},
        "processors with a clock of 3500000 kHz is 1, but {} 2",
    ),
    "memory": ({"proc/meminfo": "MemTotal: 495000000 kB"}, "memory is 472 GiB, but {} 504 GiB"),
    "domain": (
        {"sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 131000000 kB"},
        "memory domain 1 is 124 GiB, but {} 252 GiB",
    ),
    "interface down": ({"sys/class/net/hsn0/operstate": "down"}, "hsn0 operstate is down, but {} up"),
    "interface slow": (
        {"sys/class/net/hsn0/speed": 100000},
        "hsn0 speed is 100000 Mbit/s, but {} 200000 Mbit/s",
    ),
    "lanes": (
        {"sys/class/infiniband/mlx5_0/ports/1/rate": "50 Gb/sec (1X HDR)"},
        "mlx5_0 port 1 rate is 50 Gb/sec (1X HDR), but {} 200 Gb/sec (4X HDR)",
    ),
    "Cassini link": ({"sys/class/cxi/cxi0/device/port/link": "down"}, "cxi0 link is down, but {} up"),
    "PCI Express lanes": (
        {f"{NIC}/current_link_width": 8},
        "pci 0000:23:00.0 lanes is 8 of 16, but {} 16 of 16",
    ),
    "PCI Express speed": (
        {f"{NIC}/current_link_speed": "8.0 GT/s PCIe"},
        "pci 0000:23:00.0 speed is 8.0 GT/s PCIe, but {} 16.0 GT/s PCIe",
    ),
    "GPU": ({GPU: None}, "GPUs is missing, but {} 1"),
    "interface": ({"sys/class/net/hsn0": None}, "hsn0 speed is missing, but {} 200000 Mbit/s"),
}
NOISE = {
    "a GPU at rest": {f"{GPU}/current_link_speed": "2.5 GT/s PCIe"},
    "a container": {"sys/class/net/veth9/operstate": "down", "sys/class/net/veth9/device/vendor": "0"},
    "memory that the system keeps": {"proc/meminfo": "MemTotal: 527500000 kB"},
    "an interface without a device": {"sys/class/net/bond0/operstate": "down"},
}


def node(folder, changes=()):
    """Return the inventory of a healthy node with these files changed, None for a folder that is removed."""
    write(folder, HEALTHY)
    for path, content in dict(changes).items():
        if content is None:
            shutil.rmtree(folder / path)
        else:
            write(folder, {path: content})
    return read_inventory(folder)


def machine(*inventories) -> Measurements:
    names = [f"n{number}" for number in range(len(inventories))]
    found = Measurements(names, node_of_rank=[*range(len(names))], inventory=dict(enumerate(inventories)))
    return Measurements.from_dict(json.loads(json.dumps(found.to_dict())))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_part_that_differs_from_peers_site_or_baseline_is_named(tmp_path, fault):
    changes, words = FAULTS[fault]
    healthy, broken = node(tmp_path / "healthy"), node(tmp_path / "broken", changes)
    peers = screen(machine(healthy, broken, healthy))
    site = screen(machine(broken), Thresholds(inventory=healthy))
    (suspect,) = peers.suspects
    assert suspect.name == "n1"
    assert words.format("most nodes have") in suspect.reasons[0]
    assert words.format("the site's file has") in site.suspects[0].reasons[0]
    before, now = machine(healthy), machine(broken)
    assert words.format("the baseline has") in screen(now, None, before).suspects[0].reasons[0]
    assert screen(machine(broken)).suspects == []  # alone, with nothing to compare with


@pytest.mark.parametrize("noise", NOISE)
def test_what_may_differ_is_acquitted(tmp_path, noise):
    healthy, other = node(tmp_path / "healthy"), node(tmp_path / "other", NOISE[noise])
    assert screen(machine(healthy, other, healthy)).suspects == []


def test_two_kinds_of_nodes_have_no_majority(tmp_path):
    healthy, other = node(tmp_path / "a"), node(tmp_path / "b", {"sys/class/net/hsn0/speed": 100000})
    assert screen(machine(healthy, healthy, other, other)).suspects == []


def test_a_site_names_the_parts_that_matter(tmp_path):
    site = tmp_path / "site.toml"
    site.write_text('[inventory]\nGPUs = "4"\n')
    verdict = screen(machine(node(tmp_path / "n")), load_thresholds(site))
    assert verdict.suspects[0].reasons == ["inventory: GPUs is 1, but the site's file has 4"]
    site.write_text("[inventory]\nGPUs = 4\n")
    with pytest.raises(ConfigError, match=r"site.toml:2: inventory.GPUs is 4, but it must be a string"):
        load_thresholds(site)


def test_this_machine():
    found = read_inventory()
    assert "processors online" in found
    assert "memory" in found
