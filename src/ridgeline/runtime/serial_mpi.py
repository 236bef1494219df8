"""MPI for one rank, in Python: what `mpi4py.MPI` offers to the code of this package, where no MPI library loads.

`mpi_import.py` puts these names into `mpi4py.MPI`. Functions behave as MPI's do in a communicator of one rank: a
collective call copies from the send buffer to the receive buffer, and messages go from the rank to itself. Derived
datatypes, views of files and windows, which no model needs on one rank, are left out: they raise LauncherError, which
names the function. Names are MPI's.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import LauncherError

UNDEFINED, PROC_NULL, ANY_SOURCE, ANY_TAG, ROOT = -32766, -1, -2, -1, -3
THREAD_SINGLE, THREAD_FUNNELED, THREAD_SERIALIZED, THREAD_MULTIPLE = range(4)
COMM_TYPE_SHARED, MODE_RDONLY, MODE_WRONLY, MODE_RDWR, MODE_CREATE = 1, 2, 4, 8, 1
LOCK_EXCLUSIVE, LOCK_SHARED, MODE_NOCHECK, MODE_NOSUCCEED = 1, 2, 4, 8
IN_PLACE, BOTTOM, INFO_NULL = "IN_PLACE", "BOTTOM", None
SUM, MAX, MIN, PROD, LAND, LOR, BAND, BOR = "SUM", "MAX", "MIN", "PROD", "LAND", "LOR", "BAND", "BOR"
LIBRARY = "no MPI library (one rank)"


class Exception(RuntimeError):
    """An error of MPI; none occurs here."""

    def Get_error_string(self) -> str:
        """Return the message."""
        return str(self)


def _left_out(kind: type, name: str) -> NoReturn:
    if name[:1].isupper():
        raise LauncherError(
            f"{kind.__name__}.{name} needs an MPI library, but none loads. Load your site's MPI module, or install "
            f"one with: pip install mpich"
        )
    raise AttributeError(f"{kind.__name__!r} has no attribute {name!r}")


class _OneRankType(type):
    """Raises an error, in words, for a function of a class of MPI that is left out, such as `Win.Allocate`."""

    def __getattr__(cls, name: str) -> NoReturn:
        _left_out(cls, name)


class _OneRank(metaclass=_OneRankType):
    """Raises the same for a function of an object."""

    def __getattr__(self, name: str) -> NoReturn:
        _left_out(type(self), name)


class Datatype(_OneRank):
    """A predefined type of MPI."""

    def __init__(self, code: str) -> None:
        self.size = np.dtype(code).itemsize
        self.extent = self.size

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """Return the type of NumPy's code."""
        return cls(code)

    def Get_size(self) -> int:
        """Return the bytes of a value."""
        return self.size

    def Dup(self) -> Datatype:
        """Return the type, which nothing frees."""
        return self

    Commit = Dup

    def Free(self) -> None:
        """Do nothing."""

    def Get_extent(self) -> tuple[int, int]:
        """Return the first byte and the bytes of a value."""
        return 0, self.size


BYTE, CHAR, INT, UINT = Datatype("u1"), Datatype("i1"), Datatype("i4"), Datatype("u4")
UINT8_T, INT64_T, UINT64_T = Datatype("u1"), Datatype("i8"), Datatype("u8")
FLOAT, DOUBLE = Datatype("f4"), Datatype("f8")
C_FLOAT_COMPLEX, C_DOUBLE_COMPLEX = Datatype("c8"), Datatype("c16")


def _bytes(message: Any) -> NDArray[np.uint8]:
    """Return the bytes that a buffer of MPI stands for: an array, or a list of it, counts, places and a type."""
    parts = list(message) if isinstance(message, (list, tuple)) else [message]
    buffer = parts[0]
    array = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("message: ndarray is not contiguous")
    item = array.itemsize
    flat = array.reshape(-1, order="A").view(np.uint8)
    rest = parts[1:]
    if rest and (isinstance(rest[-1], (str, Datatype)) or rest[-1] is None):
        kind = rest.pop()
        item = kind.size if isinstance(kind, Datatype) else item
    if len(rest) == 1 and isinstance(rest[0], tuple):
        rest = list(rest[0])
    counts, places = (*rest, None, None)[:2]
    # With neighbours, this rank may be several of them, or there may be none.
    start = int(np.asarray(places).reshape(-1)[:1].sum()) if places is not None else 0
    count = int(np.asarray(counts).sum()) if counts is not None else len(flat) // max(item, 1) - start
    return flat[start * item : (start + count) * item]


