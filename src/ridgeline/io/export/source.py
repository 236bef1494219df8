"""A part of a data set, chosen by steps, variables and region, and read in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.config.check import did_you_mean
from ridgeline.config.part_selection import BOX_RULE, SelectionError, UniformGrid, select
from ridgeline.io.vtk_format import AXES, ELEMENT_AXES, FACE_AXES
from ridgeline.runtime.errors import ConfigError

STEP, POSITION = "step", "position"
PIECE_BYTES = 16 * 2**20  # of one variable, that are read at a time
GRID, ELEMENTS, FACES = "fields on a grid", "fields on spectral elements", "fields on a side of the domain"
POINTS, TABLE = "particles", "spectra, statistics, curves or other tables"
KINDS = {GRID: "grid", ELEMENTS: "element", FACES: "face", POINTS: "particle", TABLE: "table"}
# Attributes that describe the files of a data set to its own readers, and that are wrong in other files.
OF_THE_FILES = ("vtk.xml", "Fides_")

Slices = tuple[slice, ...]


class ExportSource:
    """A part of a data set that `ridgeline.open` returned. Reads nothing but coordinates until values are asked for.

    Attributes
    ----------
    dataset : the chosen steps, variables and, on a grid, points
    kind : GRID, ELEMENTS, FACES, POINTS, or TABLE for everything else, such as spectra
    row_axis : the axis of the elements, faces or particles; "" on a grid and in tables
    rows : numbers of the elements, faces or particles in the region, None for all of them
    """

    def __init__(
        self,
        dataset: xr.Dataset,
        step: str | None = None,
        variables: str | None = None,
        region: str | None = None,
    ) -> None:
        """Choose a part. The arguments are those of `ExportOptions`. Raises ConfigError."""
        self.kind = _kind_of(dataset)
        axes: dict[str, tuple[str, ...]] = {GRID: AXES, ELEMENTS: ELEMENT_AXES, FACES: FACE_AXES}
        if self.kind == POINTS:
            axes[POINTS] = (str(dataset[POSITION].dims[1]),)
        self.row_axis = "" if self.kind in (GRID, TABLE) else axes[self.kind][0]
        self._dims = (STEP, *axes.get(self.kind, ()))
        if step is not None:
            dataset = dataset.isel({STEP: _chosen_steps(dataset[STEP].values, step)})
        self._whole = dataset
        if variables is not None:
            dataset = dataset[_chosen_names(dataset, variables)]
        self.dataset = dataset.drop_attrs(deep=False).assign_attrs(
            {key: value for key, value in dataset.attrs.items() if not str(key).startswith(OF_THE_FILES)}
        )
        self.rows: NDArray[np.int64] | None = None
        if region is not None:
            if self.kind == TABLE:
                raise ConfigError("--region does not apply to a data set of tables, such as spectra.")
            if self.kind == GRID:
                self.dataset = self.dataset.isel(_box(dataset, region))
            else:
                self.rows = self._rows_inside(region)
                if not len(self.rows):
                    raise ConfigError(f'--region "{region}" contains no {self.row_axis}.')

    @property
    def n_steps(self) -> int:
        """Number of output steps."""
        return int(self.dataset.sizes[STEP])

    @property
    def steps(self) -> list[tuple[int, float]]:
        """The number and the time of each output step."""
        numbers = self.dataset[STEP].values
        times = self.dataset["time"].values if "time" in self.dataset.coords else numbers
        return [(int(number), float(time)) for number, time in zip(numbers, times)]

    def fields(self) -> dict[str, xr.DataArray]:
        """Return the chosen variables at the points of the kind; positions of particles are not among them.

        Raises ConfigError if there is none, unless particles have their positions.
        """
        fields = {
            str(name): field
            for name, field in self.dataset.data_vars.items()
            if field.dims[: len(self._dims)] == self._dims
            and (field.ndim == len(self._dims) or self.kind == POINTS)
            and name != POSITION
        }
        if not fields and self.kind != POINTS:
            raise ConfigError(f"--variables names no {KINDS[self.kind]} field of the data set.")
        return fields

    def components(self, name: str) -> int:
        """Return the components of a field at each point: 3 for a vector of particles."""
        return prod(self.shape(name)[len(self._dims) - 1 :])

    def variable(self, name: str) -> xr.DataArray:
        """Return a variable; the positions of particles and places of cells are there whatever was chosen."""
        return self.dataset[name] if name in self.dataset.variables else self._whole[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a variable at one step, after the region is applied."""
        field = self.variable(name)
        return tuple(
            len(self.rows) if self.rows is not None and dim == self.row_axis else int(field.sizes[dim])
            for dim in field.dims
            if dim != STEP
        )

    def pieces(self, names: Sequence[str], step: int) -> Iterator[tuple[Slices, dict[str, NDArray[Any]]]]:
        """Yield parts of some variables of one shape, in the order of the values: where they are, and the values.

        step: index of the output step; variables without the dimension step are the same at each. A part has at most
        PIECE_BYTES for all variables together, or is one element or particle, or one line of a grid.
        """
        shape = self.shape(names[0])
        itemsize = sum(self.variable(name).dtype.itemsize for name in names)
        for box in boxes(shape, itemsize, self.row_axis in self.variable(names[0]).dims):
            yield box, {name: self.read(name, step, box) for name in names}

    def read(self, name: str, step: int, box: Slices) -> NDArray[Any]:
        """Return a part of a variable at an output step."""
        field = self.variable(name)
        if STEP in field.dims:
            field = field.isel({STEP: step})
        dims = list(map(str, field.dims))
        if self.rows is None or self.row_axis not in dims:
            return np.asarray(field.isel(dict(zip(dims, box))).values)
        # Contiguous ranges are read, and the chosen rows are taken from them: single rows would be read one by one.
        axis = dims.index(self.row_axis)
        rows, inner = self.rows[box[axis]], [int(field.sizes[dim]) for dim in dims if dim != self.row_axis]
        at_once = rows_at_once(prod(inner) * field.dtype.itemsize)
        parts = []
        for first in range(int(rows[0]), int(rows[-1]) + 1, at_once):
            inside = rows[(rows >= first) & (rows < first + at_once)] - first
            around = [slice(first, first + at_once) if i == axis else each for i, each in enumerate(box)]
            values = np.asarray(field.isel(dict(zip(dims, around))).values)
            parts.append(values.take(inside, axis=axis))
        return np.concatenate(parts, axis=axis)

    def _rows_inside(self, region: str) -> NDArray[np.int64]:
        """Return the cells that reach into a box, or the particles that are in it at the first chosen step."""
        bounds = _bounds(region)
        found = []
        if self.kind == POINTS:
            for (rows, *_), values in self.pieces([POSITION], 0):
                places = values[POSITION]
                inside = np.ones(len(places), bool)
                for axis, (low, high) in bounds.items():
                    along = places[:, "xyz".index(axis)]
                    inside &= (along >= low) & (along <= high)
                found.append(rows.start + np.flatnonzero(inside))
        else:
            for (rows, *_), values in self.pieces(AXES, 0):
                inside = np.ones(rows.stop - rows.start, bool)
                for axis, (low, high) in bounds.items():
                    along = values[axis].reshape(len(inside), -1)
                    inside &= (along.max(axis=1) >= low) & (along.min(axis=1) <= high)
                found.append(rows.start + np.flatnonzero(inside))
        return np.concatenate(found)


