"""Figures of the turbulence report: counted bytes against lines and planes counted here, and the paper's formulas."""

import numpy as np
import pytest

from ridgeline.comm.fourier import FourierTransform
from ridgeline.grid.pencil import PencilGrid, Truncation
from ridgeline.models.contract import StepTimes
from ridgeline.models.turbulence.figures import report_figures

SHAPE = (20, 16, 24)
STEP = StepTimes(
    0.5, {"fft": 0.2, "pack": 0.05, "row all-to-all": 0.01, "column all-to-all": 0.02, "other": 0.22}
)


def made(comm, rows, n_scalars, batch):
    """Return the transform of a run on rows x columns ranks."""
    grid = PencilGrid(SHAPE, "phase-shift", (rows, comm.size // rows), comm.rank)
    counts = {"n_in": 3 + n_scalars, "n_mid": 5 + 3 * n_scalars, "n_out": 4 + 2 * n_scalars}
    options = {"batch": batch, "method": "alltoallv", "effort": "estimate", "layout": "strided"}
    return FourierTransform(grid, (1.0, 1.0, 1.0), comm, np.float32, **counts, **options)


@pytest.mark.parametrize(("n_scalars", "scheme", "substeps"), [(0, "rk2", 2), (2, "rk4", 4)])
@pytest.mark.parametrize("batch", [1, 3])
def test_slabs(comm, n_scalars, scheme, substeps, batch):
    figures = report_figures(made(comm, 1, n_scalars, batch), n_scalars, scheme, STEP)
    truncation = Truncation(SHAPE, "phase-shift")
    assert figures["figure_of_merit"].value == pytest.approx(20 * 16 * 24 / 0.5)
    assert figures["saved_lines"].value == pytest.approx(1 - truncation.n_lines / (20 * 13))
    exchange = {"column_message", "column_bandwidth"}
    assert set(figures) == {"figure_of_merit", "saved_lines"} | (exchange if comm.size > 1 else set())
    if comm.size == 1:
        return
    there, back = 4 + 2 * n_scalars, 3 + n_scalars
    held = (there + back) * 16 * truncation.n_lines * 8 / comm.size  # bytes of complex64, mean over ranks
    assert figures["column_bandwidth"].value == pytest.approx(substeps * held / 0.02)
    calls = -(-there // batch) + -(-back // batch)
    assert figures["column_message"].value == pytest.approx(held / comm.size / calls)
    assert (figures["column_message"].unit, figures["column_bandwidth"].unit) == ("B", "B/s")


def test_pencils(comm):
    if comm.size % 2:
        pytest.skip("needs an even number of ranks")
    transform = made(comm, 2, 0, 1)
    figures = report_figures(transform, 0, "rk2", STEP)
    truncation = Truncation(SHAPE, "phase-shift")
    # Every plane crosses the rows twice a substep: 8 variables of N_z rows of the retained columns.
    held = 8 * 16 * 20 * truncation.n_columns * 8 / comm.size
    assert figures["row_bandwidth"].value == pytest.approx(2 * held / 0.01)
    groups = -(-(16 // (comm.size // 2)) // transform.row.n_planes)
    assert figures["row_message"].value == pytest.approx(held / groups / 2 / 8)
    assert ("column_bandwidth" in figures) == (comm.size > 2)


def test_no_time_no_bandwidth(comm):
    idle = StepTimes(0.5, {"fft": 0.5, "column all-to-all": 0.0, "other": 0.0})
    figures = report_figures(made(comm, 1, 0, 1), 0, "rk2", idle)
    assert "column_bandwidth" not in figures
