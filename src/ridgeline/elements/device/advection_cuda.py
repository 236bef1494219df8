"""Advection of fields in GPU memory, dealiased or at the elements' own points: arrays, chunks, launches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from ridgeline.elements.advection import fine_metrics
from ridgeline.elements.device.advection_kernels_cuda import (
    MOST_FINE,
    fine_tables,
    make_advect,
    make_advect_collocated,
    make_to_fine,
    make_turn,
)
from ridgeline.elements.device.gather_scatter_cuda import field_count
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.memory import dealiased_elements
from ridgeline.elements.device.tensor_cuda import square_layout
from ridgeline.elements.quadrature import derivative_matrix, gauss, gauss_interpolation
from ridgeline.jit.cuda_device import flat
from ridgeline.runtime.errors import DeviceError


def require_dealiasing(n: int, m: int) -> None:
    """Raise DeviceError unless GPUs have a kernel from n points per direction to m Gauss points; 0 is none."""
    if m and not n <= m <= MOST_FINE:
        raise DeviceError(
            f"dealiasing of {n} points on {m} Gauss points per direction has no GPU kernel; choose "
            f'model.dealias_order from {n} to {MOST_FINE} or "none", or run.device = "cpu"'
        )


class CudaAdvection:
    """(v, velocity . grad f) of each element, for m Gauss points per direction, or at its own points for m = 0.

    Raises DeviceError for an m that no kernel takes. Kernels go to the stream of the geometry's gather-scatter.
    """

    def __init__(self, geometry: CudaGeometry, m: int) -> None:
        n = geometry.n
        require_dealiasing(n, m)
        self._geometry, self._m, self.stream = geometry, m, geometry.stream
        self._count = geometry.gather.n_elements
        if not m:
            self._collocated = make_advect_collocated(n, geometry.axis_aligned)
            return
        points, weights = gauss(m)
        interpolation = gauss_interpolation(n, m)
        self._layout = square_layout(m)
        self._to_fine, self._advect = make_to_fine(n, m, geometry.axis_aligned), make_advect(n, m)
        self._tables = cuda.to_device(fine_tables(interpolation, derivative_matrix(points)))
        self._weights = cuda.to_device(np.ascontiguousarray(weights))
        self._chunk = dealiased_elements(m, self._count)
        self._carrier = cuda.device_array(3 * self._chunk * m**3, np.float64)
        self._fine: Any = None
        if not geometry.axis_aligned:
            g = geometry.host
            fine = fine_metrics(g.metrics, g.mass, g.weights, interpolation, weights)
            self._turn, self._fine = make_turn(m), cuda.to_device(fine.reshape(-1))

    def __call__(self, velocity: Any, fields: Any, out: Any) -> None:
        """Set out [c, E, n, n, n] to (v, u.grad f) of fields [c, ...]; velocity [3, ...] may be their beginning."""
        geometry, order, count = self._geometry, self._geometry.gather.order, field_count(fields)
        velocity, fields, out = flat(velocity), flat(fields), flat(out)
        if not self._m:
            layout = geometry.layout
            self._collocated[
                layout.blocks(self._count) * count, (geometry.n, geometry.n, layout.elements), self.stream
            ](
                order, 0, self._count, count, velocity, fields, *geometry.metric, geometry.derivative, out
            )  # fmt: skip
            return
        layout, block = self._layout, (self._m, self._m, self._layout.elements)
        stride, shape = geometry.points, geometry.metric[:2]
        for first in range(0, self._count, self._chunk):
            end = min(first + self._chunk, self._count)
            grid = layout.blocks(end - first)
            self._to_fine[3 * grid, block, self.stream](
                order, first, end, stride, velocity, *shape, self._weights, self._tables, self._carrier
            )
            if self._fine is not None:
                self._turn[grid, block, self.stream](order, first, end, self._fine, self._carrier)
            self._advect[count * grid, block, self.stream](
                order, first, end, count, stride, fields, self._carrier, self._tables, out
            )
