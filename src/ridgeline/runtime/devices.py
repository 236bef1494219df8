"""NVIDIA GPUs: which there are, and which of them this rank computes on.

Nothing here falls back to the CPU. A run that asks for a GPU and cannot have one ends with a DeviceError that says
what is missing. Numba and the CUDA bindings are imported on demand only.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    pass

INSTALL = 'pip install "ridgeline[cuda]"'
MINIMUM_CAPABILITY = (7, 5)  # oldest GPUs that CUDA 13 compiles for
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


def describe_devices() -> list[DeviceInfo]:
    """Return the GPUs that this process may see, in CUDA's order; creates no context on them.

    Raises DeviceError if numba-cuda, the CUDA driver or a GPU is missing.
    """
    if find_spec("numba_cuda") is None:
        raise DeviceError(f"the package numba-cuda, which compiles GPU kernels, is not installed; {INSTALL}")
    if simulated():
        return [SIMULATOR]
    driver = _driver()
    (count,) = _call(driver, "cuDeviceGetCount")
    if count == 0:
        raise DeviceError(f"the NVIDIA driver shows no GPU{_hidden()}; ask the job scheduler for one")
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


def require_device_memory(device: DeviceInfo, n_bytes: int, what: str, advice: str) -> None:
    """Raise DeviceError if n_bytes cannot fit into the device's memory. A simulated device has no limit.

    The message is "WHAT ... GiB, more than the ... GiB of NAME; ADVICE", where `what` brings its verb.
    """
    if n_bytes > device.memory and not device.simulated:
        sizes = f"{n_bytes / 2**30:.1f} GiB, more than the {device.memory / 2**30:.1f} GiB of {device.name}"
        raise DeviceError(f"{what} {sizes}; {advice}")


def _driver() -> Any:
    """Return the initialised driver bindings."""
    try:
        driver = import_module("cuda.bindings.driver")
        _call(driver, "cuInit", 0)
    except ImportError as error:
        raise DeviceError(f"the CUDA bindings do not load ({error}); {INSTALL}") from error
    except RuntimeError as error:  # the bindings' own error when libcuda.so.1 is not there
        raise DeviceError(
            "no NVIDIA driver was found on this machine (libcuda.so.1 does not load); run where a GPU is, or "
            "with --device cpu"
        ) from error
    return driver


def _call(driver: Any, name: str, *arguments: Any) -> tuple[Any, ...]:
    """Call a driver function and return its results; DeviceError with CUDA's own words if it fails."""
    status, *results = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        no_device = status == driver.CUresult.CUDA_ERROR_NO_DEVICE
        advice = "ask the job scheduler for a GPU" if no_device else "see nvidia-smi for the device's state"
        raise DeviceError(f"{name} of the CUDA driver failed with {status.name}{_hidden()}; {advice}")
    return tuple(results)


def _hidden() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return "" if visible is None else f" (CUDA_VISIBLE_DEVICES is {visible!r})"


def _describe(driver: Any, index: int) -> DeviceInfo:
    (handle,) = _call(driver, "cuDeviceGet", index)
    (name,) = _call(driver, "cuDeviceGetName", 128, handle)
    (memory,) = _call(driver, "cuDeviceTotalMem", handle)
    attributes = driver.CUdevice_attribute
    major, minor, multiprocessors = (
        int(_call(driver, "cuDeviceGetAttribute", attribute, handle)[0])
        for attribute in (
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            attributes.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    )
    return DeviceInfo(index, name.decode().rstrip("\x00"), (major, minor), int(memory), multiprocessors)
