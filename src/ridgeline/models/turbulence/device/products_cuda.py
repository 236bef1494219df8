"""The nonlinear part of a substep on NVIDIA GPUs: from lines of a stage to lines of the combined products.

The passes over memory are separate or fused. When they are separate, cuFFT transforms, and kernels pack and multiply.
When they are fused, transforms in z pack in the same pass (`fourier.device.z_stage_cuda`), and with slabs transforms
in x form the products in the same pass (`fused_rows_cuda`). The results differ by rounding. Pencils exchange rows
between the transforms in z and x, which therefore stay separate in x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.fourier.device.block_fft_cuda import twiddle_factors
from ridgeline.fourier.device.kernels_cuda import add_turned_sum
from ridgeline.fourier.device.layout import VariableBatch
from ridgeline.fourier.device.pipeline_cuda import DevicePipeline
from ridgeline.fourier.device.z_stage_cuda import Table
from ridgeline.models.turbulence.device.device_estimate import (
    FusedPasses,
    Passes,
    check_passes,
    possible_fusion,
    product_shape,
)
from ridgeline.models.turbulence.device.fused_rows_cuda import make_row_products, product_factors
from ridgeline.models.turbulence.device.kernels_cuda import PRODUCT_BLOCKS, PRODUCT_THREADS, make_multiply
from ridgeline.models.turbulence.kernels import N_COMBINED, N_PRODUCTS, N_VELOCITY, XX, XY, XZ, YZ, ZZ
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.autotuner import choose, recall
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.devices import simulated

_SUBSTEPS = 2  # of a timed call


class DeviceProducts:
    """Forms products of velocity and scalars at points, and their combinations on lines.

    slabs : allocated; k : wavenumbers of x and z, float64; lengths : of the box, (z, y, x)
    mean_gradients : of each scalar, (x, y, z); inward, outward : batches there and back, of `exchange_groups`

    Attributes
    ----------
    fused : which passes are fused, none at first
    """

    def __init__(
        self,
        slabs: DevicePipeline,
        dtype: np.dtype[Any],
        k: tuple[NDArray[Any], NDArray[Any]],
        lengths: Sequence[float],
        mean_gradients: Sequence[Sequence[float]],
        inward: list[VariableBatch],
        outward: list[VariableBatch],
    ) -> None:
        self._slabs, self._real, self._gradients = slabs, dtype, mean_gradients
        self._inward, self._outward = inward, outward
        self._shape: tuple[int, int, int] = slabs.grid.shape
        real: Any = dtype.type
        self._per_cell = tuple(real(n / length) for n, length in zip(self._shape[::-1], lengths[::-1]))
        self._rates = cuda.to_device(np.zeros(PRODUCT_BLOCKS, dtype))
        kx = np.zeros(slabs.layout.width, dtype)
        columns = slabs.grid.columns_of(slabs.grid.row)
        kx[: len(columns)] = k[0][columns]
        self._k = cuda.to_device(kx), cuda.to_device(k[1].astype(dtype))
        n_scalars = len(mean_gradients)
        # Products whose combination k_x first + k_z second goes to lines, or the first alone: see `kernels`.
        self._sums: list[tuple[int, int | None]] = [(XX, XZ), (XY, None), (XZ, ZZ), (YZ, None)]
        for flux in range(N_PRODUCTS, N_PRODUCTS + 3 * n_scalars, 3):
            self._sums += [(flux, flux + 2), (flux + 1, None)]
        self._apart = {rated: make_multiply(real, n_scalars, rated) for rated in (True, False)}
        self.fused = FusedPasses(False, False)
        self._in_rows: dict[bool, Any] = {}  # kernels that also transform in x, if passes in x are fused
        self._compiled: set[FusedPasses] = set()  # candidates of `choose` whose kernels are compiled

    def possible(self) -> FusedPasses:
        """Return which passes can be fused."""
        grid = self._slabs.grid
        return possible_fusion(self._shape, grid.process_grid, self._real, len(self._gradients))

    def take(self, fused: FusedPasses) -> None:
        """Fuse passes, or leave them apart. Raises ValueError for what is not `possible_fusion`. No communication."""
        self._slabs.fuse_in_z(fused.in_z)
        self.fused, self._in_rows = fused, {}
        if fused.in_x:
            n_scalars, nx = len(self._gradients), self._shape[2]
            kind: Any = self._real.type
            self._in_rows = {rated: make_row_products(nx, kind, n_scalars, rated) for rated in (True, False)}
            self._factors = cuda.to_device(product_factors(n_scalars).ravel())
            self._twiddles = cuda.to_device(twiddle_factors(nx, kind))

    def choose(self, passes: Passes, device: str, timed: bool = True) -> None:
        """Use the passes of the setting; with "auto" those that were faster, now or in an earlier run. Collective.

        device: its name; timed: whether this run is long enough to time both, which compiles both. If it is not, and
        no earlier run has timed them, the passes stay separate; they also do on simulated devices. The contents of
        lines and planes are lost. Raises DeviceError on all ranks if "fused" is set and no pass can be fused.
        """
        fused, slabs = self.possible(), self._slabs
        check_passes(passes, self._shape, fused)
        if passes == "fused":
            self.take(fused)
        if passes != "auto" or simulated() or not any(fused):
            return
        choices = {"apart": FusedPasses(False, False), "fused": fused}
        grid = slabs.grid
        key = (
            f"{device}; passes of turbulence {grid.shape} {grid.dealias} {self._real}; "
            f"{grid.process_grid}, {len(self._gradients)} scalars, Q = {max(batch.width for batch in self._inward)}"
        )
        if not timed and recall(key, slabs.comm) is None:
            return
        candidates = {name: partial(self._try, passes_of) for name, passes_of in choices.items()}
        trial = choose(candidates, key, slabs.comm)
        slabs.trials["passes on GPUs"] = trial
        self.take(choices[trial.taken])

    def _try(self, fused: FusedPasses) -> Mapping[str, float]:
        """Make the passes of some substeps, and wait for the device. Collective."""
        self.take(fused)
        if fused not in self._compiled:
            compile_on_nodes(self._slabs.comm, self.compile)
            self._compiled.add(fused)
        for _ in range(_SUBSTEPS):
            self.form(rated=False)
            self.combine()
        self._slabs.stream.synchronize()
        return {}

    def compile(self) -> None:
        """Compile or load the kernels by launching them on nothing."""
        slabs = self._slabs
        for rated in (True, False):
            self._multiply(rated, 0)
        pieces, table = slabs.pieces(self._inward[0]), slabs.table(self._inward[0])
        slabs.z.compile(pieces, self._k[1], table)
        place, step, _, _ = table
        nothing = (self._real.type(0),) * 3
        add_turned_sum[1, 1, slabs.stream](*[pieces] * 3, place, place, (step, step), nothing, 0, 0, pieces)

    def form(self, rated: bool) -> float:
        """Bring lines to products, at points or as modes in x; return the largest rate of all ranks if `rated`.

        The rate is the bracket of Eq. (8). The contents of the lines are lost. Collective.
        """
        slabs, layout = self._slabs, self._slabs.layout
        slabs.to_points(self._inward, in_x=not self._in_rows)
        n_blocks = self._multiply(rated, layout.nz_local * layout.ny_local)
        if not rated:
            return 0.0
        slabs.stream.synchronize()
        return float(allreduce_max(slabs.comm, self._rates.copy_to_host()[:n_blocks].max()))

    def _multiply(self, rated: bool, n_rows: int) -> int:
        """Launch the products of some rows; return how many rates they write."""
        slabs, layout, nx = self._slabs, self._slabs.layout, self._shape[2]
        if not self._in_rows:
            n_blocks = max(1, min(n_rows, PRODUCT_BLOCKS))
            self._apart[rated][n_blocks, PRODUCT_THREADS, slabs.stream](
                nx,
                2 * layout.pitch,
                n_rows,
                2 * layout.plane_numbers,
                self._per_cell,
                self._rates,
                slabs.all_planes,
            )
            return n_blocks
        shape = product_shape(nx, self._real, len(self._gradients))
        assert shape is not None, "its kernel was made"
        n_blocks, threads = shape.launch(n_rows, PRODUCT_BLOCKS)
        counts = N_VELOCITY + len(self._gradients), N_PRODUCTS + 3 * len(self._gradients)
        with slabs.clock("fft"):
            self._in_rows[rated][n_blocks, threads, slabs.stream](
                counts,
                slabs.grid.truncation.n_columns,
                layout.pitch,
                n_rows,
                layout.plane_numbers,
                self._per_cell,
                self._twiddles,
                self._factors,
                self._rates,
                slabs.all_planes,
            )
        return n_blocks

    def combine(self) -> None:
        """Bring the combinations of the products to lines. Collective."""
        slabs = self._slabs
        transformed: set[int] = set()

        def fill(out: int, target: Any, table: Table) -> None:
            first, second = self._sums[out]
            for variable in (first, second):
                if variable is not None and variable not in transformed:
                    slabs.to_planes(variable, in_x=not self._in_rows)
                    transformed.add(variable)
            if second is None:
                slabs.z.collect(first, table, target)
                return
            slabs.z.collect_sum((first, second), self._k, table, target)
            if out >= N_COMBINED:
                self._add_gradient((out - N_COMBINED) // 2, table, target)

        # Scalars first, since their mean gradients read the velocity that is still in the pieces.
        slabs.leave_points([*range(N_PRODUCTS, slabs.counts.planes), *range(N_PRODUCTS)])
        slabs.to_lines(self._outward, fill)

    def _add_gradient(self, scalar: int, table: Table, target: Any) -> None:
        """Add -i G . u of the velocity that came in, in the scale of the products after the transforms."""
        gradient = self._gradients[scalar]
        if any(gradient):
            nz, _, nx = self._shape
            factors = tuple(self._real.type(nx * nz * part) for part in gradient)
            slabs = self._slabs
            where = [(batch, v) for batch in self._inward for v in batch.variables if v < N_VELOCITY]
            velocity = [slabs.pieces(batch, v) for batch, v in where]
            from_place, from_step, _, _ = slabs.table(where[0][0])
            place, step, *shape = table
            with slabs.clock("pack"):
                add_turned_sum[slabs.launch](
                    *velocity, from_place, place, (from_step, step), factors, *shape, target
                )
