"""Whether a case fits into memory: one answer for `ridgeline check` and `ridgeline run`."""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ridgeline.models import estimate
from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.launcher import check_ranks, detect_launch, nodes_of_job
from ridgeline.runtime.machine import node_memory_available, process_memory_available
from ridgeline.runtime.units import number

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase
    from ridgeline.models.contract import Estimate

_MOST_NODES = 1_000_000  # more than any machine has
_TRY_ANYWAY = "run.check_memory = false starts the run anyway"
_TRIES = 12  # of smaller grids and of more nodes: the first guesses are nearly right


@dataclass(frozen=True)
class MemoryCapacity:
    """A node with ranks of a run on it. node: bytes free for all of them; process: that one of them may take."""

    host: str
    ranks: int
    node: int
    process: int

    @classmethod
    def here(cls, ranks: int) -> MemoryCapacity:
        """Return the present room of this node for this many ranks."""
        return cls(socket.gethostname(), ranks, node_memory_available(), process_memory_available())

    @property
    def per_rank(self) -> float:
        """Bytes that each rank can have."""
        return min(self.node / self.ranks, self.process)


def memory_needed(plan: Estimate) -> float:
    """Return the bytes of the rank that needs most: all the time, and at the peaks between steps."""
    return plan.memory_per_rank + plan.memory_between_steps


def shortage(case: AnyCase, plan: Estimate, n_ranks: int, room: MemoryCapacity, nodes: int = 1) -> str | None:
    """Say by how much a case does not fit, and what would; None if it fits. No communication.

    room: of the node with the least for each of its ranks; nodes: of the run. What is needed is the model's estimate,
    without Python, its libraries and compiled code (some 0.3 GB a rank).
    """
    needed = memory_needed(plan)
    if needed <= room.per_rank:
        return None
    if needed > room.process:
        sum_ = f"a rank needs {number(needed, 'B')}, but its limits (ulimit -v, ulimit -d) leave it"
        sum_ += f" {number(room.process, 'B')} on {room.host}"
    else:
        ranks = f"{room.ranks} ranks of {number(needed, 'B')}" if room.ranks > 1 else "1 rank"
        sum_ = f"the run needs {number(room.ranks * needed, 'B')} on {room.host} ({ranks}), but"
        sum_ += f" {number(room.node, 'B')} are free there"
    fits = [_smaller_grid(case, n_ranks, room), _more_nodes(case, n_ranks, room, nodes)]
    hints = " or ".join(filter(None, fits)) or "a smaller grid or more nodes"
    return f"{sum_}; try {hints}"


def _fits(case: AnyCase, n_ranks: int, room: MemoryCapacity) -> bool:
    try:
        return memory_needed(estimate(case, n_ranks)) <= room.per_rank
    except RidgelineError:  # cannot be cut so
        return False


def _smaller_grid(case: AnyCase, n_ranks: int, room: MemoryCapacity) -> str:
    """Return about the largest grid of the same form that fits, as a setting; "" if none is found."""
    share = room.per_rank / memory_needed(estimate(case, n_ranks))
    for _ in range(_TRIES):
        grid = case.grid.shrunk(share)
        if _fits(case.model_copy(update={"grid": grid}), n_ranks, room):
            return f"grid.{grid.EXTENT} = {list(getattr(grid, grid.EXTENT))}"
        share *= 0.9
    return ""


def _more_nodes(case: AnyCase, n_ranks: int, room: MemoryCapacity, nodes: int) -> str:
    """Return about the fewest nodes like this one that would do, in words; "" if none is found."""
    enough = max(nodes + 1, math.ceil(nodes * memory_needed(estimate(case, n_ranks)) / room.per_rank))
    for _ in range(_TRIES):
        if enough > _MOST_NODES:
            break
        if _fits(case, enough * room.ranks, room):
            each = f" with {room.ranks} ranks each" if room.ranks > 1 else ""
            return f"{enough} such nodes{each}"
        enough = math.ceil(1.1 * enough)
    return ""


def refuse_before_ranks(case: AnyCase, ranks: int | None) -> None:
    """Raise ConfigError if this machine has less memory than `ranks` ranks need that are to be started here.

    It saves a machine the ranks of a run that they would refuse. Where a batch system gives several nodes, where a
    launcher has started the ranks already, and for one rank, that is left to `refuse_what_does_not_fit`.
    """
    if ranks is None or ranks == 1 or detect_launch() is not None or nodes_of_job() > 1:
        return
    check_ranks(ranks)
    problem = (
        shortage(case, estimate(case, ranks), ranks, MemoryCapacity.here(ranks))
        if case.run.check_memory
        else None
    )
    if problem is not None:
        raise ConfigError(f"{problem}; {_TRY_ANYWAY}")


def refuse_what_does_not_fit(case: AnyCase, comm: MPI.Comm) -> None:
    """Raise ConfigError on all ranks if a node has less memory than its ranks need. Collective.

    Before anything is allocated; run.check_memory = false leaves it out. An estimate that cannot be made is no reason
    to refuse: what it raises is raised again where the run meets it.
    """
    from ridgeline.parallel.allreduce import broadcast_decision
    from ridgeline.parallel.layout import place_on_node

    if not case.run.check_memory:
        return
    place = place_on_node(comm)
    rooms = comm.allgather((MemoryCapacity.here(place.ranks), place.local_rank == 0))
    tightest = min((room for room, _ in rooms), key=lambda room: room.per_rank)
    nodes = sum(one for _, one in rooms)
    problem = broadcast_decision(
        comm, lambda: shortage(case, estimate(case, comm.size), comm.size, tightest, nodes)
    )
    if problem is not None:
        raise ConfigError(f"{problem}; {_TRY_ANYWAY}")
