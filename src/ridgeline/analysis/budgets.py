"""Budgets of the Reynolds stresses and of the turbulence energy, from the averages of a flow.

    d<u_i'u_j'>/dt = production + turbulent transport + viscous diffusion + pressure strain + pressure diffusion
                     + convection - dissipation

The averages are those of output.statistics with output.statistics_of = "budgets". Their derivatives along the axes
that are left are those of the polynomials of the elements, and at points that elements share the mean of both sides.
Source: Mansour, Kim and Moin, J. Fluid Mech. 194 (1988) 15, Eq. 1.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.slices import STEP
from ridgeline.analysis.sources import STATISTICS, Source, dataset_of
from ridgeline.analysis.windows import PLACES, average
from ridgeline.config.check import did_you_mean
from ridgeline.elements.quadrature import gll_derivative
from ridgeline.runtime.errors import ConfigError

ENERGY = "k"
LETTERS = "uvw"
STRESSES = {LETTERS[i] + LETTERS[j]: (i, j) for i, j in combinations_with_replacement(range(3), 2)}
NUMBERED = {"k": "z", "j": "y", "i": "x"}  # axes of a mapped mesh
TERMS = {
    "production": "production by the gradients of mean velocity",
    "turbulent_transport": "minus the divergence of third moments",
    "viscous_diffusion": "viscous diffusion",
    "pressure_strain": "redistribution by pressure and rate of strain",
    "pressure_diffusion": "diffusion by the pressure",
    "dissipation": "minus the dissipation",
    "convection": "convection by the mean flow",
}

Reals = NDArray[np.float64]


def stress_budget(averages: Source, stress: str = ENERGY) -> xr.Dataset:
    """Compute the terms of the budget of a Reynolds stress, or of the turbulence energy k = <u_i'u_i'>/2.

    Parameters
    ----------
    averages : xarray.Dataset, path or Run
        Averages of budgets over one or two homogeneous directions, as `average` returns them, or statistics with
        windows, which are added up first. The attributes grid.order and model.viscosity are those of the run.
    stress : str
        "k", "uu", "vv", "ww", "uv", "uw" or "vw".

    Returns
    -------
    xarray.Dataset
        The terms with their signs on the right-hand side, and their sum as `residual`, which is 0 for averages over a
        long time, except for forces that correlate with the velocity.

    Raises
    ------
    ConfigError
        If the averages lack terms, axes or the order of the elements, or for another stress.

    Examples
    --------
    Shear U = y with <u'v'> = -1/2 has the production 2 (-<u'v'>) = 1 of <u'u'>:

    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.budgets import REQUIRED, stress_budget
    >>> y = np.linspace(0.0, 1.0, 3)
    >>> values = dict.fromkeys(REQUIRED, 0 * y) | {"velocity_x": y, "uv": -0.5 + 0 * y}
    >>> attributes = {"grid.order": 2, "model.viscosity": 0.1}
    >>> averages = xr.Dataset({name: ("y", v) for name, v in values.items()}, {"y": y}, attributes)
    >>> stress_budget(averages, "uu").production.values.round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    known = [ENERGY, *STRESSES]
    if stress not in known:
        raise ConfigError(
            f"there is no budget of '{stress}'{did_you_mean(stress, known)} There are those of {', '.join(known)}."
        )
    averages = dataset_of(averages, STATISTICS)
    if STEP in averages.dims:
        averages = average(averages)
    missing = [name for name in REQUIRED if name not in averages]
    if missing:
        raise ConfigError(
            f'the statistics have no {missing[0]}, which budgets need. Set output.statistics_of = "budgets" in a run.'
        )
    lattice = _Lattice(averages)
    of = [(i, i) for i in range(3)] if stress == ENERGY else [STRESSES[stress]]
    share = 0.5 if stress == ENERGY else 1.0
    parts = [_terms(averages, lattice, i, j) for i, j in of]
    terms = {name: share * np.sum([part[name] for part in parts], axis=0) for name in TERMS}
    terms["residual"] = np.sum(list(terms.values()), axis=0)
    words = TERMS | {"residual": "sum of the terms"}
    dims = averages["uu"].dims
    return xr.Dataset(
        {name: (dims, values, {"units": "1", "long_name": words[name]}) for name, values in terms.items()},
        {name: averages[name] for name in (*averages.coords, *PLACES) if name in averages.variables},
        averages.attrs,
    )


def _required() -> list[str]:
    triples = ("".join(each) for each in combinations_with_replacement(LETTERS, 3))
    pairs = ["".join(each) for each in combinations_with_replacement("xyz", 2)]
    return [
        *(f"velocity_{axis}" for axis in "xyz"),
        *STRESSES,
        *triples,
        *(f"{letter}p" for letter in LETTERS),
        *(f"pressure_strain_{pair}" for pair in pairs),
        *(f"dissipation_{pair}" for pair in pairs),
    ]


