"""The table and the picture of performance over progress, for all benchmarks that factorise a dense matrix."""

from __future__ import annotations

from ridgeline.bench.result import Column, Plot

COLUMNS = (
    Column("columns", "columns"),
    Column("seconds", "s", form=".3f"),
    Column("flops_per_second", "GFLOP/s so far", 1e9),
    Column("flops_per_second_now", "GFLOP/s now", 1e9),
)
TEST_COLUMN = Column("test", "test")  # where a run makes several


def progress_plot(by: tuple[str, ...] = ()) -> Plot:
    """Return how rates are drawn over the columns that are factorised: Ibeid et al. (MPI on Aurora), Fig. 15."""
    rates = ("flops_per_second", "flops_per_second_now")
    return Plot(
        "columns",
        rates,
        by,
        x_label="columns factorised",
        y_label="GFLOP/s",
        y_scale=1e9,
        log_x=False,
        log_y=False,
    )
