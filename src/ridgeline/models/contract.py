"""What a model offers to the time loop, which knows nothing else about physics.

A model is a folder of `ridgeline/models` with `settings.py` (its `CASE`), `estimate.py` (`estimate(case,
n_ranks)`) and `model.py` (a function `create_model()` that returns a `Model`). Output, checkpoints, resume,
time series, progress, timing and reports then work for it. docs/adding-a-model.md walks through an example.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.bp_blocks import Variable
from ridgeline.models.recorders import Profile, Record, Recorder, fields_recorder, series_recorder
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.context import Context
from ridgeline.runtime.regions import Region

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = [
    "Context",
    "DistributedArray",
    "Estimate",
    "Metric",
    "Model",
    "Profile",
    "Record",
    "Recorder",
    "Region",
    "SolveCount",
    "StepTimes",
    "Variable",
    "Work",
]


@dataclass(frozen=True)
class Work:
    """Least work of one time step, in closed form, summed over all ranks."""

    points: int  # that are advanced, of the kind that `Model.points_name` names
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
    memory_per_rank: float  # bytes of fields and buffers on the rank with the largest block
    output_bytes: float  # of the whole data set, uncompressed
    outputs: int
    checkpoint_bytes: float  # of one checkpoint, uncompressed
    work: Work
    memory_between_steps: float = 0.0  # further bytes while outputs, diagnostics or checkpoints are made
    remarks: tuple[str, ...] = ()  # what else `ridgeline check` says, a sentence each
    refusals: tuple[str, ...] = ()  # why a run ends before or at its first step, a sentence each
    # Bytes of a rank on its GPU, by what they are for.
    device_memory: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one time step, and of its phases: the model's `phases` and "other", which add up to the total."""

    total: float
    phases: Mapping[str, float]


@dataclass(frozen=True)
class Metric:
    """A number of the run report. unit: "B", "B/s", "points/s", "s", the model's own, or "" for a pure number."""

    value: float
    unit: str = ""


@dataclass(frozen=True)
class SolveCount:
    """How the solves of one kind of linear system went in a run, the same on all ranks."""

    solves: int = 0
    iterations: int = 0  # of all solves together
    most: int = 0  # iterations of the solve that needed most

    def after(self, iterations: int) -> Self:
        """Return the count with one more solve, of so many iterations."""
        return type(self)(self.solves + 1, self.iterations + iterations, max(self.most, iterations))


