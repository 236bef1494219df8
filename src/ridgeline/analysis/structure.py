"""Pictures of cosmic structure as an N-body run writes it: a slice of density, power spectrum, halos.

At each step the data set of `output.spectra` holds `surface_density`, P(k) as `matter_power` beside `linear_power`,
and, where halos were looked for, `halo_density` over `halo_mass`.
"""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ridgeline.analysis.plot import blank_figure, label_decades, panels
from ridgeline.analysis.slices import select_step
from ridgeline.analysis.spectra import curve

POWER = "matter_power"
DARKEST = 0.1  # of the mean: the lower end of the colours


def has_structure(dataset: xr.Dataset) -> bool:
    """Say whether it is a data set of cosmic structure."""
    return POWER in dataset


def plot_structure(dataset: xr.Dataset, step: int = -1) -> Figure:
    """Draw the slice of density, the power spectrum beside linear theory, and the mass function of halos.

    dataset: as `ridgeline.open` returns it; step: as for `select_step`. Raises ConfigError if it lacks that step.
    """
    now = select_step(dataset, step).load()
    halos = "halo_density" in now
    figure = blank_figure(14.4 if halos else 9.8, 4.4)
    density, power, *beside = panels(figure, 2 + halos)
    _draw_density(figure, density, now)
    k, measured = curve(now, POWER)
    power.loglog(k, measured, label="measured" if len(k) else "measured: nowhere positive, not drawn")
    if "linear_power" in now:
        power.loglog(*curve(now, "linear_power"), ":", color="black", label="linear theory")
    power.loglog(*curve(now, "shot_noise"), "--", color="0.6", label="shot noise of particles at random")
    power.set(xlabel="k in h/Mpc", ylabel="P in (Mpc/h)³")
    power.legend(frameon=False)
    for axes in beside:
        _draw_halos(axes, now)
    label_decades(figure)
    figure.suptitle(f"redshift {max(1 / float(now['time']) - 1, 0.0):.4g}, step {int(now['step'])}")
    return figure


def _draw_density(figure: Figure, axes: Axes, now: xr.Dataset) -> None:
    picture, x = now["surface_density"].values, now["x"].values
    length = float(x[1] * len(x))
    image = axes.imshow(
        np.maximum(picture, DARKEST), origin="lower", cmap="inferno", extent=(0.0, length, 0.0, length),
        norm=LogNorm(DARKEST, max(float(picture.max()), 10 * DARKEST)),
    )  # fmt: skip
    figure.colorbar(image, ax=axes, label="mass over the mean")
    axes.set(xlabel="x in Mpc/h", ylabel="y in Mpc/h")


def _draw_halos(axes: Axes, now: xr.Dataset) -> None:
    mass, density = now["halo_mass"].values, now["halo_density"].values
    found = density > 0
    if not found.any():
        axes.text(0.5, 0.5, "no halos", ha="center", va="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return
    axes.loglog(mass[found], density[found], "o-")
    axes.set(xlabel="mass in solar masses / h", ylabel="halos per (Mpc/h)³ and decade of mass")
