"""From lines of a stage to lines of what its products combine to, on NVIDIA GPUs: the nonlinear part of a substep.

Passes over memory are apart or fused. Apart, cuFFT transforms, and kernels pack and multiply. Fused, transforms in z
pack in the same pass (`fourier.device.fused_cuda`), and those in x of slabs multiply in theirs (`fused_rows_cuda`).
Results differ by rounding. Pencils exchange rows between both, so that their transforms in x stay cuFFT's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.fourier.device.block_fft_cuda import twiddle_factors
from ridgeline.fourier.device.in_z_cuda import Table
from ridgeline.fourier.device.kernels_cuda import add_turned_sum
from ridgeline.fourier.device.layout import VariableBatch
from ridgeline.fourier.device.slabs_cuda import DeviceSlabs
from ridgeline.models.turbulence.device.fused_rows_cuda import make_row_products, product_factors
from ridgeline.models.turbulence.device.fusion import Fused, Passes, check_passes, possible, product_shape
from ridgeline.models.turbulence.device.kernels_cuda import PRODUCT_BLOCKS, PRODUCT_THREADS, make_multiply
from ridgeline.models.turbulence.kernels import N_COMBINED, N_PRODUCTS, N_VELOCITY, XX, XY, XZ, YZ, ZZ
from ridgeline.parallel.allreduce import allreduce_max
from ridgeline.parallel.choices import choose, recall
from ridgeline.parallel.communicator import in_turn_per_node
from ridgeline.runtime.devices import simulated

_SUBSTEPS = 2  # of a timed call


class DeviceProducts:
    """Forms products of velocity and scalars at points, and their combinations on lines; passes begin apart.

    slabs : allocated; k : wavenumbers of x and z, float64; lengths : of the box, (z, y, x)
    mean_gradients : of each scalar, (x, y, z); inward, outward : batches there and back, see `memory`

    Attributes: fused: which passes are.
    """

    def __init__(
        self, slabs: DeviceSlabs, dtype: np.dtype[Any], k: tuple[NDArray[Any], NDArray[Any]],
        lengths: Sequence[float], mean_gradients: Sequence[Sequence[float]],
        inward: list[VariableBatch], outward: list[VariableBatch],
    ) -> None:  # fmt: skip
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
        # Products of which k_x first + k_z second goes to lines, or the first alone: see `kernels`.
        self._sums: list[tuple[int, int | None]] = [(XX, XZ), (XY, None), (XZ, ZZ), (YZ, None)]
        for flux in range(N_PRODUCTS, N_PRODUCTS + 3 * n_scalars, 3):
            self._sums += [(flux, flux + 2), (flux + 1, None)]
        self._apart = {rated: make_multiply(real, n_scalars, rated) for rated in (True, False)}
        self.fused = Fused(False, False)
        self._in_rows: dict[bool, Any] = {}  # kernels that transform in x too, if they are taken
        self._compiled: set[Fused] = set()  # of those that were tried

    def possible(self) -> Fused:
        """Return which passes can be fused."""
        grid = self._slabs.grid
        return possible(self._shape, grid.process_grid, self._real, len(self._gradients))

    def take(self, fused: Fused) -> None:
        """Fuse passes, or leave them apart. Raises ValueError for what is not `possible`. No communication."""
        self._slabs.fuse_in_z(fused.in_z)
        self.fused, self._in_rows = fused, {}
        if fused.in_x:
            n_scalars, nx = len(self._gradients), self._shape[2]
            kind: Any = self._real.type
            self._in_rows = {rated: make_row_products(nx, kind, n_scalars, rated) for rated in (True, False)}
            self._factors = cuda.to_device(product_factors(n_scalars).ravel())
            self._twiddles = cuda.to_device(twiddle_factors(nx, kind))

    def choose(self, passes: Passes, device: str, timed: bool = True) -> None:
        """Take passes as asked, with "auto" the faster ones, timed now or in an earlier run. Collective.

        device: its name; timed: whether a run is worth timing them, which compiles both. If not, they stay apart
        where no earlier run has timed them, as on simulated devices. What lines and planes hold is lost.
        Raises DeviceError on all ranks if "fused" is asked for and nothing can be.
        """
        fused, slabs = self.possible(), self._slabs
        check_passes(passes, self._shape, fused)
        if passes == "fused":
            self.take(fused)
        if passes != "auto" or simulated() or not any(fused):
            return
        ways = {"apart": Fused(False, False), "fused": fused}
        grid = slabs.grid
        key = (
            f"{device}; passes of turbulence {grid.shape} {grid.dealias} {self._real}; "
            f"{grid.process_grid}, {len(self._gradients)} scalars, Q = {max(batch.width for batch in self._inward)}"
        )
        if not timed and recall(key, slabs.comm) is None:
            return
        candidates = {name: partial(self._try, way) for name, way in ways.items()}
        trial = choose(candidates, key, slabs.comm)
        slabs.trials["passes on GPUs"] = trial
        self.take(ways[trial.taken])

    def _try(self, fused: Fused) -> Mapping[str, float]:
        """Make the passes of some substeps, with fields that are zero, and wait for the device. Collective."""
        self.take(fused)
        if fused not in self._compiled:
            in_turn_per_node(self._slabs.comm, self.compile)
            self._compiled.add(fused)
        for _ in range(_SUBSTEPS):
            self.form(rated=False)
            self.combine()
        self._slabs.stream.synchronize()
        return {}

    def compile(self) -> None:
        """Compile or load the kernels by running them on nothing."""
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

        The rate is the bracket of Eq. (8). Collective. What lines hold is lost.
        """
        slabs, layout = self._slabs, self._slabs.layout
        slabs.to_points(self._inward, in_x=not self._in_rows)
        n_blocks = self._multiply(rated, layout.nz_local * layout.ny_local)
        if not rated:
            return 0.0
        slabs.stream.synchronize()
        return float(allreduce_max(slabs.comm, self._rates.copy_to_host()[:n_blocks].max()))

    def _multiply(self, rated: bool, n_rows: int) -> int:
        """Put products of some rows on the stream; return how many rates they leave."""
        slabs, layout, nx = self._slabs, self._slabs.layout, self._shape[2]
        if not self._in_rows:
            n_blocks = max(1, min(n_rows, PRODUCT_BLOCKS))
            self._apart[rated][n_blocks, PRODUCT_THREADS, slabs.stream](
                nx, 2 * layout.pitch, n_rows, 2 * layout.plane_numbers, self._per_cell, self._rates,
                slabs.all_planes,
            )  # fmt: skip
            return n_blocks
        shape = product_shape(nx, self._real, len(self._gradients))
        assert shape is not None, "its kernel was made"
        n_blocks, threads = shape.launch(n_rows, PRODUCT_BLOCKS)
        counts = N_VELOCITY + len(self._gradients), N_PRODUCTS + 3 * len(self._gradients)
        with slabs.clock("fft"):
            self._in_rows[rated][n_blocks, threads, slabs.stream](
                counts, slabs.grid.truncation.n_columns, layout.pitch, n_rows, layout.plane_numbers,
                self._per_cell, self._twiddles, self._factors, self._rates, slabs.all_planes,
            )  # fmt: skip
        return n_blocks

    def combine(self) -> None:
        """Bring products to lines, combined. Neighbours: all ranks."""
        slabs = self._slabs
        done: set[int] = set()

        def fill(out: int, target: Any, table: Table) -> None:
            first, second = self._sums[out]
            for variable in (first, second):
                if variable is not None and variable not in done:
                    slabs.to_planes(variable, in_x=not self._in_rows)
                    done.add(variable)
            if second is None:
                slabs.z.collect(first, table, target)
                return
            slabs.z.collect_sum((first, second), self._k, table, target)
            if out >= N_COMBINED:
                self._add_gradient((out - N_COMBINED) // 2, table, target)

        # Scalars first: their mean gradients take the velocity that is still among the pieces.
        slabs.leave_points([*range(N_PRODUCTS, slabs.counts.planes), *range(N_PRODUCTS)])
        slabs.to_lines(self._outward, fill)

    def _add_gradient(self, scalar: int, table: Table, target: Any) -> None:
        """Add -i G . u, of the velocity that came in, as large as products are after the transforms."""
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
