"""Stages that measure each switch, or each group, by itself, all of them at the same time.

All-to-all and bisection of a part are figures of the part. Each of its nodes gets them, for each node of the part, so
that parts can be compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.validate.measure.session import Session

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.bench.result import Result

_SIZE = (2**12, 2**17)  # B to each rank, or of a message, quick and not
_SECONDS = (0.1, 0.5)  # of a repeat
_REPEATS = 3


def switch_alltoall(session: Session) -> None:
    """Measure an all-to-all inside each switch. Collective."""
    _alltoall(session, session.switches, "switch")


def group_alltoall(session: Session) -> None:
    """Measure an all-to-all inside each group. Collective."""
    _alltoall(session, session.groups, "group")


def switch_bisection(session: Session) -> None:
    """Measure the bandwidth between halves of the nodes of each switch. Collective."""
    _bisection(session, session.switches, "switch")


def group_bisection(session: Session) -> None:
    """Measure the bandwidth between halves of the nodes of each group. Collective."""
    _bisection(session, session.groups, "group")


def _alltoall(session: Session, parts: Mapping[str, Sequence[int]], prefix: str) -> None:
    from ridgeline.bench.collectives.collective_benchmark import measure_collective
    from ridgeline.bench.collectives.collectives_options import CollectiveOptions

    slow = not session.plan.quick
    options = CollectiveOptions(
        operation="alltoall", sizes=(_SIZE[slow], _SIZE[slow]), seconds=_SECONDS[slow]
    )
    _in_parts(session, parts, f"{prefix} all-to-all", lambda comm: measure_collective(comm, options))


def _bisection(session: Session, parts: Mapping[str, Sequence[int]], prefix: str) -> None:
    from ridgeline.bench.pairs.pairs_options import ManyPairsRateOptions
    from ridgeline.bench.pairs.point_to_point import measure_multi_bandwidth

    size = _SIZE[not session.plan.quick]
    options = ManyPairsRateOptions(
        pairing="node-halves",
        sizes=(size, size),
        iterations=10,
        warm_up=2,
        ranks_per_node=session.plan.ranks_per_node,
    )
    _in_parts(session, parts, f"{prefix} bisection", lambda comm: measure_multi_bandwidth(comm, options))


def _in_parts(
    session: Session, parts: Mapping[str, Sequence[int]], name: str, measure: Callable[[MPI.Comm], Result]
) -> None:
    """Measure each part with at least two nodes, and store its bandwidth for each of its nodes. Collective."""
    comm, mine = session.comm, -1
    for number, members in enumerate(parts.values()):
        if len(members) > 1 and session.node in members and any(map(session.takes_part, members)):
            mine = number
    # Ranks of no part make one of their own, which measures nothing.
    part = comm.Split(mine + 1, comm.rank)
    values: list[float] | None = None
    if mine >= 0:
        members = list(parts.values())[mine]
        results = [measure(part) for _ in range(_REPEATS)]
        values = part.bcast([max(row["bandwidth"] for row in r.rows) / len(members) for r in results])
    part.Free()
    session.rest()
    found = comm.gather(values) or []
    session.store_by_rank(name, "B/s", True, found, np.mean)
