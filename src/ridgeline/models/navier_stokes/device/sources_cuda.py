"""Sources of scalars in GPU memory: each formula becomes a kernel, which computes it at every point of every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba import cuda

from ridgeline.config.expressions import Expression
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.jit.cuda_device import flat
from ridgeline.models.navier_stokes.device.memory import axes_of_sources
from ridgeline.models.navier_stokes.device.source_kernels_cuda import make_source
from ridgeline.models.navier_stokes.problem import TransportedScalar
from ridgeline.runtime.errors import DeviceError


def require_formulas(scalars: Sequence[TransportedScalar]) -> None:
    """Raise DeviceError, with what to do, for sources that are no formulas."""
    for i, scalar in enumerate(scalars):
        if scalar.source is not None and not isinstance(scalar.source, Expression):
            raise DeviceError(
                f"scalar.{i} has a source that is no formula, for which GPUs have no kernels; give "
                "config.expressions.parse(text), or run with --device cpu"
            )


class CudaSources:
    """The sources of a flow's scalars, whose formulas `require_formulas` has seen. Compiled at the first use.

    Memory: the coordinates that the formulas have.
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
