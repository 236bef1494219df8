"""`ridgeline bench transpose`: the exchanges of a substep as the paper's Tables 10 to 14 have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ridgeline.bench.result import Column, Plot, Result
from ridgeline.bench.transpose.transpose_options import TRANSPOSE, TransposeOptions
from ridgeline.bench.transpose.transpose_timing import (
    COLUMN_FORWARD,
    INVERSE,
    ROW_FORWARD,
    ExchangeFigures,
    TransposeFigures,
    time_exchanges,
)
from ridgeline.fourier.decomposition import Truncation

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.parallel.payload import Memory
    from ridgeline.runtime.console import Phases


def _columns_of(direction: str) -> Iterator[Column]:
    yield Column(f"{direction}_method", f"{direction}: method")
    yield Column(f"{direction}_message", "P2P MiB", 2.0**20, ".4g")
    yield Column(f"{direction}_messages", "messages")
    yield Column(f"{direction}_seconds", "ms", 1e-3, ".3f")
    yield Column(f"{direction}_bandwidth", "B/W GB/s", 1e9)


COLUMNS = (
    Column("process_grid", "P_r x P_c"),
    Column("batch", "Q"),
    *_columns_of("row"),
    *_columns_of("column"),
    Column("seconds", "all ms", 1e-3, ".3f"),
)


def _device_columns_of(direction: str, direct: bool) -> Iterator[Column]:
    yield Column(f"{direction}_message", f"{direction}: P2P MiB", 2.0**20, ".4g")
    yield Column(f"{direction}_device_to_host_seconds", "D2H ms", 1e-3, ".3f")
    yield Column(f"{direction}_cpu_mpi_seconds", "CPU MPI ms", 1e-3, ".3f")
    yield Column(f"{direction}_host_to_device_seconds", "H2D ms", 1e-3, ".3f")
    yield Column(f"{direction}_cpu_seconds", "CPU total ms", 1e-3, ".3f")
    yield Column(f"{direction}_cpu_bandwidth", "CPU GB/s", 1e9)
    if direct:
        yield Column(f"{direction}_gpu_seconds", "GPU MPI ms", 1e-3, ".3f")
        yield Column(f"{direction}_gpu_bandwidth", "GPU GB/s", 1e9)


def measure_transposes(
    comm: MPI.Comm, options: TransposeOptions, memory: Memory = "host", progress: Phases | None = None
) -> Result:
    """Time the exchanges for each process grid and Q. Collective over comm, the same on all ranks.

    memory: "host"; "cuda": between GPUs, from device memory and by way of the host; "cuda-staged": the latter alone.

    Raises
    ------
    DecompositionError : for a process grid that does not fit
    ConfigError : if there is too little memory
    DeviceError : without a GPU, or with too little memory on it
    VerificationError : for wrong data
    """
    if memory == "host":
        return to_result(comm.size, options, time_exchanges(comm, options, progress))
    from ridgeline.bench.transpose.transpose_timing_cuda import time_on_devices

    direct = memory == "cuda"
    device, figures = time_on_devices(comm, options, direct, progress)
    return device_result(to_result(comm.size, options, figures), device, direct)


def device_result(result: Result, device: str, direct: bool) -> Result:
    """Return the result of exchanges between GPUs, with the columns of the paper's Tables 10 to 14.

    device: that of rank 0; direct: whether GPU MPI was timed. A note says why it was not.
    """
    notes = [
        f"GPU of rank 0: {device}",
        "CPU total = D2H + CPU MPI + H2D of the rank with the largest total in each cycle",
    ]
    if not direct:
        notes.append(
            "GPU MPI was not measured, because the MPI library does not accept device memory, or because "
            "RIDGELINE_GPU_AWARE_MPI is 0."
        )
    return replace(
        result,
        pattern=f"{result.pattern}, between GPUs with MPI_Alltoallv",
        columns=(
            *result.columns[:2],
            *_device_columns_of("row", direct),
            *_device_columns_of("column", direct),
        ),
        verified=True,
        notes=notes,
        settings=result.settings | {"memory": "cuda" if direct else "cuda-staged", "gpu": device},
    )


def to_result(n_ranks: int, options: TransposeOptions, figures: list[TransposeFigures]) -> Result:
    """Return the figures as the paper's tables have them: P2P size, seconds and bandwidth by direction."""
    nz, _, nx = options.shape
    lines_of_paper = nz * (nx // 2)
    sent = lines_of_paper if options.lines == "full" else Truncation(options.shape, options.dealias).n_lines
    shape = " x ".join(map(str, options.shape))
    return Result(
        benchmark=TRANSPOSE.name,
        pattern=f"exchanges of one substep, {shape} (z y x), {options.dtype}, {options.lines} lines: "
        f"{sent} of {lines_of_paper}",
        formula=TRANSPOSE.formula.removesuffix("."),
        statistic=f"mean of {options.cycles} cycles",
        ranks=n_ranks,
        columns=COLUMNS,
        rows=[_row(figure) for figure in figures],
        verified=False,
        settings={key: value for key, value in asdict(options).items() if key != "device"}
        | {
            "dtype": options.dtype,
            "lines_sent": sent,
            "lines_of_the_paper": lines_of_paper,
            "variables": {"inverse": INVERSE, "row_forward": ROW_FORWARD, "column_forward": COLUMN_FORWARD},
        },
        plot=Plot(
            "process_grid",
            ("row_seconds", "column_seconds"),
            ("batch",),
            "bars",
            y_label="ms of a substep",
            y_scale=1e-3,
        ),
    )


def _row(figure: TransposeFigures) -> dict[str, Any]:
    row = {"process_grid": " x ".join(map(str, figure.process_grid)), "batch": figure.batch}
    return row | _cells("row", figure.row) | _cells("column", figure.column) | {"seconds": figure.seconds}


def _cells(direction: str, exchange: ExchangeFigures) -> dict[str, Any]:
    """Return the figures of one direction, or only its ranks where one rank has all."""
    if exchange.bandwidth is None:
        return {f"{direction}_ranks": exchange.ranks, f"{direction}_method": "one rank"}
    return {f"{direction}_{key}": value for key, value in asdict(exchange).items()}
