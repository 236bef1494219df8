"""Errors of the CUDA driver and of the libraries above it, turned into errors for people.

All device code goes through here: kernels and copies of Numba, arrays and transforms of CuPy, messages of NCCL. They
raise errors of many classes, which are recognised by name, so that none of these packages is imported.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ridgeline.runtime.errors import DeviceError

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
    "see nvidia-smi for who else uses it; use more GPUs or a smaller grid",
)
_WRONG_DRIVER = (
    "the NVIDIA driver is not one for the installed CUDA packages",
    'install a newer driver, or the packages of an older CUDA: pip install "numba-cuda[cu12]"',
)
_MIXED = (
    "libcuda.so.1 is not that of the NVIDIA driver which is loaded",
    "restart the node, or leave directories of another libcuda out of LD_LIBRARY_PATH",
)
_NO_DEVICE = "this process sees no GPU", "ask the job scheduler for one"
_TAKEN = (
    "the GPU takes no further process",
    "start one rank per GPU, or set its compute mode to default (nvidia-smi -c 0)",
)
_LOST = "the GPU is lost", "take its node out, look at nvidia-smi and the kernel's log for Xid errors"
_FAULTY_MEMORY = (
    "the GPU's memory has an error that cannot be corrected",
    "take its node out and reset the GPU",
)
_LINK = (
    "a link between GPUs has an error that cannot be corrected",
    "take its node out and look at nvidia-smi nvlink",
)
_ADDRESS = "a kernel accessed memory that is not its own", "this is a fault of the program: please report it"
_LAUNCH = "a kernel ended with a fault", "run once more; if it fails on this GPU alone, take its node out"
_TIME = "a kernel was stopped by the display driver's time limit", "use a GPU that drives no display"
_FABRIC = "the node's GPUs are not ready", "see whether nvidia-fabricmanager runs there"

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
_UNKNOWN = "a call of CUDA failed", "see nvidia-smi for the device's state"


def explain_status(status: str) -> tuple[str, str]:
    """Return what a status of CUDA, such as "CUDA_ERROR_NO_DEVICE", means and what to try: two clauses."""
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
    return DeviceError(f"on {socket.gethostname()}, {meaning}: {words or type(error).__name__}; {advice}")


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
        raise DeviceError(f"{problem}; {more()}") from error
