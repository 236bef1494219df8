"""Writing parts of the fields during a run: planes, lines, boxes, every so many points, and means over axes.

`parts_recorders` returns a recorder for each [[output.part]]. It works for each model whose outputs are fields on a
grid in space: every rank converts and writes what of its own block lies in the part. A model whose fields are
elsewhere, such as on elements, gives them at the points of a part by its own `part_source`, and a part that does not
lie on a grid, such as one on a side of the domain, by `placed_part`. For a mean, every rank adds up its points, and
rank 0 writes the mean; nothing that is as large as the grid is gathered.

Means have the same bits on any number of ranks if the fields have: each value is cut into integers on a grid of
powers of two that the largest magnitude sets, and integers add without rounding, as in `parallel.allreduce`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.part_selection import PartBlock, SelectedPoints, UniformGrid
from ridgeline.config.parts import PartVariable, compiled, fields_needed, short_names
from ridgeline.io import bp_sums
from ridgeline.io.bp_attributes import image_schemas
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Variable
from ridgeline.models.recorders import Record, Recorder, View, WrittenSteps, viewer_recorder
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase
    from ridgeline.config.parts import PartSection

FOLDS = 2  # integers for each value of a mean
BITS = 62  # of an integer, of which the number of values takes some
log = logging.getLogger(__name__)


class PartSource(Protocol):
    """The fields of a model at the points of a part, before means.

    Attributes
    ----------
    offset, shape : of this rank's points in the part; the points of all ranks fill it
    """

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    def values(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Return fields of the present state at this rank's points, valid until the next call. Collective."""


class PartModel(Protocol):
    """What parts need of a model; `models.contract.Model` says what each method returns."""

    name: ClassVar[str]

    def time(self, step: int) -> float:
        """Model time of the present state, which is that of `step`."""

    def output_layout(self, names: Sequence[str]) -> list[Variable]:
        """Shapes and blocks of outputs."""

    def outputs(self, names: Sequence[str]) -> Mapping[str, DistributedArray]:
        """The outputs of the present state."""

    def part_grid(self, part: PartSection) -> UniformGrid:
        """Points from which a part selects."""

    def part_source(self, grid: UniformGrid, points: SelectedPoints, names: Sequence[str]) -> PartSource:
        """Fields at the points of a part."""

    def placed_part(self, part: PartSection) -> PartFields | None:
        """What computes a part that is not selected from a grid."""


class PartFields(Protocol):
    """The variables of a part, as they are written. Methods are collective."""

    def attributes(self) -> Mapping[str, Any]:
        """Return what readers need beside the settings."""

    def layout(self) -> list[Variable]:
        """Return the variables of the data set, with this rank's blocks."""

    def time(self, step: int) -> float:
        """Return the model time of the present state, which is that of `step`; `present` then belongs to both."""

    def present(self) -> dict[str, NDArray[Any]]:
        """Return the variables of the present state in the precision of the part."""


