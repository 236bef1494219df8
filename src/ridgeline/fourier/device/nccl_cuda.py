"""All-to-all exchanges between GPUs by NCCL: the one file that knows a library for it.

NCCL sends from device memory to device memory, in the order of a stream, and the host waits for nothing. It is called
through the bindings of nccl4py. In numba-cuda's simulator MPI stands in for it, with the arrays of simulated devices.
Source: NCCL's guide, "Point-to-point communication": an all-to-all is a group of sends and receives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.parallel.allreduce import broadcast_decision, errors_on_all_ranks
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.extras import import_extra

if TYPE_CHECKING:
    from mpi4py import MPI

_TYPES = {8: "Float64", 4: "Float32"}  # NCCL has no complex numbers


class RealPieces(NamedTuple):
    """An array of reals in device memory, and what of it is of each rank: reals, and where they begin."""

    array: Any
    counts: Sequence[int]
    begins: Sequence[int]


class NcclExchanges(Protocol):
    """All-to-all exchanges between the ranks of a communicator."""

    def alltoall(self, sent: RealPieces, received: RealPieces, stream: Any) -> None:
        """Put the exchange on a stream. Collective: all ranks, in the same order."""

    def free(self) -> None:
        """Give NCCL's communicator back; not usable afterwards. Collective."""


def make_nccl(comm: MPI.Comm, dtype: DTypeLike) -> NcclExchanges:
    """Return NCCL's communicator of the ranks of `comm`, on their current devices. Collective.

    dtype: float64 or float32. Raises DeviceError on all ranks if nccl4py or the library is missing. It does so too if
    NCCL does not take these devices: it wants one for each rank.
    """
    if simulated():
        return _MpiStandsIn(comm, np.dtype(dtype))
    with errors_on_all_ranks(comm):
        nccl = _bindings()
    return _Nccl(nccl, comm, np.dtype(dtype))


class _MpiStandsIn:
    """Stands in for NCCL where devices are simulated."""

    def __init__(self, comm: MPI.Comm, dtype: np.dtype[Any]) -> None:
        from mpi4py.util.dtlib import from_numpy_dtype

        self._comm, self._kind = comm, from_numpy_dtype(dtype)

    def alltoall(self, sent: RealPieces, received: RealPieces, stream: Any) -> None:
        """Exchange at once."""
        self._comm.Alltoallv(
            *([side.array._ary, side.counts, side.begins, self._kind] for side in (sent, received))
        )

    def free(self) -> None:
        """Nothing but memory."""


class _Nccl:
    """A communicator of NCCL."""

    def __init__(self, nccl: Any, comm: MPI.Comm, dtype: np.dtype[Any]) -> None:
        self._nccl, self._size, self._itemsize = nccl, comm.size, dtype.itemsize
        self._kind = int(getattr(nccl.DataType, _TYPES[dtype.itemsize]))

        with self._explained("begins not"):
            raw = broadcast_decision(comm, lambda: bytes(nccl.get_unique_id()))
        with (
            errors_on_all_ranks(comm),
            self._explained(f"does not connect {comm.size} ranks, and it wants a GPU for each"),
        ):
            self._comm = nccl.comm_init_rank(comm.size, nccl.UniqueId.from_buffer(raw), comm.rank)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._nccl.NCCLError as error:
            raise DeviceError(f"NCCL {what} ({error}); {_INSTEAD}") from error

    def alltoall(self, sent: RealPieces, received: RealPieces, stream: Any) -> None:
        """Put the exchange on a stream: a group of a send to and a receive from each rank, this one too."""
        nccl = self._nccl
        from_, to = _address(sent.array), _address(received.array)
        common = self._comm, int(stream)
        with self._explained("exchanges nothing"):
            nccl.group_start()
            for peer in range(self._size):
                if sent.counts[peer]:
                    begin = from_ + sent.begins[peer] * self._itemsize
                    nccl.send(begin, sent.counts[peer], self._kind, peer, *common)
                if received.counts[peer]:
                    begin = to + received.begins[peer] * self._itemsize
                    nccl.recv(begin, received.counts[peer], self._kind, peer, *common)
            nccl.group_end()

    def free(self) -> None:
        """Destroy the communicator."""
        self._nccl.comm_destroy(self._comm)


_INSTEAD = 'set model.transpose.between_gpus = "host"'


def _address(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def _bindings() -> Any:
    """Return nccl4py's bindings; DeviceError if they or the library are missing."""
    return import_extra("nccl.bindings.nccl", "NCCL", _INSTEAD, DeviceError, probe="get_version")
