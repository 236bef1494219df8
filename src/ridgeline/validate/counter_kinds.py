"""The kinds of error counters: where each is read, from how many a node is warned of or suspected, and what to do.

This table is the policy of counters. `validate.measure.counters` reads what it names, and
`validate.judge.counter_screening` judges what grew. A site's file changes the two thresholds of a kind, in the table
[thresholds.counters]. The defaults follow Ibeid et al. (MPI on Aurora), Secs. 3.8.6 to 3.8.9. Nodes with link flaps,
or with hardware errors above a threshold, go offline. Time-outs do not take a node offline by themselves, because
they are often caused elsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

NEVER = math.inf  # a threshold that no number reaches
_GROUP = re.compile(r"\((?!\?)((?:[^()]|\(\?[^()]*\))*)\)")
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class CounterSource:
    """Files of counters. path: below the root; a component with a group in parentheses is a regular expression.

    name: of the counter, {0} for the first group of the path; counters of one name are added up. form: of the file's
    content (`validate.measure.counters.FORMS`); detail: what the form needs to know; with_device: only where a folder
    `device` is beside the file's, as a virtual interface has none. A source without a path is not a file.
    """

    path: str
    name: str
    form: str = "number"
    detail: tuple[str, ...] = ()
    with_device: bool = False

    @cached_property
    def names(self) -> re.Pattern[str]:
        """All names that the counters of this source can have."""
        groups = _GROUP.findall(self.path)
        parts = _PLACE.split(self.name)  # text, place, text, ...
        pattern = [re.escape(parts[0])]
        for place, text in zip(parts[1::2], parts[2::2]):
            pattern += [f"(?:{groups[int(place)]})" if place.isdigit() else ".*", re.escape(text)]
        return re.compile("".join(pattern))


@dataclass(frozen=True)
class CounterKind:
    """Counters of one meaning. key: in a site's file; what: in a report; warn, suspect: growth on one node from which
    it is warned of or suspected; advice: to whoever reads either.

    overlapping: the counters of one device count the same events, so the largest of them counts, not the sum;
    correlated: judged over all nodes together (`judge.timeouts`); explains: errors of a node's own hardware that
    explain time-outs.
    """

    key: str
    what: str
    warn: float
    suspect: float
    advice: str
    sources: tuple[CounterSource, ...] = ()
    overlapping: bool = False
    correlated: bool = False
    explains: bool = False


# The names of Cassini's counters are those of HPE's driver and of its retry handler (github.com/HewlettPackard:
# cassini-telemetry-sysfs-defs.h in shs-cassini-headers, cass_sysfs.c in shs-cxi-driver, retry_handler/stats.c in
# shs-libcxi).
# Most of the 1900 counters with "err" in their names count what programs do, or symbols that the link corrected.
_CXI = "sys/class/cxi/(cxi.+)/device/telemetry"
_CXI_PCIE = "sys/class/cxi/(cxi.+)/device/properties"
_IB = r"sys/class/infiniband/(.+)/ports/(\d+)/counters"
_NET = "sys/class/net/((?!lo$).+)"
_EDAC = r"sys/devices/system/edac/mc/(mc\d+)"


def _pci(file: str) -> tuple[CounterSource, ...]:
    """Return where PCI Express errors are: of network devices by their names, then of all devices by address."""
    classes = tuple(
        CounterSource(f"sys/class/{name}/(.+)/device/{file}", f"{{0}}/{file}", "total")
        for name in ("cxi", "infiniband", "net", "nvme", "drm")
    )
    return (*classes, CounterSource(f"sys/bus/pci/devices/(.+)/{file}", f"pci {{0}}/{file}", "total"))


def _nvml(*names: str) -> tuple[CounterSource, ...]:
    """Return the counters of NVIDIA's GPUs (`validate.measure.nvml_readings`), such as "GPU 0 (0000:3b:00.0)/xid"."""
    return tuple(CounterSource("", f"{{gpu}}/{name}") for name in names)


def _memory(letters: str) -> tuple[CounterSource, ...]:
    """Return where memory errors are: of a controller, of its modules with their labels, of GPUs (amdgpu, NVML), and
    of the memory inside a Cassini interface."""
    cassini, nvidia = {"ue": ("ucor", "uncorrected"), "ce": ("cor", "corrected")}[letters]
    return (
        CounterSource(f"{_EDAC}/{letters}_count", f"{{0}}/{letters}_count"),
        CounterSource(
            rf"{_EDAC}/(dimm\d+)/dimm_{letters}_count",
            f"{{0}}/{{1}}{{label}}/{letters}_count",
            "label",
            ("dimm_label",),
        ),
        CounterSource(
            r"sys/class/drm/(card\d+)/device/ras/(\w+)_err_count",
            f"{{0}}/{{1}}/{letters}",
            "field",
            (letters,),
        ),
        *_nvml(f"ecc_{nvidia}_volatile", f"ecc_{nvidia}_aggregate"),
        CounterSource(
            f"{_CXI}/(.*_mem_{cassini}_err_cntr|hni_{cassini}_ecc_err_cntr|pi_.*_{cassini}_errors?)",
            "{0}/{1}",
        ),
    )


