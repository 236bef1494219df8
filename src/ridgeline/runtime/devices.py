"""NVIDIA GPUs: which there are, and which of them this rank computes on.

Nothing here falls back to the CPU. A run that asks for a GPU and cannot have one ends with a DeviceError that says
what is missing. Numba and the CUDA bindings are imported on demand only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ridgeline.runtime.device_errors import explain_status
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.extras import how_to_install, import_extra, require_extra
from ridgeline.runtime.units import number

MINIMUM_CAPABILITY = (7, 5)  # oldest GPUs that CUDA 13 compiles for
COMPILER = "cuda-toolkit"  # the package whose version is that of the CUDA that compiles kernels
_NEWER = 'install a newer driver, or the packages of its CUDA: pip install "numba-cuda[cu12]"'
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
    uuid: str = ""  # which GPU it is, however many of them a process sees; "" if that is not known

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
    """Say whether numba-cuda runs kernels in its simulator, as it reads the environment."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def require_compiler() -> None:
    """Raise DeviceError unless numba-cuda, which compiles kernels for GPUs, is installed. Imports nothing."""
    require_extra("numba_cuda", "--device cuda", "run with --device cpu", DeviceError)


def describe_devices() -> list[DeviceInfo]:
    """Return the GPUs that this process may see, in CUDA's order; creates no context on them.

    Raises DeviceError if numba-cuda, the CUDA driver or a GPU is missing, the driver is too old, or numba-cuda does
    not load with the NumPy that is installed.
    """
    require_compiler()
    if simulated():
        return [SIMULATOR]
    driver = _driver()
    _refuse_old_driver(driver)
    (count,) = _call(driver, "cuDeviceGetCount")
    if count == 0:
        raise DeviceError(f"the NVIDIA driver shows no GPU{_hidden()}; ask the job scheduler for one")
    _refuse_broken_compiler()
    return [_describe(driver, index) for index in range(count)]


def choose_device(local_rank: int, devices: list[DeviceInfo]) -> DeviceInfo:
    """Return the device of the rank with this number on its node: ranks take turns over the devices.

    Raises DeviceError if that device is too old for the kernels.
    """
    device = devices[local_rank % len(devices)]
    if device.compute_capability < MINIMUM_CAPABILITY:
        major, minor = device.compute_capability
        raise DeviceError(
            f"GPU {device.index}, {device.name}, has compute capability {major}.{minor}; kernels need "
            f"{MINIMUM_CAPABILITY[0]}.{MINIMUM_CAPABILITY[1]} or newer: choose another with "
            f"CUDA_VISIBLE_DEVICES, or run with --device cpu"
        )
    return device


def device_shortage(
    device: DeviceInfo, parts: Mapping[str, float], free: float, others: Sequence[float] = ()
) -> str | None:
    """Say, with the sum, that a rank's memory does not fit on its device; None if it does. No communication.

    parts: bytes that the rank needs there, by what they are for; free: bytes that are; others: bytes that each other
    rank on the same device needs.
    """
    needed = sum(parts.values())
    together = needed + sum(others)
    if together <= free:
        return None
    sum_ = " + ".join(f"{name} {number(size, 'B')}" for name, size in parts.items())
    text = f"a rank needs {number(needed, 'B')} on its GPU ({sum_})"
    if others:
        text += f", and the {len(others) + 1} ranks that share it need {number(together, 'B')}"
    return f"{text}, but {number(free, 'B')} of the {number(device.memory, 'B')} of {device.name} are free"


def _driver() -> Any:
    """Return the initialised driver bindings."""
    driver = import_extra("cuda.bindings.driver", "--device cuda", error=DeviceError)
    try:
        _call(driver, "cuInit", 0)
    except RuntimeError as error:  # of the bindings, when libcuda.so.1 or a function in it is not there
        if type(error).__name__ == "FunctionNotFoundError":
            raise DeviceError(
                f"the NVIDIA driver is too old for the CUDA bindings ({error}); {_NEWER}"
            ) from error
        raise DeviceError(
            "no NVIDIA driver was found on this machine (libcuda.so.1 does not load); run where a GPU is, or "
            "with --device cpu"
        ) from error
    return driver


def _refuse_old_driver(driver: Any) -> None:
    """Raise DeviceError if the driver is for an older CUDA, by its major number, than the compiler's packages."""
    (found,) = _call(driver, "cuDriverGetVersion")
    try:
        compiler = version(COMPILER)
    except PackageNotFoundError:  # of a CUDA that the site installed
        return
    if int(found) // 1000 < int(compiler.split(".")[0]):
        raise DeviceError(
            f"the NVIDIA driver is for CUDA {found // 1000}.{found % 1000 // 10}, and the installed compiler is of "
            f"CUDA {compiler}; {_NEWER}"
        )


def _refuse_broken_compiler() -> None:
    """Raise DeviceError if the part of numba-cuda that every kernel takes does not load, as 0.30 with NumPy 2.5."""
    try:
        import_module("numba.cuda.cudaimpl")
    except (ImportError, AttributeError) as error:
        raise DeviceError(
            f"numba-cuda {version('numba-cuda')} does not load with NumPy {version('numpy')} ({error}); install "
            f"versions that fit each other with: {how_to_install('numba_cuda')}"
        ) from error


def free_memory(device: DeviceInfo) -> int:
    """Return the bytes that the driver says are free on a device, when this process has its context there.

    Makes the context, if there is none, for the time of the call. Raises DeviceError if the driver fails.
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
    """Call a driver function and return its results; DeviceError with CUDA's own words if it fails."""
    status, *results = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        meaning, advice = explain_status(status.name)
        raise DeviceError(
            f"{name} of the CUDA driver failed with {status.name}{_hidden()}: {meaning}; {advice}"
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
    major, minor, multiprocessors = (
        int(_call(driver, "cuDeviceGetAttribute", attribute, handle)[0])
        for attribute in (
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    )
    return DeviceInfo(
        index,
        name.split(b"\x00", 1)[0].decode(),  # the bindings fill the rest of 128 bytes with NULs, then blanks
        (major, minor),
        int(memory),
        multiprocessors,
        uuid=bytes(uuid.bytes).hex(),
    )
