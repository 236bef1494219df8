"""The column and the row exchange of data in device memory: batches of variables, several under way together.

Of a variable, a rank holds pieces for all ranks, one behind the other, on either side of the exchange. A batch holds
its variables together in each piece, so that nothing is packed. Messages go by one of three ways: MPI that takes
device memory, pinned host memory with one copy each way, or NCCL. No communication but in `start` and `finish`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.device.layout import WAY_WORDS, VariableBatch
from ridgeline.fourier.device.nccl_cuda import RealPieces, make_nccl
from ridgeline.jit.cuda_clock import DeviceClock
from ridgeline.jit.cuda_device import SIMULATED, make_stream

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


class ExchangeStreams(NamedTuple):
    """Streams of a rank. work: where what is sent is made, and what came is used; messages: of all of NCCL's."""

    work: Any
    messages: Any


class DeviceExchange(ABC):
    """Moves batches of variables between the two sides of an exchange, by one way: base of those ways.

    Parameters
    ----------
    comm : the ranks, numbered as the pieces are
    sides : of one variable what a rank has for each other one, by the names of both sides, complex numbers
    n_variables : that may be under way together; dtype : of real and imaginary parts

    Attributes: seconds: of this rank in exchanges; size: ranks; sides: their names.
    """

    words: ClassVar[str]

    def __init__(
        self, comm: MPI.Comm, sides: Mapping[str, Sequence[int]], n_variables: int, dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:  # fmt: skip
        self._comm, self._stream = comm, streams.work
        self.size, self.sides = comm.size, tuple(sides)
        self._pieces = {side: ExchangePieces.of(counts) for side, counts in sides.items()}
        self._dtype = np.dtype(dtype)
        self._number: np.dtype[Any] = np.result_type(dtype, np.complex64)
        self._made, self._ready = ([cuda.event() for _ in range(n_variables)] for _ in range(2))
        self.seconds = 0.0

    def give(self, batch: VariableBatch, side: str, array: Any) -> None:
        """Say that what sets a batch, `array` on its side, is on the stream. No communication."""
        self._made[batch.first].record(self._stream)

    @abstractmethod
    def start(self, batch: VariableBatch, side: str, array: Any, target: Any) -> None:
        """Send a batch that was given, once it is there, to `target` on the other side. Collective, in order."""

    @abstractmethod
    def finish(self, batch: VariableBatch, side: str, target: Any) -> None:
        """Wait for a batch that was sent from `side`; what is put on the stream now finds it. Collective."""

    @abstractmethod
    def collect(self) -> None:
        """Bring `seconds` up to date; streams must have been synchronised. No communication."""

    @abstractmethod
    def free(self) -> None:
        """Give back what is not memory; not usable afterwards. Collective."""

    def bytes_held(self, side: str) -> int:
        """Return the bytes of a variable that this rank hands over from one side, its own piece included."""
        return self._pieces[side].total * self._number.itemsize

    def _other(self, side: str) -> str:
        return next(other for other in self.sides if other != side)

    def _both(self, batch: VariableBatch, side: str) -> Iterator[ExchangePieces]:
        """Yield what is sent from a side, and what is received on the other one."""
        return (self._pieces[each].times(batch.width) for each in (side, self._other(side)))


class MpiExchange(DeviceExchange):
    """Messages by MPI, for which the host waits: base of two classes."""

    def __init__(
        self, comm: MPI.Comm, sides: Mapping[str, Sequence[int]], n_variables: int, dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:  # fmt: skip
        super().__init__(comm, sides, n_variables, dtype, streams)
        self._requests: dict[int, Any] = {}

    def collect(self) -> None:
        """The host's clock is read where it waits."""

    def free(self) -> None:
        """Nothing but memory."""

    def _send(self, batch: VariableBatch, side: str, array: Any, target: Any) -> None:
        kind = _mpi_type(self._number)
        send, receive = self._both(batch, side)
        self._requests[batch.first] = self._comm.Ialltoallv(
            [array, send.counts, send.begins, kind], [target, receive.counts, receive.begins, kind]
        )

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.seconds += perf_counter() - begin


class DirectExchange(MpiExchange):
    """MPI takes device memory. In the simulator it gets the arrays that stand for it."""

    words = WAY_WORDS["mpi"]

    def start(self, batch: VariableBatch, side: str, array: Any, target: Any) -> None:
        """Wait until the batch is there, and send it. Collective, in order."""
        with self._timed():
            self._made[batch.first].synchronize()
            self._send(batch, side, *(each._ary if SIMULATED else each for each in (array, target)))

    def finish(self, batch: VariableBatch, side: str, target: Any) -> None:
        """Wait for the messages. Collective."""
        with self._timed():
            self._requests.pop(batch.first).Wait()


class StagedExchange(MpiExchange):
    """Messages go through pinned host memory, allocated here for every variable and both sides."""

    words = WAY_WORDS["host"]

    def __init__(
        self, comm: MPI.Comm, sides: Mapping[str, Sequence[int]], n_variables: int, dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:  # fmt: skip
        super().__init__(comm, sides, n_variables, dtype, streams)
        self._copies = make_stream(urgent=True)  # so that the next variable is computed while one is copied
        self._host = {
            side: cuda.pinned_array(2 * n_variables * pieces.total, self._dtype)
            for side, pieces in self._pieces.items()
        }

    def _on_host(self, batch: VariableBatch, side: str) -> Any:
        size = 2 * self._pieces[side].total
        return self._host[side][batch.first * size : (batch.first + batch.width) * size]

    def give(self, batch: VariableBatch, side: str, array: Any) -> None:
        """Put the copy of what is sent behind what makes it. No communication."""
        super().give(batch, side, array)
        self._made[batch.first].wait(self._copies)
        array.copy_to_host(self._on_host(batch, side), stream=self._copies)
        self._ready[batch.first].record(self._copies)

    def start(self, batch: VariableBatch, side: str, array: Any, target: Any) -> None:
        """Wait for the copy, and send it. Collective, in order."""
        with self._timed():
            self._ready[batch.first].synchronize()
            self._send(batch, side, self._on_host(batch, side), self._on_host(batch, self._other(side)))

    def finish(self, batch: VariableBatch, side: str, target: Any) -> None:
        """Wait for the messages, and put the copy to the device before what comes on the stream. Collective."""
        with self._timed():
            self._requests.pop(batch.first).Wait()
            target.copy_to_device(self._on_host(batch, self._other(side)), stream=self._copies)
            self._ready[batch.first].record(self._copies)
            self._ready[batch.first].wait(self._stream)


class NcclExchange(DeviceExchange):
    """NCCL sends from device memory in the order of a stream; the host waits for nothing. Built collectively.

    All exchanges of a rank share that stream: two communicators at work at once may wait for each other for ever. Its
    seconds are the device's, during which others may compute.
    """

    words = WAY_WORDS["nccl"]

    def __init__(
        self, comm: MPI.Comm, sides: Mapping[str, Sequence[int]], n_variables: int, dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:  # fmt: skip
        super().__init__(comm, sides, n_variables, dtype, streams)
        self._messages = streams.messages
        self._clock = DeviceClock(streams.messages, ("message",))
        self._nccl = make_nccl(comm, dtype)

    def start(self, batch: VariableBatch, side: str, array: Any, target: Any) -> None:
        """Put the messages behind what makes the batch. Collective, in order."""
        self._made[batch.first].wait(self._messages)
        sent, received = (
            RealPieces(each, [2 * n for n in pieces.counts], [2 * n for n in pieces.begins])
            for each, pieces in zip((array, target), self._both(batch, side))
        )
        with self._clock("message"):
            self._nccl.alltoall(sent, received, self._messages)
        self._ready[batch.first].record(self._messages)

    def finish(self, batch: VariableBatch, side: str, target: Any) -> None:
        """Let the stream wait for the messages."""
        self._ready[batch.first].wait(self._stream)

    def collect(self) -> None:
        """Read the clock of the messages."""
        self._clock.collect()
        self.seconds = self._clock.seconds["message"]

    def free(self) -> None:
        """Give NCCL's communicator back. Collective."""
        self._nccl.free()


def _mpi_type(number: np.dtype[Any]) -> Any:
    from mpi4py import MPI

    return MPI.C_DOUBLE_COMPLEX if number.itemsize == 16 else MPI.C_FLOAT_COMPLEX
