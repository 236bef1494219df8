"""A rank that is lost without a word ends the job, where the launcher leaves the others waiting for it."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mpi4py import MPI

from ridgeline.parallel.communicator import node_communicator, wait_idle
from ridgeline.runtime.process_watch import ProcessWatch, process_space

GRACE = 5.0  # seconds in which most launchers end such a job themselves, in words of their own


@contextmanager
def notice_lost_ranks(comm: MPI.Comm, grace: float = GRACE) -> Iterator[None]:
    """Abort the job if a rank of this node dies within the block. Collective over comm; all leave it together.

    srun without --kill-on-bad-exit lets the other ranks wait for a dead one until the time limit. MPI tells them
    nothing, so each rank watches the processes of its node. Nobody notices a rank that is alone on its node, or a
    node that is lost as a whole, or ranks in containers of their own. Nothing is watched where MPI may not be called
    from two threads.
    """
    with node_communicator(comm) as node:
        if node.size == 1 or MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            yield
            return
        rank_of = _visible(node.allgather((os.getpid(), process_space(), comm.rank)), process_space())

        def lost(process: int) -> None:
            time.sleep(grace)
            sys.stderr.write(
                f"error: rank {rank_of[process]} on {socket.gethostname()} ended without a word, as one that is "
                f"killed or runs out of memory, and the others would wait for it for ever: the job ends\n"
            )
            sys.stderr.flush()
            comm.Abort(1)

        watch = ProcessWatch(rank_of.keys() - {os.getpid()}, lost)
        try:
            yield
            wait_idle(node)
        finally:
            watch.close()


def _visible(everyone: list[tuple[int, str, int]], here: str) -> dict[int, int]:
    """Return ranks by the numbers of their processes, of (number, space of numbers, rank): those in this space."""
    return {number: rank for number, space, rank in everyone if space and space == here}
