"""The context of a model: the communicator, device, threads and regions that a run provides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ridgeline.runtime.devices import require_compiler
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Context:
    """The part of the machine that one rank of a run may use.

    Models charge the time of a step to `regions`: to their `phases`, and to further regions if they count work.
    """

    comm: MPI.Comm
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int = 1
    regions: Regions = field(default_factory=Regions)

    def __post_init__(self) -> None:
        """Raise DeviceError if kernels for the device cannot be compiled here, before their modules are imported."""
        if self.device == "cuda":
            require_compiler()
