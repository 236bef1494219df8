"""Transpose without messages, for ranks of one node: each entry has one place, which both of its owners use."""

from __future__ import annotations

from ridgeline.fourier.exchanges.shared_memory import SharedArray
from ridgeline.fourier.exchanges.transpose_plan import TransposePlan


class InPlace:
    """Hands over by waiting for each other. memory: the arena, as `TransposePlan.begins` lays it out.

    From the end of an inverse exchange to the next forward one an entry belongs to its row owner, else to its column
    owner. Two exchanges in one direction need an `open` between them, which lets readers end.
    """

    def __init__(self, plan: TransposePlan, memory: SharedArray) -> None:
        self._plan = plan
        self._memory = memory
        self._forward: bool | None = None  # the last exchange, whose results others may still read

    def open(self, forward: bool) -> None:
        """Wait for those who still read what the last exchange in this direction brought."""
        if self._forward == forward:
            self._memory.wait()
            self._forward = None

    def start(self, forward: bool, chunk: int, n: int) -> None:
        """Note the direction. Raises RuntimeError for a second exchange in a direction that was not opened."""
        if self._forward == forward:
            raise RuntimeError(
                "an exchange follows one in its direction, which others may still read; open it first"
            )
        self._forward = forward

    def progress(self) -> None:
        """Nothing is under way."""

    def finish(self) -> None:
        """Wait until all ranks have written."""
        self._memory.wait()

    def traffic(self, forward: bool, n: int) -> tuple[int, int]:
        """Return (bytes, 0): what others read of this rank in one exchange, without a message."""
        plan, me = self._plan, self._plan.rank
        others = [peer for peer in range(plan.size) if peer != me]
        entries = sum(plan.block(me, peer) if forward else plan.block(peer, me) for peer in others)
        return n * entries * plan.itemsize, 0

    def free(self) -> None:
        """Give the memory back."""
        self._memory.free()
