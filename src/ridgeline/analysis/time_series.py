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

from ridgeline.analysis.plot import blank_figure, label_decades, on_page, panels
from ridgeline.analysis.shades import ROUNDING, family_of, is_component
from ridgeline.config.check import did_you_mean
from ridgeline.io.stored_reports import read_report
from ridgeline.runtime.errors import ConfigError, OutputError

log = logging.getLogger(__name__)

NOT_DRAWN = ("step", "time")
PER_ROW = 3
AT_FIRST = 3  # panels without a wish
# Columns by how much they tell of a run, those of all models in one list; what is in none comes after them.
TELLING = (
    "friction_factor", "coefficient", "nusselt", "energy", "kinetic_energy", "dissipation", "reynolds_taylor",
    "bulk_velocity", "pair_separation", "particle_correlation", "Temp", "Press", "TotEng", "V_mean", "V_max",
    "U_mean", "kinetic", "potential", "layzer_irvine",
)  # fmt: skip
NAME_PARTS = (
    "coefficient",
    "nusselt",
)  # words of it that stand in the middle of names: cylinder_coefficient_x
# What people call the forces on a body, and how the names of their columns end: coefficients, otherwise forces.
FORCES = {"drag": ("_coefficient_x", "_force_x"), "lift": ("_coefficient_y", "_force_y")}
HOW_IT_RAN = (
    "dt",
    "courant",
    "divergence",
    "iterations_",
    "mean_velocity_",
    "momentum_",
)  # what says little else
BULK = (2.0, 98.0)  # percentiles between which most values are
FAR = 4.0  # times the range of most values: outliers beyond it do not set the range
DECADES = 2.0  # of most values, from which on the axis is logarithmic
FEW = 20  # values among which none is an outlier
FLAT = 1e-9  # of the values: a smaller range is rounding

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class SeriesLabels:
    """What the axes of a time series say. time: what the column "time" holds; units: of columns, where known."""

    time: str = "time"
    units: Mapping[str, str] = field(default_factory=dict)


NO_LABELS = SeriesLabels()


