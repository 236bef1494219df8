"""The column and the row exchange of data in device memory: batches of variables, several in flight together.

On either side of an exchange a rank holds, for each variable, pieces for all ranks, one after the other. A batch
holds its variables together in each piece, so that nothing has to be packed. Messages travel by one of three
transports:

- `DirectExchange`: MPI that takes device memory
- `StagedExchange`: MPI through pinned host memory, with one copy each way
- `NcclExchange`: NCCL, from device memory to device memory in the order of a stream, for which the host does not wait

`make_exchange` builds the one that is set, or the fastest of those that are available, measured. Only `start` and
`finish` communicate.

This is the one file that knows NCCL, through the bindings of nccl4py. In numba-cuda's simulator MPI stands in for it,
with the arrays of simulated devices. Source: NCCL's guide, "Point-to-point communication": an all-to-all is a group
of sends and receives.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.fourier.device.layout import TRANSPORT_WORDS, DeviceArray, VariableBatch
from ridgeline.jit.cuda_clock import DeviceClock
from ridgeline.jit.cuda_device import SIMULATED, make_stream
from ridgeline.parallel.allreduce import allreduce_max, broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.autotuner import TuningResult, choose
from ridgeline.parallel.devices import mpi_takes_device_buffers
from ridgeline.runtime.devices import MPI_SWITCH, simulated
from ridgeline.runtime.errors import DeviceError, sentence
from ridgeline.runtime.extras import import_extra

if TYPE_CHECKING:
    from mpi4py import MPI

ExchangeMethod = Literal["auto", "mpi", "host", "nccl"]
_NCCL_TYPES = {8: "Float64", 4: "Float32"}  # NCCL has no complex numbers
_INSTEAD_OF_NCCL = 'set model.transpose.between_gpus = "host"'
log = logging.getLogger(__name__)


class ExchangePieces(NamedTuple):
    """The pieces of a variable that a rank holds for all ranks: complex numbers in each, and where it begins."""

    counts: list[int]
    begins: list[int]

    @classmethod
    def of(cls, counts: Sequence[int]) -> ExchangePieces:
        """Return pieces of these counts, one after the other."""
        return cls(list(counts), [sum(counts[:n]) for n in range(len(counts))])

    @property
    def total(self) -> int:
        """Complex numbers of all pieces."""
        return sum(self.counts)

    def times(self, width: int) -> ExchangePieces:
        """Return the pieces of so many variables."""
        return ExchangePieces.of([width * n for n in self.counts])


class ExchangeStreams(NamedTuple):
    """Streams of a rank: one for the work before and after exchanges, and one for all messages of NCCL."""

    work: Any
    messages: Any


class DeviceExchange(ABC):
    """Moves batches of variables between the two sides of an exchange; the base of all transports.

    Parameters
    ----------
    comm : the ranks, numbered as the pieces are
    sides : complex numbers of one variable that a rank holds for each rank, by the names of the two sides
    n_variables : most that may be in flight together
    dtype : of real and imaginary parts
    streams : of this rank

    Attributes
    ----------
    seconds : that this rank spent in exchanges
    size, sides : number of ranks; names of the sides
    """

    words: ClassVar[str]

    def __init__(
        self,
        comm: MPI.Comm,
        sides: Mapping[str, Sequence[int]],
        n_variables: int,
        dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:
        self._comm, self._stream = comm, streams.work
        self.size, self.sides = comm.size, tuple(sides)
        self._pieces = {side: ExchangePieces.of(counts) for side, counts in sides.items()}
        self._dtype = np.dtype(dtype)
        self._number: np.dtype[Any] = np.result_type(dtype, np.complex64)
        self._made, self._ready = ([cuda.event() for _ in range(n_variables)] for _ in range(2))
        self.seconds = 0.0

    def give(self, batch: VariableBatch, side: str, array: DeviceArray) -> None:
        """Note that the work which computes a batch, `array` on its side, is on the stream. No communication."""
        self._made[batch.first].record(self._stream)

    @abstractmethod
    def start(self, batch: VariableBatch, side: str, array: DeviceArray, target: DeviceArray) -> None:
        """Send a batch that was given, once it is computed, to `target` on the other side. Collective, in order."""

    @abstractmethod
    def finish(self, batch: VariableBatch, side: str, target: DeviceArray) -> None:
        """Wait for a batch that was sent from `side`; work put on the stream from now on finds it. Collective."""

    @abstractmethod
    def collect(self) -> None:
        """Bring `seconds` up to date; streams must have been synchronised. No communication."""

    @abstractmethod
    def free(self) -> None:
        """Free what is not memory; not usable afterwards. Collective."""

    def bytes_held(self, side: str) -> int:
        """Return the bytes of a variable that this rank hands over from one side, its own piece included."""
        return self._pieces[side].total * self._number.itemsize

    def _other(self, side: str) -> str:
        return next(other for other in self.sides if other != side)

    def _both(self, batch: VariableBatch, side: str) -> Iterator[ExchangePieces]:
        """Yield what is sent from a side, and what is received on the other one."""
        return (self._pieces[each].times(batch.width) for each in (side, self._other(side)))


class MpiExchange(DeviceExchange):
    """Messages by MPI, for which the host waits; the base of two classes."""

    def __init__(
        self,
        comm: MPI.Comm,
        sides: Mapping[str, Sequence[int]],
        n_variables: int,
        dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:
        super().__init__(comm, sides, n_variables, dtype, streams)
        self._requests: dict[int, Any] = {}

    def collect(self) -> None:
        """Do nothing: `seconds` are added where the host waits."""

    def free(self) -> None:
        """Do nothing: there is nothing but memory."""

    def _send(self, batch: VariableBatch, side: str, array: DeviceArray, target: DeviceArray) -> None:
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
    """MPI takes device memory. In the simulator it takes the arrays that stand for it."""

    words = TRANSPORT_WORDS["mpi"]

    def start(self, batch: VariableBatch, side: str, array: DeviceArray, target: DeviceArray) -> None:
        with self._timed():
            self._made[batch.first].synchronize()
            if SIMULATED:
                array, target = array._ary, target._ary
            self._send(batch, side, array, target)

    def finish(self, batch: VariableBatch, side: str, target: DeviceArray) -> None:
        with self._timed():
            self._requests.pop(batch.first).Wait()


class StagedExchange(MpiExchange):
    """Messages go through pinned host memory, allocated here for every variable and both sides."""

    words = TRANSPORT_WORDS["host"]

    def __init__(
        self,
        comm: MPI.Comm,
        sides: Mapping[str, Sequence[int]],
        n_variables: int,
        dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:
        super().__init__(comm, sides, n_variables, dtype, streams)
        self._copies = make_stream(urgent=True)  # so that the next variable is computed while one is copied
        self._host = {
            side: cuda.pinned_array(2 * n_variables * pieces.total, self._dtype)
            for side, pieces in self._pieces.items()
        }

    def _on_host(self, batch: VariableBatch, side: str) -> Any:
        size = 2 * self._pieces[side].total
        return self._host[side][batch.first * size : (batch.first + batch.width) * size]

    def give(self, batch: VariableBatch, side: str, array: DeviceArray) -> None:
        """Put the copy to the host behind the work that computes the batch. No communication."""
        super().give(batch, side, array)
        self._made[batch.first].wait(self._copies)
        array.copy_to_host(self._on_host(batch, side), stream=self._copies)
        self._ready[batch.first].record(self._copies)

    def start(self, batch: VariableBatch, side: str, array: DeviceArray, target: DeviceArray) -> None:
        with self._timed():
            self._ready[batch.first].synchronize()
            self._send(batch, side, self._on_host(batch, side), self._on_host(batch, self._other(side)))

    def finish(self, batch: VariableBatch, side: str, target: DeviceArray) -> None:
        with self._timed():
            self._requests.pop(batch.first).Wait()
            target.copy_to_device(self._on_host(batch, self._other(side)), stream=self._copies)
            self._ready[batch.first].record(self._copies)
            self._ready[batch.first].wait(self._stream)


class NcclExchange(DeviceExchange):
    """NCCL sends from device memory in the order of a stream, and the host does not wait. Built collectively.

    All exchanges of a rank share that stream, because two communicators that work at the same time may wait for each
    other for ever. `seconds` are those of the device, which may compute on another stream meanwhile.
    """

    words = TRANSPORT_WORDS["nccl"]

    def __init__(
        self,
        comm: MPI.Comm,
        sides: Mapping[str, Sequence[int]],
        n_variables: int,
        dtype: DTypeLike,
        streams: ExchangeStreams,
    ) -> None:
        super().__init__(comm, sides, n_variables, dtype, streams)
        self._messages = streams.messages
        self._clock = DeviceClock(streams.messages, ("message",))
        self._nccl = make_nccl(comm, dtype)

    def start(self, batch: VariableBatch, side: str, array: DeviceArray, target: DeviceArray) -> None:
        self._made[batch.first].wait(self._messages)
        sent, received = (
            RealPieces(each, [2 * n for n in pieces.counts], [2 * n for n in pieces.begins])
            for each, pieces in zip((array, target), self._both(batch, side))
        )
        with self._clock("message"):
            self._nccl.alltoall(sent, received, self._messages)
        self._ready[batch.first].record(self._messages)

    def finish(self, batch: VariableBatch, side: str, target: DeviceArray) -> None:
        self._ready[batch.first].wait(self._stream)

    def collect(self) -> None:
        self._clock.collect()
        self.seconds = self._clock.seconds["message"]

    def free(self) -> None:
        self._nccl.free()


def _mpi_type(number: np.dtype[Any]) -> Any:
    from mpi4py import MPI

    return MPI.C_DOUBLE_COMPLEX if number.itemsize == 16 else MPI.C_FLOAT_COMPLEX


class RealPieces(NamedTuple):
    """An array of reals in device memory, with the number of them that belong to each rank and where these begin."""

    array: DeviceArray
    counts: Sequence[int]
    begins: Sequence[int]


class NcclExchanges(Protocol):
    """All-to-all exchanges between the ranks of a communicator."""

    def alltoall(self, sent: RealPieces, received: RealPieces, stream: Any) -> None:
        """Put the exchange on a stream. Collective: all ranks, in the same order."""

    def free(self) -> None:
        """Free NCCL's communicator; not usable afterwards. Collective."""


