"""Faults that a job injected into the counters of a node are found and blamed right; noise is acquitted."""

import os

import pytest

import node_trees
from node_trees import AER, CXI, EDAC, IB, MEMINFO, NVME, SNMP, STATUS, after_job

DIMM = "dimm3 (CPU_SrcID#0_MC#0_Chan#1_DIMM#0)"
# what changed -> (what the node is suspected of, the part that is named)
FAULTS = {
    "uncorrected memory error": (
        {f"{EDAC}/ue_count": 1, f"{EDAC}/dimm3/dimm_ue_count": 1},
        ("uncorrected memory errors", DIMM),
    ),
    "module with many corrected errors": (
        {f"{EDAC}/ce_count": 405, f"{EDAC}/dimm3/dimm_ce_count": 405},
        ("corrected memory errors", DIMM),
    ),
    "uncorrected error of a GPU's memory": (
        {"sys/class/drm/card1/device/ras/umc_err_count": "ue: 1\nce: 3"},
        ("uncorrected memory errors", "card1/umc"),
    ),
    "Ethernet link flap": (
        {"sys/class/net/hsn0/carrier_down_count": 2},
        ("link flaps", "hsn0/carrier_down_count"),
    ),
    "Cassini link restart": (
        {f"{CXI}/link_restarts/time_1": 1763728200},
        ("link flaps", "cxi0/link_restarts/1763728200"),
    ),
    "InfiniBand link down": ({f"{IB}/link_downed": 2}, ("link flaps", "mlx5_0/port1/link_downed")),
    "InfiniBand link with many errors": (
        {f"{IB}/symbol_error": 5002},
        ("interface errors", "mlx5_0/port1/symbol_error +5000"),
    ),
    "Cassini link with many errors": (
        {f"{CXI}/telemetry/hni_pcs_uncorrected_cw": "2017@1763728900.5"},
        ("interface errors", "cxi0/hni_pcs_uncorrected_cw +2000"),
    ),
    "fatal PCI Express error of a disk": (
        {f"{NVME}/aer_dev_fatal": AER.format(1, "FATAL")},
        ("fatal PCI Express errors", "pci 0000:23:00.0"),
    ),
    "uncorrected PCI Express errors of an interface": (
        {f"{CXI}/aer_dev_nonfatal": AER.format(12, "NONFATAL")},
        ("uncorrected PCI Express errors", "cxi0/aer_dev_nonfatal"),
    ),
    "many corrected PCI Express errors": (
        {f"{NVME}/aer_dev_correctable": AER.format(5002, "COR")},
        ("corrected PCI Express errors", "pci 0000:23:00.0"),
    ),
    "time-outs with errors of the interface's own": (
        {
            f"{CXI}/telemetry/pct_spt_timeouts": "9@1763728900.5",
            f"{CXI}/aer_dev_nonfatal": AER.format(2, "NONFATAL"),
        },
        ("counted errors of its own hardware", "cxi0/aer_dev_nonfatal"),
    ),
}
WARNED = {
    "few corrected memory errors": ({f"{EDAC}/ce_count": 8}, "corrected memory errors"),
    "time-outs alone": ({f"{CXI}/telemetry/pct_spt_timeouts": "90@1.5"}, "network time-outs"),
    "few symbol errors": ({f"{IB}/symbol_error": 4}, "interface errors"),
    "receiver errors": ({"sys/class/net/hsn0/statistics/rx_errors": 3}, "interface errors"),
    "few corrected PCI Express errors": (
        {f"{NVME}/aer_dev_correctable": AER.format(9, "COR")},
        "corrected PCI",
    ),
    "retransmissions": ({"proc/net/snmp": SNMP.format(5000, 0)}, "retransmissions"),
    "hot package": (
        {"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": 950},
        "thermal throttling",
    ),
    "processes": ({"proc/900/status": STATUS.format("lammps", 4711)}, "processes left behind"),
    "memory": ({"proc/meminfo": MEMINFO.format(200000000)}, "MiB of memory not given back"),
    "segments": (
        {"proc/sysvipc/shm": "key shmid perms size cpid lpid nattch uid\n0 7 600 50000000 1 1 0 4711"},
        "MiB of shared memory left behind",
    ),
}
NOISE = {
    "nothing": {},
    "corrected code words": {f"{CXI}/telemetry/hni_pcs_corrected_cw": "99999999@1763728900.5"},
    "a few retransmissions": {"proc/net/snmp": SNMP.format(400, 0), "run/cxi/cxi0/nacks": 300},
    "a few dropped packets": {"sys/class/net/hsn0/statistics/rx_dropped": 60},
    "a few discards": {f"{IB}/port_xmit_discards": 90},
    "a container's interface": {"sys/class/net/docker0/carrier_down_count": 30},
    "the loopback interface": {"sys/class/net/lo/statistics/rx_errors": 900},
    "a few hot moments": {"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": 90},
    "a session that ends": {"proc/900/status": STATUS.format("sshd", 4711)},
    "a service of the system": {"proc/900/status": STATUS.format("slurmd", 0)},
    "a cache of the system": {"proc/meminfo": MEMINFO.format(248000000)},
    "memory given back": {"proc/meminfo": MEMINFO.format(262000000)},
    "corrected errors that were reset": {f"{EDAC}/ce_count": 0, f"{EDAC}/dimm3/dimm_ce_count": 0},
    "a new interface": {"sys/class/net/eth9/statistics/rx_errors": 0},
    "a file that is not a number": {f"{CXI}/telemetry/hni_err": "broken"},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_takes_the_node_offline_and_names_its_part(tmp_path, fault):
    changes, words = FAULTS[fault]
    verdict = after_job(tmp_path, changes)
    (suspect,) = verdict.suspects
    assert (suspect.name, verdict.good_nodes()) == ("n1", [])
    assert all(word in suspect.reasons[0] for word in (*words, "since the prolog of job 77")), suspect.reasons


@pytest.mark.parametrize("fault", WARNED)
def test_what_does_not_take_a_node_offline_is_said(tmp_path, fault):
    changes, words = WARNED[fault]
    verdict = after_job(tmp_path, changes)
    assert (verdict.suspects, verdict.exit_code) == (
        [],
        2,
    )  # nothing was measured, so it is not healthy either
    assert [warning.text.startswith(words) for warning in verdict.warnings] == [True]


@pytest.mark.parametrize("noise", NOISE)
def test_noise_is_acquitted(tmp_path, noise):
    verdict = after_job(tmp_path, NOISE[noise])
    assert (verdict.suspects, verdict.warnings) == ([], [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_in_shared_memory_are_counted_by_user(tmp_path):
    shared = tmp_path / "node/dev/shm"
    (shared / "vader").mkdir(parents=True)
    for name, user in (("vader/segment", 4711), ("mine", os.geteuid())):
        (shared / name).write_bytes(bytes(3 * 2**20))
        os.chown(shared / name, user, user)
    found = node_trees.read_counters(tmp_path / "node", {})
    assert found == {"left/shared memory/uid 4711": 3}
    (shared / "vader/segment").unlink()
    assert node_trees.read_counters(tmp_path / "node", {}) == {}


def test_a_device_is_counted_once_and_by_its_best_name(tmp_path):
    device = tmp_path / "sys/devices/pci0000:00/0000:23:00.0"
    node_trees.write(device, {"aer_dev_fatal": AER.format(3, "FATAL")})
    for link in (
        "sys/class/cxi/cxi0/device",
        "sys/class/net/hsn0/device",
        "sys/bus/pci/devices/0000:23:00.0",
    ):
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(device)
    assert node_trees.read_counters(tmp_path, {}) == {"cxi0/aer_dev_fatal": 3}
