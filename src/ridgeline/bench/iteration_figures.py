"""What single iterations of a benchmark of messages took: the fastest, percentiles, and the slowest.

These describe the spread in time. The minimum and maximum that tables show beside a mean are over ranks or pairs, of
the mean of each over its iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from ridgeline.bench.result import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERCENTILES = (50, 90, 99)
ITERATION_COLUMNS = (
    Column("fastest", "fastest us", 1e-6),
    *(Column(f"p{percent}", f"P{percent} us", 1e-6) for percent in PERCENTILES),
    Column("slowest", "slowest us", 1e-6),
)
_CALLS = 200
_REPEATS = 5


def iteration_figures(samples: Sequence[NDArray[np.float64]]) -> dict[str, float]:
    """Return the figures of ITERATION_COLUMNS for the seconds of all iterations together, any number of arrays."""
    seconds = np.concatenate(samples)
    figures = {f"p{percent}": float(np.percentile(seconds, percent)) for percent in PERCENTILES}
    return {"fastest": float(seconds.min()), **figures, "slowest": float(seconds.max())}


def python_call_seconds(message: list[Any]) -> float:
    """Return what a call of MPI through Python costs on this rank: MPI_Send of a message to MPI_PROC_NULL.

    MPI returns at once from it, so nearly all of the time is mpi4py's. The best of several means. Local.
    """
    send = MPI.COMM_SELF.Send
    best = float("inf")
    for _ in range(_REPEATS):
        begin = perf_counter()
        for _ in range(_CALLS):
            send(message, MPI.PROC_NULL)
        best = min(best, (perf_counter() - begin) / _CALLS)
    return best


def python_call_note(seconds: float) -> str:
    """Return the sentence below a table that says what a call through Python costs."""
    return (
        f"A call of MPI through Python costs {seconds / 1e-6:.2f} us here (MPI_Send to MPI_PROC_NULL), and the times "
        "include it for each call."
    )


def buffer_note(pages: str, huge_pages: float | None, datatype: str) -> str:
    """Return the sentence below a table that names the pages and the datatype of its messages."""
    which = {"default": "Buffers have the pages that NumPy asks for", "huge": "Buffers are in huge pages"}
    text = which.get(pages, "Buffers are in small pages")
    if huge_pages is not None:
        text += f"; {100 * huge_pages:.0f} % of the memory around the largest one is in huge pages"
    return f"{text}." if datatype == "bytes" else f"{text}. Messages have the datatype {datatype}."
