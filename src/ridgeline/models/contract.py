"""What a model offers to the time loop, which knows nothing else about physics.

A model is a folder of `ridgeline/models` with `settings.py` (its `CASE`), `estimate.py` (`estimate(case, n_ranks)`)
and `model.py` (a function `create_model()` that returns a `Model`). Output, checkpoints, resume, time series,
progress, timing and reports then work for it. docs/adding-a-model.md walks through an example.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.store import Variable
from ridgeline.models.parts import BlockPart, PartFields, PartSource, parts_recorders
from ridgeline.models.recorders import Profile, Record, Recorder, fields_recorder, series_recorder
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.context import Context
from ridgeline.runtime.regions import Region

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.part_selection import SelectedPoints, UniformGrid
    from ridgeline.config.parts import PartSection

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
    """State the least work of one time step, in closed form, summed over all ranks.

    Attributes
    ----------
    points : int
        Points that are advanced, of the kind that `Model.points_name` names.
    flops : float
        Floating-point operations; random number generation is not counted.
    bytes_memory : float
        Least bytes to and from memory: every field once in, once out.
    bytes_exchanged : float
        Least bytes sent to other ranks.
    messages : float
        Messages sent to other ranks.

    Examples
    --------
    >>> from ridgeline.models.contract import Work
    >>> work = Work(points=512, flops=9 * 512.0, bytes_memory=8 * 512.0, bytes_exchanged=0.0, messages=0.0)
    >>> work.flops / work.points
    9.0
    """

    points: int
    flops: float
    bytes_memory: float
    bytes_exchanged: float
    messages: float

    def to_dict(self) -> dict[str, float]:
        """Return the fields by name."""
        return asdict(self)


@dataclass(frozen=True)
class Estimate:
    """State what a run would need: what `estimate(case, n_ranks)` of a model's folder returns, without MPI or fields.

    Attributes
    ----------
    process_grid : tuple of int
        Blocks in each direction.
    block : tuple of int
        Owned points of the largest block.
    memory_per_rank : float
        Bytes of fields and buffers on the rank with the largest block.
    output_bytes : float
        Bytes of the whole data set, uncompressed.
    outputs : int
        Output steps.
    checkpoint_bytes : float
        Bytes of one checkpoint, uncompressed.
    work : Work
        The least work of a step.
    memory_between_steps : float
        Further bytes while outputs, diagnostics or checkpoints are made.
    seconds_beside : float
        Seconds of a step that do not follow from its memory traffic, as of arithmetic in caches and calls.
    remarks : tuple of str
        What else `ridgeline check` says, a sentence each.
    refusals : tuple of str
        Why a run ends before or at its first step, a sentence each.
    device_memory : mapping of str to float
        Bytes of a rank on its GPU, by what they are for.

    Examples
    --------
    >>> import ridgeline
    >>> case = ridgeline.Case("gray_scott", 10, grid={"shape": (64, 64, 64)})
    >>> need = case.estimate(ranks=4)
    >>> need.process_grid, need.work.points
    ((4, 1, 1), 262144)
    """

    process_grid: tuple[int, ...]
    block: tuple[int, ...]
    memory_per_rank: float
    output_bytes: float
    outputs: int
    checkpoint_bytes: float
    work: Work
    memory_between_steps: float = 0.0
    seconds_beside: float = 0.0
    remarks: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
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
    # What to try when the fields stop being finite: a sentence.
    advice: str = 'Try a smaller time step or run.precision = "float64".'
    # Columns of the time series beside `series`, with the numbers of the next row: those of callbacks.
    added_columns: Mapping[str, float] = {}

    _case: Any
    _context: Context

    @abstractmethod
    def setup(self, case: Any, context: Context) -> None:
        """Decompose the grid, allocate fields and plan communication. There is no initial state yet.

        A model that overrides this method calls it first: it keeps case and context as `_case` and `_context`.

        Parameters
        ----------
        case : AnyCase
            The checked settings.
        context : Context
            The communicator, device, threads and regions of the run.
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
        """Return the named fields that define the state, which checkpoints hold.

        On resume their local parts are filled, and `restored` is called.

        Returns
        -------
        mapping of str to DistributedArray
            This rank's parts, valid until the next `step`.
        """

    def restored(self, step: int, time: float) -> None:
        """Continue from a restored state: the caller has filled the arrays that `state` returned.

        Parameters
        ----------
        step : int
            The time step of the state.
        time : float
            Its model time.
        """
        return

    @abstractmethod
    def step(self, most: int, until: float = math.inf) -> int:
        """Advance by at least one time step.

        Parameters
        ----------
        most : int
            Most time steps to advance by. The next output, checkpoint or end of the run is never nearer.
        until : float
            The next model time that is to be met exactly, infinity if there is none. A model shortens its steps for
            it (`time_steps.next_step`), or ignores it: outputs then have the time of the first step after it.

        Returns
        -------
        int
            Time steps advanced, the same on all ranks.
        """

    @abstractmethod
    def time(self, step: int) -> float:
        """Return the model time of the present state.

        Parameters
        ----------
        step : int
            The time step of the present state.

        Returns
        -------
        float
            The time, in the model's unit.
        """

    def rate_of_change(self) -> float:
        """Return how fast the state changes, 1/time, the same on all ranks. Collective.

        It is the norm of the change in the last step, which was a call of `step` by itself, over the norm of the
        state and over the length of the step; of several fields, the largest. It is needed by models whose section
        [run] has `stop_when`.
        """
        raise NotImplementedError

    def locate_nonfinite(self) -> str | None:
        """Say where the state is not finite; the default looks at every number of it.

        Returns
        -------
        str or None
            A place such as "U at z=3, y=0, x=7", the same on all ranks; None if the state is finite everywhere.

        Notes
        -----
        Collective: one allgather for each field.
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
        """Replace fields of the present state, and continue from there as from an initial state.

        What follows from the state, such as ghosts and forces, is computed again. What a scheme keeps of earlier
        steps is forgotten. Time and averages continue.

        Parameters
        ----------
        fields : mapping of str to array
            Some of `settable`, the same and in that order on all ranks. Each is finite, and has the shape and dtype
            that `output_layout` says.

        Notes
        -----
        Collective.
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
        """Return global scalars of the present state; by default the extrema of each field of the state.

        Returns
        -------
        dict of str to float
            By name, equal on all ranks; not finite where a field is not.

        Notes
        -----
        Collective: one allreduce for each field.
        """
        from ridgeline.parallel.allreduce import allreduce_max  # starts MPI, which planning does without

        extremes: dict[str, float] = {}
        for name, x in ((name, array.local) for name, array in self.state().items()):
            ends = [-float(x.min()), float(x.max())] if x.size else [-math.inf] * 2
            ends = allreduce_max(self._context.comm, ends).tolist()
            extremes |= {f"{name}_min": 0.0 - ends[0], f"{name}_max": ends[1]}
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

        Parameters
        ----------
        step : StepTimes
            Seconds of a step on the slowest rank, the mean over the run's steady steps.

        Returns
        -------
        mapping of str to Metric
            Numbers with their units, by name.
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
    """Derive a model from this class: a simulation on this rank, which the time loop sets up, advances and writes.

    Every model must implement the abstract methods `setup`, `compile`, `initialize`, `state`, `step`, `time` and
    `work`; the others have plain defaults. `SimulatedModel` has the methods of the simulation, and `ReportedModel`
    those of the report. The methods of this class itself are the outputs and pictures: what a run writes for
    people, and how it is shown.

    Attributes
    ----------
    name : str
        The name of the model, which is that of its folder.

    Notes
    -----
    Collective: all methods are, over the context's communicator.

    Examples
    --------
    Three numbers on each rank that halve in every step, with two ranks, started by `mpiexec -n 2 python program.py`:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.models.contract import Context, DistributedArray, Model, Work
    >>> class Decay(Model):
    ...     name = "decay"
    ...
    ...     def setup(self, case, context):
    ...         super().setup(case, context)
    ...         self._u = np.empty(3)
    ...
    ...     def compile(self):
    ...         return
    ...
    ...     def initialize(self):
    ...         self._u[:] = 1.0 + self._context.comm.rank
    ...
    ...     def state(self):
    ...         comm = self._context.comm
    ...         return {"u": DistributedArray("u", (3 * comm.size,), (3 * comm.rank,), self._u)}
    ...
    ...     def step(self, most):
    ...         self._u /= 2
    ...         return 1
    ...
    ...     def time(self, step):
    ...         return float(step)
    ...
    ...     def work(self):
    ...         return Work(points=6, flops=6.0, bytes_memory=96.0, bytes_exchanged=0.0, messages=0.0)
    >>> model = Decay()
    >>> model.setup(None, Context(MPI.COMM_WORLD))
    >>> model.initialize()
    >>> model.step(1)
    1
    >>> model.diagnostics()
    {'u_min': 0.5, 'u_max': 1.0}
    """

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shapes, dtypes and this rank's blocks of outputs, without computing them.

        Parameters
        ----------
        names : sequence of str
            Names of output.variables.

        Returns
        -------
        list of Variable
            One for each name.
        """
        state = self.state()
        return [Variable.of(state[name]) for name in names]

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        """Return outputs of the present state.

        By default they are fields of the state. A model whose state is not what people look at computes them here.

        Parameters
        ----------
        names : sequence of str
            Names of output.variables.

        Returns
        -------
        mapping of str to DistributedArray
            This rank's parts, as `output_layout` says; valid until the next call.
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

    def part_grid(self, part: PartSection) -> UniformGrid:
        """Return the points from which a part of the fields selects ([[output.part]]).

        Parameters
        ----------
        part : PartSection
            The settings of the part.

        Returns
        -------
        UniformGrid
            By default the points of the case.
        """
        grid: UniformGrid = self._case.part_grid(part)
        return grid

    def part_source(self, grid: UniformGrid, points: SelectedPoints, names: Sequence[str]) -> PartSource:
        """Return what gives the fields at the points of a part.

        Parameters
        ----------
        grid : UniformGrid
            What `part_grid` returned.
        points : SelectedPoints
            The points of the part.
        names : sequence of str
            The fields that will be read.

        Returns
        -------
        PartSource
            By default what of the block of each rank lies in the part.

        Notes
        -----
        Collective.
        """
        return BlockPart(self, points, names)

    def placed_part(self, part: PartSection) -> PartFields | None:
        """Return what computes a part that is not selected from a grid, such as one on a side of the domain.

        Parameters
        ----------
        part : PartSection
            The settings of the part.

        Returns
        -------
        PartFields or None
            By default None: all parts are selected from `part_grid`.

        Notes
        -----
        Collective.
        """
        return None

    def recorders(self, case: Any, comm: MPI.Comm) -> Sequence[Recorder]:
        """Return the recorders that write during the run: by default a data set of fields and the time series."""
        return [
            *fields_recorder(self, case, comm),
            *parts_recorders(self, case, comm),
            *series_recorder(self, case, comm),
        ]
