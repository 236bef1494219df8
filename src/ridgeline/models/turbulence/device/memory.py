"""What turbulence takes on a GPU, counted before anything is allocated; no device is needed to count."""

from __future__ import annotations

from ridgeline.fourier.device.layout import BufferCounts, DeviceLayout, VariableBatch, batches
from ridgeline.models.turbulence.kernels import N_COMBINED
from ridgeline.models.turbulence.mode_sums import FLOW_SUMS, SCALAR_SUMS
from ridgeline.models.turbulence.point_sums import POWERS, offsets_along
from ridgeline.models.turbulence.spectral_work import Variables
from ridgeline.runtime.devices import simulated

INCREMENT_PARTS = 2 if simulated() else 64  # of the rows, over which increments are summed apart


def buffer_counts(layout: DeviceLayout, n_scalars: int, batch: int) -> BufferCounts:
    """Return what turbulence with S scalars and Q variables a message has in buffers.

    Mean gradients of scalars take the velocity from the pieces that the column exchange brought.
    """
    counts = Variables(n_scalars).counts
    return layout.buffers(
        max(counts.inward, counts.combined), counts.outward, batch, keeps_pieces=n_scalars > 0
    )


def exchange_groups(n_scalars: int, batch: int) -> tuple[list[VariableBatch], list[VariableBatch]]:
    """Return the batches of Q variables of the column exchange: to points, and back to lines, in this order.

    What the velocity becomes is in batches of its own. Scalars go first: see `buffer_counts`.
    """
    counts = Variables(n_scalars).counts
    back = batches(N_COMBINED, counts.combined, batch) + batches(0, N_COMBINED, batch)
    return batches(0, counts.inward, batch), back


def sum_numbers(layout: DeviceLayout, n_scalars: int) -> int:
    """Return how many float64 the sums of diagnostics take: of lines, of rows or of increments, whatever is most."""
    of_line = len(FLOW_SUMS) + len(SCALAR_SUMS) * n_scalars
    of_increments = 3 * len(offsets_along(layout.grid.shape[2])) * INCREMENT_PARTS
    return max(of_line * layout.n_lines, POWERS * layout.nz_local * layout.ny_local, of_increments)


def device_bytes(
    layout: DeviceLayout, real_bytes: int, n_scalars: int, copies: int, batch: int
) -> dict[str, float]:
    """Return the bytes of one rank on its device by what they are for, without what cuFFT works in.

    real_bytes: of a real number; copies: of the fields, as the scheme stores them; batch: Q.
    """
    counts = buffer_counts(layout, n_scalars, batch)
    there, back = exchange_groups(n_scalars, batch if counts.messages else 1)
    n_tables = len({1, *(group.width for group in there + back)})
    n_fields = copies * Variables(n_scalars).fields
    found = layout.n_bytes(2 * real_bytes, n_fields, counts, n_tables)
    return {name: float(size) for name, size in found.items()} | {
        "sums": 8.0 * sum_numbers(layout, n_scalars)
    }


def host_bytes(layout: DeviceLayout, real_bytes: int, n_scalars: int, n_modes: int) -> dict[str, float]:
    """Return the bytes of one rank in host memory, as if messages went through it.

    n_modes: of a field of this rank. Transforms of the host's fields go through pinned memory: a field's modes and
    its points.
    """
    variables, number = Variables(n_scalars), 2 * real_bytes
    counts = variables.counts
    n_lines = max(counts.inward, counts.combined)
    rows, columns = layout.grid.process_grid
    held = n_lines * sum(map(sum, layout.of_columns)) if columns > 1 else 0
    held += counts.outward * sum(map(sum, layout.of_rows)) if rows > 1 else 0
    points = layout.nz_local * layout.ny_local * layout.pitch
    return {
        "fields": float(variables.fields * n_modes * number),
        "transforms": float((n_modes + points) * number),
        "exchange": float(held * number),
        "modes": float(8 * (5 * layout.n_lines + 1)),
    }
