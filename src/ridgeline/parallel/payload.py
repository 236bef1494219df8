"""Messages whose content can be checked, in host or GPU memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.devices import mpi_takes_device_buffers, select_device
from ridgeline.runtime.errors import ConfigError, VerificationError
from ridgeline.runtime.memory_pages import Pages, huge_share, paged_zeros

if TYPE_CHECKING:
    Bytes = NDArray[np.uint8]

Memory = Literal["host", "cuda", "cuda-staged"]
Datatype = Literal["bytes", "contiguous", "vector", "indexed"]
_BLOCK = 8  # bytes of a block of a derived datatype
# Where the blocks of a repeating unit of a datatype begin, in blocks, and how long the unit is.
_UNITS: dict[Datatype, tuple[tuple[int, ...], int]] = {
    "contiguous": ((0,), 1),
    "vector": ((0,), 2),
    "indexed": ((0, 1, 4, 6), 8),
}
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd: consecutive words differ in every byte
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def content(n_bytes: int, source: int, target: int, sequence: int = 0) -> Bytes:
    """Return the bytes of a message that `check` recognises.

    A message that is shifted, old or meant for another rank differs from it in almost every word.

    Parameters
    ----------
    n_bytes : int
        Length of the message.
    source, target : int
        The ranks that send and receive it.
    sequence : int
        Number of the message between these two ranks.

    Returns
    -------
    uint8 [n_bytes]
        A new array, the same on every rank that computes it.

    Notes
    -----
    Local. It costs about two operations for each byte.

    Examples
    --------
    >>> from ridgeline.parallel.payload import content
    >>> message = content(16, source=0, target=1)
    >>> message.dtype, message.shape
    (dtype('uint8'), (16,))
    """
    places = np.arange(n_bytes // 8 + 1, dtype=np.uint64)
    array: Bytes = words_at(places, source, target, sequence).view(np.uint8)[:n_bytes]
    return array


def words_at(places: NDArray[np.uint64], source: int, target: int, sequence: int = 0) -> NDArray[np.uint64]:
    """Return the 8-byte words of `content` at these places (0: bytes 0 to 7), uint64, of the shape of places."""
    seed = np.array([source + 1, target + 1, sequence + 1], np.uint64) * _MIX
    # Computed on arrays, because NumPy warns when the product of scalars wraps.
    start = (seed[:1] ^ (seed[1:2] >> np.uint64(7)) ^ (seed[2:] << np.uint64(11))) * _MIX
    words: NDArray[np.uint64] = places * _STEP + start
    words ^= words >> np.uint64(29)
    return words


def check(arrived: Bytes, source: int, target: int, sequence: int = 0) -> None:
    """Compare a message that arrived with the one that was sent.

    Parameters
    ----------
    arrived : uint8 array
        The bytes that arrived.
    source, target, sequence : int
        As they were given to `content`.

    Raises
    ------
    VerificationError
        If a byte is wrong. The message names the first one.

    Notes
    -----
    Local: the expected bytes are computed again, not communicated.

    Examples
    --------
    >>> from ridgeline.parallel.payload import check, content
    >>> message = content(16, source=0, target=1)
    >>> check(message, source=0, target=1)
    >>> message[5] ^= 1
    >>> try:
    ...     check(message, source=0, target=1)
    ... except Exception as error:
    ...     print("the first at byte 5" in str(error))
    True
    """
    wrong = np.flatnonzero(arrived != content(arrived.size, source, target, sequence))
    if wrong.size:
        raise VerificationError(
            f"rank {target} received {arrived.size} B from rank {source}, {wrong.size} of them wrong, the first at "
            f"byte {wrong[0]}. The network or the memory of one of the two nodes corrupts data."
        )


@cache
def _unit_type(datatype: Datatype) -> MPI.Datatype:
    """Return the committed type of one unit of a datatype. Types live as long as the process."""
    starts, length = _UNITS[datatype]
    block = MPI.BYTE.Create_contiguous(_BLOCK)
    unit = block.Create_indexed_block(1, starts).Create_resized(0, length * _BLOCK)
    return unit.Commit()


@dataclass(frozen=True)
class MessageForm:
    """Where messages lie, and how.

    Attributes
    ----------
    memory
        On the host or on a GPU (`Buffer`).
    pages
        The size of the pages of host memory.
    datatype
        "bytes" (MPI_BYTE), or a derived datatype of blocks of 8 bytes: "contiguous" without gaps, "vector" with a gap
        of a block after each block, and "indexed" with four blocks at irregular places of eight.

    Raises ConfigError for pages or datatypes of messages on GPUs.
    """

    memory: Memory = "host"
    pages: Pages = "default"
    datatype: Datatype = "bytes"

    def __post_init__(self) -> None:
        """Check that the memory is the host's where pages or a datatype are chosen."""
        for option, default in (("pages", "default"), ("datatype", "bytes")):
            if self.memory != "host" and getattr(self, option) != default:
                raise ConfigError(
                    f"--{option} {getattr(self, option)} requires --device cpu, because messages in GPU memory "
                    "are measured as bytes without gaps, in the pages of the driver."
                )

    @property
    def multiple(self) -> int:
        """The number of bytes of which sizes of messages must be multiples."""
        return 1 if self.datatype == "bytes" else _BLOCK * len(_UNITS[self.datatype][0])

    @property
    def spread(self) -> int:
        """The bytes of memory for each byte of a message, more than 1 where the datatype has gaps."""
        starts, length = _UNITS.get(self.datatype, ((0,), 1))
        return length // len(starts)

    def buffer(self, n_bytes: int) -> Buffer:
        """Return a buffer for n_bytes of messages."""
        return Buffer(n_bytes, self.memory, self.pages, self.datatype)

    def settings(self, huge_pages: float | None) -> dict[str, Any]:
        """Return what the JSON of a benchmark says of its buffers. huge_pages: their share, if it is known."""
        return {
            "memory": self.memory,
            "pages": self.pages,
            "huge_pages": huge_pages,
            "datatype": self.datatype,
        }


