"""The physics beside the equations on GPUs: closures and damping by kernels, the ground from its plane on the host.

The layer over the ground needs the lowest plane of three fields alone: it is copied to the host, where `SurfaceLayer`
finds the fluxes, and their rates of change are copied back. Turbines and the controller of the wind at hub height
have no kernels yet, and the settings refuse them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import cuda
from numpy.lib.stride_tricks import as_strided

from ridgeline.blocks.block import Block, BlockArray
from ridgeline.blocks.rows_cuda import RowReductions, device_field, rows_launch
from ridgeline.jit.cuda_device import part
from ridgeline.jit.kernel import compile_kernels
from ridgeline.models.wind.device import tendencies_cuda as tendencies
from ridgeline.models.wind.physical_terms import Array, Fields, PhysicalTerms
from ridgeline.models.wind.settings import ENERGY

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.wind.settings import WindCase


class DevicePhysicalTerms(PhysicalTerms):
    """Closure, ground and damping of a case on one block. Collective when it is made."""

    def __init__(self, case: WindCase, block: Block, comm: MPI.Comm, stream: Any) -> None:
        super().__init__(case, block, comm)
        self._stream, self._like = stream, BlockArray.allocate(block, np.float64)
        nz, ny, nx = block.shape_local
        self._rows = rows_launch((nz, ny, nx))
        self._reductions = RowReductions(nz * ny, stream)
        if self.viscosity is not None:
            self.viscosity, self.diffusivity, self._source = (
                device_field(block, np.float64) for _ in range(3)
            )
            self._device_numbers = cuda.to_device(np.ascontiguousarray(self._numbers))
            self._device_squared = cuda.to_device(np.ascontiguousarray(self._squared))
        if self.surface is not None:
            self._plane = cuda.pinned_array((ny - 1) * self._extent[0][1] + nx, np.float64)
            self._flux = cuda.to_device(np.zeros(ny * nx))

    def compile(self) -> None:
        """Compile what the host computes of the ground."""
        if self.surface is not None:
            # Planes that are copied from the device, and those of the host's fields, which diagnostics read.
            for plane in (np.zeros((2, 2)), self._like.owned[0]):
                compile_kernels(self.surface.kernels(numba.typeof(plane)))

    def _launch(self, kernel: Any, *arguments: Any) -> None:
        kernel[(*self._rows, self._stream)](*arguments)

    def prepare(self, fields: Fields) -> None:
        if self.viscosity is None:
            return
        assert self.diffusivity is not None
        u, v, w = (q.flat for q in fields[:3])
        theta = (self._theta(fields) or fields[0]).flat
        nz, ny, nx = self._block.shape_local
        layout, box = self._extent[0], (nz + 2, ny + 2, nx + 2)
        numbers, ground = self._device_numbers, self._on_ground
        nu, kappa = self.viscosity.flat, self.diffusivity.flat
        launch = (*rows_launch(box), self._stream)
        if self._case.subgrid.kind == "smagorinsky":
            tendencies.set_smagorinsky[launch](
                u, v, w, theta, layout, box, numbers, self._device_squared, ground, nu, kappa
            )
        else:
            assert self._source is not None
            source = self._source.flat
            tendencies.set_one_equation[launch](
                u, v, w, theta, fields[-1].flat, layout, box, numbers, ground, nu, kappa, source
            )

    def largest_diffusivity(self) -> float:
        if self.viscosity is None:
            return 0.0
        assert self.diffusivity is not None
        largest = self._reductions.largest
        return max(2.0 * largest(self.viscosity), largest(self.diffusivity))

    # ---- what acts on the fields ----

    def _lowest_plane(self, field: BlockArray) -> Array:
        """Return a copy of the owned cells of the lowest plane, [ny, nx]."""
        begin, row = field.origin, field.row_pitch
        part(field.flat, begin, begin + self._plane.size).copy_to_host(self._plane, stream=self._stream)
        self._stream.synchronize()
        _, ny, nx = self._block.shape_local
        return as_strided(self._plane, (ny, nx), (8 * row, 8)).copy()

    def _act(self, fields: Fields, out: Fields, time: float) -> None:
        if self.surface is None:
            return
        theta = self._theta(fields)
        if self.surface.touches:
            planes = [
                self._lowest_plane(field) for field in (*fields[:2], *([] if theta is None else [theta]))
            ]
        else:
            planes = [np.zeros(self._block.shape_local[1:]) for _ in range(2 if theta is None else 3)]
        self.surface.update(planes[0], planes[1], None if theta is None else planes[2], time)
        if not self.surface.touches:
            return
        rates = [np.zeros_like(plane) for plane in planes]
        self.surface.add(rates[0], rates[1], None if theta is None else rates[2])
        targets = [out[0], out[1], *([] if theta is None else [out[3]])]
        _, ny, nx = self._block.shape_local
        for rate, target in zip(rates, targets, strict=True):
            self._flux.copy_to_device(rate.reshape(-1), stream=self._stream)
            tendencies.add_plane[(*rows_launch((1, ny, nx)), self._stream)](
                self._flux, target.origin, target.row_pitch, (ny, nx), target.flat
            )
            self._stream.synchronize()  # before the memory of `rate` and `_flux` is used again

    def _damp(self, q: BlockArray, target: Array, rate: Array, out: BlockArray) -> None:
        aim, factor = (
            cuda.to_device(np.ascontiguousarray(each), stream=self._stream) for each in (target, rate)
        )
        self._launch(tendencies.add_damping, q.flat, *self._extent, aim, factor, out.flat)
        self._stream.synchronize()  # before the memory of the profiles is free

    def _add_stress(self, fields: Fields, out: Fields) -> None:
        assert self.viscosity is not None
        u, v, w = (q.flat for q in fields[:3])
        _, row, plane = self._extent[0]
        h = self._per_width
        for target, pitch, per in zip(out[:3], (1, row, plane), (h[2], h[1], h[0]), strict=True):
            self._launch(
                tendencies.add_transposed_stress, u, v, w, self.viscosity.flat, *self._extent, pitch, per, h,
                target.flat,
            )  # fmt: skip
        if self._names[-1:] == (ENERGY,):
            assert self._source is not None
            self._launch(tendencies.add_field, self._source.flat, *self._extent, out[-1].flat)

    def _add_eddy_flux(self, q: BlockArray, coefficient: BlockArray, factor: float, out: BlockArray) -> None:
        factors = tuple(0.5 * factor * each * each for each in self._per_width)
        self._launch(
            tendencies.add_eddy_diffusion, q.flat, coefficient.flat, *self._extent, factors, out.flat
        )
