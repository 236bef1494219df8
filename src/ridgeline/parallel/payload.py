"""Messages whose content can be checked, in host or GPU memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from ridgeline.parallel.devices import mpi_takes_device_buffers, select_device
from ridgeline.runtime.errors import VerificationError

if TYPE_CHECKING:
    Bytes = NDArray[np.uint8]

Memory = Literal["host", "cuda", "cuda-staged"]
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


class Buffer:
    """Memory of one rank for messages of up to n_bytes, on the host or on a GPU.

    memory: "host"; "cuda", which is passed to a CUDA-aware MPI directly; "cuda-staged", which is copied through
    page-locked host memory before a send and after a receive, by the caller's `stage_out` and `stage_in`.
    """

    def __init__(self, n_bytes: int, memory: Memory = "host") -> None:
        self.n_bytes = n_bytes
        self.memory = memory
        self.staged = memory == "cuda-staged"
        self._device: Any = None
        if memory == "host":
            self.host: Bytes = np.zeros(max(n_bytes, 1), np.uint8)
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
        return [array[first:] if first else array, n_bytes, MPI.BYTE]

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
        self.host[: data.size] = data
        if self._device is not None:
            self._device.copy_to_device(self.host)

    def read(self, n_bytes: int) -> Bytes:
        """Return the first bytes, wherever the memory is."""
        if self._device is not None:
            self._device.copy_to_host(self.host)
        return self.host[:n_bytes]


def memory_for(comm: MPI.Comm, device: str) -> Memory:
    """Return the kind of memory for `--device`: "cpu" or "cuda", staged unless MPI is CUDA-aware. Collective.

    Makes this rank's GPU the current one. Raises DeviceError if there is none.
    """
    if device == "cpu":
        return "host"
    select_device(comm)
    aware = comm.allreduce(int(mpi_takes_device_buffers()), MPI.MIN)
    return "cuda" if aware else "cuda-staged"
