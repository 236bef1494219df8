"""The geometry of a rank's elements in GPU memory; each array is copied at its first use and shared by all operators.

All arrays are flat, float64 unless said otherwise, in the layout of `ElementGeometry`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.helmholtz_cuda import line_tables
from ridgeline.elements.device.tensor_cuda import LEAST_POINTS, MOST_POINTS, derivative_tables, layout_of
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.helmholtz import make_diagonal
from ridgeline.jit.cuda_device import DeviceArray
from ridgeline.runtime.errors import DeviceError


class CudaGeometry:
    """Device copies of the arrays of `host` that operators on this rank's elements read.

    Raises DeviceError if no kernel takes that many points per direction.
    """

    def __init__(self, host: ElementGeometry, gather: CudaGatherScatter) -> None:
        self.host, self.gather = host, gather
        self.n, self.axis_aligned = len(host.weights), host.axis_aligned
        if not LEAST_POINTS <= self.n <= MOST_POINTS:
            raise DeviceError(
                f"there is no GPU kernel for elements with {self.n} points per direction. Choose an order from "
                f'{LEAST_POINTS - 1} to {MOST_POINTS - 1}, or run.device = "cpu".'
            )
        self.layout = layout_of(self.n)
        self.points = host.mass.size
        self.stream = gather.stream

    @property
    def metric(self) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
        """Metrics, mass and weights, for kernels; for axis-aligned elements scale, volume and weights."""
        shape = (self.scale, self.volume) if self.axis_aligned else (self.metrics, self.mass)
        return (*shape, self.weights)

    @cached_property
    def scale(self) -> DeviceArray:
        """dr/dx, ds/dy, dt/dz of axis-aligned elements, [E, 3]."""
        return cuda.to_device(self.host.scale.reshape(-1))

    @cached_property
    def volume(self) -> DeviceArray:
        """Jacobian of axis-aligned elements, [E]."""
        return cuda.to_device(self.host.volume)

    @cached_property
    def factors(self) -> DeviceArray:
        """G_rr ... G_tt of curved elements, [E, 6, n, n, n]."""
        return cuda.to_device(self.host.factors.reshape(-1))

    @cached_property
    def metrics(self) -> DeviceArray:
        """r_x, r_y ... t_z of curved elements, [E, 9, n, n, n]."""
        return cuda.to_device(self.host.metrics.reshape(-1))

    @cached_property
    def mass(self) -> DeviceArray:
        """Weight times Jacobian, unassembled, [E, n, n, n]."""
        return cuda.to_device(self.host.mass.reshape(-1))

    @cached_property
    def weights(self) -> DeviceArray:
        """Quadrature weights of one direction, [n]."""
        return cuda.to_device(self.host.weights)

    @cached_property
    def derivative(self) -> DeviceArray:
        """`derivative_tables` of the points."""
        return cuda.to_device(derivative_tables(self.host.derivative).reshape(-1))

    @cached_property
    def lines(self) -> DeviceArray:
        """`line_tables` of the points."""
        return cuda.to_device(line_tables(self.host.derivative, self.host.weights))

    @cached_property
    def assembled_mass(self) -> DeviceArray:
        """The mass matrix with copies of points summed, [E, n, n, n]. Its first use is collective."""
        return self._assembled(self.host.mass)

    @cached_property
    def stiffness_diagonal(self) -> DeviceArray:
        """The diagonal of the stiffness matrix with copies of points summed. Its first use is collective."""
        g, diagonal = self.host, np.empty(self.host.mass.shape)
        kernel = make_diagonal(self.n, "float64", self.axis_aligned)
        elements = np.arange(len(diagonal))
        kernel(elements, 1.0, 0.0, g.scale, g.volume, g.factors, g.mass, g.derivative, g.weights, diagonal)
        return self._assembled(diagonal)

    def _assembled(self, unassembled: NDArray[np.float64]) -> DeviceArray:
        values = cuda.to_device(unassembled.reshape(-1))
        # The copy runs on another stream than the sum.
        cuda.synchronize()
        self.gather.sum(values)
        return values