def rows_at_once(bytes_of_row: int) -> int:
    """Return how many rows of so many bytes are handled at a time."""
    return max(1, PIECE_BYTES // max(bytes_of_row, 1))


def boxes(shape: Sequence[int], itemsize: int, whole_rows: bool = False) -> Iterator[Slices]:
    """Yield parts of an array of at most PIECE_BYTES, in the order of its values.

    A part is at least one line of the last axis or, with whole_rows, one row of the first.
    """
    if not shape:
        yield ()
        return
    inner = prod(shape[1:]) * itemsize
    if whole_rows or inner <= PIECE_BYTES or len(shape) == 1:
        step = rows_at_once(inner)
        for low in range(0, shape[0], step):
            yield (slice(low, min(low + step, shape[0])), *(slice(0, n) for n in shape[1:]))
        return
    for i in range(shape[0]):
        for rest in boxes(shape[1:], itemsize):
            yield (slice(i, i + 1), *rest)


def _kind_of(dataset: xr.Dataset) -> str:
    dims = {name: tuple(map(str, variable.dims)) for name, variable in dataset.variables.items()}
    for kind, axes in ((ELEMENTS, ELEMENT_AXES), (FACES, FACE_AXES)):
        if all(dims.get(name) == axes for name in AXES):
            return kind
    if len(dims.get(POSITION, ())) == 3 and dims[POSITION][2] == "axis":
        return POINTS
    return GRID if (STEP, *AXES) in dims.values() else TABLE


def _chosen_names(dataset: xr.Dataset, text: str) -> list[str]:
    names, known = (
        [word.strip() for word in text.split(",") if word.strip()],
        list(map(str, dataset.data_vars)),
    )
    for name in names:
        if name not in known:
            raise ConfigError(
                f"--variables: the data set has no variable '{name}'{did_you_mean(name, known)} Its variables are "
                f"{', '.join(known)}."
            )
    if not names:
        raise ConfigError(f"--variables names nothing. The variables are {', '.join(known)}.")
    return names


def _chosen_steps(numbers: NDArray[Any], text: str) -> list[int]:
    """Return the indices of output steps, ascending."""
    chosen: set[int] = set()
    for word in text.split(","):
        word = word.strip().replace("last", "-1")
        first, is_range, end = word.partition(":")
        try:
            if is_range:
                low, high = int(first or numbers.min()), int(end or numbers.max())
                found = np.flatnonzero((numbers >= low) & (numbers <= high))
            elif int(word) < 0:
                found = np.arange(len(numbers))[int(word) : int(word) + 1 or None]
            else:
                found = np.flatnonzero(numbers == int(word))
        except ValueError:
            raise ConfigError(
                f'--step {text} is not a choice of outputs. Write time steps ("100", "0,100", "200:800"), or count '
                f'from the end ("-1", "last").'
            ) from None
        if not len(found):
            listed = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
            raise ConfigError(f"--step {word} is not in the data set, which has the steps {listed}.")
        chosen.update(map(int, found))
    return sorted(chosen)


def uniform_grid(dataset: xr.Dataset) -> UniformGrid:
    """Return where the points of a grid are. Raises ConfigError if they are not evenly spaced."""
    origin, spacing = [], []
    for axis in AXES:
        places = (
            np.asarray(dataset[axis].values, np.float64)
            if axis in dataset.coords
            else np.arange(dataset.sizes[axis])
        )
        apart = float(places[-1] - places[0]) / (len(places) - 1) if len(places) > 1 else 1.0
        even = places[0] + apart * np.arange(len(places))
        if not apart > 0 or np.abs(places - even).max() > 1e-6 * apart:
            raise ConfigError(f"the points along {axis} are not evenly spaced, as an image of VTK requires.")
        origin.append(float(places[0]))
        spacing.append(apart)
    nz, ny, nx = (int(dataset.sizes[axis]) for axis in AXES)
    return UniformGrid((nz, ny, nx), (origin[0], origin[1], origin[2]), (spacing[0], spacing[1], spacing[2]))


def _box(dataset: xr.Dataset, region: str) -> dict[str, slice]:
    """Return the points of a grid in a region."""
    try:
        chosen = select(uniform_grid(dataset), box=region)
    except SelectionError as error:
        raise ConfigError(f'--region "{region}" must be {error.rule}.') from None
    return {axis: slice(start, start + n) for axis, start, n in zip(AXES, chosen.start, chosen.count)}


def _bounds(region: str) -> dict[str, tuple[float, float]]:
    """Return the places (low, high) of a region along the axes that it names."""
    bounds = {}
    for word in region.split(","):
        axis, sign, ends = (part.strip() for part in word.partition("="))
        low, colon, high = ends.partition(":")
        try:
            if not sign or axis not in AXES or not colon or axis in bounds:
                raise ValueError
            bounds[axis] = float(low or -np.inf), float(high or np.inf)
        except ValueError:
            raise ConfigError(f'--region "{region}" must be {BOX_RULE}.') from None
    return bounds
