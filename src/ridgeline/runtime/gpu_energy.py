"""The energy counters of NVIDIA GPUs, by the driver's own library NVML, which is loaded as it is found.

Source: NVIDIA, NVML API reference, nvmlDeviceGetTotalEnergyConsumption (Volta and newer, in millijoules).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

LIBRARY = "libnvidia-ml.so.1"


def find_gpus(load: Callable[[str], Any] = ctypes.CDLL) -> dict[str, Callable[[], float]]:
    """Return what reads the joules of each GPU of the node, since its driver was loaded, by name.

    load: returns a library by its name, or raises OSError. Raises OSError that says what is missing; so do the
    functions returned.
    """
    try:
        nvml = load(LIBRARY)
    except OSError:
        raise OSError(f"{LIBRARY} does not load: no NVIDIA driver here") from None
    _call(nvml, "nvmlInit_v2")
    count = ctypes.c_uint()
    _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
    if not count.value:
        raise OSError("NVML shows no GPU")
    return {f"NVML GPU {index}": partial(_joules, nvml, index) for index in range(count.value)}


def _joules(nvml: Any, index: int) -> float:
    device, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
    _call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
    _call(nvml, "nvmlDeviceGetTotalEnergyConsumption", device, ctypes.byref(energy))
    return 1e-3 * energy.value


def _call(nvml: Any, name: str, *arguments: Any) -> None:
    """Call a function of NVML. Raises OSError with NVML's own words if it fails or is missing."""
    try:
        status = getattr(nvml, name)(*arguments)
    except AttributeError:
        raise OSError(f"{LIBRARY} has no {name}: its driver is too old") from None
    if status:
        words = nvml.nvmlErrorString
        words.restype = ctypes.c_char_p
        raise OSError(f"{name} says: {words(status).decode()}")
