"""Pictures of turbulence statistics: spectra and probability densities as a run writes them (output.spectra).

At each step the data set holds E(k) as `energy_spectrum`, D(k) as `dissipation_spectrum`, and spectra of scalars.
It also holds the densities of dissipation and enstrophy over their means, and of the pressure over its root mean
square. Sources: Kolmogorov's E(k) = C eps^(2/3) k^(-5/3) with C = 1.62 (Yeung and Zhou, Phys. Rev. E 56 (1997)
1746); compensated spectra over k eta as there.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, label_decades, mean_title, panels, title
from ridgeline.analysis.slices import select_step, step_numbers, take_mean
from ridgeline.runtime.errors import ConfigError

KOLMOGOROV_CONSTANT = 1.62
ENERGY = "energy_spectrum"
DENSITIES = {"dissipation_density": "ε / <ε>", "enstrophy_density": "Ω / <Ω>"}
MOST_OTHERS = 8  # spectra of other steps that are drawn in grey


def has_spectra(dataset: xr.Dataset) -> bool:
    """Say whether it is a data set of spectra."""
    return ENERGY in dataset


def plot_spectra(
    dataset: xr.Dataset, step: int = -1, average: str | None = None, alone: bool = False
) -> Figure:
    """Draw the energy spectrum with the -5/3 line, and beside it compensated by it.

    Left: E(k), spectra of scalars, E(k) of other steps in grey. Right: E(k) / (eps^(2/3) k^(-5/3)) over k eta,
    where an inertial range is a plateau near C = 1.62; without viscosity k^(5/3) E(k) over k. The dissipation eps
    is the integral of D(k), eta follows with the viscosity among the attributes of the data set.

    dataset : as `ridgeline.open` returns it, with "k" and "energy_spectrum" in it.
    step : as for `select_step`. average : as for `take_mean`, instead of a step; E and eps are means over the
        outputs, which are drawn in grey. alone : draw the compensated spectrum alone.
    Raises ConfigError if the data set has no spectra or not that step.
    """
    _refuse_others(dataset)
    now, others, words = step_or_mean(dataset, step, average)
    figure = blank_figure(6.4, 4.6) if alone else blank_figure(9.6, 4.2)
    *left, compensated = panels(figure, 1 if alone else 2)
    for axes in left:
        _draw_plain(axes, now, others)
    _draw_compensated(compensated, now, others if alone else [])
    label_decades(figure)
    figure.suptitle(words)
    return figure


def _draw_plain(plain: Axes, now: xr.Dataset, others: Sequence[xr.Dataset]) -> None:
    k, energy = curve(now, ENERGY)
    for number, other in enumerate(others):
        label = None if number else "other outputs"
        plain.loglog(*curve(other, ENERGY), color="0.8", linewidth=0.8, label=label)
    plain.loglog(k, energy, label="$E(k)$")
    for name in now:
        if str(name).startswith("scalar_") and str(name).endswith("_spectrum"):
            plain.loglog(*curve(now, str(name)), "--", label=str(name).removesuffix("_spectrum"))
    dissipation = mean_dissipation(now)
    if dissipation > 0:
        line, label = KOLMOGOROV_CONSTANT * dissipation ** (2 / 3), r"$1.62\,\varepsilon^{2/3} k^{-5/3}$"
    else:
        line, label = float((k ** (5 / 3) * energy).max(initial=0.0)), "$k^{-5/3}$"
    if len(k):
        plain.loglog(k, line * k ** (-5 / 3), ":", color="black", label=label)
        plain.set_ylim(energy.min() / 3, 3 * max(energy.max(), line * k[-1] ** (-5 / 3)))
    plain.set(xlabel="$k$", ylabel="$E(k)$")
    plain.legend()


def _draw_compensated(axes: Axes, now: xr.Dataset, others: Sequence[xr.Dataset]) -> None:
    for number, other in enumerate(others):
        label = None if number else "other outputs"
        axes.loglog(*_compensated(other), color="0.8", linewidth=0.8, label=label)
    places, values = _compensated(now)
    axes.loglog(places, values)
    if len(values):
        axes.set_ylim(values.min() / 3, 3 * max(values.max(), KOLMOGOROV_CONSTANT * _has_scales(now)))
    if _has_scales(now):
        axes.axhline(KOLMOGOROV_CONSTANT, linestyle=":", color="black", label="$C = 1.62$")
        axes.set(xlabel=r"$k\eta$", ylabel=r"$k^{5/3}\, E(k)\; \varepsilon^{-2/3}$")
        axes.legend()
    else:
        axes.set(xlabel="$k$", ylabel="$k^{5/3}\\, E(k)$")


def _has_scales(spectra: xr.Dataset) -> bool:
    """Say whether there are a dissipation and a viscosity, and so Kolmogorov's scales."""
    return mean_dissipation(spectra) > 0 and float(spectra.attrs.get("model.viscosity", 0.0)) > 0


