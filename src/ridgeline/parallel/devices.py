"""Which GPU this rank computes on, and whether MPI takes what lies there."""

from __future__ import annotations

import ctypes
import math
import os
import socket
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.parallel.layout import place_on_node
from ridgeline.runtime.device_errors import explained
from ridgeline.runtime.devices import (
    MPI_SWITCH,
    DeviceInfo,
    choose_device,
    describe_devices,
    device_shortage,
    simulated,
)
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from mpi4py import MPI


def select_device(comm: MPI.Comm) -> DeviceInfo:
    """Make the GPU of this rank the current one of the calling thread and return it. Collective.

    The rank's number on its node, modulo the GPUs that it sees, is the GPU's. One rank per GPU works, and so does a
    launcher that shows each rank only its own (--gpus-per-task). If a rank has none, all ranks raise DeviceError,
    which names the rank and says what `describe_devices`, `choose_device` or the driver do.
    """
    place = place_on_node(comm)
    with errors_on_all_ranks(comm):
        try:
            device = choose_device(place.local_rank, describe_devices())
            with explained():
                import_module("numba.cuda").select_device(device.index)
        except DeviceError as error:
            if comm.size == 1:
                raise
            raise DeviceError(f"rank {comm.rank} on {socket.gethostname()} has no GPU: {error}") from error
    return device


def require_device_memory(
    comm: MPI.Comm, device: DeviceInfo, parts: Mapping[str, float], advice: str
) -> None:
    """Raise DeviceError on all ranks, with the sum, if what a rank needs is not free on its device. Collective.

    Call before the first allocation. device: of `select_device`; parts: bytes that this rank needs on it, by what
    they are for. Free is what the driver says when every rank has its context there, which takes memory too. Ranks
    that share a GPU are counted together. A simulated device has no limit.
    """
    free = _free_memory(comm, device)
    place = _place(device)
    every = comm.allgather((place, float(sum(parts.values())), free))
    others = [needed for at, (where, needed, _) in enumerate(every) if where == place and at != comm.rank]
    least = min(free for where, _, free in every if where == place)
    with errors_on_all_ranks(comm):
        problem = device_shortage(device, parts, least, others)
        if problem is not None:
            raise DeviceError(f"rank {comm.rank} on {socket.gethostname()}: {problem}; {advice}")


def device_memory_per_rank(comm: MPI.Comm, device: DeviceInfo) -> float:
    """Return the free bytes that every rank can have: a device's share of a rank, where it is least. Collective.

    device: of `select_device`. Infinite for simulated devices, which have no limit.
    """
    every = comm.allgather((_place(device), _free_memory(comm, device)))
    ranks = Counter(place for place, _ in every)
    return float(min(free / ranks[place] for place, free in every))


def _free_memory(comm: MPI.Comm, device: DeviceInfo) -> float:
    """Return the free bytes of this rank's device, infinite for a simulated one. Collective."""
    comm.Barrier()  # every rank has its context
    with errors_on_all_ranks(comm), explained():
        context = import_module("numba.cuda").current_context()
        if not simulated():
            context.memory_manager.deallocations.clear()  # Numba puts off to free what is no longer used
        free = context.get_memory_info().free
    return float(min(free, math.inf if device.simulated else device.memory))


def _place(device: DeviceInfo) -> str:
    """Return the same for all ranks on a device, and for no others."""
    return device.uuid or f"{socket.gethostname()} {device.index}"


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
