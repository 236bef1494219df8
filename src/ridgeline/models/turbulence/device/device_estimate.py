"""What a turbulence run needs on GPUs, said before anything is allocated: memory, and passes that can be fused.

No device is needed to say it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.fourier.decomposition import ProcessGrid
from ridgeline.fourier.device.block_plans import SIZES, RowShape, column_shape, row_shape
from ridgeline.fourier.device.layout import BufferCounts, DeviceLayout, VariableBatch, batches
from ridgeline.models.turbulence.kernels import N_COMBINED, N_VELOCITY
from ridgeline.models.turbulence.kernels_diagnostics import FLOW_SUMS, POWERS, SCALAR_SUMS, offsets_along
from ridgeline.models.turbulence.step_work import Variables
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError

INCREMENT_PARTS = (
    2 if simulated() else 64
)  # parts of the rows, over each of which increments are summed separately
Passes = Literal["auto", "apart", "fused"]  # of the setting model.fft.on_gpus


def buffer_counts(layout: DeviceLayout, n_scalars: int, batch: int) -> BufferCounts:
    """Return the numbers of buffers for S scalars and Q variables in a message.

    With scalars, the pieces that the column exchange has brought are kept, because mean gradients read the velocity
    from them.
    """
    counts = Variables(n_scalars).counts
    return layout.buffers(
        max(counts.inward, counts.combined), counts.outward, batch, keeps_pieces=n_scalars > 0
    )


def exchange_groups(n_scalars: int, batch: int) -> tuple[list[VariableBatch], list[VariableBatch]]:
    """Return the batches of Q variables of the column exchange: those to points, and those back to lines.

    On the way back the products of the velocity have batches of their own, and those of scalars go first: see
    `buffer_counts`.
    """
    counts = Variables(n_scalars).counts
    back = batches(N_COMBINED, counts.combined, batch) + batches(0, N_COMBINED, batch)
    return batches(0, counts.inward, batch), back


def sum_numbers(layout: DeviceLayout, n_scalars: int) -> int:
    """Return the float64 numbers that sums of diagnostics need: the most of those of lines, rows and increments."""
    of_line = len(FLOW_SUMS) + len(SCALAR_SUMS) * n_scalars
    of_increments = 3 * len(offsets_along(layout.grid.shape[2])) * INCREMENT_PARTS
    return max(of_line * layout.n_lines, POWERS * layout.nz_local * layout.ny_local, of_increments)


def device_bytes(
    layout: DeviceLayout, real_bytes: int, n_scalars: int, copies: int, batch: int
) -> dict[str, float]:
    """Return the bytes of one rank on its device, by purpose, without cuFFT's work area.

    real_bytes: of a real number; copies: of the fields, which the scheme stores; batch: Q.
    """
    counts = buffer_counts(layout, n_scalars, batch)
    there, back = exchange_groups(n_scalars, batch if counts.messages else 1)
    n_tables = len({1, *(group.width for group in there + back)})
    n_fields = copies * Variables(n_scalars).fields
    of_layout = layout.n_bytes(2 * real_bytes, n_fields, counts, n_tables)
    by_purpose = {name: float(size) for name, size in of_layout.items()}
    return {**by_purpose, "sums": 8.0 * sum_numbers(layout, n_scalars)}


def host_bytes(layout: DeviceLayout, real_bytes: int, n_scalars: int, n_modes: int) -> dict[str, float]:
    """Return the bytes of one rank in host memory, by purpose, as if messages went through the host.

    n_modes: of a field of this rank. Transforms of fields on the host go through pinned memory, which holds the modes
    and the points of one field.
    """
    variables, number = Variables(n_scalars), 2 * real_bytes
    counts = variables.counts
    n_lines = max(counts.inward, counts.combined)
    rows, columns = layout.grid.process_grid
    exchanged = n_lines * sum(map(sum, layout.of_columns)) if columns > 1 else 0
    exchanged += counts.outward * sum(map(sum, layout.of_rows)) if rows > 1 else 0
    points = layout.nz_local * layout.ny_local * layout.pitch
    return {
        "fields": float(variables.fields * n_modes * number),
        "transforms": float((n_modes + points) * number),
        "exchange": float(exchanged * number),
        "modes": float(8 * (5 * layout.n_lines + 1)),
    }


class FusedPasses(NamedTuple):
    """Whether transforms in z pack in the same pass, and transforms in x form the products in the same pass."""

    in_z: bool
    in_x: bool

    @property
    def words(self) -> str:
        """The passes of the transforms, in words."""
        in_z = "in one pass with the packing" if self.in_z else "by cuFFT, with separate packing"
        in_x = "in one pass with the products" if self.in_x else "by cuFFT, with separate products"
        return f"in y by cuFFT; in z {in_z}; in x {in_x}"


def product_shape(nx: int, dtype: DTypeLike, n_scalars: int) -> RowShape | None:
    """Return the shape of the pass that transforms rows and multiplies, or None if there is none for nx points.

    w stays in registers; the other variables are kept in shared memory.
    """
    kind: Any = np.dtype(dtype).type  # hashable
    return row_shape(nx, kind, N_VELOCITY - 1 + n_scalars, 4 if simulated() else 64)


def possible_fusion(
    shape: Triple, process_grid: ProcessGrid, dtype: DTypeLike, n_scalars: int
) -> FusedPasses:
    """Return which passes can be fused: those of SIZES points; in x only for slabs, which exchange no rows there."""
    kind: Any = np.dtype(dtype).type
    nz, _, nx = shape
    in_z = all(column_shape(nz, kind, summed) is not None for summed in (False, True))
    return FusedPasses(in_z, process_grid[0] == 1 and product_shape(nx, kind, n_scalars) is not None)


def check_passes(passes: Passes, shape: Triple, fused: FusedPasses) -> None:
    """Raise DeviceError if the settings ask for fused passes and none can be fused. fused: of `possible_fusion`."""
    if passes == "fused" and not any(fused):
        raise DeviceError(
            f'model.fft.on_gpus = "fused" cannot be used with grid.shape = {list(shape)}, because neither N_z nor, '
            f'with slabs, N_x is {SIZES}. Use "auto".'
        )


def passes_remark(passes: Passes, fused: FusedPasses, timed: bool) -> str:
    """Return the sentence of `ridgeline check` about the transforms on GPUs.

    fused: of `possible_fusion`; timed: whether this run times both kinds of passes.
    """
    if passes == "apart" or not any(fused):
        return f"transforms on GPUs are {FusedPasses(False, False).words}"
    finder = "this run, which times both," if timed else "an earlier run"
    choice = f", if {finder} finds this to be faster" if passes == "auto" else ""
    return f"transforms on GPUs are {fused.words}{choice}"
