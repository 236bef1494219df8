"""The ways in which a transpose's messages travel. Each is an Exchange over the arena of a TransposePlan.

Calls are made once, at plan time, for all variables; for fewer, when first asked for. A rank's own block stays.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from mpi4py import MPI
from mpi4py.util.dtlib import from_numpy_dtype
from numpy.typing import NDArray

from ridgeline.fourier.exchanges.transpose_plan import TransposePlan

Spec = list[Any]  # [buffer, counts, places, datatype] as mpi4py takes it


class Exchange(Protocol):
    """Moves chunks. forward: from the rows regions to the columns regions, else back; n: variables."""

    def open(self, forward: bool) -> None:
        """Wait until what is handed over next may be written."""

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Send a chunk."""

    def progress(self) -> None:
        """Let MPI move on what was started."""

    def finish(self) -> None:
        """Wait for all that was started, here and from others."""

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, messages) that this rank sends to others in one exchange."""

    def free(self) -> None:
        """Free datatypes and communicators."""


class OwnArena:
    """What exchanges have in common that deliver into an arena of the receiver's own: nobody else reads it."""

    def open(self, forward: bool) -> None:
        """Nobody reads what was handed over before."""


class Blocking(OwnArena):
    """What exchanges have in common that leave nothing under way after `start`."""

    def progress(self) -> None:
        """Nothing is under way."""

    def finish(self) -> None:
        """Nothing is under way."""


class Alltoallv(OwnArena):
    """MPI_Alltoallv with exact counts: blocking, or nonblocking chunk by chunk. Per batch one call and chunk;
    in the inverse direction, and for part of a batch, one per cell.
    """

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any], overlap: bool) -> None:
        self._comm = comm
        self._plan = plan
        self._arena = arena
        self._overlap = overlap
        self._type = from_numpy_dtype(arena.dtype)
        self._requests: list[MPI.Request] = []
        self._calls: dict[tuple[bool, int, int], list[tuple[Spec, Spec]]] = {}

    def calls(self, forward: bool, chunk: int, n: int) -> list[tuple[Spec, Spec]]:
        """Return what to send and receive in each call for a chunk."""
        key = forward, chunk, n
        if key not in self._calls:
            batches = range(-(-n // self._plan.batch))
            self._calls[key] = [call for b in batches for call in self._batch(forward, chunk, b, n)]
        return self._calls[key]

    def _batch(self, forward: bool, chunk: int, batch: int, n: int) -> list[tuple[Spec, Spec]]:
        send = self._side(forward, forward, chunk, batch, n)
        receive = self._side(not forward, forward, chunk, batch, n)
        return list(zip(send, receive))

    def _side(self, row_side: bool, forward: bool, chunk: int, batch: int, n: int) -> list[Spec]:
        """Return one side of the calls: this rank as the owner of rows, or of columns."""
        plan, me = self._plan, self._plan.rank
        parts = []
        for peer in range(plan.size):
            pair = (me, peer) if row_side else (peer, me)
            place = plan.place(batch, peer, row_side)
            found = plan.parts(*pair, batch, forward, chunk, n)
            parts.append([(place + begin, 0 if peer == me else count) for begin, count in found])
        table = np.array(parts, np.int64)  # [peer, call, (place, count)]
        return [
            [self._arena, call[:, 1].copy(), call[:, 0].copy(), self._type] for call in table.swapaxes(0, 1)
        ]

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Exchange a chunk, or begin to."""
        if self._plan.size == 1:
            return
        for send, receive in self.calls(forward, chunk, n):
            if self._overlap:
                self._requests.append(self._comm.Ialltoallv(send, receive))
            else:
                self._comm.Alltoallv(send, receive)

    def progress(self) -> None:
        """Test what is under way."""
        if self._requests:
            MPI.Request.Testall(self._requests)

    def finish(self) -> None:
        """Wait for what is under way."""
        MPI.Request.Waitall(self._requests)
        self._requests.clear()

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, messages) that this rank sends to others in one exchange."""
        chunks = range(self._plan.n_parts(forward))
        counts = np.concatenate([send[1] for c in chunks for send, _ in self.calls(forward, c, n)])
        return int(counts.sum()) * self._plan.itemsize, int((counts > 0).sum())

    def free(self) -> None:
        """Nothing to free."""


class PaddedAlltoall(Blocking):
    """One MPI_Alltoall per batch, blocks padded to the largest; libraries have the best algorithms for it.

    MPI_Alltoall copies each rank's block for itself as well: here that one holds nothing.
    """

    def __init__(self, comm: MPI.Comm, plan: TransposePlan, arena: NDArray[Any]) -> None:
        self._comm = comm
        self._plan = plan
        self._arena = arena
        self._types: dict[tuple[int, int], MPI.Datatype] = {}

    def _type(self, width: int, whole: int) -> MPI.Datatype:
        """Return a type of `width` variables of a padded block, as wide as `whole` of them."""
        if (width, whole) not in self._types:
            block = self._plan.largest_block
            inner = from_numpy_dtype(self._arena.dtype).Create_contiguous(block * width)
            self._types[width, whole] = inner.Create_resized(0, whole * block * self._plan.itemsize).Commit()
            inner.Free()
        return self._types[width, whole]

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Exchange all batches."""
        plan = self._plan
        if plan.size == 1 or not plan.largest_block:
            return
        for batch in range(-(-n // plan.batch)):
            whole = plan.batch_width(batch)
            kind = self._type(plan.batch_width(batch, n), whole)
            send, receive = (plan.place(batch, 0, side) for side in (forward, not forward))
            span = plan.size * whole * plan.largest_block
            self._comm.Alltoall(
                [self._arena[send : send + span], 1, kind], [self._arena[receive : receive + span], 1, kind]
            )

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, messages) that this rank sends to others in one exchange, padding included."""
        plan = self._plan
        others = plan.size - 1 if plan.largest_block else 0
        return others * n * plan.largest_block * plan.itemsize, others * -(-n // plan.batch)

    def free(self) -> None:
        """Free the datatypes."""
        for kind in self._types.values():
            kind.Free()
        self._types.clear()
