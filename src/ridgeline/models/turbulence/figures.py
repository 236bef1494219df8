"""Figures of the run report as the GESTS paper defines them: Sec. 4.2 and Eq. 13."""

from __future__ import annotations

import math

from ridgeline.comm.fourier import FourierTransform
from ridgeline.comm.transpose import Transpose
from ridgeline.models.contract import Figure, StepTimes
from ridgeline.models.turbulence.estimate import SUBSTEPS, Variables


def report_figures(
    transform: FourierTransform, n_scalars: int, scheme: str, step: StepTimes
) -> dict[str, Figure]:
    """Return figure of merit, saved lines, and bandwidth and messages of the all-to-alls of a step. Collective.

    figure_of_merit: chi = points per second (Sec. 4.2). saved_lines: fraction of a full transform's lines that
    truncation leaves out. column_message, row_message: bytes from a rank to another in one call, of Q variables or
    what is left of them, mean over calls and ranks: P2P. column_bandwidth, row_bandwidth: Eq. 13, P2P x R / t per
    rank, the rank's own block included; t is what `step` waited, so overlapped exchanges look faster.
    Figures of an exchange within one rank are left out. `scheme`: "rk2" or "rk4".
    """
    grid, n = transform.grid, Variables(n_scalars)
    substeps = SUBSTEPS[scheme]
    figures = {
        "figure_of_merit": Figure(math.prod(grid.shape) / step.total, "points/s"),
        "saved_lines": Figure(grid.saved_lines),
    }
    seconds = step.phases.get("column all-to-all", 0.0)
    figures |= _exchange("column", transform.column, n.combined, n.fields, substeps, seconds)
    if transform.row is not None:
        # Planes are exchanged in groups of equal room, one after the other.
        n_groups = -(-grid.y_range[1] // transform.row.n_planes)
        seconds = step.phases.get("row all-to-all", 0.0)
        figures |= _exchange(
            "row", transform.row.transpose, n.products, n.fields, substeps * n_groups, seconds
        )
    # Ranks of other rows and columns have a few lines more or less.
    mean = transform.comm.allreduce({name: f.value for name, f in figures.items()}, op=_add)
    size = transform.comm.size
    return {name: Figure(mean[name] / size, figure.unit) for name, figure in figures.items()}


def _exchange(
    name: str, transpose: Transpose, n_forward: int, n_inverse: int, times: int, seconds: float
) -> dict[str, Figure]:
    """Return the figures of `times` exchanges there and back in `seconds`, of this rank."""
    size, batch = transpose.comm.size, transpose.plan.batch
    if size == 1:
        return {}
    held = transpose.forward.bytes_held(n_forward) + transpose.inverse.bytes_held(n_inverse)
    calls = math.ceil(n_forward / batch) + math.ceil(n_inverse / batch)
    figures = {f"{name}_message": Figure(held / size / calls, "B")}
    if seconds > 0:
        figures[f"{name}_bandwidth"] = Figure(times * held / seconds, "B/s")
    return figures


def _add(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    return {name: a[name] + b[name] for name in a}
