"""Pictures of atoms as a run of molecular dynamics writes them: a layer of atoms, their speeds, and g(r).

Lengths are in sigma, and an atom is drawn as a disc of diameter 1. Sources: Maxwell's distribution of speeds,
p(v) = sqrt(2 / pi) v^2 T^(-3/2) exp(-v^2 / 2T); Allen and Tildesley, "Computer Simulation of Liquids", Sec. 2.6.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.colour_scales import colour_map
from ridgeline.analysis.plot import blank_figure, panels, title
from ridgeline.analysis.slices import select_step
from ridgeline.analysis.spectra import name_of_others, step_or_mean
from ridgeline.runtime.errors import ConfigError

ATOM, POSITION, VELOCITY, RADIAL = "atom", "position", "velocity", "radial_distribution"
AXES = "xyz"
LAYER = 1.0  # thickness of the layer that is drawn, so that atoms hardly hide each other
BINS = 100

Reals = NDArray[np.float64]


def has_atoms(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of atoms."""
    return ATOM in dataset.dims


def has_radial(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of radial distribution functions."""
    return RADIAL in dataset


def plot_atoms(
    dataset: xr.Dataset, variables: Sequence[str] = (), slice_spec: str = "z=mid", step: int = -1
) -> Figure:
    """Draw the atoms of a layer as discs, with a panel for each variable, whose magnitude gives the colour.

    dataset: as `ridgeline.open` returns it, with `position`; variables: of velocity and force, by default all in the
    data set; slice_spec: the middle of the layer in sigma, "z=mid" or "x=12.5"; step: as for `select_step`. Raises
    ConfigError for invalid ones.
    """
    now = select_step(dataset, step)
    if POSITION not in now:
        raise ConfigError(
            f"the data set has no {POSITION}, so its atoms cannot be placed. Add it to output.variables."
        )
    names = _vectors(now, variables)
    place = now[POSITION].values
    # The axis across the layer, and the coordinate of its middle.
    axis, separator, where = (part.strip() for part in slice_spec.partition("="))
    across = AXES.find(axis) if len(axis) == 1 else -1
    low, high = (float(ends[across]) if len(place) else 0.0 for ends in (place.min(0), place.max(0)))
    try:
        middle = 0.5 * (low + high) if where == "mid" else float(where)
    except ValueError:
        middle = np.nan
    if across < 0 or not separator or not low <= middle <= high:
        raise ConfigError(
            f"slice '{slice_spec}' is not a layer of atoms. Write AXIS=PLACE with x, y or z, and mid or a place from "
            f"{low:.4g} to {high:.4g} sigma, such as z=mid."
        )
    inside = np.flatnonzero(np.abs(place[:, across] - middle) <= LAYER / 2)
    inside = inside[np.argsort(place[inside, across])]  # atoms on top are drawn last
    ones = np.ones(len(inside))
    horizontal, vertical = (axis for axis in range(3) if axis != across)
    figure = blank_figure(5.2 * max(len(names), 1), 4.8)
    for axes, name in zip(panels(figure, max(len(names), 1)), names or [""]):
        discs = EllipseCollection(
            widths=ones,
            heights=ones,
            angles=0 * ones,
            units="xy",
            offsets=place[inside][:, [horizontal, vertical]],
            offset_transform=axes.transData,
            edgecolors="black",
            linewidths=0.2,
        )
        if name:
            discs.set_array(magnitude(now[name])[inside])
            discs.set_cmap(colour_map(name))
            figure.colorbar(discs, ax=axes, fraction=0.046, pad=0.03)
            axes.set_title(f"|{name}|")
        axes.add_collection(discs)
        ends = place.max(0, initial=0.0)
        axes.set(xlim=(0, ends[horizontal]), ylim=(0, ends[vertical]), aspect="equal")
        axes.set(xlabel=f"{AXES[horizontal]} / σ", ylabel=f"{AXES[vertical]} / σ")
    figure.suptitle(f"{title(now)}, {AXES[across]} = {middle:.4g} ± {LAYER / 2:g}")
    return figure


def plot_magnitudes(dataset: xr.Dataset, variables: Sequence[str] = (), step: int = -1) -> Figure:
    """Draw the probability densities of the magnitudes of vectors, that of speeds beside Maxwell's distribution.

    variables: as for `plot_atoms`. Maxwell's distribution has the temperature of the step, sum v^2 / (3N - 3).
    """
    now = select_step(dataset, step)
    names = _vectors(now, variables)
    if not names:
        raise ConfigError("the data set has neither velocity nor force. Add one of them to output.variables.")
    figure = blank_figure(4.8 * len(names), 3.8)
    for axes, name in zip(panels(figure, len(names)), names):
        values = magnitude(now[name])
        density, edges = np.histogram(values, BINS, density=True)
        axes.stairs(density, edges, fill=True, alpha=0.5)
        if name == VELOCITY and len(values) > 1:
            temperature = float((values**2).sum() / (3 * len(values) - 3))
            label = f"Maxwell, T = {temperature:.4g}"
            axes.plot(edges, maxwell(edges, temperature), color="black", linewidth=1, label=label)
            axes.legend()
        axes.set(xlabel=f"|{name}|", ylabel="probability density")
    figure.suptitle(title(now))
    return figure


def plot_radial(dataset: xr.Dataset, step: int = -1, average: str | None = None) -> Figure:
    """Draw the radial distribution function, with those of other steps in grey.

    step, average: as for `step_or_mean`. The axis ends above the curve of the step, because with the peaks of the
    lattice at step 0 the curve of a liquid would look flat.
    """
    now, others, words = step_or_mean(dataset, step, average)
    figure = blank_figure(5.6, 4.2)
    (axes,) = panels(figure, 1)
    for number, other in enumerate(others):
        _draw_radial(axes, other, "0.8", None if number else name_of_others(average))
    _draw_radial(axes, now, "C0", words)
    axes.axhline(1.0, linestyle=":", color="black", linewidth=1)
    top = 1.2 * max(1.0, float(now[RADIAL].max()))
    axes.set(xlabel="r / σ", ylabel="g(r)", ylim=(0, top), xlim=(0, float(now["r"].max())))
    axes.legend(frameon=False, fontsize="small")
    figure.suptitle(words)
    return figure


def _draw_radial(axes: Axes, of_step: xr.Dataset, colour: str, label: str | None) -> None:
    width = 1 + (colour == "C0")
    axes.plot(of_step["r"].values, of_step[RADIAL].values, color=colour, linewidth=width, label=label)


def magnitude(vectors: xr.DataArray) -> Reals:
    """Return the lengths (atoms,) of vectors (atoms, 3)."""
    return np.asarray(np.sqrt(np.square(vectors.values).sum(1)))


def maxwell(speeds: Reals, temperature: float) -> Reals:
    """Return Maxwell's density of speeds at a temperature, for atoms of mass 1."""
    if temperature <= 0:
        return np.zeros_like(speeds)
    squares = speeds**2 / temperature
    return np.asarray(np.sqrt(2 / np.pi / temperature) * squares * np.exp(-squares / 2))


def _vectors(now: xr.Dataset, variables: Sequence[str]) -> list[str]:
    """Return the names of the vectors to draw. Raises ConfigError for one that does not exist."""
    known = [str(name) for name in now.data_vars if name in (VELOCITY, "force")]
    has = ", ".join(str(name) for name in now.data_vars if ATOM in now[name].dims)
    for name in variables:
        if name not in known:
            raise ConfigError(
                f"the atoms cannot be coloured by '{name}'. The data set has {has}, and colours are those of "
                "velocity or force. The setting output.variables can add them."
            )
    return list(variables) or known
