"""The constants of a machine, fitted to the rows that predict_rows names.

Each constant multiplies seconds that the model gives with the constant at 1, and minimises the sum of squared
relative errors: a linear least-squares problem, with one answer.
"""

import numpy as np

from predict_rows import (
    FIT_COPIES,
    FIT_EXCHANGES,
    FIT_STEPS,
    ExchangeRow,
    StepRow,
    exchanges,
    steps,
    with_figures,
)
from ridgeline.config.machine_file import MachineFile
from ridgeline.limits.exchange_costs import RankGroup
from ridgeline.limits.prediction import Allocation

CONSTANTS = (
    "codes.other_passes",
    "links.efficiency",
    "all_to_all",
    "network.message_overhead",
    "links.host_device",
)
SPREAD = "variability.model"  # what the fit leaves: no constant of the time, but of the interval
HELD = 0.8  # of the rows lie within it


def scale(model: list[float], measured: list[float]) -> float:
    """Return the factor of the model that minimises the sum of squared relative errors."""
    ratio = np.array(model) / np.array(measured)
    return float(ratio.sum() / (ratio @ ratio))


def leaving(step: StepRow | ExchangeRow, place: Allocation, share: float) -> tuple[float, float]:
    """Return (seconds of what leaves the nodes at the full injection rate, messages) of a share of a step's calls."""
    group = RankGroup(step.step.grid[1], step.step.grid[0])
    outside = group.size - group.in_node(place.ranks_per_node)
    volume = step.step.column_volume * outside / group.size
    rate = place.figure("network.injection") / place.ranks_per_node
    return share * volume / rate, share * step.step.column_calls * outside


def fit(machine: MachineFile) -> dict[str, float]:
    """Return all constants of a machine, by their keys, and the spread that they leave.

    machine: the file, whose own constants do not matter.
    """
    unit = with_figures(machine, {"codes.other_passes": 1.0, "links.efficiency": 1.0})
    rows = [row for row in steps() if (row.table, row.row) in FIT_STEPS]
    in_rows = [row for row in rows if row.step.grid[0] > 1]
    other = scale(
        [r.step.other(r.place(unit)) for r in rows], [r.measured["other computation"] for r in rows]
    )
    links = scale(
        [r.step.row_exchange(r.place(unit)) for r in in_rows], [r.measured["row exchange"] for r in in_rows]
    )
    constants = {"codes.other_passes": other, "links.efficiency": 1 / links}
    constants |= fit_network(unit, [row for row in rows if row.nodes > 1])
    copies = [row for row in exchanges() if (row.table, row.row) in FIT_COPIES]
    volumes = [2 * row.step.volume for row in copies]
    constants["links.host_device"] = 1 / scale(volumes, [row.copy or np.nan for row in copies])
    fitted = with_figures(machine, constants)
    errors = [abs(row.total / row.predicted(fitted).seconds - 1) for row in rows]
    return constants | {SPREAD: float(np.quantile(errors, HELD))}


def fit_network(machine: MachineFile, rows: list[StepRow]) -> dict[str, float]:
    """Return what exchanges between nodes reach of the injection rate, and what a message costs beside its bytes."""
    alone = [row for row in exchanges() if (row.table, row.row) in FIT_EXCHANGES]
    timed = [(row, 1.0, row.measured["column exchange"]) for row in rows]
    timed += [(row, row.share, row.seconds) for row in alone]
    design = np.array([leaving(row, row.place(machine), share) for row, share, _ in timed])
    design /= np.array([[seconds] for _, _, seconds in timed])
    (inverse, overhead), *_ = np.linalg.lstsq(design, np.ones(len(timed)), rcond=None)
    return {"all_to_all": 1 / float(inverse), "network.message_overhead": max(0.0, float(overhead))}
