"""Options of exchanges and transforms, which change their speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ridgeline.fourier.fft import Effort
from ridgeline.runtime.errors import ConfigError

Layout = Literal["strided", "packed"]  # of planes, see stages.PlaneLayout
Method = Literal["auto", "alltoall", "alltoallv", "ialltoallv", "node", "shared"]

METHODS: tuple[Method, ...] = ("alltoallv", "ialltoallv", "alltoall", "node", "shared")


@dataclass(frozen=True)
class TransposeTuning:
    """How a transpose moves numbers between ranks. The result does not depend on it.

    Parameters
    ----------
    method : "alltoallv" (MPI_Alltoallv with exact counts); "ialltoallv" (the same without waiting, chunk by chunk,
        while the next chunk is computed); "alltoall" (MPI_Alltoall, all blocks padded to the largest); "node" (within
        nodes, then between them); "shared" (in memory that all ranks share, without messages). "auto" times those
        that fit, writing and reading included, and takes "alltoallv" unless another one is clearly faster on its
        slowest rank. With "auto" the rows of pencils within a node are "shared" without timing
    batch : Q, variables per MPI call, 1 to 4
    ranks_per_node : cuts the ranks into nodes of that many; None asks MPI which ranks share a node
    n_chunks : parts that "ialltoallv" hands over one by one; fewer where there are fewer rows or tiles

    Raises
    ------
    ValueError : for another batch
    ConfigError : for an unknown method
    """

    method: Method = "auto"
    batch: int = 1
    ranks_per_node: int | None = None
    n_chunks: int = 4

    def __post_init__(self) -> None:
        """Check batch and method."""
        if not 1 <= self.batch <= 4:
            raise ValueError(
                f"batch = {self.batch} variables per call is not possible. It must be from 1 to 4."
            )
        if self.method not in (*METHODS, "auto"):
            raise ConfigError(
                f'unknown model.transpose.method = "{self.method}". It must be {", ".join(METHODS)} or auto, which '
                "measures them."
            )


@dataclass(frozen=True)
class TransformTuning(TransposeTuning):
    """State how transforms are computed. Results depend only on effort and layout, and only by rounding.

    Parameters
    ----------
    method : str
        How ranks exchange data, one of `TransposeTuning`; "auto" takes the fastest.
    batch : int
        Variables in each MPI call, 1 to 4.
    ranks_per_node : int, optional
        Cuts the ranks into nodes of that many; None asks MPI which ranks share a node.
    n_chunks : int
        Parts that "ialltoallv" hands over one by one.
    threads : int
        Threads of this rank.
    effort : str
        Effort of planning: "estimate", "measure", "patient" or "wisdom-only", as the setting fft.effort.
    layout : str
        Layout of planes, "strided" or "packed"; "auto" takes the faster one.

    Examples
    --------
    >>> from ridgeline.api import TransformTuning
    >>> TransformTuning(threads=4).method
    'auto'
    """

    threads: int = 1
    effort: Effort = "measure"
    layout: Layout | Literal["auto"] = "auto"
