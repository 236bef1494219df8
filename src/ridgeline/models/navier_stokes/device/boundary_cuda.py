"""What the sides of the mesh add to fields in GPU memory: the twins of `navier_stokes.boundary_terms`.

Dirichlet values lie on the device. Surface integrals are computed by the host, so that sides of all kinds have one
code: the elements at sides, which are few, travel there and back once or twice a step.

The kernels take flat fields, float64, of `stride` points each, and elements, int32, of `cube` points each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.elements.device.gather_scatter_cuda import field_count
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.jit.cuda_device import SIMULATED, flat, fma, kernel, load, store
from ridgeline.krylov.device.inner_cuda import CudaWorkspace
from ridgeline.krylov.operator import timed
from ridgeline.models.navier_stokes.boundary_terms import Boundaries, DirichletValues
from ridgeline.models.navier_stokes.problem import DIRICHLET, Array, FlowProblem
from ridgeline.models.navier_stokes.time_stepping import StepCoefficients

THREADS = 8 if SIMULATED else 256


@kernel(THREADS)
def write_points(places, values, out):
    """out[places] = values; places: int64. Launch ceil(places / THREADS) x THREADS."""
    i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < places.size:
        store(out, load(places, i), load(values, i))


@kernel(THREADS)
def take_elements(elements, cube, stride, fields, packed):
    """packed[c, e] = element elements[e] of field c. Launch (elements, components) x THREADS."""
    e, c = cuda.blockIdx.x, cuda.blockIdx.y
    source = c * stride + load(elements, e) * cube
    target = (c * elements.size + e) * cube
    for i in range(cuda.threadIdx.x, cube, THREADS):
        store(packed, target + i, load(fields, source + i))


@kernel(THREADS)
def add_elements(elements, cube, stride, scale, packed, fields):
    """Element elements[e] of field c += scale packed[c, e]. Launch (elements, components) x THREADS."""
    e, c = cuda.blockIdx.x, cuda.blockIdx.y
    target = c * stride + load(elements, e) * cube
    source = (c * elements.size + e) * cube
    for i in range(cuda.threadIdx.x, cube, THREADS):
        store(fields, target + i, fma(scale, load(packed, source + i), load(fields, target + i)))


def elements_at_sides(geometry: ElementGeometry, problem: FlowProblem) -> NDArray[np.int64]:
    """Return this rank's elements that have a face with a surface integral, int64, ascending."""
    names = {*problem.sides_of(*DIRICHLET, "outflow")}
    for scalar in problem.scalars:
        names |= {
            name for name, side in scalar.sides.items() if side.kind == "flux" and side.value is not None
        }
    elements = [geometry.sides[name].elements for name in sorted(names)]
    return np.unique(np.concatenate([np.empty(0, np.int64), *elements]))


class ElementPack:
    """Some elements of up to `components` fields, one behind the other, on the device and in pinned memory.

    elements: numbers of elements of this rank, int64; shape: of a field, [E, n, n, n]. order: the elements on the
    device, int32. Memory: their points, twice.
    """

    def __init__(self, elements: NDArray[np.int64], shape: tuple[int, ...], components: int) -> None:
        self.elements, self.count, self._shape = elements, elements.size, shape
        self._cube, self._stride = int(np.prod(shape[1:])), int(np.prod(shape))
        if self.count:
            size = components * self.count * self._cube
            self.order = cuda.to_device(elements.astype(np.int32))
            self._packed, self._pinned = (
                cuda.device_array(size, np.float64),
                cuda.pinned_array(size, np.float64),
            )

    def take(self, fields: Any) -> None:
        """Copy the elements of fields [c, E, n, n, n] or [E, n, n, n] of the device into the pack."""
        if self.count:
            take_elements[(self.count, field_count(fields)), THREADS](
                self.order, self._cube, self._stride, flat(fields), self._packed
            )

    def add(self, scale: float, fields: Any) -> None:
        """Add scale times the pack to the elements of fields of the device."""
        if self.count:
            add_elements[(self.count, field_count(fields)), THREADS](
                self.order, self._cube, self._stride, scale, self._packed, flat(fields)
            )

    def fetch(self, fields: Any) -> Array:
        """Return the elements of fields of the device on the host, [c, m, n, n, n], valid until the next call."""
        shape = (field_count(fields), self.count, *self._shape[1:])
        if not self.count:
            return np.empty(shape)
        self.take(fields)
        size = int(np.prod(shape))
        self._packed[:size].copy_to_host(self._pinned[:size])
        return np.asarray(self._pinned[:size]).reshape(shape)

    def move(self, host: Array, fields: Any) -> None:
        """Add the elements of fields of the host to those of the device, and set them to zero on the host."""
        if not self.count:
            return
        here = host.reshape(-1, *self._shape)
        size = len(here) * self.count * self._cube
        self._pinned[:size] = here[:, self.elements].reshape(-1)
        self._packed[:size].copy_to_device(self._pinned[:size])
        self.add(1.0, fields)
        here[:, self.elements] = 0.0