class SimulatedModel(ABC):
    """The simulation: what a model computes with, from the first state to the last.

    A new model writes `setup`, `compile`, `initialize`, `state`, `step`, `time`, and `work` of `ReportedModel`.
    """

    name: ClassVar[str]
    # What `time` is, and what `Work.points` counts, as reports and pictures call them.
    time_name: ClassVar[str] = "time"
    points_name: ClassVar[str] = "grid points"
    # What a step spends its time on: names of the phases that `step` charges in the context's regions, in the
    # order of the report's columns. What a step spends outside them is reported as "other"; "step", "output" and
    # "checkpoint" are regions of the loop.
    phases: ClassVar[tuple[str, ...]] = ("compute", "exchange")
    # Which of them send and receive, and do nothing else.
    exchanges: ClassVar[tuple[str, ...]] = ("exchange",)
    # Names in `state` that were added in a later version. Older checkpoints lack them; their fields then stay as they
    # are.
    later: ClassVar[tuple[str, ...]] = ()
    # What to try when the fields stop being finite, as the end of a sentence.
    advice: ClassVar[str] = 'try a smaller time step or precision = "float64"'

    _case: Any
    _context: Context

    @abstractmethod
    def setup(self, case: Any, context: Context) -> None:
        """Decompose the grid, allocate fields and plan communication; no initial state yet.

        A model that overrides this method calls it first: it keeps case and context as `_case` and `_context`.
        """
        self._case, self._context = case, context

    @abstractmethod
    def compile(self) -> None:
        """Compile, or load from the cache, every kernel that the run will call."""

    @abstractmethod
    def initialize(self) -> None:
        """Set the initial state of step 0."""

    @abstractmethod
    def state(self) -> Mapping[str, DistributedArray]:
        """Return the named fields that define the state: what checkpoints hold; valid until the next `step`.

        On resume their local parts are filled, and `restored` is called.
        """

    def restored(self, step: int, time: float) -> None:
        """Continue from `step` at model time `time`: the caller has filled the arrays that `state` returned."""
        return

    @abstractmethod
    def step(self, most: int, until: float = math.inf) -> int:
        """Advance at least one and at most `most` time steps and return how many.

        until: the next model time that is to be met exactly, infinity if there is none. A model shortens its steps
        for it (`time_steps.next_step`), or ignores it: outputs then have the time of the first step after it.
        """

    @abstractmethod
    def time(self, step: int) -> float:
        """Return the model time of the present state, which is that of `step`."""

    def rate_of_change(self) -> float:
        """Return how fast the state changes, 1/time, the same on all ranks. Collective.

        It is the norm of the change in the last step, which was a call of `step` by itself, over the norm of the
        state and over the length of the step; of several fields, the largest. It is needed by models whose section
        [run] has `stop_when`.
        """
        raise NotImplementedError

    def locate_nonfinite(self) -> str | None:
        """Say where the state is not finite ("U at z=3, y=0, x=7"), None if it is finite everywhere.

        The default looks at every number of the state.
        """
        comm = self._context.comm
        for name, array in self.state().items():
            wrong = np.argwhere(~np.isfinite(array.local))
            first = (
                [int(n) + start for n, start in zip(wrong[0], array.offset_global)] if len(wrong) else None
            )
            places = [place for place in comm.allgather(first) if place is not None]
            if places:
                names = "zyx" if len(array.shape_global) == 3 else map(str, range(len(array.shape_global)))
                return f"{name} at " + ", ".join(f"{axis}={n}" for axis, n in zip(names, min(places)))
        return None

    def settable(self) -> tuple[str, ...]:
        """Name the outputs that `set_fields` takes; none by default. Raises ConfigError where settings forbid it."""
        return ()

    def set_fields(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Replace fields of the present state, and continue from there as from an initial state. Collective.

        What follows from the state, such as ghosts and forces, is computed again. What a scheme keeps of earlier
        steps is forgotten. Time and averages continue.

        Parameters
        ----------
        fields : some of `settable`, the same and in that order on all ranks. Each is finite, and has the shape and
            dtype that `output_layout` says
        """
        raise NotImplementedError

    def close(self) -> None:
        """Free what Python does not free by itself, such as memory that ranks share; by default nothing. Collective.

        The run is over. A single rank may still ask for fields afterwards.
        """
        return


class ReportedModel(SimulatedModel):
    """The report: what a model tells about its state and about what a step costs."""

    @abstractmethod
    def work(self) -> Work:
        """Return the least work of one step."""

    def diagnostics(self) -> dict[str, float]:
        """Return global scalars of the present state, equal on all ranks; not finite where a field is not.

        By default they are the least and the greatest value of each field of the state.
        """
        extremes = {}
        for name, array in self.state().items():
            here = (array.local.min(), array.local.max()) if array.local.size else ()
            ranks = [pair for pair in self._context.comm.allgather(here) if pair]
            extremes[f"{name}_min"] = float(np.min(ranks))
            extremes[f"{name}_max"] = float(np.max(ranks))
        return extremes

    def series(self) -> Mapping[str, float]:
        """Return the row of the present state in the time series (output.series), equal on all ranks.

        The columns are always the same. The time loop puts the columns step and time before them.
        """
        return self.diagnostics()

    def summary(self) -> Mapping[str, Metric]:
        """Return what people look at first when a run has ended with the present state, equal on all ranks.

        It is a choice from `diagnostics` or `series`, under their names and with their units. By default it is all of
        `diagnostics`, without units.
        """
        return {name: Metric(value) for name, value in self.diagnostics().items()}

    def figures(self, step: StepTimes) -> Mapping[str, Metric]:
        """Return further numbers of the report, such as a bandwidth as the literature defines it.

        step: seconds of a step on the slowest rank, the mean over the run's steady steps.
        """
        return {}

    def describe(self) -> dict[str, Any]:
        """Return what the run header shows (process_grid, block, method) and what else the report keeps."""
        return {}

    def regions(self) -> Mapping[str, Region]:
        """Return seconds and counted work of parts of a step on this rank, in the order of the report's table.

        They are those of the run's steps so far. Seconds are exclusive, so that they add up. The report leaves the
        first call of `step` out. By default there are none.
        """
        return {}

    def precisions(self) -> Mapping[str, str]:
        """Return the dtype of the regions that do not compute in `run.precision`; none by default."""
        return {}

    def solves(self) -> Mapping[str, SolveCount]:
        """Return how the linear solves of the run's steps so far went, by their names; none by default."""
        return {}


class Model(ReportedModel):
    """A simulation of one model on this rank. All methods are collective over the context's communicator.

    Models derive from this class. Every model must implement the abstract methods; the others have plain defaults.
    The methods of this class itself are the outputs and pictures: what a run writes for people, and how it is shown.
    """

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shapes, dtypes and this rank's blocks of the outputs `names`, without computing them."""
        state = self.state()
        return [Variable.of(state[name]) for name in names]

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        """Return the outputs `names` of the present state, as `output_layout` says; valid until the next call.

        The names are those of output.variables. By default they are fields of the state. A model whose state is not
        what people look at computes them here.
        """
        state = self.state()
        return {name: state[name] for name in names}

    def output_attributes(self) -> Mapping[str, Any]:
        """Return the attributes that readers of the outputs need beside the settings; none by default.

        "time/units" and "time/long_name" describe the variable `time` where it is not a number without a unit.
        """
        return {}

    def image_fields(self) -> tuple[str, ...]:
        """Name the outputs that are images on the uniform grid, for the viewer schemas."""
        return ()

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return (origin, spacing) of the image fields, each (z, y, x); by default coordinates are indices."""
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def point_places(self) -> str:
        """Name the output with the coordinates of points, [N, 3], where outputs belong to points; "" by default.

        Outputs with the same first axis are then shown at the points.
        """
        return ""

    def profiles(self) -> Mapping[str, Profile]:
        """Return spectra and the like of the present state (output.spectra); none by default."""
        return {}

    def recorders(self, case: Any, comm: MPI.Comm) -> Sequence[Recorder]:
        """Return the recorders that write during the run: by default a data set of fields and the time series."""
        return [*fields_recorder(self, case, comm), *series_recorder(self, case, comm)]
