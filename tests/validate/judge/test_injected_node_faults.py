"""Faults of a node, one at a time, on one of four nodes: found and blamed right; healthy nodes with noise: acquitted.

Everything that a validation reads goes through the readers: files of /proc and /sys, NVML, lines of logs, output of
`cxi_service`. What it measures is simulated: nodes of four network interfaces and four GPUs.
"""

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from fake_nvml import FakeGpu, FakeNvml
from node_trees import CXI, EDAC, HEALTHY, IB, MEMINFO, STATUS, write
from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.log_patterns import PATTERNS
from ridgeline.validate.measure.counters import by_name, read_counters
from ridgeline.validate.measure.cxi_services import count_services
from ridgeline.validate.measure.inventory import read_inventory
from ridgeline.validate.measure.logs import count_lines
from ridgeline.validate.measure.measurements import Measurements, NodeQuantity, PartQuantity
from ridgeline.validate.measure.nvml_readings import read_gpu_counters, read_gpu_parts
from ridgeline.validate.report.page import make_page
from simulated_system import with_rails

NODES, RAILS, GPUS = 4, 4, 4
# Seeds of healthy machines; those from ALWAYS on are left to `make test-all`.
HEALTHY_NODES, ALWAYS = 25, 6
BAD = 1
ADDRESSES = [f"0000:{bus}:00.0" for bus in ("18", "3b", "86", "af")]
GPU_NAMES = [f"GPU {n} ({address})" for n, address in enumerate(ADDRESSES)]
NIC = "sys/bus/pci/devices/0000:21:00.0"
PARTS = HEALTHY | {
    "sys/devices/system/cpu/present": "0-63",
    "sys/devices/system/cpu/online": "0-63",
    "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": 3500000,
    "sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq": 3500000,
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 131500000 kB",
    "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 131500000 kB",
    "sys/class/net/hsn0/operstate": "up",
    "sys/class/net/hsn0/speed": 200000,
    "sys/class/infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)",
    f"{CXI}/port/link": "up",
    f"{CXI}/port/speed": "BS_200G",
    f"{CXI}/properties/pcie_corr_err": 4,
    f"{CXI}/properties/pcie_uncorr_err": 0,
    f"{NIC}/class": "0x020000",
    f"{NIC}/current_link_width": 16,
    f"{NIC}/max_link_width": 16,
    f"{NIC}/current_link_speed": "16.0 GT/s PCIe",
}
RATES = {"compute": 2e9, "peak": 4e12, "stream": 4e11, "slowest core": 1.0, "loopback bandwidth": 2.2e10}
OF_GPUS = {
    "GPU triad": 3e12,
    "GPU DGEMM": 5e13,
    "GPU host to device": 5.5e10,
    "GPU device to host": 5.5e10,
    "GPU to GPU": 4e11,
}
LINKS = {link: dict.fromkeys(range(4), 0) for link in range(4)}


