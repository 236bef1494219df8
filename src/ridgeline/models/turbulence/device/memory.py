"""What turbulence takes on a GPU, counted before anything is allocated; no device is needed to count."""

from __future__ import annotations

from ridgeline.fourier.device.layout import DeviceLayout
from ridgeline.models.turbulence.spectral_work import Variables


def device_bytes(layout: DeviceLayout, real_bytes: int, n_scalars: int, copies: int) -> dict[str, float]:
    """Return the bytes of one rank on its device by what they are for, without what cuFFT works in.

    real_bytes: of a real number; copies: of the fields, as the scheme stores them.
    """
    variables = Variables(n_scalars)
    counts = variables.counts
    n_lines = max(counts.inward, counts.combined)
    found = layout.n_bytes(2 * real_bytes, copies * variables.fields, n_lines, counts.outward)
    return {name: float(size) for name, size in found.items()}


def host_bytes(layout: DeviceLayout, real_bytes: int, n_scalars: int, n_modes: int) -> dict[str, float]:
    """Return the bytes of one rank in host memory, as if messages went through it.

    n_modes: of a field of this rank. Transforms of the host's fields go through pinned memory: a field's modes and
    its points.
    """
    variables, number = Variables(n_scalars), 2 * real_bytes
    counts = variables.counts
    n_lines = max(counts.inward, counts.combined)
    held = layout.line_numbers + layout.piece_numbers if layout.grid.process_grid[1] > 1 else 0
    return {
        "fields": float(variables.fields * n_modes * number),
        "transforms": float((n_modes + layout.plane_numbers) * number),
        "exchange": float(n_lines * held * number),
        "modes": float(8 * (5 * layout.n_lines + 1)),
    }
