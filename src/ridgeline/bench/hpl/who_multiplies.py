"""The line of a result that names the libraries and devices that computed."""

from __future__ import annotations

from mpi4py import MPI

from ridgeline.parallel.devices import select_device
from ridgeline.parallel.payload import Memory
from ridgeline.runtime.blas import blas_libraries


def who_multiplies(comm: MPI.Comm, memory: Memory, on_host: str) -> str:
    """Say which library computes. Collective over comm. on_host: what hosts factor where GPUs multiply."""
    host = str(blas_libraries()[0])
    if memory == "host":
        return f"BLAS: {host}, called by one thread each"
    device = comm.bcast(str(select_device(comm)))
    aware = ", although MPI takes device memory" if memory == "cuda" else ""
    return (
        f"a GPU for each rank, {device}, multiplies by cuBLAS; {on_host} are factored by hosts, with {host}; "
        f"messages go through host memory{aware}"
    )
