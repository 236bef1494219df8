"""Error counters of this node, read from the files that the table of kinds names (`validate.counter_kinds`).

None of them needs rights that a user lacks. Beside that table, these are read:

- NVIDIA's GPUs: what NVML counts (`validate.measure.nvml_readings`);
- Slingshot: the services of jobs (`validate.measure.cxi_services`);
- Slingshot: counters of Cassini that the user names in the file MPICH_OFI_CXI_COUNTER_FILE;
- Slingshot: the summary that Cray MPICH prints or leaves in files MPICH_OFI_CXI_COUNTER_REPORT_FILE (Secs. 3.8.6 and
  3.8.8 of the Aurora paper).

Counters are sums since the system started: what counts is the difference between before and after. Gauges, such as
the shared memory that a user holds, may also fall.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.validate.counter_kinds import KINDS, CounterSource
from ridgeline.validate.measure.cxi_services import read_services
from ridgeline.validate.measure.nvml_readings import read_gpu_counters

Counters = dict[str, int]

_TIMEOUTS = re.compile(r"MPICH Slingshot Network Summary: (\d+) network timeouts?")
_OUTPUT_BYTES = 2**20  # of the end of a job's output: the summary is printed by MPI_Finalize
_SUMMARY_ROW = re.compile(r"^\s*([A-Za-z][\w:.]*)\s+\d+((?:\s+[\d.]+){6})\s*$", re.MULTILINE)
REPORT_FILE, COUNTER_FILE = "MPICH_OFI_CXI_COUNTER_REPORT_FILE", "MPICH_OFI_CXI_COUNTER_FILE"
_FIRST_USER = 1000  # user numbers below are the system's
_MIB = 2**20
# Sessions of a user that end some seconds after the last process of a job.
_SESSIONS = ("systemd", "(sd-pam)", "dbus-daemon", "sshd", "ssh-agent")


def read_counters(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Counters:
    """Return the counters of this node by name, such as "eth0/rx_dropped", "tcp/RetransSegs", "cxi0/hni_pcs_uncor".

    root: where the tree of /sys, /proc and /run begins; environment: that of the process by default. A counter that
    is missing, cannot be read or is not a number is left out. No communication.
    """
    wanted = os.environ if environment is None else environment
    found: Counters = {}
    for kind in KINDS:
        of_kind: Counters = {}
        seen: set[Path] = set()  # a device is in the folder of its class and in that of its bus
        for source in kind.sources:
            for name, value in _read_source(root, source, seen):
                of_kind[name] = of_kind.get(name, 0) + value
        found = of_kind | found
    for name in _names_asked_for(root, wanted):
        for device in _inside(root / "sys/class/cxi"):
            found |= _number(device / "device/telemetry" / name, f"{device.name}/{name}", ())
    found.update(_reports(root, wanted))
    found |= read_services([device.name for device in _inside(root / "sys/class/cxi")])
    if root == Path("/"):  # a copy of another node's files says nothing about the GPUs of this one
        found |= read_gpu_counters()
    return found


def _read_source(root: Path, source: CounterSource, seen: set[Path]) -> Iterator[tuple[str, int]]:
    """Yield the counters of the files of a source that are there."""
    for path, groups in _walk(root, source.path.split("/") if source.path else [], ()):
        if source.with_device and not (root / path.parent / "device").exists():
            continue
        if source.form == "total":
            device = path.parent.resolve()
            if device in seen:
                continue
            seen.add(device)
        name = source.name
        for number, group in enumerate(groups):
            name = name.replace(f"{{{number}}}", group)
        yield from FORMS[source.form](path, name, source.detail).items()


def _walk(
    path: Path, components: Sequence[str], groups: tuple[str, ...]
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the paths below `path` that match, with what their groups matched."""
    if not components:
        if groups or path.exists():
            yield path, groups
        return
    first, rest = components[0], components[1:]
    if "(" not in first:
        yield from _walk(path / first, rest, groups)
        return
    for entry in _inside(path):
        match = re.fullmatch(first, entry.name)
        if match:
            yield from _walk(entry, rest, groups + match.groups())


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
    was reset in between, and one that is new started at 0: for both the present value counts. A gauge that is smaller
    has fallen.
    """
    grown = {
        name: value - before.get(name, 0) if is_gauge(name) else _growth(before.get(name, 0), value)
        for name, value in after.items()
    }
    return {name: by for name, by in sorted(grown.items()) if by > 0}


def set_back(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Return the counters that were reset in between, as by a driver that was reloaded."""
    return sorted(
        name
        for name, value in after.items()
        if value < before.get(name, 0) and not is_gauge(name) and not _ran_over(before[name], value)
    )