def make_nccl(comm: MPI.Comm, dtype: DTypeLike) -> NcclExchanges:
    """Return NCCL's communicator of the ranks of `comm`, on their current devices. Collective.

    dtype: float64 or float32. Raises DeviceError on all ranks if nccl4py or the library is missing, or if NCCL does
    not accept these devices: it needs one for each rank.
    """
    if simulated():
        return SimulatedNccl(comm, np.dtype(dtype))
    with errors_on_all_ranks(comm):
        nccl = _bindings()
    return _Nccl(nccl, comm, np.dtype(dtype))


class SimulatedNccl:
    """MPI in place of NCCL, where devices are simulated."""

    def __init__(self, comm: MPI.Comm, dtype: np.dtype[Any]) -> None:
        from mpi4py.util.dtlib import from_numpy_dtype

        self._comm, self._kind = comm, from_numpy_dtype(dtype)

    def alltoall(self, sent: RealPieces, received: RealPieces, stream: Any) -> None:
        """Exchange at once."""
        self._comm.Alltoallv(
            [sent.array._ary, sent.counts, sent.begins, self._kind],
            [received.array._ary, received.counts, received.begins, self._kind],
        )

    def free(self) -> None:
        """Do nothing: there is nothing but memory."""


class _Nccl:
    """A communicator of NCCL."""

    def __init__(self, nccl: Any, comm: MPI.Comm, dtype: np.dtype[Any]) -> None:
        self._nccl, self._size, self._itemsize = nccl, comm.size, dtype.itemsize
        self._kind = int(getattr(nccl.DataType, _NCCL_TYPES[dtype.itemsize]))

        with self._errors_explained("cannot be initialised"):
            raw = broadcast_decision(comm, lambda: bytes(nccl.get_unique_id()))
        with (
            errors_on_all_ranks(comm),
            self._errors_explained(
                f"cannot connect {comm.size} ranks, each of which must have a separate GPU"
            ),
        ):
            self._comm = nccl.comm_init_rank(comm.size, nccl.UniqueId.from_buffer(raw), comm.rank)

    @contextmanager
    def _errors_explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._nccl.NCCLError as error:
            raise DeviceError(f"NCCL {what} ({error}). {sentence(_INSTEAD_OF_NCCL)}") from error

    def alltoall(self, sent: RealPieces, received: RealPieces, stream: Any) -> None:
        """Put the exchange on a stream: a group of a send to and a receive from each rank, including this one."""
        nccl = self._nccl
        from_, to = _address(sent.array), _address(received.array)
        common = self._comm, int(stream)
        with self._errors_explained("failed to exchange data"):
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
        self._nccl.comm_destroy(self._comm)