def labels_beside(path: Path) -> SeriesLabels:
    """Return what the report of the run that wrote a time series says of its columns; a CSV file says nothing.

    The report lies in the same folder and lists the series among its files.
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


def plot_time_series(
    series: Mapping[str, NDArray[Any]],
    names: Sequence[str] = (),
    every: bool = False,
    page: int = 1,
    labels: SeriesLabels = NO_LABELS,
) -> Figure:
    """Draw columns of a time series over time, one panel each, each with the range that most of its values have.

    series : columns by name, as `ridgeline.io.series.read_series` returns them.
    names : columns to draw; none means the most telling ones that change, with `every` all but step and time, and
        those that are rounding beside the other components of a vector. page : of many panels, from 1.
    labels : what the axes say beside the names.
    Raises ConfigError for a column that is not there, a page that is not, or a series without rows.
    """
    drawn = chosen_columns(series, names, every, "the time series", page)
    if not drawn or not len(series["time"]):
        raise ConfigError("the time series holds nothing to draw yet; wait for the run's first rows")
    across = 1 if len(drawn) <= AT_FIRST else PER_ROW
    down = -(-len(drawn) // across)
    figure = blank_figure(7.0 if across == 1 else 4.0 * across, (2.1 if across == 1 else 2.6) * down + 0.8)
    for place, (axes, name) in enumerate(zip(panels(figure, len(drawn), across), drawn)):
        values = np.asarray(series[name], np.float64)
        axes.plot(series["time"], values, marker="." if len(values) < 30 else None)
        axes.set_title(name)
        axes.set_ylabel(labels.units.get(name, ""))
        if place + across >= len(drawn):  # nothing is below it
            axes.set_xlabel(labels.time)
        _set_range(axes, values)
        axes.grid(alpha=0.3)
    label_decades(figure)
    return figure


def chosen_columns(
    series: Mapping[str, NDArray[Any]], names: Sequence[str], every: bool, what: str, page: int = 1
) -> list[str]:
    """Return the columns to draw: those named, else all with `every`, else the most telling ones, which a note names.

    "drag" and "lift" stand for the columns of forces along x and along y. Raises ConfigError for a name that `what`
    has not.
    """
    known = [name for name in series if name not in NOT_DRAWN]
    found = [column for name in names for column in ([name] if name in known else _forces(name, known))]
    for name in names:
        if name not in known and not _forces(name, known):
            raise ConfigError(
                f"variable = '{name}' is not in {what}, which has {', '.join(known)}{did_you_mean(name, known)}"
            )
    if names:
        return on_page(found, page)
    rounding = _rounding(series, known)
    left = [name for name in known if name not in rounding]
    drawn = left if every else most_telling({name: series[name] for name in left})
    if len(drawn) < len(left):
        log.info("drawn: %s of %d columns; --all draws all", ", ".join(drawn), len(left))
    if rounding and (every or len(left) <= AT_FIRST):
        log.info("not drawn, zero but for rounding: %s; --variable draws them", ", ".join(rounding))
    return on_page(drawn, page)


def _forces(name: str, known: Sequence[str]) -> list[str]:
    """Return the columns that "drag" or "lift" stands for, of all bodies; none for another name."""
    ways = ([column for column in known if column.endswith(end)] for end in FORCES.get(name, ()))
    # The part of a force that is due to the pressure has a column of its own.
    return next(([column for column in way if "pressure" not in column] for way in ways if way), [])


def _rounding(series: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[str]:
    """Return the components of vectors that are rounding, or zero, beside the others at all times."""
    sizes = {
        name: float(np.nanmax(np.abs(series[name]), initial=0.0)) for name in names if is_component(name)
    }
    largest: dict[str, float] = {}
    for name, size in sizes.items():
        largest[family_of(name)] = max(size, largest.get(family_of(name), 0.0))
    return [name for name, size in sizes.items() if size < ROUNDING * largest[family_of(name)]]


def most_telling(series: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the columns to look at first, AT_FIRST at most.

    They are those of TELLING that change, others that change, those of TELLING that do not, and then the rest. What
    only says how the steps went comes last.
    """

    def rank(name: str) -> tuple[int, int]:
        word = next((part for part in NAME_PARTS if f"_{part}_" in f"_{name}_"), name)
        place = TELLING.index(word) if word in TELLING else len(TELLING)
        if name.startswith(HOW_IT_RAN):
            return 3, place
        flat = _is_flat(np.asarray(series[name], np.float64))
        return (2 if flat else 0) if word in TELLING else (4 if flat else 1), place

    return sorted((name for name in series if name not in NOT_DRAWN), key=rank)[:AT_FIRST]


def _is_flat(values: Reals) -> bool:
    """Say whether values differ by rounding alone."""
    finite = values[np.isfinite(values)]
    return not finite.size or bool(np.ptp(finite) <= FLAT * np.abs(finite).max())


def _set_range(axes: Axes, values: Reals) -> None:
    """Make the axis logarithmic for decades, wide for what is constant, and leave outliers out of its range."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return
    if _is_flat(finite):
        middle = float(finite.mean())
        axes.set_ylim(middle - (abs(middle) or 1.0) / 10, middle + (abs(middle) or 1.0) / 10)
        return
    low, high = np.percentile(finite, BULK) if len(finite) >= FEW else (finite.min(), finite.max())
    decades = low > 0 and high >= low * 10**DECADES
    if decades:  # outliers are what is many decades off; what is not positive is not drawn
        axes.set_yscale("log", nonpositive="mask")
        finite = np.log10(finite[finite > 0])
        low, high = np.log10([low, high])
    if len(finite) >= FEW and np.ptp(finite) > FAR * (high - low) > 0:
        margin = 0.2 * (high - low)
        least, most = low - margin, high + margin
        axes.set_ylim(*(10.0 ** np.array([least, most]) if decades else (least, most)))
        beyond = int(((finite < least) | (finite > most)).sum())
        axes.annotate(
            f"{beyond} beyond", (0.99, 0.98), xycoords="axes fraction", ha="right", va="top", color="0.4"
        )
