"""Pictures of spectra as a run writes them (output.spectra): of turbulence, and of cosmic structure.

Turbulence: at each step the data set holds E(k) as `energy_spectrum`, D(k) as `dissipation_spectrum`, and spectra of
scalars. It also holds the probability densities of dissipation and enstrophy over their means, and of the pressure
over its root mean square. Source: Kolmogorov's E(k) = C eps^(2/3) k^(-5/3) with C = 1.62 and compensated spectra over
k eta are those of Yeung and Zhou, Phys. Rev. E 56 (1997) 1746.

Cosmic structure, of an N-body run: at each step the data set holds `surface_density`, P(k) as `matter_power` beside
`linear_power`, and `halo_density` over `halo_mass` if halos were identified.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, label_decades, mean_title, panels, title
from ridgeline.analysis.slices import select_step, step_numbers, take_mean
from ridgeline.analysis.sources import SPECTRA, Source, dataset_of
from ridgeline.runtime.errors import ConfigError

KOLMOGOROV_CONSTANT = 1.62
ENERGY = "energy_spectrum"
DENSITIES = {"dissipation_density": "ε / <ε>", "enstrophy_density": "Ω / <Ω>"}
MOST_OTHERS = 8  # other steps whose spectra are drawn in grey
POWER = "matter_power"
DARKEST = 0.1  # the lower end of the colours of density, over the mean


def has_spectra(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of spectra of turbulence."""
    return ENERGY in dataset


def plot_spectra(
    dataset: xr.Dataset, step: int = -1, average: str | None = None, alone: bool = False
) -> Figure:
    """Draw the energy spectrum with a line of slope -5/3, and beside it the spectrum compensated by that slope.

    Left: E(k), spectra of scalars, and E(k) of other steps in grey. Right: E(k) / (eps^(2/3) k^(-5/3)) over k eta,
    in which an inertial range is a plateau near C = 1.62; without viscosity k^(5/3) E(k) over k. The dissipation
    eps is the integral of D(k), and eta follows from it and the viscosity among the attributes of the data set.
    Source: Yeung and Zhou, Phys. Rev. E 56 (1997) 1746.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set as `ridgeline.open` returns it, with "k" and "energy_spectrum".
    step : int
        An output, as for `select_step`.
    average : str, optional
        A range of outputs, as for `take_mean`, instead of a step. E and eps are means over these outputs, which are
        drawn in grey.
    alone : bool
        Draw only the compensated spectrum.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that a notebook shows, and that `savefig` writes.

    Raises
    ------
    ConfigError
        If the data set has no spectra, or lacks the step.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.spectra import plot_spectra
    >>> k = np.arange(1.0, 9.0)
    >>> energy = 1.62 * k ** (-5 / 3) * np.exp(-k / 4)
    >>> coords = {"step": [0], "time": ("step", [0.0]), "k": k}
    >>> data = xr.Dataset({"energy_spectrum": (("step", "k"), energy[None])}, coords)
    >>> len(plot_spectra(data).axes), len(plot_spectra(data, alone=True).axes)
    (2, 1)
    """
    _check_spectra(dataset)
    now, others, words = step_or_mean(dataset, step, average)
    grey = name_of_others(average)
    figure = blank_figure(6.4, 4.6) if alone else blank_figure(9.6, 4.2)
    *left, compensated = panels(figure, 1 if alone else 2)
    for axes in left:
        _draw_plain(axes, now, others, grey)
    _draw_compensated(compensated, now, others if alone else [], grey)
    label_decades(figure)
    figure.suptitle(words)
    return figure


def draw_spectrum(axes: Axes, dataset: xr.Dataset, step: int, average: str | None, compensated: bool) -> None:
    """Draw one panel of `plot_spectra` into given axes, with the same parameters and errors."""
    _check_spectra(dataset)
    now, others, words = step_or_mean(dataset, step, average)
    (_draw_compensated if compensated else _draw_plain)(axes, now, others, name_of_others(average))
    axes.set_title(words)


def _draw_plain(plain: Axes, now: xr.Dataset, others: Sequence[xr.Dataset], grey: str) -> None:
    k, energy = curve(now, ENERGY)
    for number, other in enumerate(others):
        label = None if number else grey
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


