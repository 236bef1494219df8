"""What a turbulence run needs and does, before it runs: no MPI, no allocation of fields.

Memory is counted as the engine allocates it; the work of a step is that of `spectral_work` and of fluid particles.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ridgeline.fourier.device.layout import WAY_WORDS, DeviceLayout
from ridgeline.fourier.pencil import PencilGrid, ProcessGrid, Truncation, choose_process_grid
from ridgeline.fourier.sizes import (
    Share,
    exchange_bytes,
    exchanged,
    messages,
    work_bytes,
)
from ridgeline.fourier.tuning import Layout
from ridgeline.models.contract import Estimate, Work
from ridgeline.models.turbulence.device import fusion
from ridgeline.models.turbulence.device.memory import device_bytes, host_bytes
from ridgeline.models.turbulence.fluid_particles.estimate import (
    checkpoint_bytes_of_particles,
    output_bytes_of_particles,
    particle_memory,
)
from ridgeline.models.turbulence.fluid_particles.work import particle_work, remark
from ridgeline.models.turbulence.spectral_work import (
    SUBSTEPS,
    Variables,
    flops,
    least_memory_traffic,
    wave_flops,
    wave_traffic,
)
from ridgeline.parallel.partition import Triple

if TYPE_CHECKING:
    from ridgeline.models.turbulence.config import TurbulenceCase

COPIES = {"rk2": 1, "rk4": 2}  # of the fields: RK4 keeps their sum beside them
RANKS_PER_NODE = 8  # taken for the shape of pencils where nobody knows the nodes: the paper's
# Of a GPU in a run that times passes apart and fused: some minutes. To compile both takes most of one, once a size.
BYTES_TIMED = 4e14
PAPER_VARIABLES = 8.5  # of Eq. 9, with 2 Q more


def process_grid(case: TurbulenceCase, n_ranks: int, ranks_per_node: int = RANKS_PER_NODE) -> ProcessGrid:
    """Return (P_r, P_c) of the case; DecompositionError if it does not fit the ranks, or leaves one without data."""
    truncation = Truncation(case.grid.shape, case.model.dealias)
    return choose_process_grid(
        truncation, n_ranks, case.grid.decomposition, ranks_per_node, case.grid.process_grid
    )


def least_work(case: TurbulenceCase, grid: ProcessGrid) -> Work:
    """Return the least work of one step of the case on a process grid, summed over all ranks."""
    truncation = Truncation(case.grid.shape, case.model.dealias)
    variables, substeps = Variables(len(case.scalar)), SUBSTEPS[case.model.scheme]
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    rows, columns = variables.counts.of_rows, variables.counts.of_columns
    share = Share.of(truncation, grid)
    row, column = exchanged(share, case.grid.shape[0], sum(rows), sum(columns))
    moved = itemsize * least_memory_traffic(truncation, grid[0] > 1, variables, case.model.scheme)
    n_coupled = case.waves.n_coupled
    moved += itemsize * wave_traffic(truncation, case.model.scheme, n_coupled)
    calls = messages(grid, rows, columns, case.batch)
    more = particle_work(case, truncation, grid, share)
    return Work(
        points=math.prod(case.grid.shape),
        flops=substeps * flops(truncation, variables)
        + wave_flops(truncation, case.model.scheme, n_coupled)
        + more.flops,
        bytes_memory=moved + more.bytes_memory,
        bytes_exchanged=substeps * itemsize * float(row + column) + more.bytes_exchanged,
        messages=float(substeps * calls) + more.messages,
    )


def paper_bound(shape: Triple, n_ranks: int, batch: int, itemsize: int) -> float:
    """Return the bytes per rank of Eq. 9: (8 + 2 Q + 0.5) complex numbers of itemsize for each of N^3/2P modes."""
    return (PAPER_VARIABLES + 2 * batch) * math.prod(shape) / (2 * n_ranks) * itemsize


def table_bytes(case: TurbulenceCase, grid: PencilGrid, itemsize: int) -> float:
    """Return the bytes of wavenumbers, phases, integrating factors and rows of work along them."""
    nz, ny, _ = grid.shape
    n_lines, n_columns, workers = grid.lines.n_lines, len(grid.columns_of(grid.row)), case.run.threads
    n_scalars = len(case.scalar)
    steps = 2 * (n_lines * (8 + n_scalars) + 2 * ny * (6 + n_scalars))
    waves = 2 * n_columns * (1 + workers) + nz
    return float((steps + waves) * itemsize // 2 + 8 * (n_lines + 1))


def memory(case: TurbulenceCase, grid: ProcessGrid) -> dict[str, float]:
    """Return the bytes of the rank that needs most, by what they are for: in host memory.

    Exchange buffers are those of "alltoallv"; "shared" needs less, others up to a buffer of Q variables more. Beside
    a GPU they are those of messages through the host.
    """
    if case.run.device == "cuda":
        layout, real = _device_layout(case, grid), np.dtype(case.run.precision).itemsize
        n_modes = int(Share.of(Truncation(case.grid.shape, case.model.dealias), grid).modes.max())
        return host_bytes(layout, real, len(case.scalar), n_modes)
    share = Share.of(Truncation(case.grid.shape, case.model.dealias), grid)
    row, column = np.unravel_index(int(np.argmax(share.modes)), share.modes.shape)
    return rank_memory(case, grid, int(row + grid[0] * column), share)


def device_memory(case: TurbulenceCase, grid: ProcessGrid) -> dict[str, float]:
    """Return the bytes on the GPU of the rank that needs most, without what cuFFT works in; none without a GPU."""
    if case.run.device == "cpu":
        return {}
    real = np.dtype(case.run.precision).itemsize
    layout, copies = _device_layout(case, grid), COPIES[case.model.scheme]
    return device_bytes(layout, real, len(case.scalar), copies, case.batch)


def _device_layout(case: TurbulenceCase, grid: ProcessGrid) -> DeviceLayout:
    """Return the layout of the first rank, which has the most lines and the most planes."""
    return DeviceLayout.of(PencilGrid(case.grid.shape, case.model.dealias, grid, 0))


def rank_memory(
    case: TurbulenceCase, grid: ProcessGrid, rank: int, share: Share, layout: Layout = "strided"
) -> dict[str, float]:
    """Return the bytes of one rank, by what they are for. layout: of planes, which a run chooses by measuring."""
    pencils = PencilGrid(case.grid.shape, case.model.dealias, grid, rank)
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    n_modes = int(share.modes[pencils.row, pencils.column])
    counts = Variables(len(case.scalar)).counts
    return {
        "fields": float(COPIES[case.model.scheme] * Variables(len(case.scalar)).fields * n_modes * itemsize),
        "exchange": exchange_bytes(pencils, share, counts, case.batch, itemsize),
        "work": work_bytes(pencils, counts, case.run.threads, itemsize, layout)
        + table_bytes(case, pencils, itemsize),
        "modes": float(8 * (5 * pencils.lines.n_lines + 1)),
    }


def memory_between_steps(case: TurbulenceCase, grid: ProcessGrid) -> float:
    """Return the bytes that a rank takes beside `memory` while it makes outputs, a row, spectra or a checkpoint.

    Counted in fields at the points and in modes, as diagnostics, pressure, output_fields and restart hold them.
    """
    share = Share.of(Truncation(case.grid.shape, case.model.dealias), grid)
    real = np.dtype(case.run.precision).itemsize
    points = real * int(share.rows.max()) * int(share.planes.max()) * case.grid.shape[2]
    modes = 2 * real * int(share.modes.max())
    output = case.output
    products, gradients = 4 * points + 4 * modes, 4 * points + modes
    peaks = [
        (len(case.scalar) + 3) * modes
    ]  # a checkpoint: of a signal or the wall-clock limit, if of no other
    if output.series_every or output.spectra_every:
        # Moments and density of the pressure: its modes and its points beside the products that it comes from.
        peaks.append(products + points + modes)
    if output.every:
        last = products if "pressure" in output.variables else gradients
        plain = all(name.startswith(("velocity", "scalar")) for name in output.variables)
        peaks.append((len(output.variables) - 1) * points + (points + modes if plain else last))
    return float(max(peaks))


def passes_are_timed(case: TurbulenceCase, grid: ProcessGrid) -> bool:
    """Say whether a run on GPUs is long enough to time both ways of passes over memory, if it may choose."""
    return case.run.steps * least_work(case, grid).bytes_memory >= BYTES_TIMED * grid[0] * grid[1]


def _fused(case: TurbulenceCase, grid: ProcessGrid) -> fusion.Fused:
    """Return which passes over memory GPUs can fuse; DeviceError if the case asks for them in vain."""
    shape = case.grid.shape
    fused = fusion.possible(shape, grid, case.run.precision, len(case.scalar))
    fusion.check_passes(case.model.fft.on_gpus, shape, fused)
    return fused


def _messages(case: TurbulenceCase) -> str:
    """Return which way messages between GPUs go, in words."""
    any_way = f"the fastest of {', '.join(WAY_WORDS.values())} that a run finds"
    way = WAY_WORDS.get(case.model.transpose.between_gpus, any_way)
    return f"messages between GPUs go by {way}, those of the column exchange with Q = {case.batch} variables"


def remarks(case: TurbulenceCase, grid: ProcessGrid, needed: dict[str, float]) -> tuple[str, ...]:
    """Return what `ridgeline check` says beside the common figures."""
    truncation = Truncation(case.grid.shape, case.model.dealias)
    itemsize = 2 * np.dtype(case.run.precision).itemsize
    bound = paper_bound(case.grid.shape, grid[0] * grid[1], case.batch, itemsize)
    parts = ", ".join(f"{name} {size / 2**20:.4g} MiB" for name, size in needed.items())
    words = [f"memory per rank: {parts}"]
    if case.run.device == "cuda":
        words.append("what cuFFT works in comes on top of the memory of each GPU")
        words.append(fusion.remark(case.model.fft.on_gpus, _fused(case, grid), passes_are_timed(case, grid)))
        if grid[0] * grid[1] > 1:
            words.append(_messages(case))
    if not case.scalar and case.model.scheme == "rk2":
        words.append(f"the paper's Eq. 9 allows {bound / 2**20:.4g} MiB per rank")
    lines = truncation.n_lines / (case.grid.shape[0] * (case.grid.shape[2] // 2 + 1))
    words.append(
        f"{100 * (1 - lines):.3g} % of the lines have no retained mode: they are neither moved nor transformed in y"
    )
    if said := remark(case, grid):
        words.append(said)
    if case.particles.every and case.particles.count:
        words.append(f"the particles' data set takes {output_bytes_of_particles(case) / 2**20:.4g} MiB")
    return tuple(words)


def estimate(case: TurbulenceCase, n_ranks: int) -> Estimate:
    """Return decomposition, memory, output and least work of the case on n_ranks ranks."""
    grid = process_grid(case, n_ranks)
    shape = case.grid.shape
    truncation = Truncation(shape, case.model.dealias)
    first = PencilGrid(shape, case.model.dealias, grid, 0)
    real = np.dtype(case.run.precision).itemsize
    n_scalars = len(case.scalar)
    needed = memory(case, grid)
    most = int(Share.of(truncation, grid).modes.max())
    for name, size in particle_memory(case, grid, most).items():
        needed[name] = needed.get(name, 0.0) + size
    outputs = case.output.count(case.run.steps)
    return Estimate(
        process_grid=grid,
        block=first.block,
        memory_per_rank=float(sum(needed.values())),
        output_bytes=float(outputs * len(case.output.variables) * math.prod(shape) * real),
        outputs=outputs,
        checkpoint_bytes=2.0 * real * ((2 + n_scalars) * truncation.n_modes + truncation.n_lines)
        + checkpoint_bytes_of_particles(case),
        work=least_work(case, grid),
        memory_between_steps=memory_between_steps(case, grid) + checkpoint_bytes_of_particles(case) / n_ranks,
        remarks=remarks(case, grid, needed),
        device_memory=device_memory(case, grid),
    )