class BlockPart:
    """The part of the blocks in which the ranks share a grid. names: fields of which one shows the layout."""

    def __init__(self, model: PartModel, points: SelectedPoints, names: Sequence[str]) -> None:
        layout = model.output_layout(names[:1])[0]
        piece: PartBlock = points.piece(layout.offset_global, layout.shape_local)
        self.offset: tuple[int, ...] = piece.offset
        self.shape: tuple[int, ...] = piece.shape
        self._slices, self._model = piece.slices, model

    def values(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        return {name: array.local[self._slices] for name, array in self._model.outputs(names).items()}


def parts_recorders(model: PartModel, case: AnyCase, comm: MPI.Comm) -> list[Recorder]:
    """Return the recorders of the parts that the settings ask for."""
    return [
        recorder
        for number, part in enumerate(case.output.parts())
        if part.interval()
        for recorder in _recorders(model, case, comm, part, f"output.part.{number}")
    ]


def _recorders(
    model: PartModel, case: AnyCase, comm: MPI.Comm, part: PartSection, key: str
) -> list[Recorder]:
    """Return the recorders of one part: its data set, and files for viewers if asked for. key: of its settings."""
    path, placed = case.output.part_path(part), model.placed_part(part)
    origin, spacing = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if placed is None:
        grid = model.part_grid(part)
        points = part.select(grid)
        places = points.grid(grid)
        assert places.origin is not None
        origin, spacing = places.origin, places.spacing

    def fields_of() -> PartFields:
        return _GridPart(model, case, comm, part, grid, points) if placed is None else placed

    def view() -> View:
        fields = fields_of()
        return View(fields.layout(), origin, spacing, "", fields.time, fields.present)

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        fields = fields_of()
        writer = open_writer(
            path,
            comm,
            fields.layout(),
            {**attributes, **fields.attributes(), "part.name": part.name, "part.mean": list(part.mean)},
            store=case.output.format,
            compression=case.output.compression,
            keep_steps=keep,
            setting=f"{key}.path",
        )
        return WrittenSteps(path, writer, fields.time, fields.present)

    every, name = part.interval(), f"part {part.name}"
    recorders = [Recorder(name, path, every, begin, initial=part.initial, fingerprint=bp_sums.fingerprint)]
    # Means on a side are curves or numbers, which are no surface.
    if case.output.viewer != "none" and not (placed is not None and part.mean):
        recorders.append(viewer_recorder(f"viewer files of {name}", path, comm, every, part.initial, view))
    return recorders


class PartVariables:
    """The variables of a part, and how they are computed and rounded. needed: the fields of the model for them."""

    def __init__(self, case: AnyCase, part: PartSection) -> None:
        names = case.part_names(part)
        self.dtype = np.dtype(part.dtype(str(case.run.precision)))
        self.variables = part.quantities(case.part_defaults(part))
        self.needed = fields_needed(self.variables, names)
        self._short = short_names(names)
        self._formulas = {each.name: compiled(each, names) for each in self.variables}
        self._part = part.name
        self._warned = False

    def described(self, fields: Sequence[Variable]) -> list[tuple[str, str, str]]:
        """Return name, unit and description of each variable. fields: those that are needed."""
        named = {v.name: v for v in fields}
        return [
            (name, named[name].unit, named[name].description)
            if formula is None
            else (name, "1", f"{name} = {formula}")
            for name, formula in self.variables
        ]

    def with_short_names(self, fields: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the fields, also by their short names in formulas."""
        short = {short: fields[name] for short, name in self._short.items() if name in fields}
        return {**fields, **short}

    def fill(
        self,
        each: PartVariable,
        fields: Mapping[str, NDArray[Any]],
        places: Sequence[NDArray[np.float64]],
        time: float,
        out: NDArray[Any],
    ) -> int:
        """Compute a variable at this rank's points, plane by plane; return how many values `out` cannot hold.

        fields: of the shape of out, three axes; places: z, y, x, of this shape or with one point along an axis.
        """
        too_large = 0
        for k in range(len(out)):
            if each.formula is None:
                too_large += _convert(fields[each.name][k], out[k])
                continue
            here: dict[str, Any] = {name: np.asarray(field[k], np.float64) for name, field in fields.items()}
            z, y, x = (place[k if len(place) > 1 else 0] for place in places)
            here |= {"x": x, "y": y, "z": z, "t": np.float64(time)}
            too_large += _convert(self._formulas[each.name].evaluate(here), out[k])
        return too_large

    def rounded(self, mean: NDArray[np.float64]) -> tuple[NDArray[Any], int]:
        """Return a mean in the precision of the part, and how many of its values that cannot hold."""
        out = np.empty(mean.shape, self.dtype)
        return out, _convert(mean, out)

    def warn(self, comm: MPI.Comm, too_large: int, step: int) -> None:
        """Log once that float16 cannot hold values. too_large: how many of this rank. Collective with float16."""
        if self.dtype == np.float16 and comm.allreduce(too_large) and not self._warned:
            self._warned = True
            if comm.rank == 0:
                log.warning(
                    "the part %s has values at step %d that float16 cannot hold, which are written as infinity. "
                    'Set precision = "float32".',
                    self._part,
                    step,
                )


class _GridPart:
    """A part of a grid, computed from the fields of the model at its points."""

    def __init__(
        self,
        model: PartModel,
        case: AnyCase,
        comm: MPI.Comm,
        part: PartSection,
        grid: UniformGrid,
        points: SelectedPoints,
    ) -> None:
        self._model, self._comm, self._grid, self._points = model, comm, grid, points
        self._variables = PartVariables(case, part)
        needed = self._variables.needed
        source = self._source = model.part_source(grid, points, needed or case.output_names())
        assert grid.origin is not None
        self._places = np.ix_(
            *(
                first + apart * (start + stride * (offset + np.arange(n)))
                for first, apart, start, stride, offset, n in zip(
                    grid.origin, grid.spacing, points.start, points.stride, source.offset, source.shape
                )
            )
        )
        self._step, self._time = 0, 0.0

    def attributes(self) -> Mapping[str, Any]:
        places = self._points.grid(self._grid)
        assert places.origin is not None
        names = [each.name for each in self._variables.variables]
        return image_schemas(self._points.shape, names, places.origin, places.spacing)

    def time(self, step: int) -> float:
        self._step, self._time = step, self._model.time(step)
        return self._time

    def layout(self) -> list[Variable]:
        whole, offset, shape = self._points.shape, self._source.offset, self._source.shape
        if self._points.averaged:
            offset, shape = (0, 0, 0), whole if self._comm.rank == 0 else (0, 0, 0)
        variables = self._variables
        return [
            Variable(name, variables.dtype, whole, offset, shape, unit, words)
            for name, unit, words in variables.described(self._model.output_layout(variables.needed))
        ]

    def present(self) -> dict[str, NDArray[Any]]:
        variables = self._variables
        fields = self._source.values(variables.needed) if variables.needed else {}
        fields = variables.with_short_names(fields)
        values, too_large = {}, 0
        for each in variables.variables:
            if self._points.averaged:
                here = np.empty(self._source.shape)
                variables.fill(each, fields, self._places, self._time, here)
                mean = mean_over(self._comm, here, self._source.offset, self._points)
                values[each.name], more = variables.rounded(mean)
            else:
                values[each.name] = out = np.empty(self._source.shape, variables.dtype)
                more = variables.fill(each, fields, self._places, self._time, out)
            too_large += more
        variables.warn(self._comm, too_large, self._step)
        return values


def _convert(values: NDArray[Any], out: NDArray[Any]) -> int:
    """Copy values into an array of another type; return how many finite ones it cannot hold."""
    with np.errstate(over="ignore"):
        out[...] = values
    return 0 if out.dtype != np.float16 else int((np.isinf(out) & np.isfinite(values)).sum())


def mean_over(
    comm: MPI.Comm, values: NDArray[np.float64], offset: Sequence[int], points: SelectedPoints
) -> NDArray[np.float64]:
    """Return the means of a part over some axes, on rank 0; an empty array on the other ranks. Collective.

    Parameters
    ----------
    values : float64 [z, y, x], this rank's points of the part; what is not finite is left out, and set to 0
    offset : of these points in the part
    points : of the part, with the axes

    Notes
    -----
    An allreduce of 8 bytes, and a reduction to rank 0 of 24 bytes for each point of the result, which is NaN where
    no value is finite. The result has the same bits for any blocks.
    """
    shape, axes = points.shape, points.averaged
    finite = np.isfinite(values)
    values[~finite] = 0.0
    shift, bits = _cuts(comm, values, math.prod(points.count[axis] for axis in axes))
    sums = np.zeros((FOLDS + 1, *shape), np.int64)
    window = tuple(
        slice(0, 1) if axis in axes else slice(first, first + n)
        for axis, (first, n) in enumerate(zip(offset, values.shape))
    )
    for k in range(len(values)):  # plane by plane, so that the integers of a whole block are never in memory
        rows = slice(0, 1) if 0 in axes else slice(window[0].start + k, window[0].start + k + 1)
        here = sums[:, rows, window[1], window[2]]
        inner = tuple(axis for axis in axes if axis)
        for fold, cut in enumerate(_folds(values[k : k + 1], shift, bits)):
            here[fold] += cut.sum(axis=inner, keepdims=True)
        here[FOLDS] += finite[k : k + 1].sum(axis=inner, keepdims=True)
    total = np.empty_like(sums) if comm.rank == 0 else None
    comm.Reduce(sums, total, root=0)
    if total is None:
        return np.empty((0, 0, 0))
    count = np.where(total[FOLDS] > 0, total[FOLDS], np.nan)
    return _of_folds(total, shift, bits) / count


def sum_over_groups(
    comm: MPI.Comm, values: NDArray[np.float64], groups: NDArray[np.int64], n_groups: int, most: int
) -> NDArray[np.float64]:
    """Return the sums of finite values of each group, [n_groups], on rank 0; an empty array elsewhere. Collective.

    groups: of values, of the same shape; most: values of all ranks in a group. The same bits for any distribution.
    """
    shift, bits = _cuts(comm, values, most)
    sums = np.zeros((FOLDS, n_groups), np.int64)
    for fold, cut in enumerate(_folds(values, shift, bits)):
        np.add.at(sums[fold], groups.reshape(-1), cut.reshape(-1))
    total = np.empty_like(sums) if comm.rank == 0 else None
    comm.Reduce(sums, total, root=0)
    return np.empty(0) if total is None else _of_folds(total, shift, bits)


def _cuts(comm: MPI.Comm, values: NDArray[np.float64], most: int) -> tuple[int, int]:
    """Return by which powers of two values are cut into integers, of which `most` add up. Collective."""
    from ridgeline.parallel.allreduce import allreduce_max  # imports MPI, which planning does without

    largest = float(allreduce_max(comm, np.abs(values).max(initial=0.0)))
    bits = BITS - most.bit_length()
    return min(bits - math.frexp(largest)[1], 1000), bits


def _folds(values: NDArray[np.float64], shift: int, bits: int) -> Iterator[NDArray[np.int64]]:
    """Yield the integers of each value, the largest first."""
    rest = values * 2.0**shift
    for _ in range(FOLDS):
        cut = np.rint(rest)
        yield cut.astype(np.int64)
        rest = (rest - cut) * 2.0**bits


def _of_folds(total: NDArray[np.int64], shift: int, bits: int) -> NDArray[np.float64]:
    """Return the sums whose integers are `total`, [FOLDS or more, ...]."""
    whole = total[0] + np.ldexp(total[1].astype(np.float64), -bits)
    return np.asarray(np.ldexp(whole, -shift), np.float64)
