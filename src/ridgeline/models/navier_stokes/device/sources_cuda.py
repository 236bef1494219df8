"""Sources of scalars in GPU memory: each formula becomes a kernel, which is evaluated at every point in every step.

`jit.formulas` writes a formula, which `config.expressions` evaluates with NumPy on the host, as a device function of
one point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.config.expressions import VARIABLES, Expression
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import element_of_block
from ridgeline.elements.device.tensor_cuda import launch_bounds, layout_of
from ridgeline.jit.cuda_device import flat, fma, kernel, load, store
from ridgeline.jit.formulas import point_function
from ridgeline.jit.formulas_cuda import CUDA
from ridgeline.models.navier_stokes.device.kernels_cuda import make_mass
from ridgeline.models.navier_stokes.device_memory import axes_of_sources
from ridgeline.models.navier_stokes.problem import TransportedScalar
from ridgeline.runtime.errors import DeviceError

_REGISTERS = 128  # of a thread: a sine of float64 takes some 40, and formulas keep several values


def make_source(n: int, axis_aligned: bool, formula: Expression) -> Any:
    """Return kernel(order, first, end, x, y, z, time, mass, weights, out), arguments as in `kernels_cuda`.

    out -= mass f(x, y, z, time). x, y, z: coordinates of all points, [E, n, n, n]; for an axis that does not occur in
    the formula, any array of that size, which is not read. Cost: reads the coordinates that occur (and the mass of
    curved elements), reads and writes out.
    """
    layout = layout_of(n)
    square, cube, elements = n * n, n**3, layout.elements
    mass_at, source_at = make_mass(n, axis_aligned), point_function(formula, VARIABLES, CUDA)

    @kernel(*launch_bounds(n, np.float64, _REGISTERS))
    def source(order, first, end, x, y, z, time, mass, weights, out):
        i, j = cuda.threadIdx.x, cuda.threadIdx.y
        _, element, mine = element_of_block(order, first, end, 1, elements, cuda.blockIdx.x, cuda.threadIdx.z)
        if mine:
            at = element * cube + j * n + i
            for k in range(n):
                value = source_at(load(x, at), load(y, at), load(z, at), time)
                weight = mass_at(mass, weights, element, k, j, i)
                store(out, at, fma(-weight, value, load(out, at)))
                at += square

    return source


def require_formulas(scalars: Sequence[TransportedScalar]) -> None:
    """Raise DeviceError, with advice, for sources that are not formulas."""
    for i, scalar in enumerate(scalars):
        if scalar.source is not None and not isinstance(scalar.source, Expression):
            raise DeviceError(
                f"scalar.{i} has a source that is not a formula, for which there are no GPU kernels. Pass "
                "config.expressions.parse(text) instead, or run with --device cpu."
            )


class CudaSources:
    """The sources of a flow's scalars, which `require_formulas` has checked. Compiled at the first use.

    Memory: the coordinates that occur in the formulas.
    """

    def __init__(self, geometry: CudaGeometry, scalars: Sequence[TransportedScalar]) -> None:
        self._geometry = geometry
        self._sources: list[tuple[int, Any]] = [
            (i, make_source(geometry.n, geometry.axis_aligned, scalar.source))
            for i, scalar in enumerate(scalars, start=3)
            if isinstance(scalar.source, Expression)
        ]
        self._axes: dict[int, Any] = {
            axis: cuda.to_device(geometry.host.coordinates[axis].reshape(-1))
            for axis in axes_of_sources(scalars)
        }

    def __bool__(self) -> bool:
        return bool(self._sources)

    def subtract(self, time: float, rates: Any) -> None:
        """Subtract the sources at a time from the weak rates [3 + S, E, n, n, n]."""
        geometry, (_, mass, weights) = self._geometry, self._geometry.metric
        layout, count = geometry.layout, geometry.gather.n_elements
        for i, source in self._sources:
            out = flat(rates[i])
            x, y, z = (self._axes.get(axis, out) for axis in range(3))
            source[layout.blocks(count), (geometry.n, geometry.n, layout.elements), geometry.stream](
                geometry.gather.order, 0, count, x, y, z, float(time), mass, weights, out
            )
