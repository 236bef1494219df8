"""Pictures of the time series that a run records (output.series)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.colour_scales import ROUNDING, family_of, is_component
from ridgeline.analysis.plot import blank_figure, label_decades, names_on_page, panels
from ridgeline.config.check import did_you_mean
from ridgeline.io.report_file import read_report
from ridgeline.io.series import read_series
from ridgeline.runtime.errors import ConfigError, OutputError

log = logging.getLogger(__name__)

NOT_DRAWN = ("step", "time")
PER_ROW = 3
DEFAULT_PANELS = 3  # number of panels unless the options name columns
# The most informative columns of all models, in this order. Other columns come after them.
INFORMATIVE = (
    "friction_factor", "coefficient", "nusselt", "energy", "kinetic_energy", "dissipation", "reynolds_taylor",
    "bulk_velocity", "pair_separation", "particle_correlation", "Temp", "Press", "TotEng", "V_mean", "V_max",
    "U_mean", "kinetic", "potential", "layzer_irvine",
)  # fmt: skip
# Those of them that occur inside longer names, such as cylinder_coefficient_x.
NAME_PARTS = ("coefficient", "nusselt")
# Names of the forces on a body, and the endings of their columns: coefficients, or forces if there are none.
FORCES = {"drag": ("_coefficient_x", "_force_x"), "lift": ("_coefficient_y", "_force_y")}
# Beginnings of the names of columns that describe the numerical method and not the result.
NUMERICAL = ("dt", "courant", "divergence", "iterations_", "mean_velocity_", "momentum_")
BULK = (2.0, 98.0)  # percentiles between which most values are
FAR = 4.0  # outliers farther away than this multiple of the range of most values do not set the axis
DECADES = 2.0  # the axis is logarithmic if most values span this many decades
FEW = 20  # among so few values none is an outlier
FLAT = 1e-9  # a range below this share of the values is rounding

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesLabels:
    """The labels of a time series. time: name of the quantity in the column "time"; units: known units of columns."""

    time: str = "time"
    units: Mapping[str, str] = field(default_factory=dict)


NO_LABELS = SeriesLabels()


def labels_beside(path: Path) -> SeriesLabels:
    """Return the labels for a time series from the report of its run, because a CSV file has no units.

    The report is in the same folder, and lists the series among its files.
    """
    for beside in sorted(path.parent.glob("*.run.json")):
        try:
            report = read_report(str(beside))
            if any(Path(row["path"]).name == path.name for row in report.get("written", ())):
                units = {name: figure["unit"] for name, figure in report["summary"].items()}
                return SeriesLabels(report["run"].get("time_name", "time"), units)
        except (OutputError, KeyError, TypeError, AttributeError):
            continue
    return NO_LABELS


def series_with(data_set: Path, name: str) -> Path | None:
    """Return the time series with a column of this name that the run of a data set wrote in the same folder."""
    report = data_set.with_name(f"{data_set.name}.run.json")
    try:
        written = [
            data_set.with_name(Path(row["path"]).name) for row in read_report(str(report)).get("written", ())
        ]
        return next((path for path in written if path.suffix == ".csv" and name in read_series(path)), None)
    except (OutputError, ConfigError, KeyError, TypeError, AttributeError):
        return None


def plot_time_series(
    series: Mapping[str, NDArray[Any]],
    names: Sequence[str] = (),
    every: bool = False,
    page: int = 1,
    labels: SeriesLabels = NO_LABELS,
) -> Figure:
    """Draw columns of a time series over time, one panel each, with the range that most of its values have.

    Parameters
    ----------
    series : mapping of str to array
        Columns by name, as `ridgeline.io.series.read_series` returns them.
    names : sequence of str
        Columns to draw. By default these are the most informative ones that change.
    every : bool
        Draw all columns except step, time, and components of vectors that are rounding beside the others.
    page : int
        Page of many panels, from 1.
    labels : SeriesLabels
        Labels of the axes.

    Returns
    -------
    matplotlib.figure.Figure
        A figure with one panel for each column.

    Raises
    ------
    ConfigError
        For a column or a page that does not exist, or for a series without rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ridgeline.analysis.time_series import plot_time_series
    >>> time = np.linspace(0.0, 1.0, 11)
    >>> series = {"step": np.arange(11), "time": time, "energy": np.exp(-time)}
    >>> [axes.get_title() for axes in plot_time_series(series, ["energy"]).axes]
    ['energy']
    """
    drawn = chosen_columns(series, names, every, "the time series", page)
    if not drawn or not len(series["time"]):
        raise ConfigError("the time series has nothing to draw yet. Wait for the first rows of the run.")
    across = 1 if len(drawn) <= DEFAULT_PANELS else PER_ROW
    down = -(-len(drawn) // across)
    figure = blank_figure(7.0 if across == 1 else 4.0 * across, (2.1 if across == 1 else 2.6) * down + 0.8)
    for place, (axes, name) in enumerate(zip(panels(figure, len(drawn), across), drawn)):
        _draw_column(axes, series, name, labels)
        if place + across >= len(drawn):  # there is no panel below
            axes.set_xlabel(labels.time)
    label_decades(figure)
    return figure


def draw_series(axes: Axes, series: Mapping[str, NDArray[Any]], name: str) -> None:
    """Draw one column of a time series into given axes, or the forces of one kind on all bodies in one panel.

    Raises ConfigError if there is no column of this name.
    """
    for column in chosen_columns(series, [name], False, "the time series"):
        _draw_column(axes, series, column, NO_LABELS)
    axes.set_xlabel(NO_LABELS.time)


def _draw_column(axes: Axes, series: Mapping[str, NDArray[Any]], name: str, labels: SeriesLabels) -> None:
    values = np.asarray(series[name], np.float64)
    axes.plot(series["time"], values, marker="." if len(values) < 30 else None)
    axes.set_title(name)
    axes.set_ylabel(labels.units.get(name, ""))
    _set_range(axes, values)
    axes.grid(alpha=0.3)


def chosen_columns(
    series: Mapping[str, NDArray[Any]], names: Sequence[str], every: bool, what: str, page: int = 1
) -> list[str]:
    """Return the columns to draw: those in `names`, otherwise all with `every`, otherwise the most informative ones.

    "drag" and "lift" stand for the columns of forces along x and along y. Columns that are left out are logged.
    Raises ConfigError for a name that is not in the series, which messages call `what`.
    """
    known = [name for name in series if name not in NOT_DRAWN]
    selected = [column for name in names for column in ([name] if name in known else _forces(name, known))]
    for name in names:
        if name not in known and not _forces(name, known):
            raise ConfigError(
                f"{what} has no column '{name}'{did_you_mean(name, known)} Its columns are {', '.join(known)}."
            )
    if names:
        return names_on_page(selected, page)
    rounding = _rounding(series, known)
    left = [name for name in known if name not in rounding]
    drawn = left if every else most_informative({name: series[name] for name in left})
    if len(drawn) < len(left):
        log.info("drawn: %s, of %d columns. --all draws all of them.", ", ".join(drawn), len(left))
    if rounding and (every or len(left) <= DEFAULT_PANELS):
        log.info("not drawn, because zero up to rounding: %s. --variable draws them.", ", ".join(rounding))
    return names_on_page(drawn, page)


def _forces(name: str, known: Sequence[str]) -> list[str]:
    """Return the columns of "drag" or "lift" for all bodies; none for another name."""
    candidates = ([column for column in known if column.endswith(end)] for end in FORCES.get(name, ()))
    # The part of a force that is due to the pressure has a separate column.
    return next(
        ([column for column in columns if "pressure" not in column] for columns in candidates if columns), []
    )


def _rounding(series: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[str]:
    """Return the components of vectors that are zero or rounding beside the other components at all times."""
    sizes = {
        name: float(np.nanmax(np.abs(series[name]), initial=0.0)) for name in names if is_component(name)
    }
    largest: dict[str, float] = {}
    for name, size in sizes.items():
        largest[family_of(name)] = max(size, largest.get(family_of(name), 0.0))
    return [name for name, size in sizes.items() if size < ROUNDING * largest[family_of(name)]]


def most_informative(series: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return at most DEFAULT_PANELS columns, the most informative first.

    The order is: columns of INFORMATIVE that change, others that change, those of INFORMATIVE that do not change,
    columns of the numerical method, and the rest.
    """

    def rank(name: str) -> tuple[int, int]:
        word = next((part for part in NAME_PARTS if f"_{part}_" in f"_{name}_"), name)
        place = INFORMATIVE.index(word) if word in INFORMATIVE else len(INFORMATIVE)
        if name.startswith(NUMERICAL):
            return 3, place
        flat = _is_flat(np.asarray(series[name], np.float64))
        return (2 if flat else 0) if word in INFORMATIVE else (4 if flat else 1), place

    return sorted((name for name in series if name not in NOT_DRAWN), key=rank)[:DEFAULT_PANELS]