class CudaDirichletValues:
    """`DirichletValues` of the host, with places and values on the device too. stride: points of a field."""

    def __init__(self, host: DirichletValues, stride: int) -> None:
        self.host, self.points, self.nonzero, self.steady = host, host.points, host.nonzero, host.steady
        places = [points + c * stride for c, points in enumerate(host.points)]
        self._count = sum(points.size for points in places)
        if self._count:
            self._places = cuda.to_device(np.concatenate(places))
            self._values = cuda.to_device(np.zeros(self._count))

    def refresh(self) -> None:
        """Copy the values of the host to the device."""
        if self._count:
            self._values.copy_to_device(np.concatenate(self.host.values))

    def write(self, fields: Any) -> None:
        """Write the values into fields [c, E, n, n, n] of the device."""
        if self._count:
            write_points[-(-self._count // THREADS), THREADS](self._places, self._values, flat(fields))


class CudaDirichletLift:
    """k K + b_0/dt B applied to the Dirichlet values, in GPU memory: the twin of `solves.DirichletLift`.

    operator: a `CudaElementOperator`; work: that of the solve, whose buffers are free before it begins.
    """

    def __init__(self, operator: Any, dirichlet: CudaDirichletValues, work: CudaWorkspace) -> None:
        self._operator, self._dirichlet, self._work = operator, dirichlet, work
        elements = dirichlet.host.elements if dirichlet.nonzero else np.empty(0, np.int64)
        self._lifted = ElementPack(elements, operator.grid.shape, len(dirichlet.points))
        self._shift = 0.0  # b_0/dt for which the pack was computed

    def subtract(self, weak: Any) -> None:
        if not self._lifted.count:
            return
        operator, shift = self._operator, self._operator.h2
        if shift != self._shift or not self._dirichlet.steady:
            values, out = (self._work(f"helmholtz {name}", weak.shape) for name in ("residual", "left"))
            operator.inner.set_zero(values)
            self._dirichlet.write(values)
            with timed(operator.regions, "helmholtz"):
                operator.apply_elements(self._lifted.order, 0, self._lifted.count, values, out)
                self._lifted.take(out)
            self._shift = shift
        self._lifted.add(-1.0, weak)


class CudaBoundaries:
    """All sides of a problem on this rank: `Boundaries` of the host for fields in GPU memory."""

    def __init__(self, host: Boundaries, geometry: ElementGeometry, problem: FlowProblem) -> None:
        shape, stride = geometry.grid.shape, geometry.grid.n_points
        self._host, self._problem = host, problem
        self.velocity = CudaDirichletValues(host.velocity, stride)
        self.scalars = [CudaDirichletValues(values, stride) for values in host.scalars]
        self.pressure_points, self.flux = host.pressure_points, host.flux
        self._fluxes = any(
            side.kind == "flux" and side.value is not None
            for scalar in problem.scalars
            for side in scalar.sides.values()
        )
        self._sees_flow = any(side.sees_flow for each in problem.scalars for side in each.sides.values())
        c = 3 + len(problem.scalars)
        self._near = ElementPack(elements_at_sides(geometry, problem), shape, c)
        # Only the elements at sides are ever touched in these: the others take no memory.
        self._fields, self._right = np.zeros((c, *shape)), np.zeros((c, *shape))
        self._updated = False

    def update(self, time: float) -> None:
        self._host.update(time)
        for values in (self.velocity, *self.scalars):
            if not (self._updated and values.steady):
                values.refresh()
        self._updated = True

    def record(self, velocity: Any) -> None:
        if self._host.sides:
            self._fields[:3, self._near.elements] = self._near.fetch(velocity)
            self._host.record(self._fields[:3])

    def add_pressure_terms(self, at: StepCoefficients, b: Any) -> None:
        if self._host.sides:
            self._host.add_pressure_terms(at, self._right[0])
            self._near.move(self._right[0], b)

    def add_backflow(self, ahead: Sequence[tuple[float, Any]], right: Any) -> None:
        if not self._problem.sides_of("outflow"):
            return
        self._host.add_backflow([(1.0, self._sum(ahead, 3))], self._right[:3])
        self._near.move(self._right[:3], right)

    def _sum(self, ahead: Sequence[tuple[float, Any]], components: int) -> Array:
        """Return the sum of products of factors and fields at the sides, on the host, [components, E, n, n, n]."""
        elements, total = self._near.elements, self._fields[:components]
        total[:, elements] = 0.0
        for factor, fields in ahead:
            total[:, elements] += factor * self._near.fetch(fields)
        return total

    def add_scalar_fluxes(self, time: float, ahead: Sequence[tuple[float, Any]], right: Any) -> None:
        if self._fluxes:
            flow = [(1.0, self._sum(ahead, len(self._fields)))] if self._sees_flow else []
            self._host.add_scalar_fluxes(time, flow, self._right)
            self._near.move(self._right, right)
