"""What this node consists of: cores, clock, memory, interfaces, PCI Express links, GPUs. Plain names and values.

Values are compared, not understood: a node that differs from its peers, from the site's file or from itself on an
earlier day has lost a part, or a part of it runs with less than it could (Ibeid et al., MPI on Aurora, Sec. 3.4:
links with fewer lanes).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from ridgeline.validate.measure.nvml_readings import read_gpu_parts

Inventory = dict[str, str]

_MEMORY_STEP = 4 * 2**30  # bytes: the system keeps a few that differ from boot to boot
_GPU_CLASS = re.compile(r"0x03(?:0[02]|80)")  # display and 3D controllers; 0x1200 are other accelerators
_ACCELERATOR_CLASS = re.compile(r"0x1200")
_PCI_CLASS = re.compile(r"0x(?:01|02|03|12)")  # storage, network, display, accelerators
_SKIPPED = re.compile(r"lo|veth.*|docker.*|br-.*|virbr.*|bonding_masters")


def read_inventory(root: Path = Path("/")) -> Inventory:
    """Return the parts of this node by name, such as "eth0 speed" -> "200000 Mbit/s". No communication.

    root: where the trees of /sys and /proc begin. What the system does not report is left out.
    """
    found: Inventory = {}
    cpu = root / "sys/devices/system/cpu"
    _put(found, "processors", _text(cpu / "present"))
    _put(found, "processors online", _text(cpu / "online"))
    clocks = Counter(
        _text(folder / "cpufreq/cpuinfo_max_freq")
        for folder in _inside(cpu)
        if re.fullmatch(r"cpu\d+", folder.name)
    )
    for clock, count in sorted(clocks.items()):
        _put(found, f"processors with a clock of {clock} kHz", str(count) if clock else "")
    sizes = [_kibibytes(_text(root / "proc/meminfo"), "MemTotal")]
    _put(found, "memory", _rounded(sizes[0]))
    for domain in _inside(root / "sys/devices/system/node"):
        if re.fullmatch(r"node\d+", domain.name):
            size = _kibibytes(_text(domain / "meminfo"), r"Node \d+ MemTotal")
            _put(found, f"memory domain {domain.name[4:]}", _rounded(size))
    _interfaces(root, found)
    _devices(root, found)
    return found | (read_gpu_parts() if root == Path("/") else {})


def _interfaces(root: Path, found: Inventory) -> None:
    """Add state, speed and lanes of the network interfaces that have a device."""
    for interface in _inside(root / "sys/class/net"):
        if _SKIPPED.fullmatch(interface.name) or not (interface / "device").exists():
            continue
        for file, unit in (("operstate", ""), ("speed", " Mbit/s"), ("duplex", "")):
            value = _text(interface / file)
            _put(found, f"{interface.name} {file}", value + unit if value else "")
    for device in _inside(root / "sys/class/infiniband"):
        for port in _inside(device / "ports"):
            for file in ("state", "phys_state", "rate"):  # the rate names the lanes: "200 Gb/sec (4X HDR)"
                _put(found, f"{device.name} port {port.name} {file}", _text(port / file))
    for device in _inside(root / "sys/class/cxi"):
        # Source of the names: HPE's driver, cass_sbl.c and cass_sysfs.c. Its second generation has no text in port/.
        for file in ("link", "speed", "media"):
            value = _text(device / "device/port" / file)
            if not value or "NOT IMPLEMENTED" in value:
                value = _text(device / "device/properties" / file)
            _put(found, f"{device.name} {file}", value)
        esm = _text(device / "device/properties/current_esm_link_speed")
        _put(found, f"{device.name} extended PCI Express speed", esm)


def _devices(root: Path, found: Inventory) -> None:
    """Add width and speed of the links of PCI Express devices, and how many GPUs there are."""
    gpus = 0
    for device in _inside(root / "sys/bus/pci/devices"):
        code = _text(device / "class")
        # A display of the management processor is no GPU that computes: it has no link of 8 lanes or more.
        width = _text(device / "current_link_width")
        wide = width.isdigit() and int(_text(device / "max_link_width") or 0) >= 8
        gpus += bool(_ACCELERATOR_CLASS.match(code) or (_GPU_CLASS.match(code) and wide))
        if _PCI_CLASS.match(code) and width.isdigit() and int(width):
            most = _text(device / "max_link_width")
            _put(found, f"pci {device.name} lanes", f"{width} of {most}" if most else width)
            # A GPU at rest lowers its speed, which is no fault.
            if not _GPU_CLASS.match(code):
                _put(found, f"pci {device.name} speed", _text(device / "current_link_speed"))
    _put(found, "GPUs", str(gpus) if gpus else "")


def _put(found: Inventory, name: str, value: str) -> None:
    if value:
        found[name] = value


def _kibibytes(text: str, name: str) -> int:
    match = re.search(rf"^{name}:\s*(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _rounded(size: int) -> str:
    if not size:
        return ""
    step = _MEMORY_STEP if size > 8 * _MEMORY_STEP else _MEMORY_STEP // 16
    return f"{round(size / step) * step / 2**30:g} GiB"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