def _address(array: DeviceArray) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def _bindings() -> Any:
    """Return nccl4py's bindings; DeviceError if they or the library are missing."""
    return import_extra("nccl.bindings.nccl", "NCCL", _INSTEAD_OF_NCCL, DeviceError, probe="get_version")


TRANSPORTS: Mapping[str, type[DeviceExchange]] = {
    "mpi": DirectExchange,
    "nccl": NcclExchange,
    "host": StagedExchange,
}


class ExchangeSpec(NamedTuple):
    """What an exchange is built for.

    Attributes
    ----------
    name : "column" or "row"
    comm, all_ranks : the ranks of the exchange; all ranks, which take the same transport for exchanges of one name
    sides, n_variables, dtype, streams : see `DeviceExchange`
    batch : the largest, by which transports are timed
    places : device arrays of that batch, one for each side; what they hold is lost
    case : words for what else the time depends on, such as shape and process grid
    """

    name: str
    comm: MPI.Comm
    all_ranks: MPI.Comm
    sides: Mapping[str, Sequence[int]]
    n_variables: int
    dtype: Any
    streams: ExchangeStreams
    batch: VariableBatch
    places: tuple[DeviceArray, DeviceArray]
    case: str

    def build(self, transport: str, n_variables: int | None = None) -> DeviceExchange:
        """Return the exchange by a transport, for n_variables or all. Collective."""
        n = self.n_variables if n_variables is None else n_variables
        return TRANSPORTS[transport](self.comm, self.sides, n, self.dtype, self.streams)


