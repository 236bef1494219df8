"""The broadcast of panels along rows of processes, in steps that advance while the processes compute.

Processes are counted from the one that has the panel. Along "1ring" each process sends to the next one. Along
"1ringM" the first process sends to the second and to the third, and the ring continues from the third: the second
factors the next panel and therefore sends to no process. "2ring" and "2ringM" have two rings of half the length
instead of one. "M" stands for modified.

"long" and "longM" cut the panel into as many parts as the ring has processes. Each part is first sent to another
process (spread) and from there around the ring (roll), so that all processes send at the same time.
Source: Petitet et al., "HPL", overview, "Panel broadcast".
"""

from __future__ import annotations

from functools import partial

import numpy as np
from mpi4py import MPI

from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import BROADCASTS, Broadcast, HplSettings
from ridgeline.parallel.autotuner import choose

_TAG = 8  # message tag of the first part


def parts_of(algorithm: Broadcast, size: int) -> int:
    """Return the number of parts into which a panel is cut for `size` processes."""
    return max(size - 1 - algorithm.endswith("M"), 1) if algorithm.startswith("long") else 1


def sender(algorithm: Broadcast, position: int, size: int, part: int = 0) -> int:
    """Return the position that sends a part to `position` > 0 of `size`. Position 0 has the panel."""
    first = 2 if algorithm.endswith("M") else 1
    if position < first:
        return 0
    if algorithm.startswith("long"):
        before = position - 1 if position > first else size - 1
        return 0 if position == first + part else before
    length = -(-(size - first) // int(algorithm[0]))
    return 0 if (position - first) % length == 0 else position - 1


def receivers(algorithm: Broadcast, position: int, size: int, part: int = 0) -> list[int]:
    """Return the positions to which `position` sends a part, in order."""
    return [other for other in range(1, size) if sender(algorithm, other, size, part) == position]


class PanelBroadcast:
    """The broadcasts of a row of processes, one panel after the other, from two buffers in turn.

    For each panel, call `wait_for_buffer` before the buffer is written, `start`, `progress` now and then, and `wait`.
    """

    def __init__(self, comm: MPI.Comm, algorithm: Broadcast) -> None:
        self._comm, self._algorithm = comm, algorithm
        self._n_parts = parts_of(algorithm, comm.size)
        self._receives: dict[int, MPI.Request] = {}  # of the parts that are under way
        self._sends: list[list[MPI.Request]] = []  # of each buffer

    def wait_for_buffer(self) -> None:
        """Wait until the panel before the last one has been sent, because its buffer is used again."""
        while len(self._sends) > 1:
            MPI.Request.Waitall(self._sends.pop(0))

    def start(self, root: int, message: Reals) -> None:
        """Begin to send `message` of process `root` to the others. Collective in order; it does not wait."""
        comm, position = self._comm, (self._comm.rank - root) % self._comm.size
        self._root, self._position = root, position
        self._parts = np.array_split(message, self._n_parts)
        self._sends.append([])
        for part, numbers in enumerate(self._parts):
            if position == 0:
                self._forward(part)
            else:
                source = (root + sender(self._algorithm, position, comm.size, part)) % comm.size
                self._receives[part] = comm.Irecv(numbers, source, _TAG + part)

    def progress(self) -> bool:
        """Let messages advance, and forward parts that have arrived. Return whether this process has the message."""
        for part, receive in list(self._receives.items()):
            if receive.Test():
                del self._receives[part]
                self._forward(part)
        for sends in self._sends:
            MPI.Request.Testall(sends)
        return not self._receives

    def wait(self) -> None:
        """Wait until this process has the message, and forward it."""
        while self._receives:
            part = list(self._receives)[MPI.Request.Waitany(list(self._receives.values()))]
            del self._receives[part]
            self._forward(part)

    def finish(self) -> None:
        """Wait until all has been received and sent."""
        self.wait()
        for sends in self._sends:
            MPI.Request.Waitall(sends)
        self._sends.clear()

    def _forward(self, part: int) -> None:
        comm = self._comm
        self._sends[-1].extend(
            comm.Isend(self._parts[part], (self._root + other) % comm.size, _TAG + part)
            for other in receivers(self._algorithm, self._position, comm.size, part)
        )


def choose_broadcast(
    comm: MPI.Comm, row_comm: MPI.Comm, settings: HplSettings
) -> tuple[Broadcast, dict[str, float]]:
    """Return the broadcast that is set, or the fastest, and the seconds of those that were tried. Collective.

    The seconds are those of a message as long as the first panel, in all process rows at the same time.
    """
    # Between two processes all algorithms are the same.
    if settings.broadcast is not None or row_comm.size < 3:
        return settings.broadcast or BROADCASTS[0], {}
    message = np.zeros((-(-settings.n // settings.p) + settings.nb + 1) * min(settings.nb, settings.n))

    def send(broadcast: PanelBroadcast) -> dict[str, float]:
        broadcast.start(0, message)
        broadcast.finish()
        return {}

    candidates = {str(name): partial(send, PanelBroadcast(row_comm, name)) for name in BROADCASTS}
    key = f"broadcast of {message.nbytes} B in {settings.p} x {settings.q} processes by {settings.order}"
    trial = choose(candidates, key, comm)
    fastest = next(name for name in BROADCASTS if name == trial.taken)
    return fastest, {name: parts["total"] for name, parts in trial.seconds.items()}