def _draw_compensated(axes: Axes, now: xr.Dataset, others: Sequence[xr.Dataset], grey: str) -> None:
    for number, other in enumerate(others):
        label = None if number else grey
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


def compensated_spectrum(data: Source, step: int = -1, average: str | None = None) -> xr.DataArray:
    """Compute E(k) k^(5/3) / eps^(2/3) over k eta from spectra that a run of turbulence wrote.

    The dissipation eps is the integral of D(k), and the Kolmogorov length eta = (nu^3 / eps)^(1/4). In an inertial
    range it is near 1.62. Source: Yeung and Zhou, Phys. Rev. E 56 (1997) 1746.

    Parameters
    ----------
    data : xarray.Dataset, path or Run
        The spectra that output.spectra writes: a data set, its path, or a run.
    step : int
        The number of a time step that was written, or -1 for the last one.
    average : str, optional
        A range of outputs FIRST:LAST, whose mean is taken instead of a step.

    Returns
    -------
    xarray.DataArray
        float64 over `k_eta`, where the spectrum is positive. Without viscosity or dissipation there are no such
        scales, and it is k^(5/3) E(k) over `k`.

    Raises
    ------
    ConfigError
        If there are no spectra, or for a step that does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> import ridgeline
    >>> import xarray as xr
    >>> k = np.arange(1.0, 9.0)
    >>> coords = {"step": [0], "time": ("step", [0.0]), "k": k}
    >>> data = xr.Dataset({"energy_spectrum": (("step", "k"), 2 * k[None] ** (-5 / 3))}, coords)
    >>> ridgeline.analysis.compensated_spectrum(data).values.round(12).tolist()[:3]
    [2.0, 2.0, 2.0]
    """
    dataset = dataset_of(data, SPECTRA)
    _check_spectra(dataset)
    now, _, _ = step_or_mean(dataset, step, average)
    places, values = _compensated(now)
    dim = "k_eta" if _has_scales(now) else "k"
    return xr.DataArray(values, {dim: places}, (dim,), name="compensated_spectrum")


def _has_scales(spectra: xr.Dataset) -> bool:
    """Whether there are a dissipation and a viscosity, so that Kolmogorov's scales are known."""
    return mean_dissipation(spectra) > 0 and float(spectra.attrs.get("model.viscosity", 0.0)) > 0