def _compensated(spectra: xr.Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return k eta and k^(5/3) E(k) / eps^(2/3) of one step; without scales k and k^(5/3) E(k)."""
    k, energy = curve(spectra, ENERGY)
    if not _has_scales(spectra):
        return k, k ** (5 / 3) * energy
    dissipation = mean_dissipation(spectra)
    eta = (float(spectra.attrs["model.viscosity"]) ** 3 / dissipation) ** 0.25
    return k * eta, k ** (5 / 3) * energy / dissipation ** (2 / 3)


def plot_densities(dataset: xr.Dataset, step: int = -1) -> Figure:
    """Draw the probability densities of dissipation and enstrophy over their means, both axes logarithmic.

    Beside them, where the data set has it, that of the pressure over its root mean square p', with that of a
    Gaussian.

    dataset, step : as for `plot_spectra`.
    """
    _refuse_others(dataset)
    now = select_step(dataset, step).load()
    missing = [name for name in DENSITIES if name not in now]
    if missing:
        raise ConfigError(f"the data set has no {missing[0]}; draw its spectra, without --pdf")
    pressure = "pressure_density" in now
    figure = blank_figure(9.6 if pressure else 5.6, 4.2)
    axes, *beside = panels(figure, 1 + pressure)
    ratio = now["ratio"].values
    for name, label in DENSITIES.items():
        density = now[name].values
        drawn = density > 0
        axes.loglog(ratio[drawn], density[drawn], label=label)
    axes.set(xlabel="value over mean", ylabel="probability density")
    axes.legend()
    for each in beside:
        _draw_pressure(each, now["deviation"].values, now["pressure_density"].values)
    label_decades(figure)
    figure.suptitle(title(now))
    return figure


def _draw_pressure(axes: Axes, deviation: NDArray[np.float64], density: NDArray[np.float64]) -> None:
    drawn = density > 0
    axes.semilogy(deviation[drawn], density[drawn], label="p / p'")
    if drawn.any():
        gaussian = np.exp(-(deviation**2) / 2) / np.sqrt(2 * np.pi)
        near = gaussian >= density[drawn].min()
        axes.semilogy(deviation[near], gaussian[near], ":", color="black", label="Gaussian")
    axes.set(xlabel="pressure over its root mean square", ylabel="probability density")
    axes.legend()


def mean_dissipation(spectra: xr.Dataset) -> float:
    """Return eps, the integral of D(k) of one step; 0 if the data set does not have it."""
    if "dissipation_spectrum" not in spectra:
        return 0.0
    k = spectra["k"].values
    return float(spectra["dissipation_spectrum"].values.sum() * (k[1] - k[0]))


def curve(spectra: xr.Dataset, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return k and a spectrum where a logarithm exists: k > 0 and the spectrum > 0."""
    k, values = spectra["k"].values, spectra[name].values
    drawn = (k > 0) & (values > 0)
    return k[drawn], values[drawn]


def _refuse_others(dataset: xr.Dataset) -> None:
    if not has_spectra(dataset):
        raise ConfigError(
            f"the data set has no {ENERGY}; name the one of output.spectra, which a run writes with "
            f"output.spectra_every > 0"
        )


def step_or_mean(
    dataset: xr.Dataset, step: int, average: str | None
) -> tuple[xr.Dataset, list[xr.Dataset], str]:
    """Return the data of one step or the mean over some, other outputs to draw in grey, and a title.

    step, average : as for `select_step` and `take_mean`; average takes the place of step.
    """
    if average is None:
        now = select_step(dataset, step).load()
        return now, list(other_steps(dataset, int(now["step"]))), title(now)
    now, part = take_mean(dataset, average)
    return now, list(other_steps(part, -1)), mean_title(part)


def other_steps(dataset: xr.Dataset, step: int) -> Iterator[xr.Dataset]:
    """Yield the data of at most MOST_OTHERS other steps, spread over the run."""
    others = [int(number) for number in step_numbers(dataset) if number != step]
    places = np.linspace(0, len(others) - 1, min(len(others), MOST_OTHERS)).round().astype(int)
    for place in places:
        yield select_step(dataset, others[place])