def make_exchange(spec: ExchangeSpec, method: ExchangeMethod) -> tuple[DeviceExchange, TuningResult | None]:
    """Return an exchange, and what was measured to choose its transport, if anything was. Collective over all ranks.

    Raises DeviceError on all ranks if the transport that is set is not available.
    """
    if method != "auto":
        if method == "mpi" and not (simulated() or mpi_takes_device_buffers()):
            raise DeviceError(
                'model.transpose.between_gpus = "mpi" requires a GPU-aware MPI library, and this one does not report '
                f'that it is GPU-aware. Use "auto", or set {MPI_SWITCH}=1 if it is.'
            )
        return spec.build(method), None

    # One batch by each transport that is available; simulated devices have pinned memory alone.
    n = spec.batch.first + spec.batch.width
    available = {"mpi": spec.build("mpi", n)} if mpi_takes_device_buffers() else {}
    nccl = None if simulated() else _build_nccl(spec, n)
    if nccl is not None:
        available["nccl"] = nccl
    available["host"] = spec.build("host", n)
    trial = None
    if len(available) > 1:
        device = getattr(cuda.get_current_device(), "name", "simulated GPU")
        key = f"{spec.name} exchange between {device}; {spec.case} {spec.batch.width}"
        candidates = {name: partial(_round_trip, spec, exchange) for name, exchange in available.items()}
        trial = choose(candidates, key, spec.all_ranks)
    for exchange in available.values():
        exchange.free()
    return spec.build(next(iter(available)) if trial is None else trial.taken), trial


def _build_nccl(spec: ExchangeSpec, n_variables: int) -> DeviceExchange | None:
    """Return the exchange by NCCL, None unless NCCL is available on all ranks."""
    exchange, problem = None, ""
    try:
        exchange = spec.build("nccl", n_variables)
    except DeviceError as error:
        problem = str(error)
    if problem:
        log.info("NCCL is not used for messages between GPUs: %s", problem)
    if allreduce_max(spec.all_ranks, float(bool(problem))) == 0:
        return exchange
    if exchange is not None:
        exchange.free()
    return None


def _round_trip(spec: ExchangeSpec, exchange: DeviceExchange) -> Mapping[str, float]:
    """Move a batch there and back, and return when it is done on this device."""
    sides, places = exchange.sides, spec.places
    for n in range(2):
        exchange.give(spec.batch, sides[n], places[n])
        exchange.start(spec.batch, sides[n], places[n], places[1 - n])
        exchange.finish(spec.batch, sides[n], places[1 - n])
    spec.streams.work.synchronize()
    return {}
