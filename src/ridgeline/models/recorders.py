"""Recorders: what a run writes while it steps, each with a name, a place, the times at which it writes, and a writer.

A model returns its recorders (`Model.recorders`). By default these are the data set of its fields and its time
series. `profiles_recorder` writes spectra and the like. A model may have others of its own, such as statistics or
particles. The time loop knows recorders alone, whatever they write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from numpy.typing import NDArray

from ridgeline.config.intervals import NEVER, Interval, Moment
from ridgeline.io import bp_sums, series
from ridgeline.io.bp_attributes import image_schemas
from ridgeline.io.open_store import open_writer
from ridgeline.io.series import SeriesWriter
from ridgeline.io.store import Variable
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase


class Record(Protocol):
    """An open output of one kind, to which a recorder writes. Every method is collective.

    A record may have an attribute `fingerprint`, a short text that identifies what it holds. Its recorder then has a
    function that computes the same text from what lies at the path.
    """

    path: str

    @property
    def count(self) -> int:
        """Number of steps that it holds."""

    def write(self, step: int) -> int:
        """Append the present state, which is that of `step`, and return its bytes.

        They are counted before compression and over all ranks, and are the same on each rank; 0 if the state is
        written later.
        """

    def close(self) -> None:
        """Finish the output."""


class StepWriter(Protocol):
    """Writes steps to a file or data set, as `DataSetWriter`, `ParticleWriter` and `SeriesWriter` do."""

    @property
    def steps(self) -> int:
        """Number of steps written so far."""

    @property
    def fingerprint(self) -> str:
        """A short text that identifies these steps."""

    def write(self, step: int, time: float, values: Mapping[str, Any], /) -> int:
        """Append a step and return its bytes."""

    def close(self) -> None:
        """Finish the file or data set."""


class WrittenSteps:
    """Write the present values by a writer each time that a recorder is due.

    Parameters
    ----------
    path : str
        Where it is written.
    writer : StepWriter
        What writes it, such as a `SeriesWriter`.
    time : callable
        Returns the model time of a step; `Model.time` does.
    present : callable
        Returns the present values by name, for `writer.write`. All ranks call it.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> from ridgeline.api import SeriesWriter, WrittenSteps
    >>> writer = SeriesWriter("drag.csv", MPI.COMM_SELF, ("drag",))
    >>> output = WrittenSteps("drag.csv", writer, lambda step: 0.1 * step, lambda: {"drag": 2.5})
    >>> _ = output.write(10)
    >>> output.close()
    >>> open("drag.csv").read().splitlines()[0]
    'step,time,drag'
    """

    def __init__(
        self,
        path: str,
        writer: StepWriter,
        time: Callable[[int], float],
        present: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.path = path
        self._writer, self._time, self._present = writer, time, present

    @property
    def count(self) -> int:
        """Number of steps that it holds."""
        return self._writer.steps

    @property
    def fingerprint(self) -> str:
        """A short text that identifies these steps."""
        return self._writer.fingerprint

    def write(self, step: int) -> int:
        """Append the present state and return its bytes."""
        return self._writer.write(step, self._time(step), self._present())

    def close(self) -> None:
        """Finish the output."""
        self._writer.close()


@dataclass(frozen=True)
class Recorder:
    """Describe a kind of output that a run writes while it steps.

    Attributes
    ----------
    name : str
        Of this kind of output, for people and in checkpoints ("data set"); unique in a run.
    path : str
        Where it is written, from the settings.
    every : Interval
        The interval between writes, which must not be empty.
    open : callable
        Takes the attributes of the data set and how many steps to keep (None starts a new one), and returns the open
        output, such as `WrittenSteps`. All ranks call it.
    initial : bool
        Whether it writes the state of step 0 when a run begins.
    search : bool
        Whether the state is searched for NaN before it is written; not where the search would cost more than the
        writing.
    fingerprint : callable, optional
        Takes (path, steps) and returns the fingerprint of what lies there, by which a resumed run notices what
        another run has written since; None for a kind that is always written anew, or whose writer checks this
        itself.
    plot : str, optional
        The file from which `ridgeline plot` draws it, None for `path`; "" if nothing is drawn.
    also : Interval
        A further interval, such as that of the ends of windows; what is due at either is written once.

    Examples
    --------
    The function of a package that an entry point "ridgeline.recorders" names returns a recorder with the path and the
    interval of the settings [[recorder]]:

    >>> from ridgeline.api import Recorder
    >>> def recorder(model, case, section, comm):
    ...     return Recorder("extremes", section.path, section.interval(), lambda attributes, keep: ...)
    """

    name: str
    path: str
    every: Interval
    open: Callable[[Mapping[str, Any], int | None], Record]
    initial: bool = True
    search: bool = True
    fingerprint: Callable[[str, int], str] | None = None
    plot: str | None = None
    also: Interval = NEVER

    @property
    def intervals(self) -> tuple[Interval, Interval]:
        """The intervals at whose multiples it writes."""
        return self.every, self.also

    def due(self, before: Moment, now: Moment) -> bool:
        """Return whether it writes now. before: the moment before the last step."""
        return any(interval.due(before, now) for interval in self.intervals)


@dataclass(frozen=True)
class Profile:
    """A small array of the present state, such as a spectrum: the same values on all ranks.

    dims: a name for each axis. A profile with the name of its only axis holds the coordinates along that axis:
    {"k": Profile(k, ("k",)), "energy_spectrum": Profile(e, ("k",))}. Shapes and dtypes never change in a run.
    unit: "1" for a pure number, and for models without units.
    """

    values: NDArray[Any]
    dims: tuple[str, ...]
    unit: str = "1"
    description: str = ""


class RecordedModel(Protocol):
    """What the recorders of this file need of a model; `models.contract.Model` says what each method returns."""

    name: ClassVar[str]
    added_columns: Mapping[str, float]  # of the time series

    def time(self, step: int) -> float:
        """Model time of the present state, which is that of `step`."""

    def series(self) -> Mapping[str, float]:
        """The row of the time series."""

    def profiles(self) -> Mapping[str, Profile]:
        """Spectra and the like."""

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Shapes and blocks of outputs."""

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        """The outputs of the present state."""

    def image_fields(self) -> tuple[str, ...]:
        """Outputs that are images."""

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Origin and spacing of images."""

    def point_places(self) -> str:
        """The output with the places of points, or ""."""


def fields_recorder(model: RecordedModel, case: AnyCase, comm: MPI.Comm) -> list[Recorder]:
    """Return the recorder of `output.variables` as a data set, if the settings ask for it."""
    output = case.output
    if not output.interval():
        return []
    names = tuple(output.variables)

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        variables = model.output_layout(names)
        images, places = [name for name in model.image_fields() if name in names], model.point_places()
        if images:
            shape = next(v.shape_global for v in variables if v.name == images[0])
            attributes = {**attributes, **image_schemas(shape, images, *model.image_geometry())}
        writer = open_writer(
            output.path,
            comm,
            variables,
            attributes,
            store=output.format,
            compression=output.compression,
            keep_steps=keep,
            points=places if places in names else "",
        )

        def present() -> dict[str, NDArray[Any]]:
            return {name: array.local for name, array in model.outputs(names).items()}

        return WrittenSteps(output.path, writer, model.time, present)

    return [
        Recorder(
            "data set",
            output.path,
            output.interval(),
            begin,
            initial=output.initial,
            fingerprint=bp_sums.fingerprint,
        ),
        *viewer_recorders(model, case, comm),
    ]


def viewer_recorders(model: RecordedModel, case: AnyCase, comm: MPI.Comm) -> list[Recorder]:
    """Return the recorder of files for viewers that hold `output.variables`, if the settings ask for it."""
    output, names = case.output, tuple(case.output.variables)
    if output.viewer == "none":
        return []

    def view() -> View:
        def present() -> dict[str, NDArray[Any]]:
            return {name: array.local for name, array in model.outputs(names).items()}

        variables = model.output_layout(names)
        return View(variables, *model.image_geometry(), model.point_places(), model.time, present)

    return [viewer_recorder("viewer files", output.path, comm, output.interval(), output.initial, view)]


@dataclass(frozen=True)
class View:
    """What files for viewers hold: arguments of `io.viewer.viewer_layout` and of `WrittenSteps`."""

    variables: Sequence[Variable]
    origin: Sequence[float]
    spacing: Sequence[float]
    position: str
    time: Callable[[int], float]
    present: Callable[[], Mapping[str, Any]]


def viewer_recorder(
    name: str, path: str, comm: MPI.Comm, every: Interval, initial: bool, view: Callable[[], View]
) -> Recorder:
    """Return the recorder of files for viewers without ADIOS2, beside the data set `path`. view: collective."""
    # Not at the top: it imports mpi4py, which planning does not need.
    from ridgeline.io.viewer import ViewerWriter, viewer_folder, viewer_layout

    folder = viewer_folder(path)

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        shown = view()
        layout = viewer_layout(shown.variables, shown.origin, shown.spacing, shown.position)
        called = folder.name.removesuffix("_viewer")
        writer = ViewerWriter(folder, called, comm, layout, shown.variables[0], keep_steps=keep)
        return WrittenSteps(str(folder), writer, shown.time, shown.present)

    return Recorder(name, str(folder), every, begin, initial=initial, plot="")


def series_recorder(model: RecordedModel, case: AnyCase, comm: MPI.Comm) -> list[Recorder]:
    """Return the recorder of the model's time series as a CSV file, if the settings ask for it."""
    path, every = case.output.series, case.output.interval("series_every")
    if not every:
        return []

    def present() -> dict[str, float]:
        return {**model.series(), **model.added_columns}

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        return WrittenSteps(
            path, SeriesWriter(path, comm, tuple(present()), keep_rows=keep), model.time, present
        )

    return [
        Recorder(
            "series",
            path,
            every,
            begin,
            search=False,
            fingerprint=series.fingerprint,
        )
    ]


def profiles_recorder(
    model: RecordedModel, path: str, every: Interval, comm: MPI.Comm, store: str = "auto"
) -> list[Recorder]:
    """Return the recorder of the model's profiles as the data set `output.spectra`; none if `every` is empty.

    store: the setting `output.format`.
    """
    if not every:
        return []
    writes = comm.rank == 0  # on behalf of all ranks, which have the same values

    def variable(name: str, profile: Profile) -> Variable:
        shape, origin = profile.values.shape, (0,) * profile.values.ndim
        here = shape if writes else origin
        return Variable(
            name, profile.values.dtype, shape, origin, here, profile.unit, profile.description, profile.dims
        )

    def present() -> dict[str, NDArray[Any]]:
        return {
            name: profile.values if writes else profile.values[(slice(0),) * profile.values.ndim]
            for name, profile in model.profiles().items()
        }

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        variables = [variable(name, profile) for name, profile in model.profiles().items()]
        writer = open_writer(
            path, comm, variables, attributes, store=store, keep_steps=keep, setting="output.spectra"
        )
        return WrittenSteps(path, writer, model.time, present)

    return [Recorder("spectra", path, every, begin, fingerprint=bp_sums.fingerprint)]
