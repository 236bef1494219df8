"""Pictures of a flow's statistics: profiles along one direction or planes over two, their convergence and budgets.

Profiles in height of the wind model, whose mean velocity is u, v and w, have the height upwards.

The statistics of several windows are added up before they are drawn, with their standard errors (`windows.py`).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.interpolate import KroghInterpolator

from ridgeline.analysis.budgets import ENERGY, stress_budget
from ridgeline.analysis.colour_scales import ROUNDING, ColourScale, colour_scales, finite_range, is_component
from ridgeline.analysis.plot import (
    axis_label,
    blank_figure,
    label_decades,
    names_on_page,
    panels,
    time_name,
    title,
)
from ridgeline.analysis.slices import STEP, select_range, select_step
from ridgeline.analysis.sources import STATISTICS, Source, dataset_of
from ridgeline.analysis.windows import (
    ERROR,
    IN_HEIGHT,
    PLACES,
    TIME,
    WINDOWS,
    add_windows,
    averages_of,
    has_windows,
    running_windows,
    windows_between_outputs,
)
from ridgeline.config.check import did_you_mean
from ridgeline.runtime.errors import ConfigError

MEAN, MOMENT = "velocity_x", "uu"
STRESSES = ("uu", "vv", "ww", "uv", "uw", "vw")
OF_WIND = ("u", "v", "w")
PER_ROW = 4
KARMAN, OFFSET = 0.41, 5.2  # constants of the law of the wall
STILL = 1e-6  # a mean velocity below this share of the largest one is that of a wall
LINES = ("-", "--")  # line styles of the two walls
log = logging.getLogger(__name__)

Reals = NDArray[np.float64]


def has_averages(dataset: xr.Dataset) -> bool:
    """Whether it is a data set of statistics over fewer than three directions; the others are fields."""
    name = _mean(dataset)
    return name in dataset and MOMENT in dataset and dataset[name].ndim != 4


def _mean(dataset: xr.Dataset) -> str:
    """Return the name of the mean velocity along x."""
    return IN_HEIGHT if IN_HEIGHT in dataset else MEAN


@dataclass(frozen=True)
class WindowChoice:
    """The windows that are drawn: all, or those of some time steps.

    step: the window that ends at this step, or None; average: a range of time steps, as for `take_mean`, or None;
    merge: windows that form one batch of the standard errors.
    """

    step: int | None = None
    average: str | None = None
    merge: int = 1

    def of(self, dataset: xr.Dataset) -> xr.Dataset:
        """Return the windows of the range, or those between its outputs if they are not averages."""
        part = dataset if self.average is None else select_range(dataset, self.average)
        return part if has_windows(part) else windows_between_outputs(part)

    def total(self, dataset: xr.Dataset) -> xr.Dataset:
        """Return the averages over the windows, with standard errors if there are several."""
        if STEP not in dataset.dims:
            return dataset
        if self.step is not None or not has_windows(dataset):
            return select_step(dataset, -1 if self.step is None else self.step).load()
        return add_windows(self.of(dataset), merge=self.merge)


ALL_WINDOWS = WindowChoice()


def plot_averages(
    dataset: xr.Dataset, variables: Sequence[str] = (), windows: WindowChoice = ALL_WINDOWS, page: int = 1
) -> Figure:
    """Draw means and moments: lines along the one direction that is left, or planes over two.

    Lines have a band of a standard error to both sides, if there are several windows. Titles of planes name the
    largest standard error.

    Parameters
    ----------
    dataset : xarray.Dataset
        The data set of output.statistics, as `ridgeline.open` returns it.
    variables : sequence of str
        Names to draw. None draws all except those that are rounding, which are logged.
    windows : WindowChoice
        The windows over which the averages are.
    page : int
        Page of many panels, from 1.

    Raises
    ------
    ConfigError
        For a name or a page that does not exist, and for statistics over no direction.
    """
    now, known = _statistics(dataset, windows)
    dims = now[_mean(now)].dims
    for name in variables:
        if name not in known:
            raise ConfigError(
                f"the statistics have no '{name}'{did_you_mean(name, known)} They have {', '.join(known)}."
            )
    rounding = [] if variables else _rounding(now, known)
    if rounding:
        log.info("not drawn, because zero up to rounding: %s. --variable draws them.", ", ".join(rounding))
    names = names_on_page(list(variables) or [name for name in known if name not in rounding], page)
    across = min(len(names), PER_ROW)
    figure = blank_figure(4.0 * across, 3.4 * -(-len(names) // across))
    for axes, name in zip(panels(figure, len(names), PER_ROW), names):
        values, error = now[name], _error(now, name)
        if len(dims) == 1:
            _draw_line(axes, values, error, upright=IN_HEIGHT in now)
        else:
            # Each has a separate scale: a secondary flow would be invisible on that of the mean flow.
            shade = colour_scales({name: finite_range(now[name].values)})[name]
            image = _draw_plane(axes, now, name, shade)
            figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        most = "" if error is None or len(dims) == 1 else f", error at most {error.max():.2g}"
        axes.set_title(axis_label(now[name]) + most)
    figure.suptitle(_title(now))
    return figure


def plot_convergence(
    dataset: xr.Dataset, name: str, place: str = "", windows: WindowChoice = ALL_WINDOWS
) -> Figure:
    """Draw an average over the first 1, 2, ... windows at one point, with a band of a standard error to both sides.

    dataset, windows: as for `plot_averages`, or outputs of spectra and the like, between which the windows lie; name,
    place: as for `running_windows`. Raises ConfigError as they do.
    """
    running = running_windows(windows.of(dataset), name, place, windows.merge)
    values, error = running[name].values, running[name + ERROR].values
    figure = blank_figure(6.4, 4.2)
    (axes,) = panels(figure, 1)
    axes.plot(running["time"].values, values, marker="." if len(values) < 30 else None)
    axes.fill_between(running["time"].values, values - error, values + error, alpha=0.3, linewidth=0)
    axes.set(xlabel=time_name(running), ylabel=axis_label(running[name]))
    axes.grid(alpha=0.3)
    where = [f"{each} = {value.item():.4g}" for each, value in running.coords.items() if value.ndim == 0]
    last = f"{values[-1]:.6g}" + ("" if np.isnan(error[-1]) else f" ± {error[-1]:.2g}")
    axes.set_title(f"{name}{' at ' + ', '.join(where) if where else ''}: {last}")
    return figure


def plot_budget(dataset: xr.Dataset, stress: str = ENERGY, windows: WindowChoice = ALL_WINDOWS) -> Figure:
    """Draw all terms of a budget and their sum: lines along one direction, or planes over two.

    dataset, windows: as for `plot_averages`; stress: as for `stress_budget`. Raises ConfigError as they do.
    """
    now, _ = _statistics(dataset, windows)
    budget = stress_budget(now, stress)
    names = [str(name) for name in budget.data_vars if name not in PLACES]
    dims = budget[names[0]].dims
    if len(dims) == 1:
        figure = blank_figure(8.0, 4.8)
        (axes,) = panels(figure, 1)
        for name in names:
            line, colour = ("--", "black") if name == "residual" else ("-", None)
            places, label = budget[dims[0]].values, name.replace("_", " ")
            axes.plot(places, budget[name].values, line, color=colour, label=label)
        axes.set(xlabel=axis_label(budget[dims[0]]), ylabel=f"budget of {stress}")
        axes.legend(frameon=False, fontsize="small")
    else:
        figure = blank_figure(4.0 * PER_ROW, 3.4 * -(-len(names) // PER_ROW))
        for axes, name in zip(panels(figure, len(names), PER_ROW), names):
            shade = colour_scales({name: finite_range(budget[name].values)})[name]
            figure.colorbar(_draw_plane(axes, budget, name, shade), ax=axes, fraction=0.046, pad=0.03)
            axes.set_title(name.replace("_", " "))
    figure.suptitle(f"budget of {stress}, {_title(now)}")
    return figure


def plot_wall_units(dataset: xr.Dataset, windows: WindowChoice = ALL_WINDOWS) -> Figure:
    """Draw the mean velocity over the distance from walls, both in wall units, and the Reynolds stresses.

    With the friction velocity u_tau = sqrt(nu |dU/dy|) of each wall, U+ = U / u_tau and y+ = y u_tau / nu, beside
    U+ = y+ and the law of the wall, U+ = ln(y+) / 0.41 + 5.2 (Pope, "Turbulent Flows", Sec. 7.1.4).

    dataset, windows: as for `plot_averages`, with profiles along one direction and the attribute model.viscosity.
    Raises ConfigError if there is no such profile, or no wall at its ends.
    """
    now, _ = _statistics(dataset, windows)
    walls = wall_units(now)
    along = next(str(name) for name in walls.data_vars if is_component(str(name)))
    figure = blank_figure(10.0, 4.4)
    mean, stresses = panels(figure, 2)
    for number in range(walls.sizes["wall"]):
        wall = walls.isel(wall=number)
        distance, line = wall["distance"].values, LINES[number]
        label = f"{wall['wall'].item()}, u_tau = {float(wall['friction_velocity']):.4g}"
        mean.semilogx(distance[1:], wall[along].values[1:], line, label=label, color="C0")
        for colour, name in enumerate(name for name in STRESSES if name in wall):
            shown = None if number else name
            stresses.plot(distance, wall[name].values, line, color=f"C{colour}", label=shown)
    (dim,) = now[along].dims
    y = np.geomspace(0.1, float(walls["distance"].max()), 100)
    mean.plot(y[y < 12], y[y < 12], ":", color="black", label="y+")
    mean.plot(
        y[y > 12], np.log(y[y > 12]) / KARMAN + OFFSET, "-.", color="black", label="ln(y+) / 0.41 + 5.2"
    )
    mean.set(xlabel=f"{dim}+", ylabel=f"{along} / u_tau")
    stresses.set(xlabel=f"{dim}+", ylabel="Reynolds stresses / u_tau^2")
    mean.legend(frameon=False, fontsize="small")
    if stresses.lines:
        stresses.legend(frameon=False, fontsize="small")
    figure.suptitle(_title(now))
    label_decades(figure)
    return figure


def wall_units(averages: Source) -> xr.Dataset:
    """Compute the mean velocity and the Reynolds stresses in wall units, over the distance from each wall.

    With the friction velocity u_tau = sqrt(nu |dU/dy|) of a wall, U+ = U / u_tau, y+ = y u_tau / nu, and the stresses
    are divided by u_tau^2. The slope at the wall is that of the polynomial of the first element. Source: Pope,
    "Turbulent Flows" (2000), Sec. 7.1.4.

    Parameters
    ----------
    averages : xarray.Dataset, path or Run
        Averages as `average` returns them, or statistics with windows, which are added up first. They depend on one
        direction, and have the attributes model.viscosity and grid.order.

    Returns
    -------
    xarray.Dataset
        `distance` in wall units, the component of the mean velocity along the wall, and stresses, over (wall, point)
        from the wall on: to the middle if both ends are walls. `friction_velocity` is over `wall`, whose values are
        those ends, such as "y_min".

    Raises
    ------
    ConfigError
        If the averages do not depend on one direction alone, or there is no wall at its ends.

    Examples
    --------
    Laminar flow with the slope 4 at both walls and the viscosity 1/4 has u_tau = 1:

    >>> import numpy as np
    >>> import ridgeline
    >>> import xarray as xr
    >>> y = np.linspace(0.0, 1.0, 5)
    >>> flow = {"velocity_x": ("y", 4 * y * (1 - y)), "uu": ("y", 0 * y)}
    >>> averages = xr.Dataset(flow, {"y": y}, {"model.viscosity": 0.25, "grid.order": 4})
    >>> walls = ridgeline.analysis.wall_units(averages)
    >>> walls.friction_velocity.values.round(12), walls.distance.sel(wall="y_max").values
    (array([1., 1.]), array([0., 1., 2.]))
    """
    dataset = dataset_of(averages, STATISTICS)
    if not has_averages(dataset):
        raise ConfigError(
            "the data have no mean velocity and Reynolds stresses. Give the data set of output.statistics."
        )
    if IN_HEIGHT in dataset:
        raise ConfigError("wall units require a wall, but these are profiles in height over a rough ground.")
    now, known = _statistics(dataset, ALL_WINDOWS)
    if now[MEAN].ndim != 1:
        raise ConfigError(
            f"wall units require profiles along one direction, but these statistics depend on "
            f"{', '.join(map(str, now[MEAN].dims))}. Average over two directions with output.homogeneous."
        )
    along = max((name for name in known if is_component(name)), key=lambda name: float(abs(now[name]).max()))
    walls = list(_walls(now, along))
    if not walls:
        raise ConfigError(f"wall units require a wall, but {along} is not zero at either end of its profile.")
    (dim,) = now[along].dims
    powers = {along: 1} | {name: 2 for name in STRESSES if name in known}
    columns = {
        name: (
            ("wall", "point"),
            np.stack([now[name].values[part] / friction**n for _, friction, part, _ in walls]),
        )
        for name, n in powers.items()
    }
    columns["distance"] = (("wall", "point"), np.stack([distance for *_, distance in walls]))
    friction_velocity = ("wall", np.array([friction for _, friction, *_ in walls]))
    coords = {"wall": [f"{dim}_{end}" for end, *_ in walls], "friction_velocity": friction_velocity}
    return xr.Dataset(columns, coords, now.attrs)


def _walls(now: xr.Dataset, along: str) -> Iterator[tuple[str, float, slice, Reals]]:
    """Yield for each wall the end of the profile, friction velocity, points from the wall on, and distances y+.

    The points reach to the middle if both ends are walls. The slope at the wall is that of the polynomial of the
    first element.
    """
    (dim,) = now[along].dims
    y, mean = now[dim].values, now[along].values
    viscosity = float(now.attrs.get("model.viscosity", 0.0))
    degree = min(int(now.attrs.get("grid.order", 2)), len(y) - 1)
    ends = {"min": slice(None), "max": slice(None, None, -1)}
    still = {end: points for end, points in ends.items() if abs(mean[points][0]) < STILL * np.abs(mean).max()}
    for end, points in still.items():
        from_wall, u = y[points], mean[points]
        slope = float(KroghInterpolator(from_wall[: degree + 1], u[: degree + 1]).derivative(from_wall[0]))
        friction = np.sqrt(viscosity * abs(slope))
        if friction > 0:
            n = (len(y) + 1) // 2 if len(still) == 2 else len(y)
            part = slice(0, n) if end == "min" else slice(None, -n - 1, -1)
            yield end, friction, part, np.abs(y[part] - from_wall[0]) * friction / viscosity


def _title(now: xr.Dataset) -> str:
    """Return the title of averages, with the number of windows and their length if there are several."""
    n = int(now[WINDOWS]) if WINDOWS in now else 1
    return title(now) + (f", mean over {float(now[TIME]):g} in {n} windows" if n > 1 else "")


def _error(now: xr.Dataset, name: str) -> Reals | None:
    """Return the standard errors of an average, None if it has none."""
    error = now[name + ERROR].values if name + ERROR in now else np.array([np.nan])
    return None if np.isnan(error).any() else np.asarray(error)


def _statistics(dataset: xr.Dataset, windows: WindowChoice) -> tuple[xr.Dataset, list[str]]:
    """Return the statistics of windows, and the names that can be drawn: means, second moments, then all others."""
    now = windows.total(dataset)
    dims = now[_mean(now)].dims
    known = [name for name in averages_of(now) if now[name].dims == dims]
    if len(dims) not in (1, 2) or dims == ("point",):
        raise ConfigError(
            f"these statistics have the axes {', '.join(map(str, dims))}, which cannot be drawn. Average over one or "
            "two directions with output.homogeneous."
        )

    def order(name: str) -> int:
        return 0 if is_component(name) or name in OF_WIND else 1 if name in STRESSES else 2

    return now, sorted(known, key=order)


def _rounding(now: xr.Dataset, names: Sequence[str]) -> list[str]:
    """Return the statistics that are zero, or rounding beside the components and moments that they consist of."""
    sizes = {name: float(np.abs(now[name]).max()) for name in names}
    largest: dict[str, float] = {}
    for name, size in sizes.items():
        largest[_kind(name)] = max(size, largest.get(_kind(name), 0.0))
    of = dict.fromkeys("uvw", largest[_kind(MEAN if MEAN in sizes else IN_HEIGHT)]) | {
        "p": sizes.get("pressure", 0.0)
    }

    def scale(name: str) -> float:
        return math.prod(of[letter] for letter in name) if set(name) <= of.keys() else largest[_kind(name)]

    return [name for name, size in sizes.items() if size == 0.0 or size < ROUNDING * scale(name)]


def _kind(name: str) -> str:
    """Return the common name of components or moments: u_scalar_0 for w_scalar_0, dissipation for its _xy."""
    if name in OF_WIND:
        return IN_HEIGHT
    return re.sub(r"^[uvw](?=_)", "u", re.sub(r"_[xyz]{1,2}$", "", name))


def _draw_line(axes: Axes, values: xr.DataArray, error: Reals | None, upright: bool) -> None:
    """Draw a profile with a band of its standard error. upright: whether its places are on the vertical axis."""
    along = values[values.dims[0]]
    if upright:
        axes.plot(values.values, along.values)
        axes.set_ylabel(axis_label(along))
    else:
        axes.plot(along.values, values.values)
        axes.set_xlabel(axis_label(along))
    if error is not None:
        fill = axes.fill_betweenx if upright else axes.fill_between
        fill(along.values, values.values - error, values.values + error, alpha=0.3, linewidth=0)


def _draw_plane(axes: Axes, data: xr.Dataset, name: str, shade: ColourScale) -> QuadMesh:
    """Draw a plane at its coordinates, which are not uniform, and on curved meshes not on straight lines."""
    across = [place for place in PLACES if place in data.variables]
    horizontal, vertical = across if len(across) == 2 else reversed([str(dim) for dim in data[name].dims])
    axes.set(xlabel=horizontal, ylabel=vertical, aspect="equal")
    x, y = data[horizontal], data[vertical]
    values = data[name] if x.ndim == 2 else data[name].transpose(*y.dims, *x.dims)
    low, high = shade.limits
    return axes.pcolormesh(
        x.values, y.values, values.values, cmap=shade.colours, vmin=low, vmax=high, shading="gouraud"
    )