_NETWORK = "Check the state and speed of the interface that is named, its cable and its switch port."
_SENDER = (
    "This node is the sender, so the receiver or the path to it may be at fault. Compare with the other nodes of the "
    "job."
)
_CLEAN = "Remove what the job left behind before the next job starts."

KINDS = (
    CounterKind(
        "memory_uncorrected",
        "uncorrected memory errors",
        1,
        1,
        "Leave the node out at once, because its results cannot be trusted. Replace the memory module or the device "
        "that is named.",
        _memory("ue"),
        overlapping=True,
        explains=True,
    ),
    CounterKind(
        "memory_corrected",
        "corrected memory errors",
        1,
        100,
        "Plan to replace the memory module or the device that is named if the number continues to grow.",
        _memory("ce"),
        overlapping=True,
    ),
    CounterKind(
        "pcie_fatal",
        "fatal PCI Express errors",
        1,
        1,
        "Reseat or replace the device that is named, and run the vendor's diagnostics.",
        _pci("aer_dev_fatal"),
        explains=True,
    ),
    CounterKind(
        "pcie_uncorrected",
        "uncorrected PCI Express errors that were not fatal",
        1,
        10,
        "Reseat the device that is named, and compare the width and speed of its link with a healthy node.",
        (*_pci("aer_dev_nonfatal"), CounterSource(f"{_CXI_PCIE}/(pcie_uncorr_err)", "{0}/{1}")),
        overlapping=True,
        explains=True,
    ),
    CounterKind(
        "pcie_corrected",
        "corrected PCI Express errors",
        1,
        1000,
        "Compare the width and speed of the device's link with a healthy node, and reseat it.",
        (
            *_pci("aer_dev_correctable"),
            CounterSource(f"{_CXI_PCIE}/(pcie_corr_err)", "{0}/{1}"),
            *_nvml("pcie_replays"),
        ),
        overlapping=True,
    ),
    CounterKind(
        "link_flaps",
        "link flaps",
        1,
        1,
        f"A link went down and came back. {_NETWORK}",
        (
            CounterSource(f"{_NET}/carrier_down_count", "{0}/carrier_down_count", with_device=True),
            CounterSource(f"{_IB}/link_downed", "{0}/port{1}/link_downed"),
            # The driver keeps the times of the last restarts: a new time is a new counter of 1.
            CounterSource(
                r"sys/class/cxi/(cxi.+)/device/link_restarts/(time_\d+)", "{0}/link_restarts/{time}", "time"
            ),
        ),
        overlapping=True,
        explains=True,
    ),
    CounterKind(
        "timeouts",
        "network time-outs",
        1,
        NEVER,
        "A time-out is often caused elsewhere: compare with the other nodes of the job.",
        (
            CounterSource(f"{_CXI}/(pct_[st][cp]t_timeouts)", "{0}/{1}"),
            CounterSource("run/cxi/(cxi.+)/(spt_timeouts(?:_[uo])?|[st]ct_timeouts)", "{0}/retry/{1}"),
            CounterSource("", "mpich/network_timeouts"),
        ),
        overlapping=True,
        correlated=True,
    ),
    # These concern all nodes of a job together, and are no reason to suspect this one.
    CounterKind(
        "job_timeouts",
        "network time-outs of the whole job in Cray MPICH's summary",
        1,
        NEVER,
        "Look for the node or the link that the job's nodes have in common.",
        (CounterSource("", "job/network_timeouts"),),
    ),
    CounterKind(
        "retransmissions",
        "retransmissions",
        1000,
        NEVER,
        _SENDER,
        (
            CounterSource("proc/net/snmp", "tcp/RetransSegs", "row", ("Tcp", "RetransSegs")),
            CounterSource("proc/net/netstat", "tcp/TCPTimeouts", "row", ("TcpExt", "TCPTimeouts")),
            CounterSource(
                f"{_CXI}/(pct_(?:retry_srb_requests|bad_seq_nacks|no_mst_nacks|no_tct_nacks|no_trs_nacks))",
                "{0}/{1}",
            ),
            CounterSource(
                "run/cxi/(cxi.+)/(nacks|connections_cancelled|pkts_cancelled_[uo])", "{0}/retry/{1}"
            ),
        ),
    ),
    CounterKind(
        "unsent",
        "packets not sent",
        100,
        NEVER,
        _SENDER,
        (CounterSource(f"{_IB}/port_xmit_discards", "{0}/port{1}/port_xmit_discards"),),
    ),
    CounterKind(
        "drops",
        "dropped packets",
        100,
        NEVER,
        _NETWORK,
        (
            CounterSource(f"{_NET}/statistics/(rx|tx)_dropped", "{0}/{1}_dropped"),
            CounterSource(f"{_CXI}/(hni_discard_cntr_\\d|hni_llr_tx_discard|ixe_rx_pkt_drop_.*)", "{0}/{1}"),
        ),
    ),
    CounterKind(
        "link_errors",
        "interface errors",
        1,
        1000,
        _NETWORK,
        (
            CounterSource(f"{_NET}/statistics/(rx|tx)_errors", "{0}/{1}_errors"),
            CounterSource(
                f"{_IB}/(symbol_error|link_error_recovery|local_link_integrity_errors|port_rcv_errors"
                "|excessive_buffer_overrun_errors)",
                "{0}/port{1}/{2}",
            ),
            # Code words that the link corrected (hni_pcs_corrected_cw, hni_pcs_fecl_errors_0) occur on healthy links
            # too and mean nothing.
            CounterSource(
                f"{_CXI}/(hni_pcs_uncorrected_cw|hni_mac_rx_preamble_error|hni_pcs_pml_mbe_error_cnt)",
                "{0}/{1}",
            ),
            CounterSource("proc/net/snmp", "tcp/InErrs", "row", ("Tcp", "InErrs")),
        ),
    ),
    CounterKind(
        "throttling",
        "thermal throttling",
        100,
        NEVER,
        "Check fans, coolant and power limit, and compare the clock with a healthy node.",
        (
            CounterSource(
                r"sys/devices/system/cpu/(cpu\d+)/thermal_throttle/(core|package)_throttle_count",
                "cpu/{1}_throttle_count",
            ),
        ),
    ),
    CounterKind(
        "gpu_rows",
        "rows or pages of GPU memory that were replaced",
        1,
        8,
        "Reset the GPU when no job uses it, so that the replacement takes effect. Replace the GPU if the number "
        "continues to grow.",
        _nvml("rows_remapped_corrected", "rows_remapped_uncorrected", "pages_retired"),
    ),
    CounterKind(
        "nvlink_recoveries",
        "NVLinks that were restarted",
        1,
        10,
        "Reseat the GPU or the bridge, and run dcgmi diag.",
        _nvml("nvlink_recoveries"),
    ),
    CounterKind(
        "nvlink_errors",
        "errors of NVLinks",
        100,
        10000,
        "Look at nvidia-smi nvlink -e, and reseat the GPU or the bridge if the number continues to grow.",
        _nvml("nvlink_replays", "nvlink_crc_errors"),
    ),
    CounterKind(
        "gpu_throttling",
        "ms in which heat or power brakes slowed a GPU",
        1000,
        NEVER,
        "Check coolant, fans and the power supply of the node, and compare the GPU's clock with a healthy one.",
        _nvml(
            "ms_slowed_by_heat",
            "ms_slowed_by_hardware_heat",
            "ms_slowed_by_power_brake",
            "ms_slowed_by_board",
        ),
        overlapping=True,
    ),
    CounterKind(
        "left_processes",
        "processes left behind",
        1,
        NEVER,
        _CLEAN,
        (CounterSource("proc", "left/processes/{user}", "processes"),),
    ),
    CounterKind(
        "left_shared_memory",
        "MiB of shared memory left behind",
        1,
        NEVER,
        _CLEAN,
        (
            CounterSource("dev/shm", "left/shared memory/{user}", "folder"),
            CounterSource("proc/sysvipc/shm", "left/shared segments/{user}", "segments"),
        ),
    ),
    CounterKind(
        "left_cxi_services",
        "CXI services left behind",
        1,
        NEVER,
        "Look at cxi_service list, and find out why the scheduler's plugin did not remove the service.",
        (CounterSource("", "left/CXI services/{device}"),),
    ),
    CounterKind(
        "left_memory",
        "MiB of memory not given back",
        4096,
        NEVER,
        _CLEAN,
        (CounterSource("proc/meminfo", "left/memory", "memory"),),
    ),
)
# Names that come and go: the folder link_restarts holds ten times, and a user holds nothing after the job.
FLEETING = re.compile(r".*/link_restarts/.*|left/.*")


def kind_of(counter: str, kinds: Sequence[CounterKind] = KINDS) -> CounterKind | None:
    """Return the first kind that a counter belongs to, None for those that say nothing about health."""
    return next((kind for kind in kinds if any(s.names.fullmatch(counter) for s in kind.sources)), None)


def total(kind: CounterKind, counters: dict[str, int]) -> int:
    """Return how often what the kind counts happened, from counters of that kind of one node."""
    if not kind.overlapping:
        return sum(counters.values())
    devices: dict[str, dict[str, int]] = {}
    for name, by in counters.items():
        parts = name.split("/")
        # Each time of a restart is one event; counters of the same events differ in their last part.
        what = "times" if "link_restarts" in parts else name
        device = devices.setdefault(parts[0], {})
        device[what] = device.get(what, 0) + by
    return sum(max(device.values()) for device in devices.values())