def _compensated(spectra: xr.Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return k eta and k^(5/3) E(k) / eps^(2/3) at one step; without Kolmogorov's scales k and k^(5/3) E(k)."""
    k, energy = curve(spectra, ENERGY)
    if not _has_scales(spectra):
        return k, k ** (5 / 3) * energy
    dissipation = mean_dissipation(spectra)
    eta = (float(spectra.attrs["model.viscosity"]) ** 3 / dissipation) ** 0.25
    return k * eta, k ** (5 / 3) * energy / dissipation ** (2 / 3)


def plot_densities(dataset: xr.Dataset, step: int = -1) -> Figure:
    """Draw the probability densities of dissipation and enstrophy over their means, on logarithmic axes.

    If the data set has it, the density of the pressure over its root mean square p' is drawn beside them, with a
    Gaussian.

    Parameters
    ----------
    dataset : xarray.Dataset
        A data set as for `plot_spectra`, with the densities that a run of turbulence writes beside its spectra.
    step : int
        An output, as for `select_step`.

    Returns
    -------
    matplotlib.figure.Figure
        A figure with one panel, or two with the pressure.

    Raises
    ------
    ConfigError
        If the data set has no spectra or densities, or lacks the step.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis.spectra import plot_densities
    >>> ratio = np.array([0.1, 1.0, 10.0])
    >>> density = ("step", "ratio"), np.exp(-ratio)[None]
    >>> names = ("dissipation_density", "enstrophy_density")
    >>> coords = {"step": [0], "k": [1.0, 2.0], "ratio": ratio}
    >>> energy = {"energy_spectrum": (("step", "k"), np.ones((1, 2)))}
    >>> data = xr.Dataset(energy | dict.fromkeys(names, density), coords)
    >>> plot_densities(data).axes[0].get_xlabel()
    'value over mean'
    """
    _check_spectra(dataset)
    now = select_step(dataset, step).load()
    missing = [name for name in DENSITIES if name not in now]
    if missing:
        raise ConfigError(f"the data set has no {missing[0]}. Draw its spectra, without --pdf.")
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


def has_structure(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of cosmic structure."""
    return POWER in dataset


def plot_structure(dataset: xr.Dataset, step: int = -1) -> Figure:
    """Draw the slice of density, the power spectrum beside linear theory, and the mass function of halos.

    dataset: as `ridgeline.open` returns it; step: as for `select_step`, which raises ConfigError.
    """
    now = select_step(dataset, step).load()
    halos = "halo_density" in now
    figure = blank_figure(14.4 if halos else 9.8, 4.4)
    density, power, *beside = panels(figure, 2 + halos)
    _draw_density(figure, density, now)
    k, measured = curve(now, POWER)
    power.loglog(k, measured, label="measured" if len(k) else "measured (nowhere positive, so not drawn)")
    if "linear_power" in now:
        power.loglog(*curve(now, "linear_power"), ":", color="black", label="linear theory")
    power.loglog(*curve(now, "shot_noise"), "--", color="0.6", label="shot noise of random particles")
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
        np.maximum(picture, DARKEST),
        origin="lower",
        cmap="inferno",
        extent=(0.0, length, 0.0, length),
        norm=LogNorm(DARKEST, max(float(picture.max()), 10 * DARKEST)),
    )
    figure.colorbar(image, ax=axes, label="mass relative to the mean")
    axes.set(xlabel="x in Mpc/h", ylabel="y in Mpc/h")


def _draw_halos(axes: Axes, now: xr.Dataset) -> None:
    mass, density = now["halo_mass"].values, now["halo_density"].values
    positive = density > 0
    if not positive.any():
        axes.text(0.5, 0.5, "no halos", ha="center", va="center", transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
        return
    axes.loglog(mass[positive], density[positive], "o-")
    axes.set(xlabel="mass in solar masses / h", ylabel="halos per (Mpc/h)³ and decade of mass")


def mean_dissipation(spectra: xr.Dataset) -> float:
    """Return eps, the integral of D(k), at one step; 0 if the data set lacks D(k)."""
    if "dissipation_spectrum" not in spectra:
        return 0.0
    k = spectra["k"].values
    return float(spectra["dissipation_spectrum"].values.sum() * (k[1] - k[0]))


def curve(spectra: xr.Dataset, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return k and a spectrum where both are positive, so that logarithms exist."""
    k, values = spectra["k"].values, spectra[name].values
    drawn = (k > 0) & (values > 0)
    return k[drawn], values[drawn]


def _check_spectra(dataset: xr.Dataset) -> None:
    if not has_spectra(dataset):
        raise ConfigError(
            f"the data set has no {ENERGY}. Name the data set of output.spectra, which a run writes with "
            "output.spectra_every > 0."
        )


def step_or_mean(
    dataset: xr.Dataset, step: int, average: str | None
) -> tuple[xr.Dataset, list[xr.Dataset], str]:
    """Return the data of one step or the mean over several, outputs to draw in grey, and a title.

    step, average: as for `select_step` and `take_mean`. If average is given, step is ignored.
    """
    if average is None:
        now = select_step(dataset, step).load()
        return now, list(other_steps(dataset, int(now["step"]))), title(now)
    now, part = take_mean(dataset, average)
    return now, list(other_steps(part, -1)), mean_title(part)


def name_of_others(average: str | None) -> str:
    """Return the name of the curves in grey that `step_or_mean` returns."""
    return "other outputs" if average is None else "outputs of the mean"


def other_steps(dataset: xr.Dataset, step: int) -> Iterator[xr.Dataset]:
    """Yield the data of at most MOST_OTHERS steps other than `step`, spread over the run."""
    others = [int(number) for number in step_numbers(dataset) if number != step]
    places = np.linspace(0, len(others) - 1, min(len(others), MOST_OTHERS)).round().astype(int)
    for place in places:
        yield select_step(dataset, others[place])
