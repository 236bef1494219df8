"""The column and the row exchange of data in device memory: batches of variables, several under way together.

Of a variable, a rank holds pieces for all ranks, one behind the other, on either side of the exchange. A batch holds
its variables together in each piece, so that nothing is packed. Messages go through GPU-aware MPI, or through pinned
host memory with one copy each way. No communication but in `start` and `finish`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.device.layout import VariableBatch
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

    def times(self, width: int) -> ExchangePieces:
        """Return the pieces of so many variables."""
        return ExchangePieces.of([width * n for n in self.counts])


class DeviceExchange:
    """Moves batches of variables between the two sides of an exchange. Built without communication.

    Parameters
    ----------
    comm : the ranks, numbered as the pieces are
    sides : of one variable what a rank has for each other one, by the names of both sides, complex numbers
    n_variables : that may be under way together; dtype : of real and imaginary parts
    device_buffers : hand device memory to MPI. Else pinned memory of both sides is allocated, for every variable
    stream : where what is sent is made, and where what came is used

    Attributes: seconds: that this rank spent in `start` and `finish`; size: ranks; sides: their names.
    """

    def __init__(
        self, comm: MPI.Comm, sides: Mapping[str, Sequence[int]], n_variables: int, dtype: DTypeLike,
        device_buffers: bool, stream: Any,
    ) -> None:  # fmt: skip
        self._comm, self._stream, self._staged = comm, stream, not device_buffers
        self._copies = make_stream(urgent=True)  # so that the next variable is computed while one is copied
        self.size, self.sides = comm.size, tuple(sides)
        self._pieces = {side: ExchangePieces.of(counts) for side, counts in sides.items()}
        self._dtype = np.dtype(dtype)
        self._number: np.dtype[Any] = np.result_type(dtype, np.complex64)
        self._made, self._ready = ([cuda.event() for _ in range(n_variables)] for _ in range(2))
        self._requests: dict[int, Any] = {}
        self._host: dict[str, Any] = {}
        self.seconds = 0.0
        if self._staged:
            self._host = {
                side: cuda.pinned_array(2 * n_variables * pieces.total, self._dtype)
                for side, pieces in self._pieces.items()
            }

    @property
    def way(self) -> str:
        """How messages go, in words."""
        return "pinned host memory" if self._staged else "GPU-aware MPI"

    def host_bytes(self) -> int:
        """Return the bytes of pinned host memory."""
        return sum(array.nbytes for array in self._host.values())

    def _on_host(self, batch: VariableBatch, side: str) -> Any:
        size = 2 * self._pieces[side].total
        return self._host[side][batch.first * size : (batch.first + batch.width) * size]

    def give(self, batch: VariableBatch, side: str, array: Any) -> None:
        """Put the copy of what is sent behind what makes it. side: where `array`, the batch, lies."""
        made, ready = self._made[batch.first], self._ready[batch.first]
        made.record(self._stream)
        made.wait(self._copies)
        if self._staged:
            array.copy_to_host(self._on_host(batch, side), stream=self._copies)
        ready.record(self._copies)

    def start(self, batch: VariableBatch, side: str, array: Any, target: Any) -> None:
        """Send a batch that was given, once it is there, to `target` on the other side. Collective, in order."""
        begin = perf_counter()
        self._ready[batch.first].synchronize()
        other = self._other(side)
        if self._staged:
            array, target = self._on_host(batch, side), self._on_host(batch, other)
        kind = _mpi_type(self._number)
        send, receive = (self._pieces[each].times(batch.width) for each in (side, other))
        self._requests[batch.first] = self._comm.Ialltoallv(
            [array, send.counts, send.begins, kind], [target, receive.counts, receive.begins, kind]
        )
        self.seconds += perf_counter() - begin

    def finish(self, batch: VariableBatch, side: str, target: Any) -> None:
        """Wait for a batch that was sent from `side`; what is put on the stream now finds it. Collective."""
        begin = perf_counter()
        self._requests.pop(batch.first).Wait()
        if self._staged:
            target.copy_to_device(self._on_host(batch, self._other(side)), stream=self._copies)
            self._ready[batch.first].record(self._copies)
            self._ready[batch.first].wait(self._stream)
        self.seconds += perf_counter() - begin

    def bytes_held(self, side: str) -> int:
        """Return the bytes of a variable that this rank hands over from one side, its own piece included."""
        return self._pieces[side].total * self._number.itemsize

    def _other(self, side: str) -> str:
        return next(other for other in self._pieces if other != side)


def _mpi_type(number: np.dtype[Any]) -> Any:
    from mpi4py import MPI

    return MPI.C_DOUBLE_COMPLEX if number.itemsize == 16 else MPI.C_FLOAT_COMPLEX
