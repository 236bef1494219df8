"""Which passes over memory a case can have fused on GPUs: no device is needed to say."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.fourier.device.block_plans import SIZES, RowShape, column_shape, row_shape
from ridgeline.fourier.pencil import ProcessGrid
from ridgeline.models.turbulence.kernels import N_VELOCITY
from ridgeline.parallel.partition import Triple
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError

Passes = Literal["auto", "apart", "fused"]


class Fused(NamedTuple):
    """Whether transforms in z pack in their pass, and transforms in x multiply in theirs."""

    in_z: bool
    in_x: bool

    @property
    def words(self) -> str:
        """How passes over memory are made, for people."""
        in_z = "with the packing, in one pass" if self.in_z else "by cuFFT, packed apart"
        in_x = "with the products, in one pass" if self.in_x else "by cuFFT, products apart"
        return f"in y by cuFFT; in z {in_z}; in x {in_x}"


def product_shape(nx: int, dtype: DTypeLike, n_scalars: int) -> RowShape | None:
    """Return the shape of the pass that transforms rows and multiplies; w stays in registers, others are kept."""
    kind: Any = np.dtype(dtype).type  # hashable
    return row_shape(nx, kind, N_VELOCITY - 1 + n_scalars, 4 if simulated() else 64)


def possible(shape: Triple, process_grid: ProcessGrid, dtype: DTypeLike, n_scalars: int) -> Fused:
    """Return which passes can be fused: sizes must be SIZES, and pencils exchange rows between both in x."""
    kind: Any = np.dtype(dtype).type
    nz, _, nx = shape
    in_z = all(column_shape(nz, kind, summed) is not None for summed in (False, True))
    return Fused(in_z, process_grid[0] == 1 and product_shape(nx, kind, n_scalars) is not None)


def check_passes(passes: Passes, shape: Triple, fused: Fused) -> None:
    """Raise DeviceError if fused passes are asked for and nothing can be, of what is `possible`."""
    if passes == "fused" and not any(fused):
        raise DeviceError(
            f'model.fft.on_gpus = "fused" with grid.shape = {list(shape)}: N_z, or of slabs N_x, must be {SIZES}; '
            'use "auto"'
        )


def remark(passes: Passes, fused: Fused, timed: bool) -> str:
    """Return what `ridgeline check` says of passes over memory, of which `fused` can be. timed: in this run."""
    if passes == "apart" or not any(fused):
        return f"transforms on GPUs are {Fused(False, False).words}"
    finder = "this run, which times both," if timed else "an earlier run"
    choice = f", if {finder} finds that faster" if passes == "auto" else ""
    return f"transforms on GPUs are {fused.words}{choice}"
