"""What turbulence takes on a GPU, counted before anything is allocated; no device is needed to count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ridgeline.fourier.device_layout import DeviceLayout
from ridgeline.models.turbulence.spectral_work import Variables
from ridgeline.runtime.devices import describe_devices
from ridgeline.runtime.errors import DeviceError

if TYPE_CHECKING:
    from ridgeline.parallel.partition import Triple
    from ridgeline.runtime.devices import DeviceInfo


def device_bytes(layout: DeviceLayout, real_bytes: int, n_scalars: int, copies: int) -> dict[str, int]:
    """Return the bytes of one rank on its device by what they are for, without what cuFFT works in.

    real_bytes: of a real number; copies: of the fields, as the scheme stores them.
    """
    variables = Variables(n_scalars)
    counts = variables.counts
    n_lines = max(counts.inward, counts.combined)
    return layout.n_bytes(2 * real_bytes, copies * variables.fields, n_lines, counts.outward)


def words_on_devices(needed: float) -> str:
    """Say whether so many bytes fit on each GPU that this process sees, or why that is not known."""
    try:
        devices = describe_devices()
    except DeviceError as error:
        return f"whether that fits on a GPU is not known here: {error}"
    least = min(devices, key=lambda device: device.memory)
    if least.simulated:
        return "simulated GPUs have no memory of their own"
    verdict = "fits on" if needed <= least.memory else "does not fit on"
    share = f"{100 * needed / least.memory:.3g} % of its {least.memory / 2**30:.4g} GiB"
    return f"that {verdict} {least.name}, {share}, before what cuFFT works in"


def check_device_memory(needed: Mapping[str, int], device: DeviceInfo, shape: Triple) -> None:
    """Raise DeviceError, with the sum, if what is needed exceeds the device's memory. No communication."""
    total = sum(needed.values())
    if total > device.memory and not device.simulated:
        parts = ", ".join(f"{name} {size / 2**30:.3g}" for name, size in needed.items())
        raise DeviceError(
            f"grid.shape = {list(shape)} takes {total / 2**30:.4g} GiB on a GPU ({parts}), more than the "
            f"{device.memory / 2**30:.4g} GiB of {device.name}; use more GPUs (-n), a smaller grid.shape or "
            f'run.precision = "float32"'
        )
