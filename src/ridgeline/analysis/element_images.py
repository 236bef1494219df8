"""Fields at the points of spectral elements on a uniform grid, interpolated lazily: only what is indexed.

    images = on_grid(dataset)       # dims (step, z, y, x) instead of (step, element, t, s, r); computes nothing
    images.pressure.isel(step=-1, z=200)    # reads the elements that this plane crosses, and evaluates them

Only the positions of the points matter: elements may be boxes, curved, or of any mesh, in any order. A point in
several elements has the value of the first of them, and a point in no element is NaN.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from xarray.backends import BackendArray
from xarray.core import indexing

from ridgeline.analysis.slices import STEP
from ridgeline.elements.inverse_map import MARGIN, lattice_inside, values_at

ELEMENT_DIMS = ("element", "t", "s", "r")
PLACES = ("z", "y", "x")
# Points along the longest and the shortest side, odd so that one is in the middle.
LONGEST, SHORTEST = 401, 65
SHARPER = 3  # multiplies the points along the axes of a plane that is drawn; odd too
LATTICES = 2  # number of lattices whose located points are kept: fields and steps share them

Reals = NDArray[np.float64]
# (element, flat indices of points of the lattice, their (r, s, t)) of each element that contains points.
Located = list[tuple[int, NDArray[np.int64], Reals]]


def on_grid(dataset: xr.Dataset, longest: int = LONGEST, sharp: Collection[str] = ()) -> xr.Dataset:
    """Return the element fields of a data set as images on equal cells that fill the box around the domain, lazily.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set as `ridgeline.open` returns it. Without the dimension `element` it is returned unchanged.
    longest : int
        Cells along the longest side of the box. Other sides have proportionally fewer, but at least SHORTEST, or
        `longest` if that is less.
    sharp : collection of str
        Axes of z, y, x with SHARPER times as many cells, so that curved sides are smooth in a picture.

    Returns
    -------
    xarray.Dataset
        Fields are float64 over (step, z, y, x), and the coordinates z, y, x are the centres of the cells. A cell
        outside all elements is NaN.

    Notes
    -----
    Local. Only what is indexed is interpolated: a plane reads the elements that it crosses, and costs about N + 1
    multiplications in each direction for each of its points, for elements of order N.

    Examples
    --------
    One element of order 1 on the unit cube, whose field is u = x:

    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import on_grid
    >>> dims = ("element", "t", "s", "r")
    >>> z, y, x = np.meshgrid([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], indexing="ij")
    >>> places = {name: (dims, place[None]) for name, place in (("z", z), ("y", y), ("x", x))}
    >>> data = xr.Dataset({"u": (("step", *dims), x[None, None])}, {"step": [0], **places})
    >>> image = on_grid(data, longest=5)
    >>> image.u.isel(step=0, z=2, y=2).values.round(3)
    array([0.1, 0.3, 0.5, 0.7, 0.9])
    """
    if ELEMENT_DIMS[0] not in dataset.dims:
        return dataset
    mesh = _Mesh(dataset)
    low, high = mesh.low.min(axis=0), mesh.high.max(axis=0)
    most = (high - low).max()
    coords: dict[str, Any] = {name: dataset[name] for name in (STEP, "time") if name in dataset.coords}
    lattice = []
    for name, start, end in zip(PLACES, low, high):
        n = max(round(longest * (end - start) / most), min(SHORTEST, longest)) // 2 * 2 + 1
        n *= SHARPER if name in sharp else 1
        lattice.append(start + (end - start) * (np.arange(n) + 0.5) / n)
        coords[name] = (name, lattice[-1])
    images = {
        str(name): xr.Variable(
            (STEP, *PLACES), indexing.LazilyIndexedArray(_Interpolated(field, mesh, lattice)), field.attrs
        )
        for name, field in dataset.data_vars.items()
        if field.dims == (STEP, *ELEMENT_DIMS)
    }
    gridded = xr.Dataset(images, coords, dataset.attrs)
    gridded.set_close(dataset.close)
    return gridded


class _Mesh:
    """The positions of elements. low, high: corners of the boxes around their points, [E, 3] in the order z, y, x."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._places = [dataset[name] for name in PLACES]
        n_elements = dataset.sizes[ELEMENT_DIMS[0]]
        self.low, self.high = np.empty((n_elements, 3)), np.empty((n_elements, 3))
        for axis, place in enumerate(self._places):
            values = place.values.reshape(n_elements, -1)
            self.low[:, axis], self.high[:, axis] = values.min(axis=1), values.max(axis=1)
        self._located: OrderedDict[bytes, Located] = OrderedDict()

    def locate(self, lattice: list[Reals]) -> Located:
        """Return the elements, ascending, that contain points of a lattice (along z, y, x), and these points."""
        key = b"|".join(places.tobytes() for places in lattice)
        if key not in self._located:
            self._located[key] = self._locate(lattice)
            while len(self._located) > LATTICES:
                self._located.popitem(last=False)
        return self._located[key]

    def _locate(self, lattice: list[Reals]) -> Located:
        first, last = np.array([[places[0], places[-1]] for places in lattice]).T
        margin = MARGIN * (self.high - self.low).max(axis=1, keepdims=True)
        near = np.flatnonzero(((self.low - margin <= last) & (self.high + margin >= first)).all(axis=1))
        z, y, x = (place.isel(element=near).values for place in self._places)
        located: Located = []
        for number, element in zip(near, np.stack([x, y, z], axis=1).astype(np.float64)):
            numbers, rst = lattice_inside(element, (lattice[0], lattice[1], lattice[2]))
            if len(numbers):
                located.append((int(number), numbers, rst))
        return located


class _Interpolated(BackendArray):
    """One field over all steps and a lattice, (step, z, y, x), as xarray indexes it."""

    def __init__(self, field: xr.DataArray, mesh: _Mesh, lattice: list[Reals]) -> None:
        self.shape = (field.sizes[STEP], *map(len, lattice))
        self.dtype = np.dtype(np.float64)
        self._field, self._mesh, self._lattice = field, mesh, lattice

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Reals:
        """Evaluate an outer selection: an int, a slice or a 1-D array of indices for each axis."""
        indices = [np.arange(n)[k] for n, k in zip(self.shape, key)]
        steps, *axes = (np.atleast_1d(index) for index in indices)
        ascending, back = zip(*(np.unique(axis, return_inverse=True) for axis in axes))
        box = np.full((len(steps), *map(len, ascending)), np.nan)
        if box.size:
            located = self._mesh.locate([places[a] for places, a in zip(self._lattice, ascending)])
            for image, step in zip(box, steps):
                self._evaluate(located, int(step), image.reshape(-1))
        picked = box[np.ix_(np.arange(len(steps)), *back)]
        return np.asarray(picked.reshape([index.size for index in indices if index.ndim]))

    def _evaluate(self, located: Located, step: int, image: Reals) -> None:
        elements = [element for element, _, _ in located]
        values = self._field.isel({STEP: step, ELEMENT_DIMS[0]: elements}).values
        # In reverse order, so that the first element is written last.
        for (_, numbers, rst), u in reversed(list(zip(located, values))):
            image[numbers] = values_at(u, rst)
