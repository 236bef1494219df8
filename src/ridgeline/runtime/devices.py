"""NVIDIA GPUs: which there are, and on which of them this rank computes.

Nothing here falls back to the CPU: a run that asks for a GPU and cannot have one ends with a DeviceError that says
what is missing. Numba and the CUDA bindings are imported on demand only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ridgeline.runtime.device_errors import explain_status
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.extras import how_to_install, import_extra, require_extra
from ridgeline.runtime.units import number

MINIMUM_CAPABILITY = (7, 5)  # of the oldest GPUs for which CUDA 13 compiles
COMPILER = "cuda-toolkit"  # the package whose version is that of the CUDA that compiles kernels
_NEWER = 'Install a newer driver, or the packages of its CUDA with: pip install "numba-cuda[cu12]"'
MPI_SWITCH = "RIDGELINE_GPU_AWARE_MPI"


@dataclass(frozen=True)
class DeviceInfo:
    """Facts about one GPU. `simulated`: numba-cuda's simulator stands in for it (NUMBA_ENABLE_CUDASIM=1)."""

    index: int  # as CUDA numbers the devices that this process may see
    name: str
    compute_capability: tuple[int, int]
    memory: int  # bytes
    multiprocessors: int
    simulated: bool = False
    uuid: str = ""  # which GPU it is, however many GPUs a process sees; "" if unknown
    address: str = ""  # on PCI, as in "0000:3b:00.0"

    def __str__(self) -> str:
        """Return one line for people."""
        if self.simulated:
            return self.name
        major, minor = self.compute_capability
        return (
            f"{self.name} ({self.memory / 2**30:.0f} GiB, {self.multiprocessors} multiprocessors, "
            f"compute capability {major}.{minor})"
        )


SIMULATOR = DeviceInfo(0, "CUDA simulator (runs kernels in Python)", (9, 0), 0, 1, simulated=True)