def _is_flat(values: Reals) -> bool:
    """Whether values differ only by rounding."""
    finite = values[np.isfinite(values)]
    return not finite.size or bool(np.ptp(finite) <= FLAT * np.abs(finite).max())


def _set_range(axes: Axes, values: Reals) -> None:
    """Set the range of an axis: logarithmic over decades, widened for constants, and without outliers."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return
    if _is_flat(finite):
        middle = float(finite.mean())
        axes.set_ylim(middle - (abs(middle) or 1.0) / 10, middle + (abs(middle) or 1.0) / 10)
        return
    low, high = np.percentile(finite, BULK) if len(finite) >= FEW else (finite.min(), finite.max())
    decades = low > 0 and high >= low * 10**DECADES
    if decades:  # outliers are many decades away; values that are not positive are not drawn
        axes.set_yscale("log", nonpositive="mask")
        finite = np.log10(finite[finite > 0])
        low, high = np.log10([low, high])
    if len(finite) >= FEW and np.ptp(finite) > FAR * (high - low) > 0:
        margin = 0.2 * (high - low)
        least, most = low - margin, high + margin
        axes.set_ylim(*(10.0 ** np.array([least, most]) if decades else (least, most)))
        beyond = int(((finite < least) | (finite > most)).sum())
        axes.annotate(
            f"{beyond} outside", (0.99, 0.98), xycoords="axes fraction", ha="right", va="top", color="0.4"
        )
