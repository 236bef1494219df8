"""What NVIDIA's management library (NVML) knows of the GPUs of this node: error counters, parts, fatal states.

All GPUs of the node count, also those that the job does not see. Without the package nvidia-ml-py, or without a
driver, there are none. A figure that a GPU does not have is left out. Source: NVIDIA, NVML API reference:
nvmlDeviceGetTotalEccErrors, nvmlDeviceGetRemappedRows (Ampere and newer), nvmlDeviceGetRetiredPages (older),
nvmlDeviceGetNvLinkErrorCounter, nvmlDeviceGetViolationStatus (ns), nvmlDeviceGetFieldValues (ns),
nvmlDeviceGetPcieReplayCounter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from ridgeline.runtime.extras import import_extra

T = TypeVar("T")
_LINK_COUNTERS = {
    "nvlink_replays": ("NVML_NVLINK_ERROR_DL_REPLAY",),
    "nvlink_recoveries": ("NVML_NVLINK_ERROR_DL_RECOVERY",),
    "nvlink_crc_errors": ("NVML_NVLINK_ERROR_DL_CRC_FLIT", "NVML_NVLINK_ERROR_DL_CRC_DATA"),
}
_NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class NvmlGpu:
    """One GPU as NVML numbers it, by PCI address. name: "GPU 0 (0000:3b:00.0)"."""

    index: int
    address: str
    handle: Any

    @property
    def name(self) -> str:
        """What reports call the GPU."""
        return gpu_name(self.index, self.address)


def gpu_name(index: int, address: str) -> str:
    """Return what reports call a GPU: its number by PCI address, as nvidia-smi counts, and the address."""
    return f"GPU {index} ({address})" if address else f"GPU {index}"


def pci_address(bus_id: str | bytes) -> str:
    """Return NVML's "00000000:3B:00.0" as sysfs writes it: "0000:3b:00.0"."""
    text = (bus_id.decode() if isinstance(bus_id, bytes) else bus_id).rstrip("\x00").lower()
    domain, _, rest = text.partition(":")
    return f"{domain[-4:]}:{rest}"


@contextmanager
def opened(nvml: Any | None = None) -> Iterator[tuple[Any, list[NvmlGpu]]]:
    """Provide the library and the GPUs of this node, none without NVML. nvml: the library, for tests."""
    try:
        nvml = nvml or import_extra("pynvml", "the state of GPUs", error=OSError)
    except OSError:
        yield None, []
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield nvml, []
        return
    try:
        yield nvml, _find(nvml)
    finally:
        nvml.nvmlShutdown()


def _find(nvml: Any) -> list[NvmlGpu]:
    found = []
    try:
        for number in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            found.append(NvmlGpu(number, pci_address(nvml.nvmlDeviceGetPciInfo(handle).busId), handle))
    except nvml.NVMLError:  # a lost GPU; the others are read
        return found
    return found


def read_gpu_counters(nvml: Any | None = None) -> dict[str, int]:
    """Return the counters of all GPUs by name, such as "GPU 0 (0000:3b:00.0)/ecc_corrected_volatile"."""
    return {f"{gpu}/{name}": value for gpu, name, value in _of_all(nvml, _counters)}


def _of_all(
    nvml: Any | None, read: Callable[[Any, Any], Iterator[tuple[str, T]]]
) -> Iterator[tuple[str, str, T]]:
    """Yield the name of each GPU with each name and value that `read` finds of it."""
    with opened(nvml) as (library, gpus):
        for gpu in gpus:
            for name, value in read(library, gpu.handle):
                yield gpu.name, name, value


def _counters(nvml: Any, handle: Any) -> Iterator[tuple[str, int]]:
    """Yield the counters that a GPU has."""

    def ask(name: str, *arguments: Any) -> Any:
        return _ask(nvml, name, handle, *arguments)

    for kind in ("corrected", "uncorrected"):
        for period in ("volatile", "aggregate"):
            error = getattr(nvml, f"NVML_MEMORY_ERROR_TYPE_{kind.upper()}")
            value = ask("nvmlDeviceGetTotalEccErrors", error, getattr(nvml, f"NVML_{period.upper()}_ECC"))
            if value is not None:
                yield f"ecc_{kind}_{period}", int(value)
    rows = ask("nvmlDeviceGetRemappedRows")
    if rows is not None:
        yield "rows_remapped_corrected", int(rows[0])
        yield "rows_remapped_uncorrected", int(rows[1])
    else:
        causes = ("MULTIPLE_SINGLE_BIT_ECC_ERRORS", "DOUBLE_BIT_ECC_ERROR")
        pages = [
            ask("nvmlDeviceGetRetiredPages", getattr(nvml, f"NVML_PAGE_RETIREMENT_CAUSE_{cause}"))
            for cause in causes
        ]
        if any(some is not None for some in pages):
            yield "pages_retired", sum(len(some) for some in pages if some is not None)
    replays = ask("nvmlDeviceGetPcieReplayCounter")
    if replays is not None:
        yield "pcie_replays", int(replays)
    yield from _link_counters(nvml, ask)
    for policy, name in (("THERMAL", "ms_slowed_by_heat"), ("BOARD_LIMIT", "ms_slowed_by_board")):
        status = ask("nvmlDeviceGetViolationStatus", getattr(nvml, f"NVML_PERF_POLICY_{policy}"))
        if status is not None:
            yield name, int(status.violationTime) // _NS_PER_MS
    yield from _slowdowns(nvml, ask)


