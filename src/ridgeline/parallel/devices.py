"""Which GPU this rank computes on, the free memory there, and whether MPI can send from it."""

from __future__ import annotations

import ctypes
import math
import os
import socket
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from numpy.typing import NDArray

from ridgeline.parallel.allreduce import allreduce_min, errors_on_all_ranks
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.device_errors import device_errors_explained
from ridgeline.runtime.devices import (
    MPI_SWITCH,
    DeviceInfo,
    choose_device,
    describe_devices,
    device_shortage,
    simulated,
)
from ridgeline.runtime.errors import DeviceError, sentence

if TYPE_CHECKING:
    from mpi4py import MPI


def select_device(comm: MPI.Comm) -> DeviceInfo:
    """Make the GPU of this rank the current one of the calling thread and return it. Collective.

    The number of the GPU is the rank's number on its node, modulo the number of GPUs that it sees. This is right for
    one rank per GPU, and for a launcher that shows each rank only one GPU (--gpus-per-task). If a rank has no GPU,
    all ranks raise a DeviceError that names the rank and gives the reason.
    """
    place = place_on_node(comm)
    with errors_on_all_ranks(comm):
        try:
            device = choose_device(place.local_rank, describe_devices())
            with device_errors_explained():
                import_module("numba.cuda").select_device(device.index)
        except DeviceError as error:
            if comm.size == 1:
                raise
            raise DeviceError(f"rank {comm.rank} on {socket.gethostname()} has no GPU: {error}") from error
    return device


def require_device_memory(
    comm: MPI.Comm, device: DeviceInfo, parts: Mapping[str, float], advice: str
) -> None:
    """Raise DeviceError on all ranks if a rank needs more memory than is free on its device. Collective.

    Call before the first allocation. Free memory is measured when every rank has created its context, which takes
    memory too. The needs of ranks that share a GPU are added. A simulated device has no limit.

    Parameters
    ----------
    device : the result of `select_device`
    parts : bytes that this rank needs on the device, by what they are for; the error shows their sum
    advice : what to do, the end of the error
    """
    free = _free_memory(comm, device)
    beside, (needed, frees) = _on_this_device(comm, device, [float(sum(parts.values())), free])
    others, least = needed[beside != comm.rank].tolist(), float(frees.min())
    with errors_on_all_ranks(comm):
        problem = device_shortage(device, parts, least, others)
        if problem is not None:
            raise DeviceError(f"rank {comm.rank} on {socket.gethostname()}: {problem}. {sentence(advice)}")


def device_memory_per_rank(comm: MPI.Comm, device: DeviceInfo) -> float:
    """Return the free bytes of device memory per rank, on the device where that is least. Collective.

    device: the result of `select_device`. Simulated devices have no limit, so the result is infinite for them.
    """
    free = _free_memory(comm, device)
    _, (frees,) = _on_this_device(comm, device, [free])
    return float(allreduce_min(comm, frees.min() / len(frees)))


def _on_this_device(
    comm: MPI.Comm, device: DeviceInfo, mine: list[float]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the ranks that share a rank's device, and the values [values, ranks] that each of them gave. Collective.

    An allgather of 8 bytes, and one of 8 bytes for each value.
    """
    digests, values = np.empty(comm.size, np.int64), np.empty((comm.size, len(mine)))
    digest = xxhash.xxh3_64_intdigest(_place(device).encode()) - (1 << 63)
    comm.Allgather(np.array([digest], np.int64), digests)
    comm.Allgather(np.array(mine), values)
    beside = np.flatnonzero(digests == digest)
    return beside, values[beside].T


def _free_memory(comm: MPI.Comm, device: DeviceInfo) -> float:
    """Return the free bytes of this rank's device, infinite for a simulated one. Collective."""
    comm.Barrier()  # every rank has its context
    with errors_on_all_ranks(comm), device_errors_explained():
        context = import_module("numba.cuda").current_context()
        if not simulated():
            context.memory_manager.deallocations.clear()  # Numba postpones freeing unused memory
        free = context.get_memory_info().free
    return float(min(free, math.inf if device.simulated else device.memory))


def _place(device: DeviceInfo) -> str:
    """Return a text that is the same for all ranks on one device, and different for other devices."""
    return device.uuid or f"{socket.gethostname()} {device.index}"


def mpi_takes_device_buffers() -> bool:
    """Say whether the MPI library sends from and receives into GPU memory.

    RIDGELINE_GPU_AWARE_MPI=1 or 0 decides. Otherwise the library is asked through MPIX_Query_cuda_support (Open MPI,
    MPICH, MVAPICH) and MPIX_GPU_query_support (MPICH, Cray MPICH). Simulated devices have no such memory.
    Raises DeviceError if the variable is neither 0 nor 1.
    """
    chosen = os.environ.get(MPI_SWITCH, "")
    if chosen not in ("", "0", "1"):
        raise DeviceError(
            f"{MPI_SWITCH} is {chosen!r}, but it must be 0 (stage in host memory) or 1 (GPU-aware MPI). "
            f"Unset it to ask the MPI library."
        )
    if simulated() or chosen == "0":
        return False
    if chosen == "1":
        return True
    from mpi4py import MPI

    library = ctypes.CDLL(
        MPI.__file__
    )  # mpi4py's extension, in which the symbols of the MPI library are found too
    if hasattr(library, "MPIX_Query_cuda_support") and library.MPIX_Query_cuda_support():
        return True
    if hasattr(library, "MPIX_GPU_query_support"):
        supported = ctypes.c_int(0)
        cuda_kind = 0  # MPIX_GPU_SUPPORT_CUDA
        library.MPIX_GPU_query_support(cuda_kind, ctypes.byref(supported))
        return bool(supported.value)
    return False
