"""Trees of a node as /proc, /sys, /dev and /run show it, before and after a job, for tests that inject faults."""

import time
from pathlib import Path

from ridgeline.validate.judge.outcome import screen
from ridgeline.validate.judge.thresholds import Thresholds
from ridgeline.validate.judge.verdict import Verdict
from ridgeline.validate.measure.counters import by_name, read_counters
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.measure.prolog_readings import Job, count

SNMP = "Tcp: RtoMin RetransSegs InErrs\nTcp: 200 {} {}"
AER = "RxErr {0}\nTOTAL_ERR_{1} {0}"
MEMINFO = "MemTotal: 263000000 kB\nMemFree: 1000 kB\nMemAvailable: {} kB"
STATUS = "Name:\t{}\nUid:\t{}\t0\t0\t0"
EDAC = "sys/devices/system/edac/mc/mc0"
CXI = "sys/class/cxi/cxi0/device"
IB = "sys/class/infiniband/mlx5_0/ports/1/counters"
NVME = "sys/bus/pci/devices/0000:23:00.0"

HEALTHY = {
    "proc/net/snmp": SNMP.format(10, 0),
    "proc/meminfo": MEMINFO.format(250000000),
    "proc/1/status": STATUS.format("init", 0),
    "proc/700/status": STATUS.format("systemd", 4711),
    f"{EDAC}/ce_count": 5,
    f"{EDAC}/ue_count": 0,
    f"{EDAC}/dimm3/dimm_ce_count": 5,
    f"{EDAC}/dimm3/dimm_ue_count": 0,
    f"{EDAC}/dimm3/dimm_label": "CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    f"{CXI}/telemetry/pct_spt_timeouts": "3@1763728200.5",
    f"{CXI}/telemetry/hni_pcs_uncorrected_cw": "17@1763728200.5",
    f"{CXI}/telemetry/hni_pcs_corrected_cw": "900@1763728200.5",
    f"{CXI}/link_restarts/time_0": 1763000000,
    f"{CXI}/link_restarts/time_1": 0,
    f"{CXI}/aer_dev_nonfatal": AER.format(0, "NONFATAL"),
    f"{CXI}/aer_dev_correctable": AER.format(4, "COR"),
    "run/cxi/cxi0/spt_timeouts": 3,
    "run/cxi/cxi0/nacks": 80,
    f"{IB}/symbol_error": 2,
    f"{IB}/link_downed": 1,
    f"{IB}/port_xmit_discards": 40,
    f"{NVME}/aer_dev_fatal": AER.format(0, "FATAL"),
    f"{NVME}/aer_dev_correctable": AER.format(2, "COR"),
    "sys/class/net/hsn0/carrier_down_count": 1,
    "sys/class/net/hsn0/device/vendor": "0x17db",
    "sys/class/net/hsn0/statistics/rx_errors": 0,
    "sys/class/net/hsn0/statistics/rx_dropped": 12,
    "sys/class/net/docker0/carrier_down_count": 8,
    "sys/class/drm/card1/device/ras/umc_err_count": "ue: 0\nce: 3",
    "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": 50,
    "proc/sysvipc/shm": "key shmid perms size cpid lpid nattch uid\n",
    "proc/sys/kernel/random/boot_id": "boot",
}


def write(root: Path, files: dict[str, object]) -> Path:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{content}\n")
    return root


def after_job(root: Path, changes: dict[str, object], thresholds: Thresholds | None = None) -> Verdict:
    """Return the verdict of the epilog on a node whose files changed during the job."""
    write(root / "node", HEALTHY)
    folder = root / "kept"
    count(Job("prolog", "77", folder), "n1", {}, read_counters(root / "node", {}))
    write(root / "node", changes)
    after = read_counters(root / "node", {})
    counted = count(Job("epilog", "77", folder), "n1", after, after)
    measurements = Measurements(["n1"], node_of_rank=[0], created=time.strftime("%Y-%m-%d"))
    measurements.counters = by_name([counted.before], [counted.after])
    measurements.counted = {0: counted.period}
    measurements.remarks = counted.remarks
    return screen(measurements, thresholds)