@dataclass(frozen=True)
class Fault:
    """What is wrong with node 1, and what a verdict must say.

    files: that changed during the job; was: that were so before too (None: removed); gpu: changes of GPU 2 in NVML;
    gpu_was: those that were so before; lines: of the kernel's log; slow: figures of the node, of its GPUs (name,
    number), of pairs of GPUs (name, number, number) and of its interfaces ("bandwidth", rail), with the share that is
    left; errors: of the node; part_errors: of GPU 2.

    kind, name, words: of the suspect, or of the warning if kind is "warning".
    """

    kind: str
    words: str
    name: str = "n1"
    files: dict[str, object] = field(default_factory=dict)
    was: dict[str, object] = field(default_factory=dict)
    gpu: dict[str, object] = field(default_factory=dict)
    gpu_was: dict[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    slow: dict[tuple[object, ...], float] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    part_errors: tuple[str, ...] = ()


GPU_2 = f"n1 {GPU_NAMES[2]}"
DIMM = "dimm3 (CPU_SrcID#0_MC#0_Chan#1_DIMM#0)"
DEFAULT_SERVICE = " ID: 1 (DEFAULT)\n   System Service     : No\n"
JOB_SERVICE = f"{DEFAULT_SERVICE} ID: 5\n   System Service     : No\n"
FAULTS = {
    # interfaces
    "interface with half its bandwidth": Fault(
        "interface", "bandwidth", "n1 hsn2", slow={("bandwidth", 2): 0.5}
    ),
    "interface with more latency": Fault("interface", "latency", "n1 hsn0", slow={("latency", 0): 0.8}),
    "all interfaces slow": Fault(
        "node", "on 4 of 4 interfaces", slow={("bandwidth", n): 0.7 for n in range(4)}
    ),
    "Ethernet link flap": Fault("node", "link flaps", files={"sys/class/net/hsn0/carrier_down_count": 2}),
    "Cassini link restart": Fault("node", "link flaps", files={f"{CXI}/link_restarts/time_1": 1763728200}),
    "InfiniBand link down": Fault("node", "link flaps", files={f"{IB}/link_downed": 2}),
    "Cassini code words": Fault(
        "node", "interface errors", files={f"{CXI}/telemetry/hni_pcs_uncorrected_cw": "2017@1.5"}
    ),
    "memory inside Cassini": Fault(
        "node", "cxi0/pct_mem_ucor_err_cntr", files={f"{CXI}/telemetry/pct_mem_ucor_err_cntr": "1@1.5"}
    ),
    "interface that is down": Fault(
        "node", "hsn0 operstate is down", was={"sys/class/net/hsn0/operstate": "down"}
    ),
    "interface with half its speed": Fault(
        "node", "hsn0 speed is 100000 Mbit/s", was={"sys/class/net/hsn0/speed": 100000}
    ),
    "Cassini with half its speed": Fault(
        "node", "cxi0 speed is BS_100G", was={f"{CXI}/port/speed": "BS_100G"}
    ),
    # lanes
    "InfiniBand with one lane": Fault(
        "node", "50 Gb/sec (1X HDR)", was={"sys/class/infiniband/mlx5_0/ports/1/rate": "50 Gb/sec (1X HDR)"}
    ),
    "PCI Express with half its lanes": Fault(
        "node", "lanes is 8 of 16", was={f"{NIC}/current_link_width": 8}
    ),
    "PCI Express with half its speed": Fault(
        "node", "speed is 8.0 GT/s PCIe", was={f"{NIC}/current_link_speed": "8.0 GT/s PCIe"}
    ),
    "uncorrected PCI Express errors that AER missed": Fault(
        "node", "cxi0/pcie_uncorr_err +11", files={f"{CXI}/properties/pcie_uncorr_err": 11}
    ),
    "a NVLink that is down": Fault(
        "node", "NVLinks is 3", gpu_was={"links": {link: LINKS[link] for link in range(3)}}
    ),
    # memory modules
    "uncorrected memory error": Fault("node", DIMM, files={f"{EDAC}/dimm3/dimm_ue_count": 1}),
    "module with many corrected errors": Fault("node", DIMM, files={f"{EDAC}/dimm3/dimm_ce_count": 405}),
    "module that is missing": Fault(
        "node",
        "memory domain 1 is 60 GiB",
        was={"sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 62900000 kB"},
    ),
    "wrong words of memory": Fault(
        "node", "2 words of memory are wrong", errors=("2 words of memory are wrong",)
    ),
    "memory at half its bandwidth": Fault("node", "stream", slow={("stream",): 0.5}),
    # GPUs
    "slow memory of a GPU": Fault("GPU", "GPU triad", GPU_2, slow={("GPU triad", 2): 0.8}),
    "slow arithmetic of a GPU": Fault("GPU", "GPU DGEMM", GPU_2, slow={("GPU DGEMM", 2): 0.7}),
    "slow PCI Express of a GPU": Fault(
        "GPU", "GPU host to device", GPU_2, slow={("GPU host to device", 2): 0.5}
    ),
    "slow link between two GPUs": Fault(
        "GPU", "GPU to GPU", f"n1 {GPU_NAMES[0]} - {GPU_NAMES[3]}", slow={("GPU to GPU", 0, 3): 0.5}
    ),
    "slow links of a GPU": Fault(
        "GPU", "GPU to GPU", GPU_2, slow={("GPU to GPU", *sorted((2, n))): 0.5 for n in (0, 1, 3)}
    ),
    "wrong memory of a GPU": Fault(
        "GPU", "words of its memory", GPU_2, part_errors=("7 words of its memory are wrong",)
    ),
    "a GPU that hangs": Fault(
        "GPU", "within 60 s", GPU_2, part_errors=("it did not finish its check within 60 s",)
    ),
    "uncorrected error of a GPU's memory": Fault(
        "node",
        f"{GPU_NAMES[2]}/ecc_uncorrected_volatile +1",
        gpu={"ecc": {(0, 0): 0, (0, 1): 0, (1, 0): 1, (1, 1): 1}},
    ),
    "uncorrected error of an AMD GPU's memory": Fault(
        "node", "card1/umc", files={"sys/class/drm/card1/device/ras/umc_err_count": "ue: 1\nce: 3"}
    ),
    "many remapped rows": Fault("node", "rows or pages of GPU memory", gpu={"rows": (5, 4, 1, 0)}),
    "NVLinks that restart": Fault(
        "node", "NVLinks that were restarted", gpu={"links": LINKS | {3: {0: 0, 1: 12, 2: 0, 3: 0}}}
    ),
    "NVLinks with many errors": Fault(
        "node", "errors of NVLinks", gpu={"links": LINKS | {3: {0: 9, 1: 0, 2: 20000, 3: 0}}}
    ),
    "many replays of a GPU on PCI Express": Fault("node", "pcie_replays +5000", gpu={"replays": 5000}),
    "a GPU with a lower power limit": Fault("node", "power limit is 350 W", gpu_was={"power": 350_000}),
    "a GPU throttled by a power brake": Fault(
        "warning", "heat or power brakes", gpu={"fields": {270: 0, 271: 9_000_000_000}}
    ),
    # cores and clocks
    "core that is off": Fault(
        "node", "processors online is 0-62", was={"sys/devices/system/cpu/online": "0-62"}
    ),
    "core that is slow": Fault("node", "slowest core (core 17)", slow={("slowest core",): 0.2}),
    "interface that is slow to itself": Fault(
        "node", "loopback bandwidth (hsn3)", slow={("loopback bandwidth",): 0.5}
    ),
    "core that computes wrong results": Fault(
        "node", "core 3 computes", errors=("core 3 computes wrong results",)
    ),
    "processor with a lower clock": Fault(
        "node",
        "processors with a clock of 3500000 kHz is 1",
        was={"sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq": 2000000},
    ),
    "processor that is slow": Fault("node", "peak", slow={("peak",): 0.8}),
    "hot package": Fault(
        "warning",
        "thermal throttling",
        files={"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": 950},
    ),
    # what a job left behind
    "processes": Fault(
        "warning", "processes left behind", files={"proc/900/status": STATUS.format("lammps", 4711)}
    ),
    "memory": Fault("warning", "memory not given back", files={"proc/meminfo": MEMINFO.format(200000000)}),
    "segments": Fault(
        "warning",
        "shared memory left behind",
        files={"proc/sysvipc/shm": "key shmid perms size cpid lpid nattch uid\n0 7 600 50000000 1 1 0 4711"},
    ),
    "CXI services": Fault("warning", "CXI services left behind", files={"services": JOB_SERVICE}),
    # lines of the log
    "machine check": Fault(
        "node", "log", lines=("mce: [Hardware Error]: Machine check events logged: Uncorrected",)
    ),
    "Xid 79": Fault(
        "node",
        "NVIDIA GPU in the log",
        lines=("NVRM: Xid (PCI:0000:86:00): 79, GPU has fallen off the bus.",),
    ),
    "CXI link down": Fault(
        "node", "links that went down", lines=("cxi_core 0000:21:00.0: cxi0: CXI_EVENT_LINK_DOWN",)
    ),
    "critical Cassini error": Fault(
        "node", "critical errors", lines=("cxi_core cxi0: C_EC_CRIT: PCT error",)
    ),
    "file system": Fault("node", "damage of a file system", lines=("XFS (nvme0n1): Corruption detected",)),
    "hung task": Fault(
        "warning", "tasks that hung", lines=("INFO: task lfs:77 blocked for more than 120 seconds.",)
    ),
}
# What programs, healthy links and users do; under every threshold of a warning.
NOISE = {
    f"{CXI}/telemetry/hni_pcs_corrected_cw": "99999999@2.5",
    f"{CXI}/telemetry/hni_pcs_fecl_errors_3": "88888@2.5",
    f"{CXI}/telemetry/lpe_err_entry_not_found_ethernet": "70000@2.5",
    f"{CXI}/telemetry/cq_num_tx_cmd_arg_errors": "1200@2.5",
    "run/cxi/cxi0/srb_in_use": 4000,
    "run/cxi/cxi0/nid_tree_count": 900,
    "run/cxi/cxi0/ignored_sct_timeouts": 60,
    "run/cxi/cxi0/nacks": 380,
    "sys/class/net/docker0/carrier_down_count": 30,
    "sys/class/net/hsn0/statistics/rx_dropped": 60,
    f"{IB}/port_xmit_discards": 90,
    "proc/meminfo": MEMINFO.format(249000000),
    "proc/900/status": STATUS.format("sshd", 4711),
    "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": 120,
}


def gpu(number: int, changes: dict[str, object]) -> FakeGpu:
    return replace(FakeGpu(f"0000{ADDRESSES[number]}", links=LINKS), **changes)


def measure(tmp_path, monkeypatch, fault: Fault | None, seed: int = 0, noise: float = 0.01) -> Measurements:
    """Return the measurements of four nodes after a job, of which node 1 has the fault and all have noise."""
    random = np.random.default_rng(seed)
    measurements = with_rails(NODES, RAILS, noise=noise, seed=seed)
    latency = with_rails(NODES, RAILS, noise=noise, seed=seed + 1000, name="latency")
    measurements.pair_quantities += latency.pair_quantities
    measurements.nodes = [f"n{node}" for node in range(NODES)]
    before, after = [], []
    services = DEFAULT_SERVICE
    monkeypatch.setattr(
        "ridgeline.validate.measure.counters.read_services",
        lambda devices: {f"left/CXI services/{name}": count_services(services) for name in devices},
    )
    for node in range(NODES):
        bad = fault if fault is not None and node == BAD else Fault("", "")
        root = tmp_path / f"n{node}"
        services = DEFAULT_SERVICE
        write(root, PARTS | bad.was)
        old = [gpu(n, bad.gpu_was if n == 2 else {}) for n in range(GPUS)]
        before.append(read_counters(root, {}) | read_gpu_counters(FakeNvml(*old)))
        changed = dict(bad.files)
        services = str(changed.pop("services", services))
        noisy = {path: content for path, content in NOISE.items() if random.random() < 0.7}
        write(root, noisy | changed)
        new = [replace(one, **(bad.gpu if n == 2 else {})) for n, one in enumerate(old)]
        found = read_counters(root, {}) | read_gpu_counters(FakeNvml(*new))
        counts, measurements.lines[node] = count_lines({"kernel": list(bad.lines)}, PATTERNS)
        before[-1] |= dict.fromkeys(counts, 0)
        after.append(found | counts)
        measurements.inventory[node] = read_inventory(root) | read_gpu_parts(FakeNvml(*new))
        measurements.gpus[node] = GPU_NAMES
        measurements.counted[node] = "since the prolog of job 77"
    measurements.counters = by_name(before, after)
    slow = {} if fault is None else fault.slow
    for name, rate in RATES.items():
        values = rate * (1 - abs(noise * random.standard_normal((NODES, 5))))
        values[BAD] *= slow.get((name,), 1.0)
        measurements.node_quantities.append(NodeQuantity(name, "1", True, values))
    measurements.parts["slowest core"] = dict.fromkeys(range(NODES), "core 17")
    measurements.parts["loopback bandwidth"] = dict.fromkeys(range(NODES), "hsn3")
    for name, rate in OF_GPUS.items():
        pairs = name == "GPU to GPU"
        places = [(a, b) for a in range(GPUS) for b in (range(a + 1, GPUS) if pairs else (-1,))]
        rows = np.array([(node, *place) for node in range(NODES) for place in places])
        values = rate * (1 + noise * random.standard_normal((len(rows), 3)))
        for row, (node, a, b) in enumerate(rows.tolist()):
            values[row] *= slow.get((name, a, b) if pairs else (name, a), 1.0) if node == BAD else 1.0
        measurements.part_quantities.append(PartQuantity(name, "B/s", True, *rows.T, values))
    for quantity in measurements.pair_quantities:
        of_node = (quantity.first == BAD) | (quantity.second == BAD)
        for rail in range(RAILS):
            left = slow.get((quantity.name, rail), 1.0)
            quantity.values[of_node & (quantity.rail == rail)] *= (
                left if quantity.higher_is_better else 1 / left
            )
    if fault is not None:
        measurements.errors |= {BAD: list(fault.errors)} if fault.errors else {}
        measurements.part_errors |= (
            {BAD: {GPU_NAMES[2]: list(fault.part_errors)}} if fault.part_errors else {}
        )
    return Measurements.from_dict(json.loads(json.dumps(measurements.to_dict())))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_blamed_right(tmp_path, monkeypatch, name):
    fault = FAULTS[name]
    verdict = screen(measure(tmp_path, monkeypatch, fault))
    if fault.kind == "warning":
        assert verdict.suspects == []
        (warning,) = verdict.warnings
        assert (warning.name, verdict.exit_code) == ("n1", 0)
        assert fault.words in warning.text
        return
    (suspect,) = verdict.suspects
    assert (suspect.kind, suspect.name, suspect.nodes) == (fault.kind, fault.name, [BAD])
    assert any(fault.words in reason for reason in suspect.reasons), suspect.reasons
    assert (verdict.exit_code, verdict.good_nodes()) == (1, ["n0", "n2", "n3"])


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.full] * (seed >= ALWAYS)) for seed in range(HEALTHY_NODES)]
)
def test_healthy_nodes_with_noise_are_acquitted(tmp_path, monkeypatch, seed):
    verdict = screen(measure(tmp_path, monkeypatch, None, seed, noise=0.02))
    assert (verdict.suspects, verdict.warnings, verdict.exit_code) == ([], [], 0)
    assert len(verdict.good_nodes()) == NODES


def test_a_gpu_and_an_interface_are_on_the_page(tmp_path, monkeypatch):
    fault = Fault("", "", slow={("GPU triad", 2): 0.8, ("bandwidth", 3): 0.7})
    measurements = measure(tmp_path, monkeypatch, fault)
    kept = ("GPU triad", "GPU to GPU", "bandwidth")
    for quantities in (measurements.part_quantities, measurements.pair_quantities):
        quantities[:] = [quantity for quantity in quantities if quantity.name in kept]
    for quantity in measurements.pair_quantities:
        measurements.pair_quantities = [quantity.rows(quantity.rail == 3)]
    page = make_page(measurements, screen(measurements))
    for text in (GPU_2, "GPU triad, 16 GPUs", "GPU to GPU, 24 GPUs in pairs"):
        assert text in page


def test_there_are_enough_of_each_kind():
    assert len(FAULTS) >= 50
    assert sum(fault.kind != "warning" for fault in FAULTS.values()) >= 25
