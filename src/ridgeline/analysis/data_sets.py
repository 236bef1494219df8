"""The kinds of data sets that there are: how each is known, what may be asked of it, and what draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import xarray as xr
from matplotlib.figure import Figure

from ridgeline.analysis.atoms import has_atoms, has_radial, plot_atoms, plot_magnitudes, plot_radial
from ridgeline.analysis.averages import has_averages, plot_averages, plot_wall_units
from ridgeline.analysis.options import PictureOptions
from ridgeline.analysis.paths import has_paths, has_places, plot_paths, plot_places
from ridgeline.analysis.plot import plot_pdf, plot_slices
from ridgeline.analysis.spectra import has_spectra, plot_densities, plot_spectra
from ridgeline.analysis.structure import has_structure, plot_structure
from ridgeline.analysis.views import plot_isosurface, plot_volume


@dataclass(frozen=True)
class DataSetKind:
    """what: in sentences; known: says whether a data set is one; wishes: names of options that it has a use for."""

    what: str
    known: Callable[[xr.Dataset], bool]
    wishes: tuple[str, ...]
    draw: Callable[[xr.Dataset, PictureOptions], Figure]


def _spectra(dataset: xr.Dataset, asked: PictureOptions) -> Figure:
    if asked.pdf:
        return plot_densities(dataset, asked.step)
    return plot_spectra(dataset, asked.step, asked.average, asked.compensated)


def _atoms(dataset: xr.Dataset, asked: PictureOptions) -> Figure:
    if asked.pdf:
        return plot_magnitudes(dataset, asked.variable, asked.step)
    return plot_atoms(dataset, asked.variable, asked.slice, asked.step)


def _fields(dataset: xr.Dataset, asked: PictureOptions) -> Figure:
    if asked.isosurface is not None:
        return plot_isosurface(dataset, asked.isosurface, asked.step, asked.colour)
    if asked.volume is not None:
        return plot_volume(dataset, asked.volume, asked.step)
    return (plot_pdf if asked.pdf else plot_slices)(dataset, asked.variable or None, asked.slice, asked.step)


def _averages(dataset: xr.Dataset, asked: PictureOptions) -> Figure:
    if asked.wall_units:
        return plot_wall_units(dataset, asked.step)
    return plot_averages(dataset, asked.variable, asked.step, asked.page)


FIELDS = DataSetKind(
    "a data set of fields",
    lambda _: True,
    ("variable", "slice", "step", "pdf", "movie", "rate", "width", "isosurface", "colour", "volume"),
    _fields,
)
# The first that knows a data set draws it.
KINDS = (
    DataSetKind(
        "a data set of spectra, which are drawn together",
        has_spectra,
        ("step", "average", "compensated", "pdf"),
        _spectra,
    ),
    DataSetKind("a data set of atoms", has_atoms, ("variable", "slice", "step", "pdf"), _atoms),
    DataSetKind(
        "a data set of radial distribution functions",
        has_radial,
        ("step", "average"),
        lambda dataset, asked: plot_radial(dataset, asked.step, asked.average),
    ),
    DataSetKind(
        "a data set of cosmic structure, which is drawn whole",
        has_structure,
        ("step",),
        lambda dataset, asked: plot_structure(dataset, asked.step),
    ),
    DataSetKind(
        "a data set of statistics, which have no probability density",
        has_averages,
        ("variable", "step", "page", "wall_units"),
        _averages,
    ),
    DataSetKind(
        "a data set of particles in space",
        has_places,
        ("slice", "step"),
        lambda dataset, asked: plot_places(dataset, asked.slice, asked.step),
    ),
    DataSetKind(
        "a data set of particles, whose correlations along their paths are drawn",
        has_paths,
        ("variable",),
        lambda dataset, asked: plot_paths(dataset, asked.variable),
    ),
    FIELDS,
)


def kind_of(dataset: xr.Dataset) -> DataSetKind:
    """Return what kind a data set is, as `ridgeline.open` returns it."""
    return next(kind for kind in KINDS if kind.known(dataset))
