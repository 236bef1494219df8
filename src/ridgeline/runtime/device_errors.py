"""Errors of the CUDA driver and of the libraries above it, turned into errors for people.

All device code goes through here: kernels and copies of Numba, arrays and transforms of CuPy, messages of NCCL. They
raise errors of many classes, which are recognised by name, so that none of these packages is imported.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ridgeline.runtime.errors import DeviceError, full_stop, sentence

_STATUS = re.compile(r"CUDA_ERROR_\w+|cudaError\w+|CUFFT_\w+|NCCL_ERROR_\w+")
# Error classes by the package that defines them. Mistakes in the source of a kernel are not among them.
_CLASSES = {
    "numba": {"CudaAPIError", "CudaDriverError", "CudaRuntimeError", "CudaSupportError"},
    "cuda": {"CUDAError", "NVRTCError"},
    "cupy": {"CUDADriverError", "CUDARuntimeError", "OutOfMemoryError", "CuFFTError", "NcclError"},
    "cupy_backends": {"CUDADriverError", "CUDARuntimeError", "CuFFTError", "NcclError"},
    "cupy_cuda": {"CUDADriverError", "CUDARuntimeError", "CuFFTError", "NcclError"},
}

_MEMORY = (
    "the device's memory is full",
    "nvidia-smi shows which other processes use it. Use more GPUs or a smaller grid.",
)
_WRONG_DRIVER = (
    "the NVIDIA driver does not match the installed CUDA packages",
    'Install a newer driver, or the packages of an older CUDA with: pip install "numba-cuda[cu12]"',
)
_MIXED = (
    "libcuda.so.1 does not belong to the NVIDIA driver that is loaded",
    "Restart the node, or remove directories of another libcuda from LD_LIBRARY_PATH.",
)
_NO_DEVICE = "this process sees no GPU", "Request one from the job scheduler."
_TAKEN = (
    "the GPU does not accept another process",
    "Start one rank per GPU, or set its compute mode to default (nvidia-smi -c 0).",
)
_LOST = (
    "the GPU is lost",
    "Take its node out of service, and look for Xid errors in nvidia-smi and the kernel's log.",
)
_FAULTY_MEMORY = (
    "the GPU's memory has an error that cannot be corrected",
    "Take its node out of service and reset the GPU.",
)
_LINK = (
    "a link between GPUs has an error that cannot be corrected",
    "Take its node out of service and look at nvidia-smi nvlink.",
)
_ADDRESS = "a kernel accessed memory outside its arrays", "This is a bug in the program. Please report it."
_LAUNCH = (
    "a kernel ended with a fault",
    "Run it once more. If it fails on this GPU only, take its node out of service.",
)
_TIME = "a kernel was stopped by the display driver's time limit", "Use a GPU that drives no display."
_FABRIC = "the node's GPUs are not ready", "Check that nvidia-fabricmanager runs there."

# What a status means and what to try. Statuses are written without prefix and underscores, in lower case, so that the
# driver's CUDA_ERROR_ILLEGAL_ADDRESS and the runtime's cudaErrorIllegalAddress are the same.
# Source: CUDA driver API, CUresult; CUDA runtime API, cudaError_t.
_MEANINGS = {
    "outofmemory": _MEMORY,
    "memoryallocation": _MEMORY,
    "nodevice": _NO_DEVICE,
    "invaliddevice": _NO_DEVICE,
    "stublibrary": _MIXED,
    "systemdrivermismatch": _MIXED,
    "compatnotsupportedondevice": _WRONG_DRIVER,
    "callrequiresnewerdriver": _WRONG_DRIVER,
    "insufficientdriver": _WRONG_DRIVER,
    "unsupportedptxversion": _WRONG_DRIVER,
    "nobinaryforgpu": _WRONG_DRIVER,
    "nokernelimagefordevice": _WRONG_DRIVER,
    "deviceunavailable": _TAKEN,
    "devicesunavailable": _TAKEN,
    "devicealreadyinuse": _TAKEN,
    "contextisdestroyed": _LOST,
    "hardwarestackerror": _LOST,
    "externaldevice": _LOST,
    "operatingsystem": _LOST,
    "unknown": _LOST,
    "contained": _FAULTY_MEMORY,
    "eccuncorrectable": _FAULTY_MEMORY,
    "nvlinkuncorrectable": _LINK,
    "illegaladdress": _ADDRESS,
    "misalignedaddress": _ADDRESS,
    "invalidaddressspace": _ADDRESS,
    "launchfailed": _LAUNCH,
    "launchfailure": _LAUNCH,
    "illegalinstruction": _LAUNCH,
    "invalidpc": _LAUNCH,
    "launchtimeout": _TIME,
    "fabricnotready": _FABRIC,
    "systemnotready": _FABRIC,
}
_UNKNOWN = "a call of CUDA failed", "nvidia-smi shows the state of the device."


def explain_status(status: str) -> tuple[str, str]:
    """Return what a status of CUDA, such as "CUDA_ERROR_NO_DEVICE", means, a clause, and what to try, a sentence."""
    bare = status.lower().replace("_", "").removeprefix("cudaerror")
    return _MEANINGS.get(bare, _UNKNOWN)


def device_error(error: BaseException) -> DeviceError | None:
    """Return an error of CUDA, or of a library above it, as an error for people; None for any other error.

    A DeviceError is returned unchanged. Launches return before their kernels end, so the call that the message names
    may be a later one than the call at fault.
    """
    if isinstance(error, DeviceError):
        return error
    names = {(kind.__module__.split(".")[0], kind.__name__) for kind in type(error).__mro__}
    if not any(name in _CLASSES.get(package, ()) for package, name in names):
        return None
    words = " ".join(str(error).split())
    status = _STATUS.search(words)
    meaning, advice = explain_status(status.group() if status else type(error).__name__)
    if status is None and type(error).__name__ == "OutOfMemoryError":
        meaning, advice = _MEMORY
    what = full_stop(words or type(error).__name__)
    return DeviceError(f"on {socket.gethostname()}, {meaning}: {what} {advice}")


@contextmanager
def device_errors_explained(more: Callable[[], str] | None = None) -> Iterator[None]:
    """Raise errors of CUDA inside the block as DeviceError, followed by `more()`, such as the last checkpoint."""
    try:
        yield
    except Exception as error:
        problem = device_error(error)
        if problem is None:
            raise
        if more is None:
            raise problem from error
        raise DeviceError(f"{full_stop(str(problem))} {sentence(more())}") from error
