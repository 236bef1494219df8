"""What the driver asks of a model. It knows nothing else about physics.

A model is a folder of `ridgeline/models` with `config.py` (its `CASE`), `estimate.py` (`estimate(case,
n_ranks)`) and `model.py` (a function `create_model()` that returns an object of the shape `Model`). Output,
checkpoints, resume, progress, timing and reports then work for it. docs/adding-a-model.md walks through an
example.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from ridgeline.grid.distributed import DistributedArray
from ridgeline.runtime.context import Context

__all__ = ["Context", "DistributedArray", "Estimate", "Model", "Work"]


@dataclass(frozen=True)
class Work:
    """Least work of one time step, in closed form, summed over all ranks."""

    points: int  # grid points advanced
    flops: float  # floating-point operations; random number generation not counted
    bytes_memory: float  # least bytes to and from memory: every field once in, once out
    bytes_exchanged: float  # least bytes sent to other ranks
    messages: float  # messages sent to other ranks

    def to_dict(self) -> dict[str, float]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class Estimate:
    """What a run would need, computed without MPI or memory: `estimate(case, n_ranks)` of a model's folder."""

    process_grid: tuple[int, ...]
    block: tuple[int, ...]  # owned points of the largest block
    memory_per_rank: float  # bytes of fields on the rank with the largest block
    output_bytes: float  # of the whole data set, uncompressed
    outputs: int
    checkpoint_bytes: float  # of one checkpoint, uncompressed
    work: Work


class Model(Protocol):
    """A simulation of one model on this rank. All methods are collective over the context's communicator."""

    name: str

    def setup(self, case: Any, context: Context) -> None:
        """Decompose the grid, allocate fields and plan communication; no initial state yet."""

    def compile(self) -> None:
        """Compile, or load from the cache, every kernel that the run will call."""

    def initialize(self) -> None:
        """Set the initial state of step 0."""

    def state(self) -> Mapping[str, DistributedArray]:
        """Return the named fields that define the state; owned views, valid until the next `step`."""

    def restored(self, step: int) -> None:
        """Continue from `step`: the caller has filled the arrays of `state`."""

    def step(self, most: int) -> int:
        """Advance at least one and at most `most` time steps and return how many."""

    def time(self, step: int) -> float:
        """Return the model time at `step`."""

    def diagnostics(self) -> dict[str, float]:
        """Return global scalars of the present state, equal on all ranks; not finite where a field is not."""

    def locate_nonfinite(self) -> str | None:
        """Say where the state is not finite ("U at z=3, y=0, x=7"), None if it is finite everywhere."""

    def work(self) -> Work:
        """Return the least work of one step."""

    def describe(self) -> dict[str, Any]:
        """Return what the run header shows: decomposition, memory and method of this run."""

    def comparisons(self, seconds_per_step: float) -> dict[str, float]:
        """Return figures to compare with the literature, such as an effective bandwidth in B/s."""

    def image_fields(self) -> tuple[str, ...]:
        """Name the fields that are images on the uniform grid, for the viewer schemas."""