def _copy(source: Any, target: Any) -> None:
    if isinstance(source, str) or isinstance(target, str) or target is None:
        return  # IN_PLACE
    given, taken = _bytes(source), _bytes(target)
    if len(given) > len(taken):
        raise Exception(f"a message of {len(given)} bytes was truncated to {len(taken)} bytes")
    taken[: len(given)] = given


def _of_object(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


class Status:
    """What is known of a message that was received: from this rank, of so many bytes."""

    def __init__(self, count: int = 0, tag: int = 0) -> None:
        self.count, self.tag, self.source = count, tag, 0

    def Get_source(self) -> int:
        """Return 0, the only rank."""
        return 0

    def Get_tag(self) -> int:
        """Return the tag."""
        return self.tag

    def Get_count(self, datatype: Datatype = BYTE) -> int:
        """Return the number of values."""
        return self.count // datatype.size


class Request:
    """A message or a collective call; it is complete as soon as a message with its tag was sent."""

    def __init__(self, comm: Comm | None = None, target: Any = None, tag: int = ANY_TAG) -> None:
        self._comm, self._target, self._tag = comm, target, tag
        self._waits = comm is not None

    def Test(self, status: Status | None = None) -> bool:
        """Say whether it is complete."""
        if self._waits and self._comm is not None and self._comm._has(self._tag):
            self._comm._take(self._target, self._tag)
            self._waits = False
        return not self._waits

    def Wait(self, status: Status | None = None) -> bool:
        """Complete it; raise Exception where MPI would wait for ever."""
        if not self.Test():
            raise Exception("the only rank waits for a message that it has not sent")
        return True

    test, wait = Test, Wait

    def Free(self) -> None:
        """Release it."""

    def Cancel(self) -> None:
        """Forget it."""
        self._waits = False

    @staticmethod
    def Waitall(requests: Iterable[Request], statuses: Any = None) -> bool:
        """Complete all of them."""
        return min((request.Wait() for request in requests), default=True)

    waitall = Waitall

    @staticmethod
    def Testall(requests: Iterable[Request], statuses: Any = None) -> bool:
        """Say whether all of them are complete."""
        return min((request.Test() for request in requests), default=True)

    @staticmethod
    def Waitany(requests: Sequence[Request], status: Any = None) -> int:
        """Complete one of them and return its number."""
        return next((i for i, request in enumerate(requests) if request.Test()), UNDEFINED)


class Prequest(Request):
    """A message that can be started again and again."""

    def __init__(self, comm: Comm, buffer: Any, rank: int, tag: int, sends: bool) -> None:
        super().__init__(None, buffer, tag)
        self._owner, self._rank, self._sends = comm, rank, sends

    def Start(self) -> None:
        """Start it once."""
        if self._rank == PROC_NULL:
            return
        if self._sends:
            self._owner.Send(self._target, self._rank, self._tag)
        else:
            self._comm, self._waits = self._owner, True

    @staticmethod
    def Startall(requests: Iterable[Prequest]) -> None:
        """Start all of them."""
        for request in requests:
            request.Start()


REQUEST_NULL = Request()


class _RankGroup(_OneRank):
    """The ranks of a communicator: rank 0, or none."""

    size, rank = 1, 0

    def Incl(self, ranks: Sequence[int]) -> _RankGroup:
        """Return the group of some of its ranks."""
        return self

    def Translate_ranks(self, ranks: Sequence[int], group: _RankGroup) -> list[int]:
        """Return the ranks in another group."""
        return list(ranks)

    def Free(self) -> None:
        """Release it."""


Group = _RankGroup


class Comm(_OneRank):
    """A communicator with one rank."""

    size, rank = 1, 0
    name = "MPI_COMM_SELF"

    def __init__(self) -> None:
        self._messages: list[tuple[int, Any]] = []

    def _has(self, tag: int) -> bool:
        return any(tag in (ANY_TAG, sent) for sent, _ in self._messages)

    def _take(self, target: Any, tag: int) -> None:
        place = next(i for i, (sent, _) in enumerate(self._messages) if tag in (ANY_TAG, sent))
        _copy(self._messages.pop(place)[1], target)

    def Get_size(self) -> int:
        """Return 1."""
        return 1

    def Get_rank(self) -> int:
        """Return 0."""
        return 0

    def Get_group(self) -> _RankGroup:
        """Return its group."""
        return _RankGroup()

    def Dup(self) -> Self:
        """Return a communicator of the same rank, whose messages are apart."""
        return type(self)()

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """Return a communicator of this rank, or none."""
        return COMM_NULL if color == UNDEFINED else Intracomm()

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Comm:
        """Return a communicator of this rank."""
        return Intracomm()

    def Create_group(self, group: _RankGroup, tag: int = 0) -> Comm:
        """Return a communicator of this rank."""
        return Intracomm()

    def Create_cart(self, dims: Sequence[int], periods: Any = None, reorder: bool = False) -> Cartcomm:
        """Return a Cartesian communicator of this rank."""
        cartesian = Cartcomm()
        cartesian.dims, cartesian.periods = list(dims), list(periods or [False] * len(dims))
        return cartesian

    def Create_dist_graph_adjacent(self, sources: Sequence[int], destinations: Sequence[int]) -> Intracomm:
        """Return a communicator whose neighbours are this rank, once or more often, or none."""
        return Intracomm()

    def Free(self) -> None:
        """Release it."""

    def Abort(self, code: int = 0) -> NoReturn:
        """End the process."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def Is_inter(self) -> bool:
        """Return False."""
        return False

    def Set_name(self, name: str) -> None:
        """Do nothing."""

    # Messages to itself.

    def Send(self, buffer: Any, dest: int, tag: int = 0) -> None:
        """Keep a copy until it is received."""
        if dest != PROC_NULL:
            self._messages.append((tag, _bytes(buffer).copy()))

    Ssend = Bsend = Rsend = Send

    def Recv(self, buffer: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> None:
        """Receive the oldest message with this tag."""
        if source != PROC_NULL:
            Request(self, buffer, tag).Wait()

    def Isend(self, buffer: Any, dest: int, tag: int = 0) -> Request:
        """Send."""
        self.Send(buffer, dest, tag)
        return Request()

    Issend = Isend

    def Irecv(self, buffer: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        """Receive later."""
        return Request() if source == PROC_NULL else Request(self, buffer, tag)

    def Send_init(self, buffer: Any, dest: int, tag: int = 0) -> Prequest:
        """Return a message to be sent."""
        return Prequest(self, buffer, dest, tag, True)

    Ssend_init = Send_init

    def Recv_init(self, buffer: Any, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Prequest:
        """Return a message to be received."""
        return Prequest(self, buffer, source, tag, False)

    def Sendrecv(
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Any = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: Any = None,
    ) -> None:
        """Send and receive."""
        self.Send(sendbuf, dest, sendtag)
        self.Recv(recvbuf, source, recvtag)

    def send(self, value: Any, dest: int, tag: int = 0) -> None:
        """Send an object."""
        self._messages.append((tag, np.frombuffer(pickle.dumps(value), np.uint8)))

    def recv(self, buf: Any = None, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> Any:
        """Receive an object."""
        place = next(i for i, (sent, _) in enumerate(self._messages) if tag in (ANY_TAG, sent))
        return pickle.loads(self._messages.pop(place)[1].tobytes())

    def Iprobe(self, source: int = ANY_SOURCE, tag: int = ANY_TAG, status: Any = None) -> bool:
        """Say whether a message has arrived."""
        return self._has(tag)

    # Collective calls of buffers.

    def Barrier(self) -> None:
        """Do nothing."""

    def Ibarrier(self) -> Request:
        """Do nothing."""
        return Request()

    def Bcast(self, buffer: Any, root: int = 0) -> None:
        """Do nothing."""

    def Ibcast(self, buffer: Any, root: int = 0) -> Request:
        """Do nothing."""
        return Request()

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> None:
        """Copy."""
        _copy(sendbuf, recvbuf)

    Scan = Reduce_scatter_block = Allreduce

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> Request:
        """Copy."""
        _copy(sendbuf, recvbuf)
        return Request()

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Any = SUM) -> None:
        """Do nothing: the result of rank 0 is undefined."""

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Any = SUM, root: int = 0) -> None:
        """Copy."""
        _copy(sendbuf, recvbuf)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Copy."""
        _copy(sendbuf, recvbuf)

    Allgatherv = Alltoall = Alltoallv = Neighbor_alltoall = Neighbor_alltoallv = Allgather

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Copy."""
        _copy(sendbuf, recvbuf)
        return Request()

    Ialltoallv = Ialltoall = Iallgather = Iallgatherv

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Copy."""
        _copy(sendbuf, recvbuf)

    Gatherv = Scatter = Scatterv = Gather

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Copy."""
        _copy(sendbuf, recvbuf)
        return Request()

    # Collective calls of objects.

    def barrier(self) -> None:
        """Do nothing."""

    def bcast(self, value: Any, root: int = 0) -> Any:
        """Return the value."""
        return value

    def allreduce(self, value: Any, op: Any = SUM) -> Any:
        """Return a copy of the value."""
        return _of_object(value)

    reduce = scan = allreduce

    def exscan(self, value: Any, op: Any = SUM) -> None:
        """Return None, as rank 0 does."""

    def allgather(self, value: Any) -> list[Any]:
        """Return a copy of the value in a list."""
        return [_of_object(value)]

    def gather(self, value: Any, root: int = 0) -> list[Any]:
        """Return a copy of the value in a list."""
        return [_of_object(value)]

    def scatter(self, values: Sequence[Any], root: int = 0) -> Any:
        """Return a copy of the only value."""
        return _of_object(values[0])

    def alltoall(self, values: Sequence[Any]) -> list[Any]:
        """Return copies of the values."""
        return [_of_object(value) for value in values]


class Intracomm(Comm):
    """A communicator of one group."""


class Cartcomm(Intracomm):
    """The only rank, laid out over a grid of one block."""

    dims: Sequence[int] = ()
    periods: Sequence[bool] = ()

    @property
    def coords(self) -> list[int]:
        """Return zeros."""
        return [0] * len(self.dims)

    def Get_coords(self, rank: int) -> list[int]:
        """Return zeros."""
        return self.coords

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Return 0."""
        return 0

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return this rank, or none beyond the end of the grid."""
        return (0, 0) if self.periods[direction] else (PROC_NULL, PROC_NULL)

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """Return the communicator of some of the directions."""
        sub = Cartcomm()
        sub.dims = [n for n, stays in zip(self.dims, remain_dims) if stays]
        sub.periods = [n for n, stays in zip(self.periods, remain_dims) if stays]
        return sub


COMM_WORLD, COMM_SELF, COMM_NULL = Intracomm(), Intracomm(), Intracomm()


class File(_OneRank):
    """A file that one rank writes or reads. Errors of the system are OSError."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def Open(cls, comm: Comm, filename: str, amode: int = MODE_RDONLY, info: Any = None) -> File:
        """Open a file."""
        access = {MODE_RDONLY: os.O_RDONLY, MODE_WRONLY: os.O_WRONLY, MODE_RDWR: os.O_RDWR}[
            amode & ~MODE_CREATE
        ]
        return cls(
            os.open(filename, access | (os.O_CREAT if amode & MODE_CREATE else 0) | os.O_CLOEXEC, 0o666)
        )

    def Write_at(self, offset: int, buffer: Any, status: Any = None) -> None:
        """Write at a position."""
        left = memoryview(_bytes(buffer).data)
        while left:
            done = os.pwrite(self._descriptor, left, offset)
            left, offset = left[done:], offset + done

    Write_at_all = Write_at

    def Read_at(self, offset: int, buffer: Any, status: Any = None) -> None:
        """Read at a position."""
        target = _bytes(buffer)
        content = os.pread(self._descriptor, len(target), offset)
        target[: len(content)] = np.frombuffer(content, np.uint8)

    Read_at_all = Read_at

    def Sync(self) -> None:
        """Force the file to the disk."""
        os.fsync(self._descriptor)

    def Close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Op:
    """A reduction. With one rank none is applied."""

    @classmethod
    def Create(cls, function: Any, commute: bool = False) -> Op:
        """Return a reduction."""
        return cls()

    def Free(self) -> None:
        """Release it."""


class Win(_OneRank):
    """Memory that ranks share. Only the name is there."""


def Get_library_version() -> str:
    """Return a text that says that there is none."""
    return LIBRARY


def Get_version() -> tuple[int, int]:
    """Return the version of the standard whose names these are."""
    return (4, 0)


def Get_processor_name() -> str:
    """Return the name of the host."""
    return os.uname().nodename


def Query_thread() -> int:
    """Return that any thread may call."""
    return THREAD_MULTIPLE


def Is_initialized() -> bool:
    """Return True."""
    return True


def Is_finalized() -> bool:
    """Return False."""
    return False


def Wtime() -> float:
    """Return seconds."""
    return time.perf_counter()
