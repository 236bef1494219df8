"""Whether a case fits into memory. `ridgeline check` and `ridgeline run` give the same answer."""

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
_HOW_TO_START_ANYWAY = "run.check_memory = false starts the run anyway."
_TRIES = 12  # of smaller grids and of more nodes: the first guesses are nearly right


@dataclass(frozen=True)
class MemoryCapacity:
    """Memory of a node with ranks of a run on it: bytes free on the node, and bytes that one process may take."""

    host: str
    ranks: int
    node: int
    process: int

    @classmethod
    def here(cls, ranks: int) -> MemoryCapacity:
        """Return the present capacity of this node for this many ranks."""
        return cls(socket.gethostname(), ranks, node_memory_available(), process_memory_available())

    @property
    def per_rank(self) -> float:
        """Bytes that are available to each rank."""
        return min(self.node / self.ranks, self.process)


def memory_needed(plan: Estimate) -> float:
    """Return the bytes that the rank with the largest need takes at its peak, which is between steps."""
    return plan.memory_per_rank + plan.memory_between_steps


def shortage(
    case: AnyCase, plan: Estimate, n_ranks: int, capacity: MemoryCapacity, nodes: int = 1
) -> str | None:
    """Say by how much a case does not fit and what would fit, or None if the case fits. No communication.

    What a case needs is its model's estimate, without Python, its libraries and compiled code (some 0.3 GB a rank).

    Parameters
    ----------
    case, plan, n_ranks : the run, its estimate and its ranks
    capacity : of the node with the least memory for each of its ranks
    nodes : of the run
    """
    needed = memory_needed(plan)
    if needed <= capacity.per_rank:
        return None
    if needed > capacity.process:
        shortfall = (
            f"a rank needs {number(needed, 'B')} of memory, but its limits (ulimit -v, ulimit -d) allow"
        )
        shortfall += f" {number(capacity.process, 'B')} on {capacity.host}"
    else:
        ranks = f"{capacity.ranks} ranks of {number(needed, 'B')}" if capacity.ranks > 1 else "1 rank"
        shortfall = (
            f"the run needs {number(capacity.ranks * needed, 'B')} of memory on {capacity.host} ({ranks}),"
        )
        shortfall += f" but {number(capacity.node, 'B')} are free there"
    fits = [_smaller_grid(case, n_ranks, capacity), _more_nodes(case, n_ranks, capacity, nodes)]
    hints = " or ".join(filter(None, fits)) or "a smaller grid or more nodes"
    return f"{shortfall}. Try {hints}."


def _fits(case: AnyCase, n_ranks: int, capacity: MemoryCapacity) -> bool:
    try:
        return memory_needed(estimate(case, n_ranks)) <= capacity.per_rank
    except RidgelineError:  # cannot be cut so
        return False


def _smaller_grid(case: AnyCase, n_ranks: int, capacity: MemoryCapacity) -> str:
    """Return about the largest grid of the same form that fits, as a setting; "" if none is found."""
    share = capacity.per_rank / memory_needed(estimate(case, n_ranks))
    for _ in range(_TRIES):
        grid = case.grid.shrunk(share)
        if _fits(case.model_copy(update={"grid": grid}), n_ranks, capacity):
            return f"grid.{grid.EXTENT} = {list(getattr(grid, grid.EXTENT))}"
        share *= 0.9
    return ""


def _more_nodes(case: AnyCase, n_ranks: int, capacity: MemoryCapacity, nodes: int) -> str:
    """Return about the fewest nodes like this one that would suffice, in words; "" if none is found."""
    enough = max(nodes + 1, math.ceil(nodes * memory_needed(estimate(case, n_ranks)) / capacity.per_rank))
    for _ in range(_TRIES):
        if enough > _MOST_NODES:
            break
        if _fits(case, enough * capacity.ranks, capacity):
            each = f" with {capacity.ranks} ranks each" if capacity.ranks > 1 else ""
            return f"{enough} such nodes{each}"
        enough = math.ceil(1.1 * enough)
    return ""


def refuse_before_ranks(case: AnyCase, ranks: int | None) -> None:
    """Raise ConfigError if this machine has less memory than the `ranks` ranks need that are about to be started on
    it.

    The ranks of a run that does not fit are then not even started. Where a batch system gives several nodes, where a
    launcher has started the ranks already, and for one rank, the check is left to `refuse_what_does_not_fit`.
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
        raise ConfigError(f"{problem} {_HOW_TO_START_ANYWAY}")


def refuse_what_does_not_fit(case: AnyCase, comm: MPI.Comm) -> None:
    """Raise ConfigError on all ranks if a node has less memory than its ranks need. Collective.

    It is called before anything is allocated; run.check_memory = false leaves it out. An estimate that cannot be made
    is not a reason to refuse a run: what it raises is raised again where the run meets it.
    """
    from ridgeline.parallel.allreduce import allreduce_min, broadcast_decision, broadcast_first
    from ridgeline.parallel.layout import place_on_node

    if not case.run.check_memory:
        return
    place = place_on_node(comm)
    here = MemoryCapacity.here(place.ranks)
    nodes = comm.allreduce(int(place.local_rank == 0))
    least = float(allreduce_min(comm, here.per_rank))
    tightest = broadcast_first(comm, here if here.per_rank == least else None) or here
    problem = broadcast_decision(
        comm, lambda: shortage(case, estimate(case, comm.size), comm.size, tightest, nodes)
    )
    if problem is not None:
        raise ConfigError(f"{problem} {_HOW_TO_START_ANYWAY}")