def is_gauge(name: str) -> bool:
    """Say whether a counter is of what a job left behind, which may also fall."""
    return name.startswith("left/")


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


def _inside(folder: Path) -> list[Path]:
    """Return what is in a folder, in order; nothing if it cannot be listed."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _number(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return the number that a file begins with, as in "12" and in "12@1700000000.5"."""
    match = re.match(r"\s*(\d+)\s*(@|$)", _text(path))
    return {name: int(match[1])} if match else {}


def _labelled(path: Path, name: str, detail: tuple[str, ...]) -> Counters:
    """Return a number, with the text of the file beside it in its name."""
    label = _text(path.parent / detail[0]).strip()
    return _number(path, name.replace("{label}", f" ({label})" if label else ""), ())


def _total(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return the total of a device's PCI Express errors."""
    total = re.search(r"^TOTAL_ERR_\w+ (\d+)$", _text(path), re.MULTILINE)
    return {name: int(total[1])} if total else {}


def _field(path: Path, name: str, detail: tuple[str, ...]) -> Counters:
    """Return the number after a word and a colon, as in "ue: 3"."""
    number = re.search(rf"^{detail[0]}: (\d+)$", _text(path), re.MULTILINE)
    return {name: int(number[1])} if number else {}


def _time(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return a counter of 1 for the time in a file, nothing for 0: an event at that time."""
    match = re.match(r"\s*(\d+)", _text(path))
    return {name.replace("{time}", match[1]): 1} if match and int(match[1]) else {}


def _row(path: Path, name: str, detail: tuple[str, ...]) -> Counters:
    """Return a number of a protocol from a table of two lines, names and values."""
    protocol, field = detail
    lines = [line.split() for line in _text(path).splitlines() if line.startswith(f"{protocol}: ")]
    for heads, values in zip(lines[::2], lines[1::2]):
        value = dict(zip(heads, values)).get(field, "")
        if value.isdigit():
            return {name: int(value)}
    return {}


def _processes(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return the number of processes of each user, without those of the system, of this user and of sessions."""
    found: Counters = {}
    for process in _inside(path):
        if not process.name.isdigit():
            continue
        words = dict(line.partition(":\t")[::2] for line in _text(process / "status").splitlines())
        user = words.get("Uid", "0").split()[0]
        if int(user) >= _FIRST_USER and int(user) != os.geteuid() and words.get("Name") not in _SESSIONS:
            of_user = name.replace("{user}", f"uid {user}")
            found[of_user] = found.get(of_user, 0) + 1
    return found


def _mebibytes(name: str, held: Mapping[int, int]) -> Counters:
    """Return what users of the system's numbers do not hold, rounded up."""
    return {
        name.replace("{user}", f"uid {user}"): -(-n_bytes // _MIB)
        for user, n_bytes in sorted(held.items())
        if user >= _FIRST_USER and user != os.geteuid()
    }


def _folder(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return the MiB that the files of each user below a folder hold."""
    held: dict[int, int] = {}
    for folder, _folders, files in os.walk(path):
        for file in files:
            try:
                state = os.lstat(os.path.join(folder, file))
            except OSError:
                continue
            held[state.st_uid] = held.get(state.st_uid, 0) + state.st_size
    return _mebibytes(name, held)


def _segments(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return the MiB of shared segments (System V) of each user."""
    held: dict[int, int] = {}
    lines = [line.split() for line in _text(path).splitlines()]
    for line in lines[1:]:
        row = dict(zip(lines[0], line))
        if row.get("uid", "").isdigit() and row.get("size", "").isdigit():
            held[int(row["uid"])] = held.get(int(row["uid"]), 0) + int(row["size"])
    return _mebibytes(name, held)


def _memory(path: Path, name: str, _: tuple[str, ...]) -> Counters:
    """Return the MiB of memory in use that the system cannot take back."""
    words = {
        line.partition(":")[0]: line.split()[1] for line in _text(path).splitlines() if len(line.split()) > 1
    }
    if not all(words.get(key, "").isdigit() for key in ("MemTotal", "MemAvailable")):
        return {}
    return {name: (int(words["MemTotal"]) - int(words["MemAvailable"])) // 1024}


# form of a source -> path, name of the counter, detail of the source -> counters
FORMS: dict[str, Callable[[Path, str, tuple[str, ...]], Counters]] = {
    "number": _number,
    "label": _labelled,
    "total": _total,
    "field": _field,
    "time": _time,
    "row": _row,
    "processes": _processes,
    "folder": _folder,
    "segments": _segments,
    "memory": _memory,
}


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