def simulated() -> bool:
    """Say whether numba-cuda runs kernels in its simulator, according to the environment."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def require_compiler() -> None:
    """Raise DeviceError unless numba-cuda, which compiles kernels for GPUs, is installed. Imports nothing."""
    require_extra("numba_cuda", "--device cuda", "run with --device cpu", DeviceError)


def describe_devices() -> list[DeviceInfo]:
    """Return the GPUs that this process may see, in CUDA's order. Creates no context on them.

    Raises DeviceError if numba-cuda, the CUDA driver or a GPU is missing, if the driver is too old, or if numba-cuda
    does not load with the installed NumPy.
    """
    require_compiler()
    if simulated():
        return [SIMULATOR]
    driver = _driver()
    (cuda,) = _call(driver, "cuDriverGetVersion")
    compiler = None
    with suppress(PackageNotFoundError):  # the site may have installed CUDA without the package
        compiler = version(COMPILER)
    if compiler is not None and int(cuda) // 1000 < int(compiler.split(".")[0]):
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {cuda // 1000}.{cuda % 1000 // 10}, but the installed compiler is for "
            f"CUDA {compiler}. {_NEWER}"
        )
    (count,) = _call(driver, "cuDeviceGetCount")
    if count == 0:
        raise DeviceError(f"the NVIDIA driver shows no GPU{_hidden()}. Request one from the job scheduler.")
    try:
        import_module(
            "numba.cuda.cudaimpl"
        )  # part of every kernel; that of 0.30 does not load with NumPy 2.5
    except (ImportError, AttributeError) as error:
        raise DeviceError(
            f"numba-cuda {version('numba-cuda')} does not load with NumPy {version('numpy')} ({error}). Install "
            f"compatible versions with: {how_to_install('numba_cuda')}"
        ) from error
    return [_describe(driver, index) for index in range(count)]


def choose_device(local_rank: int, devices: list[DeviceInfo]) -> DeviceInfo:
    """Return the device of the rank with this number on its node: ranks are dealt to the devices in turn.

    Raises DeviceError if that device is too old for the kernels.
    """
    device = devices[local_rank % len(devices)]
    if device.compute_capability < MINIMUM_CAPABILITY:
        major, minor = device.compute_capability
        raise DeviceError(
            f"GPU {device.index}, {device.name}, has compute capability {major}.{minor}, but kernels need "
            f"{MINIMUM_CAPABILITY[0]}.{MINIMUM_CAPABILITY[1]} or newer. Choose another GPU with "
            f"CUDA_VISIBLE_DEVICES, or run with --device cpu."
        )
    return device


def device_shortage(
    device: DeviceInfo, parts: Mapping[str, float], free: float, others: Sequence[float] = ()
) -> str | None:
    """Return a message, with the sum, if a rank's memory does not fit on its device; None if it does.

    Parameters
    ----------
    parts : bytes that the rank needs on the device, by what they are for
    free : bytes that are free on it
    others : bytes that each other rank on the same device needs
    """
    needed = sum(parts.values())
    total = needed + sum(others)
    if total <= free:
        return None
    sum_ = " + ".join(f"{name} {number(size, 'B')}" for name, size in parts.items())
    text = f"a rank needs {number(needed, 'B')} on its GPU ({sum_})"
    if others:
        text += f", and the {len(others) + 1} ranks that share it need {number(total, 'B')}"
    return f"{text}, but {number(free, 'B')} of the {number(device.memory, 'B')} of {device.name} are free"


def _driver() -> Any:
    """Return the initialised driver bindings."""
    driver = import_extra("cuda.bindings.driver", "--device cuda", error=DeviceError)
    try:
        _call(driver, "cuInit", 0)
    except RuntimeError as error:  # of the bindings, when libcuda.so.1 or a function in it is not there
        if type(error).__name__ == "FunctionNotFoundError":
            raise DeviceError(
                f"the NVIDIA driver is too old for the CUDA bindings ({error}). {_NEWER}"
            ) from error
        raise DeviceError(
            "no NVIDIA driver was found on this machine (libcuda.so.1 does not load). Run on a machine with a GPU, "
            "or with --device cpu."
        ) from error
    return driver


def free_memory(device: DeviceInfo) -> int:
    """Return the bytes that are free on a device, according to the driver, while this process has a context there.

    Creates the context for the time of the call if there is none. Raises DeviceError if the driver fails.
    """
    driver = _driver()
    (handle,) = _call(driver, "cuDeviceGet", device.index)
    (context,) = _call(driver, "cuDevicePrimaryCtxRetain", handle)
    try:
        _call(driver, "cuCtxPushCurrent", context)
        free, _ = _call(driver, "cuMemGetInfo")
        _call(driver, "cuCtxPopCurrent")
    finally:
        driver.cuDevicePrimaryCtxRelease(handle)
    return int(free)


def _call(driver: Any, name: str, *arguments: Any) -> tuple[Any, ...]:
    """Call a driver function and return its results. Raises DeviceError with CUDA's message if it fails."""
    status, *results = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        meaning, advice = explain_status(status.name)
        raise DeviceError(
            f"{name} of the CUDA driver failed with {status.name}{_hidden()}: {meaning}. {advice}"
        )
    return tuple(results)


def _hidden() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"


def _describe(driver: Any, index: int) -> DeviceInfo:
    (handle,) = _call(driver, "cuDeviceGet", index)
    (name,) = _call(driver, "cuDeviceGetName", 128, handle)
    (memory,) = _call(driver, "cuDeviceTotalMem", handle)
    (uuid,) = _call(driver, "cuDeviceGetUuid", handle)
    attributes = driver.CUdevice_attribute
    major, minor, multiprocessors, *place = (
        int(_call(driver, "cuDeviceGetAttribute", attribute, handle)[0])
        for attribute in (
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            attributes.CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
            attributes.CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
            attributes.CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
        )
    )
    return DeviceInfo(
        index,
        name.split(b"\x00", 1)[0].decode(),  # the bindings fill the rest of 128 bytes with NULs, then blanks
        (major, minor),
        int(memory),
        multiprocessors,
        uuid=bytes(uuid.bytes).hex(),
        address="{:04x}:{:02x}:{:02x}.0".format(*place),
    )
