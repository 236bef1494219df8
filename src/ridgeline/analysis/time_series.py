"""Pictures of the time series that a run records (output.series)."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from ridgeline.analysis.plot import blank_figure, panels
from ridgeline.runtime.errors import ConfigError

NOT_DRAWN = ("step", "time")
PER_ROW = 4


def plot_time_series(series: Mapping[str, NDArray[Any]], names: Sequence[str] = ()) -> Figure:
    """Draw columns of a time series over time, one panel each.

    series : columns by name, as `ridgeline.io.series.read_series` returns them.
    names : columns to draw; none means all but step and time.
    Raises ConfigError for a column that is not there, or a series without rows.
    """
    known = [name for name in series if name not in NOT_DRAWN]
    for name in names:
        if name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0.1) or known[:1]
            raise ConfigError(
                f"variable = '{name}' is not in the time series, which has {', '.join(known)}; try {nearest[0]}"
            )
    drawn = list(names) or known
    if not drawn or not len(series["time"]):
        raise ConfigError("the time series holds nothing to draw yet; wait for the run's first rows")
    rows = -(-len(drawn) // PER_ROW)
    figure = blank_figure(3.6 * min(len(drawn), PER_ROW), 2.8 * rows)
    for axes, name in zip(panels(figure, len(drawn), PER_ROW), drawn):
        axes.plot(series["time"], series[name], marker="." if len(series["time"]) < 30 else None)
        axes.set(xlabel="time", title=name)
    return figure
