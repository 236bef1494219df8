"""The column exchange of slabs whose data lie in device memory: one variable after the other, under way together.

Of a variable, rank c gets the lines [y_c, lines of this rank] and gives [y of this rank, lines of c], or the reverse.
Both sides hold these pieces one behind the other, so that nothing is packed. Messages go through GPU-aware MPI, or
through pinned host memory with one copy each way. No communication but in `start` and `finish`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.jit.cuda_device import make_stream

if TYPE_CHECKING:
    from mpi4py import MPI


class ExchangePieces(NamedTuple):
    """What a rank holds of a variable for each other one: complex numbers, and where they begin."""

    counts: list[int]
    begins: list[int]

    @classmethod
    def of(cls, counts: Sequence[int]) -> ExchangePieces:
        """Return pieces of these counts, one behind the other."""
        return cls(list(counts), [sum(counts[:n]) for n in range(len(counts))])

    @property
    def total(self) -> int:
        """Complex numbers of all pieces."""
        return sum(self.counts)


class DeviceExchange:
    """Moves variables between their lines on all ranks and pieces of planes. Built without communication.

    Parameters
    ----------
    comm : the ranks, numbered as the pieces are
    lines, planes : of a rank's lines, and of what it holds of all lines for its planes
    n_variables : that may be under way together; dtype : of real and imaginary parts
    device_buffers : hand device memory to MPI. Else pinned memory of both sides is allocated, for every variable
    stream : where what is sent is made, and where what came is used
    """

    def __init__(
        self, comm: MPI.Comm, lines: ExchangePieces, planes: ExchangePieces, n_variables: int, dtype: DTypeLike,
        device_buffers: bool, stream: Any,
    ) -> None:  # fmt: skip
        self._comm, self._stream, self._staged = comm, stream, not device_buffers
        self._copies = make_stream(urgent=True)  # so that the next variable is computed while one is copied
        self._pieces = {"lines": lines, "planes": planes}
        self._dtype = np.dtype(dtype)
        self._number: np.dtype[Any] = np.result_type(dtype, np.complex64)
        self._made, self._ready = ([cuda.event() for _ in range(n_variables)] for _ in range(2))
        self._requests: dict[int, Any] = {}
        self._host: dict[str, list[Any]] = {}
        if self._staged:
            self._host = {
                side: [cuda.pinned_array(2 * pieces.total, self._dtype) for _ in range(n_variables)]
                for side, pieces in self._pieces.items()
            }

    @property
    def way(self) -> str:
        """How messages go, in words."""
        return "pinned host memory" if self._staged else "GPU-aware MPI"

    def host_bytes(self) -> int:
        """Return the bytes of pinned host memory."""
        return sum(array.nbytes for arrays in self._host.values() for array in arrays)

    def give(self, variable: int, side: str, array: Any) -> None:
        """Put the copy of what is sent behind what makes it. side: "lines" or "planes", where `array` lies."""
        self._made[variable].record(self._stream)
        self._made[variable].wait(self._copies)
        if self._staged:
            array.copy_to_host(self._host[side][variable], stream=self._copies)
        self._ready[variable].record(self._copies)

    def start(self, variable: int, side: str, array: Any, target: Any) -> None:
        """Send a variable that was given, once it is there, to `target` on the other side. Collective, in order."""
        self._ready[variable].synchronize()
        other = _OTHER[side]
        if self._staged:
            array, target = self._host[side][variable], self._host[other][variable]
        kind = _mpi_type(self._number)
        send, receive = self._pieces[side], self._pieces[other]
        self._requests[variable] = self._comm.Ialltoallv(
            [array, send.counts, send.begins, kind], [target, receive.counts, receive.begins, kind]
        )

    def finish(self, variable: int, side: str, target: Any) -> None:
        """Wait for a variable that was sent from `side`; what is put on the stream now finds it. Collective."""
        self._requests.pop(variable).Wait()
        if self._staged:
            target.copy_to_device(self._host[_OTHER[side]][variable], stream=self._copies)
            self._ready[variable].record(self._copies)
            self._ready[variable].wait(self._stream)

    def bytes_held(self, side: str) -> int:
        """Return the bytes of a variable that this rank hands over from one side, its own piece included."""
        return self._pieces[side].total * self._number.itemsize


_OTHER = {"lines": "planes", "planes": "lines"}


def _mpi_type(number: np.dtype[Any]) -> Any:
    from mpi4py import MPI

    return MPI.C_DOUBLE_COMPLEX if number.itemsize == 16 else MPI.C_FLOAT_COMPLEX
