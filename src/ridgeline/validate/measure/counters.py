"""Error counters of this node, from where the system keeps them: network interfaces, TCP, memory, processors.

What is read, if it is there (none of it needs rights that a user lacks):

- Slingshot: Cassini's counters in /sys/class/cxi/*/device/telemetry ("value@seconds.nanoseconds"): those of errors,
  and those named in the file MPICH_OFI_CXI_COUNTER_FILE;
- Slingshot: the retry handler's counters in /run/cxi/*;
- Slingshot: the summary that Cray MPICH prints or leaves in files MPICH_OFI_CXI_COUNTER_REPORT_FILE (Secs. 3.8.6 and
  3.8.8 of the Aurora paper);
- InfiniBand: /sys/class/infiniband/*/ports/*/counters;
- any interface: /sys/class/net/*/statistics, and PCI Express errors of its device;
- TCP: segments sent again, bad segments, time-outs (/proc/net/snmp, /proc/net/netstat);
- memory: corrected and uncorrected errors (EDAC); processors: how often heat throttled them.

All are sums since the system started: what counts is the difference between before and after.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Counters = dict[str, int]

_INTERFACE = ("errors", "dropped")
_INFINIBAND = (
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_xmit_discards",
    "excessive_buffer_overrun_errors",
)
_TCP = {"proc/net/snmp": ("Tcp", ("RetransSegs", "InErrs")), "proc/net/netstat": ("TcpExt", ("TCPTimeouts",))}
_AER = ("aer_dev_correctable", "aer_dev_fatal", "aer_dev_nonfatal")
# Those of the two thousand counters of a Cassini NIC that do not change on a healthy network.
_CASSINI_FAULT = re.compile(r"err|timeout|retr[iy]|nack|drop|discard|uncor|corrected|cancel|link_down|fatal")
_TIMEOUTS = re.compile(r"MPICH Slingshot Network Summary: (\d+) network timeouts?")
_OUTPUT_BYTES = 2**20  # of the end of a job's output: the summary is printed by MPI_Finalize
_SUMMARY_ROW = re.compile(r"^\s*([A-Za-z][\w:.]*)\s+\d+((?:\s+[\d.]+){6})\s*$", re.MULTILINE)
REPORT_FILE, COUNTER_FILE = "MPICH_OFI_CXI_COUNTER_REPORT_FILE", "MPICH_OFI_CXI_COUNTER_FILE"


def read_counters(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Counters:
    """Return the counters of this node by name, such as "eth0/rx_dropped", "tcp/RetransSegs", "cxi0/hni_pcs_uncor".

    root: where the tree of /sys, /proc and /run begins; environment: that of the process by default. A counter that
    is missing, cannot be read or is not a number is left out. No communication.
    """
    wanted = os.environ if environment is None else environment
    found: Counters = {}
    for part in (_interfaces, _infiniband, _tcp, _memory, _processors):
        found.update(part(root))
    found.update(_cassini(root, _names_asked_for(root, wanted)))
    found.update(_reports(root, wanted))
    return found


def read_summary(text: str) -> Counters:
    """Return what Cray MPICH's summary says: network time-outs (of all summaries in the text), counters' maxima.

    text: output of a job, or a file that MPICH_OFI_CXI_COUNTER_REPORT_FILE named. A counter's line has the number
    of samples, then minimum, mean and maximum over them, each with its rate.
    """
    timeouts = [int(n) for n in _TIMEOUTS.findall(text)]
    found = {"mpich/network_timeouts": sum(timeouts)} if timeouts else {}
    for name, numbers in _SUMMARY_ROW.findall(text):
        found[f"mpich/{name}"] = int(float(numbers.split()[4]))
    return found


def read_output(path: str | Path) -> Counters:
    """Return `read_summary` of the end of a job's output, whatever else is in it. Raises OSError.

    The file is a user's, and this may be root: only a regular file is opened, and its last megabyte read.
    """
    place = os.open(path, os.O_PATH)  # opens nothing yet: a pipe would block, and a device may do anything
    try:
        if not stat.S_ISREG(os.fstat(place).st_mode):
            raise OSError(0, "it is not a regular file")
        with open(f"/proc/self/fd/{place}", "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _OUTPUT_BYTES, 0))
            return read_summary(file.read(_OUTPUT_BYTES).decode(errors="replace"))
    finally:
        os.close(place)


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> Counters:
    """Return by how much counters grew, only those that did.

    A counter that fell from the upper half of 32 or 64 bits to the lower has overflowed. Any other that is smaller
    was reset in between, and one that is new started at 0: for both the present value counts.
    """
    grown = {name: _growth(before.get(name, 0), value) for name, value in after.items()}
    return {name: by for name, by in sorted(grown.items()) if by > 0}


def set_back(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Return the counters that were reset in between, as by a driver that was reloaded."""
    return sorted(
        name
        for name, value in after.items()
        if value < before.get(name, 0) and not _ran_over(before[name], value)
    )


def _growth(old: int, value: int) -> int:
    if value >= old:
        return value - old
    return value + (_ran_over(old, value) or old) - old