def _link_counters(nvml: Any, ask: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    """Yield the sums over the active NVLinks of a GPU."""
    links = [n for n in range(nvml.NVML_NVLINK_MAX_LINKS) if ask("nvmlDeviceGetNvLinkState", n)]
    for name, kinds in _LINK_COUNTERS.items():
        values = [
            ask("nvmlDeviceGetNvLinkErrorCounter", link, getattr(nvml, kind))
            for link in links
            for kind in kinds
        ]
        if any(value is not None for value in values):
            yield name, sum(int(value) for value in values if value is not None)


def _slowdowns(nvml: Any, ask: Callable[..., Any]) -> Iterator[tuple[str, int]]:
    """Yield how long the hardware slowed a GPU, in ms: newer drivers tell it apart by the reason."""
    for field, name in (("HW_THERM_SLOWDOWN", "hardware_heat"), ("HW_POWER_BRAKE_SLOWDOWN", "power_brake")):
        number = getattr(nvml, f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{field}", None)
        values = None if number is None else ask("nvmlDeviceGetFieldValues", [number])
        if values is not None and values[0].nvmlReturn == nvml.NVML_SUCCESS:
            yield f"ms_slowed_by_{name}", int(values[0].value.ullVal) // _NS_PER_MS


def read_gpu_parts(nvml: Any | None = None) -> dict[str, str]:
    """Return what the GPUs are, for the inventory: name, memory, ECC, power limit, NVLinks, row remapping."""
    return {f"{gpu} {part}": value for gpu, part, value in _of_all(nvml, _parts)}


def _parts(nvml: Any, handle: Any) -> Iterator[tuple[str, str]]:
    name = _ask(nvml, "nvmlDeviceGetName", handle)
    if name:
        yield "name", name.decode() if isinstance(name, bytes) else str(name)
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    if memory is not None:
        yield "memory", f"{memory.total / 2**30:.0f} GiB"
    ecc = _ask(nvml, "nvmlDeviceGetEccMode", handle)
    if ecc is not None:
        yield "ECC", "on" if ecc[0] else "off"
    power = _ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    if power is not None:
        yield "power limit", f"{power / 1000:.0f} W"
    links = [_ask(nvml, "nvmlDeviceGetNvLinkState", handle, n) for n in range(nvml.NVML_NVLINK_MAX_LINKS)]
    if any(state is not None for state in links):
        yield "NVLinks", str(sum(bool(state) for state in links))
    rows = _ask(nvml, "nvmlDeviceGetRemappedRows", handle)
    if rows is not None:
        yield "row remapping", "failed" if rows[3] else "pending" if rows[2] else "complete"


def unusable_gpus(nvml: Any | None = None) -> dict[str, str]:
    """Return the PCI addresses of GPUs whose memory could not be repaired, with the reason."""
    found = {}
    with opened(nvml) as (library, gpus):
        for gpu in gpus:
            rows = _ask(library, "nvmlDeviceGetRemappedRows", gpu.handle)
            if rows is not None and rows[3]:
                found[gpu.address] = "a faulty row of its memory could not be remapped, according to NVML"
    return found


def users_of_gpus(nvml: Any | None = None) -> dict[str, str]:
    """Return the PCI addresses of GPUs on which processes compute, with those processes: "process 4711"."""
    found = {}
    with opened(nvml) as (library, gpus):
        for gpu in gpus:
            processes = _ask(library, "nvmlDeviceGetComputeRunningProcesses", gpu.handle)
            if processes:
                found[gpu.address] = ", ".join(f"process {process.pid}" for process in processes[:4])
    return found


def _ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """Return what a function of NVML says, None where the GPU or the driver does not support it."""
    try:
        return getattr(nvml, name)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None
