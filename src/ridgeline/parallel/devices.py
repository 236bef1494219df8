"""Which GPU this rank computes on, and whether MPI takes what lies there."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.devices import MPI_SWITCH, DeviceInfo, choose_device, describe_devices, simulated
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from mpi4py import MPI


def select_device(comm: MPI.Comm) -> DeviceInfo:
    """Make the GPU of this rank the current one of the calling thread and return it. Collective.

    The rank's number on its node, modulo the GPUs that it sees, is the GPU's. One rank per GPU works, and so does a
    launcher that shows each rank only its own (--gpus-per-task). Raises DeviceError as `describe_devices` and
    `choose_device` do.
    """
    device = choose_device(place_on_node(comm).local_rank, describe_devices())
    import_module("numba.cuda").select_device(device.index)
    return device


def mpi_takes_device_buffers() -> bool:
    """Say whether the MPI library sends from and receives into GPU memory.

    RIDGELINE_GPU_AWARE_MPI=1 or 0 decides; else the library is asked through MPIX_Query_cuda_support (Open MPI,
    MPICH, MVAPICH) and MPIX_GPU_query_support (MPICH, Cray MPICH). Simulated devices have no such memory.
    Raises DeviceError if the variable is neither 0 nor 1.
    """
    chosen = os.environ.get(MPI_SWITCH, "")
    if chosen not in ("", "0", "1"):
        raise DeviceError(
            f"{MPI_SWITCH} = {chosen!r} is neither 0 (stage in host memory) nor 1 (GPU-aware MPI); "
            f"unset it to let the MPI library say"
        )
    if simulated() or chosen == "0":
        return False
    if chosen == "1":
        return True
    library = _mpi_symbols()
    if hasattr(library, "MPIX_Query_cuda_support") and library.MPIX_Query_cuda_support():
        return True
    if hasattr(library, "MPIX_GPU_query_support"):
        supported = ctypes.c_int(0)
        cuda_kind = 0  # MPIX_GPU_SUPPORT_CUDA
        library.MPIX_GPU_query_support(cuda_kind, ctypes.byref(supported))
        return bool(supported.value)
    return False


def _mpi_symbols() -> Any:
    """Return the functions of the MPI library: mpi4py's extension also finds what it is linked with."""
    from mpi4py import MPI

    return ctypes.CDLL(MPI.__file__)
