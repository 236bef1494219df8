"""What a run gives to its model: communicator, device, threads and timers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ridgeline.runtime.timers import Timers

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Context:
    """The part of the machine that one rank of a run may use.

    Models report their time in `timers` under the phases "compute" and "exchange".
    """

    comm: MPI.Comm
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = 1
    timers: Timers = field(default_factory=Timers)