def _ran_over(old: int, value: int) -> int:
    """Return the range of a counter that began again at 0, 0 if it did not."""
    return next((top for top in (2**32, 2**64) if value < top // 2 <= old < top), 0)


def by_name(
    before: Sequence[Mapping[str, int]], after: Sequence[Mapping[str, int]]
) -> dict[str, dict[str, Any]]:
    """Return counters that grew on any node, for `measurements.Measurements.counters`.

    before, after: of every node. Result: name -> {"before": [n_nodes], "after": [n_nodes], "grown": {node: by}},
    None where a node has no such counter.
    """
    grown: dict[str, dict[int, int]] = {}
    for node, (old, new) in enumerate(zip(before, after, strict=True)):
        for name, by in difference(old, new).items():
            grown.setdefault(name, {})[node] = by
    return {
        name: {
            "before": [node.get(name) for node in before],
            "after": [node.get(name) for node in after],
            "grown": nodes,
        }
        for name, nodes in sorted(grown.items())
    }


def _text(path: Path) -> str:
    """Return the content of a file, nothing if it cannot be read: some can only be written, or fail when read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """Return the number that a file begins with, as in "12" and in "12@1700000000.5"; None if there is none."""
    match = re.match(r"\s*(\d+)\s*(@|$)", _text(path))
    return int(match[1]) if match else None


def _inside(folder: Path) -> list[Path]:
    """Return what is in a folder, in order; nothing if it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _numbers(prefix: str, files: Iterator[Path] | Sequence[Path]) -> Counters:
    """Return the files that hold a number, named prefix/name."""
    return {f"{prefix}/{file.name}": value for file in files if (value := _number(file)) is not None}


def _pci_errors(prefix: str, device: Path) -> Counters:
    """Return the totals of a device's PCI Express errors."""
    found = {}
    for name in _AER:
        total = re.search(r"^TOTAL_ERR_\w+ (\d+)$", _text(device / name), re.MULTILINE)
        if total:
            found[f"{prefix}/{name}"] = int(total[1])
    return found


def _interfaces(root: Path) -> Counters:
    found: Counters = {}
    for interface in _inside(root / "sys/class/net"):
        if interface.name == "lo":
            continue
        names = [f"{way}_{what}" for way in ("rx", "tx") for what in _INTERFACE]
        found |= _numbers(interface.name, [interface / "statistics" / name for name in names])
        found |= _numbers(interface.name, [interface / "carrier_down_count"])
        found |= _pci_errors(interface.name, interface / "device")
    return found


def _infiniband(root: Path) -> Counters:
    found: Counters = {}
    for device in _inside(root / "sys/class/infiniband"):
        for port in _inside(device / "ports"):
            prefix = f"{device.name}/port{port.name}"
            found |= _numbers(prefix, [port / "counters" / name for name in _INFINIBAND])
        found |= _pci_errors(device.name, device / "device")
    return found


def _cassini(root: Path, asked: set[str]) -> Counters:
    found: Counters = {}
    for device in _inside(root / "sys/class/cxi"):
        telemetry = _inside(device / "device/telemetry")
        found |= _numbers(
            device.name,
            [file for file in telemetry if file.name in asked or _CASSINI_FAULT.search(file.name)],
        )
        found |= _pci_errors(device.name, device / "device")
    for device in _inside(root / "run/cxi"):
        found |= _numbers(
            f"{device.name}/retry", [file for file in _inside(device) if "reset" not in file.name]
        )
    return found


def _tcp(root: Path) -> Counters:
    found: Counters = {}
    for file, (protocol, names) in _TCP.items():
        lines = [line.split() for line in _text(root / file).splitlines() if line.startswith(f"{protocol}: ")]
        for heads, values in zip(lines[::2], lines[1::2]):
            row = dict(zip(heads, values))
            found |= {f"tcp/{name}": int(row[name]) for name in names if row.get(name, "").isdigit()}
    return found


def _memory(root: Path) -> Counters:
    found: Counters = {}
    for controller in _inside(root / "sys/devices/system/edac/mc"):
        found |= _numbers(controller.name, [controller / "ce_count", controller / "ue_count"])
    return found


def _processors(root: Path) -> Counters:
    """Return the sum over processors of how often heat throttled cores and packages."""
    found: Counters = {}
    for cpu in _inside(root / "sys/devices/system/cpu"):
        for name, value in _numbers(
            "cpu",
            [
                cpu / "thermal_throttle" / f"{what}_throttle_count"
                for what in ("core", "package")
                if cpu.name.removeprefix("cpu").isdigit()
            ],
        ).items():
            found[name] = found.get(name, 0) + value
    return found


def _below(root: Path, path: str) -> Path:
    """Return an absolute path as it is under root, a relative one as it is."""
    return root / path.lstrip("/") if path.startswith("/") else Path(path)


def _names_asked_for(root: Path, environment: Mapping[str, str]) -> set[str]:
    """Return the counters that the user's file for Cray MPICH names, one a line, # before a comment."""
    path = environment.get(COUNTER_FILE)
    lines = _text(_below(root, path)).splitlines() if path else []
    return {name for line in lines if (name := line.partition("#")[0].strip())}


def _reports(root: Path, environment: Mapping[str, str]) -> Counters:
    """Return what the files say that Cray MPICH wrote at the end of a job: their names begin with the setting."""
    setting = environment.get(REPORT_FILE)
    if not setting:
        return {}
    start = _below(root, setting)
    files = [file for file in _inside(start.parent) if file.name.startswith(start.name)]
    return read_summary("\n".join(_text(file) for file in files))
