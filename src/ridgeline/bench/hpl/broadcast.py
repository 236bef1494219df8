"""The broadcast of panels along rows of processes, in steps that go on while others compute.

Processes are counted from the one that has the panel. Along "1ring" each sends to the next one. Along "1ringM" the
first sends to the second and to the third. The ring goes on from the third: the second factors the next panel, and so
sends to nobody. "2ring" and "2ringM" have two rings of half the length in its place. "M" stands for modified.
Source: Petitet et al., "HPL", overview, "Panel broadcast".
"""

from __future__ import annotations

from mpi4py import MPI

from ridgeline.bench.hpl.panel import Reals
from ridgeline.bench.hpl.record import Broadcast

_TAG = 8


def sender(algorithm: Broadcast, position: int, size: int) -> int:
    """Return from whom process `position` > 0 of `size` receives; both count from the one that has the panel."""
    modified, rings = algorithm.endswith("M"), int(algorithm[0])
    if modified and position == 1:
        return 0
    first = 2 if modified else 1
    length = -(-(size - first) // rings)
    return 0 if (position - first) % length == 0 else position - 1


def receivers(algorithm: Broadcast, position: int, size: int) -> list[int]:
    """Return to whom process `position` sends, in order."""
    return [other for other in range(1, size) if sender(algorithm, other, size) == position]


class PanelBroadcast:
    """The broadcasts of a row of processes, one panel after the other, from two rooms in turn.

    For each: `make_room` before the room is written, `start`, `progress` now and then, `wait`.
    """

    def __init__(self, comm: MPI.Comm, algorithm: Broadcast) -> None:
        self._comm, self._algorithm = comm, algorithm
        self._receive = MPI.REQUEST_NULL
        self._sends: list[list[MPI.Request]] = []  # of each room

    def make_room(self) -> None:
        """Wait until the panel before the last one has been sent: its room is used again."""
        while len(self._sends) > 1:
            MPI.Request.Waitall(self._sends.pop(0))

    def start(self, root: int, message: Reals) -> None:
        """Begin to send `message` of process `root` to the others. Collective in order, waits for nobody."""
        comm = self._comm
        self._position = (comm.rank - root) % comm.size
        self._root, self._message = root, message
        self._sends.append([])
        if self._position == 0:
            self._forward()
        else:
            source = (root + sender(self._algorithm, self._position, comm.size)) % comm.size
            self._receive = comm.Irecv(message, source, _TAG)

    def progress(self) -> bool:
        """Let messages advance, and forward what has come. Return whether this process has the message."""
        if self._receive != MPI.REQUEST_NULL:
            if not self._receive.Test():
                return False
            self._forward()
        for sends in self._sends:
            MPI.Request.Testall(sends)
        return True

    def wait(self) -> None:
        """Wait until this process has the message, and forward it."""
        if self._receive != MPI.REQUEST_NULL:
            self._receive.Wait()
            self._forward()

    def finish(self) -> None:
        """Wait until all has been received and sent."""
        self.wait()
        for sends in self._sends:
            MPI.Request.Waitall(sends)
        self._sends.clear()

    def _forward(self) -> None:
        comm = self._comm
        self._sends[-1].extend(
            comm.Isend(self._message, (self._root + other) % comm.size, _TAG)
            for other in receivers(self._algorithm, self._position, comm.size)
        )
