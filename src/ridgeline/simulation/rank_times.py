"""The seconds of each rank by phase: of the first call, of the steady steps, and between the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.simulation.step_clock import StepClock

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_ROWS = 512  # of a report


def gather_ranks(comm: MPI.Comm, clock: StepClock, between: Mapping[str, float]) -> dict[str, Any]:
    """Return the table of the ranks, the same on all of them. Collective.

    between: seconds of this rank outside its steps, by name. Rank 0 gathers some ten to thirty numbers of each rank,
    2 MB at most of 10^4 ranks.
    """
    mine = np.concatenate([clock.first, clock.steady, [*between.values()]])
    table = np.empty((comm.size, len(mine))) if comm.rank == 0 else None
    comm.Gather(mine, table)
    told = None
    if table is not None:
        n = len(clock.names)
        parts = {
            "first": (clock.names, table[:, :n]),
            "steady": (clock.names, table[:, n : 2 * n]),
            "between": (tuple(between), table[:, 2 * n :]),
        }
        told = {"first_steps": clock.first_steps, "steady_steps": clock.steady_steps, **_rows(parts)}
    found: dict[str, Any] = comm.bcast(told)
    return found


def _rows(parts: Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]]) -> dict[str, Any]:
    """Return columns of seconds, by part and name: a row a rank, or for consecutive ranks if there are too many.

    Such a row holds the mean of its ranks, and in "most" the largest of each column: no slow rank is averaged away.
    """
    n_ranks = len(next(iter(parts.values()))[1])
    per_row = -(-n_ranks // MOST_ROWS)
    first = np.arange(0, n_ranks, per_row)
    last = np.append(first[1:], n_ranks) - first
    found: dict[str, Any] = {"ranks_per_row": per_row, "rank": first.tolist()}
    found |= {
        part: _columns(names, np.add.reduceat(table, first) / last[:, np.newaxis])
        for part, (names, table) in parts.items()
    }
    if per_row > 1:
        found["most"] = {
            part: _columns(names, np.maximum.reduceat(table, first)) for part, (names, table) in parts.items()
        }
    return found


def _columns(names: tuple[str, ...], table: NDArray[np.float64]) -> dict[str, list[float]]:
    """Return columns by name, to the six digits that a clock is worth."""
    return {name: [float(f"{each:.6g}") for each in column] for name, column in zip(names, table.T)}