BYTES = MessageForm()  # in host memory


class Buffer:
    """Memory of one rank for messages of up to n_bytes, on the host or on a GPU.

    memory: "host"; "cuda", which is passed to a CUDA-aware MPI directly; "cuda-staged", which is copied through
    page-locked host memory before a send and after a receive, by the caller's `stage_out` and `stage_in`.
    pages, datatype: see `MessageForm`. With a datatype that has gaps, `write` and `read` leave them out.
    """

    def __init__(
        self,
        n_bytes: int,
        memory: Memory = "host",
        pages: Pages = "default",
        datatype: Datatype = "bytes",
    ) -> None:
        self.n_bytes = n_bytes
        self.memory = memory
        self.datatype = datatype
        self.staged = memory == "cuda-staged"
        self._device: Any = None
        form = MessageForm(memory, pages, datatype)
        self._spread, self._multiple = form.spread, form.multiple
        if memory == "host":
            self.host: Bytes = paged_zeros(n_bytes * self._spread, pages)
        else:
            from numba import cuda

            self.host = cuda.pinned_array(max(n_bytes, 1), np.uint8)
            self.host[:] = 0
            self._device = cuda.to_device(self.host)

    def array(self, on_device: bool) -> Any:
        """Return the bytes, uint8 [at least n_bytes], on the GPU (for memory other than "host") or on the host."""
        return self._device if on_device else self.host

    def message(self, n_bytes: int, first: int = 0) -> list[Any]:
        """Return mpi4py's specification of n_bytes from byte `first` on. Create it once, outside a timed loop."""
        array = self.array(self.memory == "cuda")
        here = array[first * self._spread :] if first else array
        if self.datatype == "bytes":
            return [here, n_bytes, MPI.BYTE]
        return [here, n_bytes // self._multiple, _unit_type(self.datatype)]

    def huge_pages(self) -> float | None:
        """Return the share of the host memory around this buffer that lies in huge pages; None if it is not known."""
        return huge_share(self.host)

    def _blocks(self, n_bytes: int) -> NDArray[np.int64]:
        """Return the bytes of the first n_bytes of messages in memory, as indices."""
        starts, length = _UNITS[self.datatype]
        block, byte = np.divmod(np.arange(n_bytes), _BLOCK)
        unit, within = np.divmod(block, len(starts))
        places: NDArray[np.int64] = (unit * length + np.array(starts)[within]) * _BLOCK + byte
        return places

    def stage_out(self, n_bytes: int) -> None:
        """Copy the first n_bytes from the GPU to the host."""
        if n_bytes:
            self._device[:n_bytes].copy_to_host(self.host[:n_bytes])

    def stage_in(self, n_bytes: int) -> None:
        """Copy the first n_bytes from the host to the GPU."""
        if n_bytes:
            self._device[:n_bytes].copy_to_device(self.host[:n_bytes])

    def write(self, data: Bytes) -> None:
        """Set the first bytes, wherever the memory is."""
        if self._spread > 1:
            self.host[self._blocks(data.size)] = data
        else:
            self.host[: data.size] = data
        if self._device is not None:
            self._device.copy_to_device(self.host)

    def read(self, n_bytes: int) -> Bytes:
        """Return the first bytes, wherever the memory is."""
        if self._device is not None:
            self._device.copy_to_host(self.host)
        return self.host[self._blocks(n_bytes)] if self._spread > 1 else self.host[:n_bytes]


def memory_for(comm: MPI.Comm, device: str) -> Memory:
    """Return the kind of memory for `--device`: "cpu" or "cuda", staged unless MPI is CUDA-aware. Collective.

    Makes this rank's GPU the current one. Raises DeviceError if there is none.
    """
    if device == "cpu":
        return "host"
    select_device(comm)
    aware = comm.allreduce(int(mpi_takes_device_buffers()), MPI.MIN)
    return "cuda" if aware else "cuda-staged"