REQUIRED = _required()  # averages from which budgets follow


def _terms(averages: xr.Dataset, lattice: _Lattice, i: int, j: int) -> dict[str, Reals]:
    """Return the terms of the budget of <u_i'u_j'>, i <= j."""

    def moment(*indices: int) -> Reals:
        return np.asarray(averages["".join(sorted(LETTERS[n] for n in indices))].values, np.float64)

    viscosity = float(averages.attrs.get("model.viscosity", 0.0))
    mean = [np.asarray(averages[f"velocity_{axis}"].values, np.float64) for axis in "xyz"]
    slope, pair = lattice.derivative, "xyz"[i] + "xyz"[j]
    stress = moment(i, j)
    production, transport, diffusion, convection = np.zeros((4, *stress.shape))
    for k in range(3):
        production -= moment(i, k) * slope(mean[j], k) + moment(j, k) * slope(mean[i], k)
        transport -= slope(moment(i, j, k), k)
        diffusion += viscosity * slope(slope(stress, k), k)
        convection -= mean[k] * slope(stress, k)
    pressure = [np.asarray(averages[f"{LETTERS[n]}p"].values, np.float64) for n in (i, j)]
    return {
        "production": production,
        "turbulent_transport": transport,
        "viscous_diffusion": diffusion,
        "pressure_strain": np.asarray(2.0 * averages[f"pressure_strain_{pair}"].values),
        "pressure_diffusion": -slope(pressure[1], i) - slope(pressure[0], j),
        "dissipation": np.asarray(-averages[f"dissipation_{pair}"].values),
        "convection": convection,
    }


class _Lattice:
    """Derivatives on the lattice of the points of elements, along x, y, z."""

    def __init__(self, averages: xr.Dataset) -> None:
        dims = [str(dim) for dim in averages["uu"].dims]
        self._axes = [NUMBERED.get(dim, dim) for dim in dims]
        if not 1 <= len(dims) <= 2 or not set(self._axes) <= set(PLACES):
            raise ConfigError(
                f"these statistics have the axes {', '.join(dims)}, for which there are no budgets. Average over one "
                "or two directions with output.homogeneous."
            )
        shape = averages["uu"].shape
        order = int(averages.attrs.get("grid.order", 0))
        if order < 1 or any((n - 1) % order for n in shape):
            raise ConfigError(
                f"these statistics have {' x '.join(map(str, shape))} points, which are not those of elements of the "
                f"order {order} (the attribute grid.order)."
            )
        self._d = gll_derivative(order + 1)
        self._index = [np.add.outer(order * np.arange((n - 1) // order), np.arange(order + 1)) for n in shape]
        self._shape = shape
        places = [
            np.broadcast_to(self._place(averages, axis, name), shape) for axis, name in enumerate(self._axes)
        ]
        # d place / d xi of each element, [..., place, xi], and its inverse, [..., xi, place].
        jacobian = np.stack(
            [np.stack([self._slope(place, xi) for xi in range(len(shape))], -1) for place in places], -2
        )
        self._inverse = np.linalg.inv(jacobian)
        self._copies = self._gather(np.ones(jacobian.shape[:-2]))

    def _place(self, averages: xr.Dataset, axis: int, name: str) -> Reals:
        place = np.asarray(averages[name].values, np.float64)
        straight = [1] * len(self._shape)
        straight[axis] = -1
        return place if place.ndim == len(self._shape) else place.reshape(straight)

    def _slope(self, values: Reals, xi: int) -> Reals:
        """Return d/d xi in each element: [elements, points] for each axis of the lattice."""
        for axis, index in enumerate(self._index):
            values = np.take(values, index, axis=2 * axis)
        along = 2 * xi + 1
        return np.moveaxis(np.tensordot(self._d, values, (1, along)), 0, along)

    def _gather(self, values: Reals) -> Reals:
        """Return the sums of the values of elements at the points of the lattice."""
        for axis, index in enumerate(self._index):
            rows = values.reshape(*values.shape[:axis], index.size, *values.shape[axis + 2 :])
            out = np.zeros((*rows.shape[:axis], self._shape[axis], *rows.shape[axis + 1 :]))
            np.add.at(np.moveaxis(out, axis, 0), index.reshape(-1), np.moveaxis(rows, axis, 0))
            values = out
        return values

    def derivative(self, values: Reals, k: int) -> Reals:
        """Return the derivative along x, y or z, for k = 0, 1, 2; 0 in homogeneous directions."""
        if PLACES[k] not in self._axes:
            return np.zeros(self._shape)
        place = self._axes.index(PLACES[k])
        slopes = sum(
            self._inverse[..., xi, place] * self._slope(values, xi) for xi in range(len(self._shape))
        )
        return self._gather(np.asarray(slopes)) / self._copies
