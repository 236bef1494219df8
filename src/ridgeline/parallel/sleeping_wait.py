"""Waiting without taking the processor from those who measure: MPI's own barrier spins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

POLL = 5e-4  # seconds between two looks


def wait_asleep(request: MPI.Request, poll: float = POLL) -> None:
    """Wait for a request, asleep between looks."""
    while not request.Test():
        time.sleep(poll)


def sleeping_barrier(comm: MPI.Comm, poll: float = POLL) -> None:
    """Wait for all ranks, asleep between looks: ranks that rest leave shared cores to the others. Collective."""
    wait_asleep(comm.Ibarrier(), poll)
