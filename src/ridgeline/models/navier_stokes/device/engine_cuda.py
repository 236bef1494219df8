"""Navier-Stokes on one NVIDIA GPU per rank: fields, solves and steps stay in device memory.

The twin of `engine_cpu`, with the same steps (`engine.SplittingEngine`): `CudaElementKernels` binds the kernels to
the geometry of this rank's elements, and `CudaEngine` gives them to the steps.

The host has one copy of the fields and the pressure, for input, output, diagnostics and checkpoints, which is brought
up to date when it is asked for. Kernels go to the default stream, and so do the events that time its regions. The
host waits for sums only, and once a step for the events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from ridgeline.elements.courant import inverse_spacing
from ridgeline.elements.device.advection_cuda import CudaAdvection
from ridgeline.elements.device.courant_cuda import largest, make_courant
from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter, field_count
from ridgeline.elements.device.gather_scatter_cuda import device_bytes as gather_bytes
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.helmholtz_cuda import THREADS
from ridgeline.elements.device.operator_cuda import CudaElementOperator
from ridgeline.elements.device.schwarz_cuda import CudaSchwarzMultigrid
from ridgeline.elements.device.schwarz_cuda import device_bytes as multigrid_bytes
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.jit.cuda_device import flat
from ridgeline.krylov.device.inner_cuda import CudaInnerProduct, CudaWorkspace
from ridgeline.krylov.operator import Jacobi, Preconditioner
from ridgeline.krylov.projection import Projection
from ridgeline.models.navier_stokes.boundary_terms import Boundaries
from ridgeline.models.navier_stokes.device.boundary_cuda import (
    CudaBoundaries,
    CudaDirichletLift,
    CudaDirichletValues,
    elements_at_sides,
)
from ridgeline.models.navier_stokes.device.kernels_cuda import (
    make_filter,
    make_force_divergence,
    make_linear_sources,
    make_momentum,
    make_right_hand_side,
)
from ridgeline.models.navier_stokes.device.regions_cuda import DeviceRegions
from ridgeline.models.navier_stokes.device.sources_cuda import CudaSources, require_kernels
from ridgeline.models.navier_stokes.device_memory import DeviceParts, device_bytes
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.problem import Array, FlowProblem, bubble_filter
from ridgeline.models.navier_stokes.solves import schwarz_multigrid
from ridgeline.models.navier_stokes.time_stepping import levels_of_kernel
from ridgeline.parallel.devices import mpi_takes_device_buffers, require_device_memory, select_device
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class CudaElementKernels:
    """The element operators of a step in the memory of this rank's GPU: the twin of `engine_cpu.ElementKernels`.

    No communication. All results are those of each element by itself ("unassembled"). Kernels go to the stream of the
    geometry's gather-scatter; a call allocates nothing. Fields are contiguous device arrays, float64, [E, n, n, n] or
    [c, E, n, n, n]. advection(velocity, fields, out): see `CudaAdvection`. every: all elements, as (first, end).

    Raises DeviceError for dealiasing that GPUs have no kernel for.
    """

    def __init__(self, geometry: CudaGeometry, problem: FlowProblem) -> None:
        n, aligned = geometry.n, geometry.axis_aligned
        self.geometry, self.stream = geometry, geometry.stream
        self._order, self._count = geometry.gather.order, geometry.gather.n_elements
        self._block = n, n, geometry.layout.elements
        self.every = 0, self._count
        self.advection = CudaAdvection(geometry, problem.dealias_points)
        self._right_hand_side = make_right_hand_side(n, aligned)
        self._force_divergence = make_force_divergence(n, aligned)
        self._momentum = make_momentum(n, aligned)
        points = gauss_lobatto(n)[0]
        self._courant = make_courant(n, aligned)
        self._spacing = cuda.to_device(inverse_spacing(points))
        self._maxima = cuda.device_array(self._grid(self._count) + 1, np.float64)  # then that of all
        self._maximum, self._seen = cuda.pinned_array(1, np.float64), cuda.event()
        self._filter: Any = None
        if problem.filter_weight:
            self._filter = make_filter(n)
            matrix = bubble_filter(points, problem.filter_weight, problem.filter_modes)
            self._filter_matrix = cuda.to_device(np.ascontiguousarray(matrix).reshape(-1))
        self._linear_sources = make_linear_sources(n, aligned)
        if problem.buoyant:
            factors, references = problem.buoyancy_factors()
            self._buoyancy = tuple(map(cuda.to_device, (factors.reshape(-1), references)))
        gradients = np.array([scalar.mean_gradient for scalar in problem.scalars]).reshape(-1)
        self.has_gradients = bool(gradients.any())
        if self.has_gradients:
            self._gradients = cuda.to_device(gradients), cuda.to_device(np.zeros(3))

    def _grid(self, elements: int) -> int:
        return self.geometry.layout.blocks(elements)

    def right_hand_side(
        self,
        part: tuple[int, int],
        coefficients: tuple[Array, Array],
        force: Any,
        fields: Sequence[Any],
        rates: Sequence[Any],
        out: Any,
    ) -> None:
        """Set elements order[first:end] of out [c, E, n, n, n] to the known side of a step. part: (first, end).

        out = -a . rates - mass (b . fields - force). coefficients: a and b of `StepCoefficients`; force: [c], device;
        fields, rates: of the existing levels, newest first, see `TimeLevels`. The coefficients of other levels are 0.
        """
        first, end = part
        if end <= first:
            return
        a, b = coefficients
        flat_levels = [flat(level) for levels in (fields, rates) for level in levels_of_kernel(levels)]
        count, (_, mass, weights) = field_count(out), self.geometry.metric
        self._right_hand_side[self._grid(end - first) * count, self._block, self.stream](
            self._order,
            first,
            end,
            count,
            tuple((-a).tolist()),
            tuple(b.tolist()),
            force,
            *flat_levels,
            mass,
            weights,
            flat(out),
        )

    def force_divergence(self, force: Any, inverse_mass: Any, out: Any) -> None:
        """Set out [E, n, n, n] to (grad q, inverse_mass force); force: an assembled weak vector [3, E, n, n, n]."""
        self._force_divergence[self._grid(self._count), self._block, self.stream](
            self._order,
            0,
            self._count,
            flat(force),
            flat(inverse_mass),
            *self.geometry.metric,
            self.geometry.derivative,
            flat(out),
        )

    def momentum(self, part: tuple[int, int], p: Any, force: Any, share: Any, out: Any) -> None:
        """Set elements order[first:end] of out [3, E, n, n, n] to share force - mass grad p. part: (first, end)."""
        first, end = part
        if end <= first:
            return
        self._momentum[self._grid(end - first), self._block, self.stream](
            self._order,
            first,
            end,
            flat(p),
            flat(force),
            flat(share),
            *self.geometry.metric,
            self.geometry.derivative,
            flat(out),
        )

    def subtract_buoyancy(self, fields: Any, rates: Any) -> None:
        """Subtract the weak buoyancy of the scalars from the rates [3 + S, E, n, n, n] of fields of the same shape.

        The rates hold advection less sources. Only for a problem with buoyancy.
        """
        points = 3 * self.geometry.points
        self._add_linear(self._buoyancy, flat(fields)[points:], flat(rates)[:points])

    def subtract_mean_gradients(self, fields: Any, rates: Any) -> None:
        """Subtract the source -u.G of each scalar's mean gradient G from the rates [3 + S, E, n, n, n] of fields.

        Only for a problem with mean gradients, see `has_gradients`.
        """
        points = 3 * self.geometry.points
        self._add_linear(self._gradients, flat(fields)[:points], flat(rates)[points:])

    def _add_linear(self, factors: tuple[Any, Any], fields: Any, out: Any) -> None:
        _, mass, weights = self.geometry.metric
        self._linear_sources[self._grid(self._count), self._block, self.stream](
            self._order, 0, self._count, *factors, fields, mass, weights, out
        )

    def courant(self, velocity: Any) -> float:
        """Return max(|u_r| / dr + |u_s| / ds + |u_t| / dt) over this rank's points: the Courant number over dt.

        velocity: [3, E, n, n, n]. The host waits for the result.
        """
        grid = self._grid(self._count)
        self._courant[grid, self._block, self.stream](
            self._order, 0, self._count, flat(velocity), self.geometry.metric[0], self._spacing, self._maxima
        )
        number = self._maxima[grid:]
        largest[1, THREADS, self.stream](self._maxima, grid, number)
        number.copy_to_host(self._maximum, stream=self.stream)
        self._seen.record(self.stream)
        self._seen.synchronize()
        return float(self._maximum[0])

    def filter(self, fields: Any) -> None:
        """Apply the explicit filter in all directions to fields [c, E, n, n, n], in place."""
        count = field_count(fields)
        self._filter[self._grid(self._count) * count, self._block, self.stream](
            self._order, 0, self._count, count, self._filter_matrix, flat(fields)
        )


class CudaEngine(SplittingEngine):
    """Velocity, pressure and scalars of this rank's elements on its GPU. Built collectively.

    Parameters and attributes are those of `engine_cpu.CpuEngine`, and so is the ConfigError that it raises. Raises
    DeviceError for sources that are not formulas, if this rank has no GPU, and, with the sum, if its memory is too
    small.
    """

    regions: DeviceRegions
    kernels: CudaElementKernels
    gather: CudaGatherScatter
    inner: CudaInnerProduct
    _workspace: CudaWorkspace

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        problem: FlowProblem,
        regions: Regions | None = None,
        geometry: ElementGeometry | None = None,
    ) -> None:
        require_kernels(problem)
        timed = DeviceRegions(Regions() if regions is None else regions)
        super().__init__(comm, grid, problem, timed, geometry)
        self.device = select_device(comm)
        assembled, host_inner, host_boundaries = self._host_parts()
        self._multigrid = None
        if problem.pressure.preconditioner == "schwarz":
            self._multigrid = schwarz_multigrid(comm, self.geometry, problem, self.regions)
        self._memory = device_bytes(self._parts(host_boundaries), problem)
        advice = "Use more GPUs (-n), fewer grid.elements, or a smaller model.projection or model.pressure.restart."
        require_device_memory(comm, self.device, self._memory, advice)
        self.gather = CudaGatherScatter(
            comm, self.host_gather.plan, mpi_takes_device_buffers(), fields=self.n_fields
        )
        self._device_geometry = CudaGeometry(self.geometry, self.gather)
        self.inner = CudaInnerProduct(host_inner)
        self.inverse_mass = cuda.to_device((1.0 / assembled).reshape(-1))
        self.kernels = CudaElementKernels(self._device_geometry, problem)
        self._sources = CudaSources(self._device_geometry, problem)
        self.boundaries = CudaBoundaries(host_boundaries, self.geometry, problem)
        self._make_fields()
        self._host = [np.zeros((self.n_fields, *grid.shape)) for _ in range(problem.time_order)]
        self._host_p = np.zeros(grid.shape)
        self._host_known = np.zeros((self.n_fields, *grid.shape))
        self._copied = 0  # levels that the host has up to date, with the pressure
        self._spaces: dict[int, tuple[Projection, dict[str, Array]]] = {}  # copies for a checkpoint
        self._workspace = CudaWorkspace()
        self._make_solves()

    def _parts(self, boundaries: Boundaries) -> DeviceParts:
        """Return the sizes of what this rank keeps on the device."""
        values = [boundaries.velocity, *boundaries.scalars]
        return DeviceParts(
            n=self.grid.n,
            elements=self.grid.n_elements,
            axis_aligned=self.geometry.axis_aligned,
            at_sides=elements_at_sides(self.geometry, self.problem).size,
            lifted=sum(len(each.points) * each.elements.size for each in values if each.nonzero),
            given=sum(points.size for each in values for points in each.points),
            free_pressure=boundaries.pressure_points.size,
            gather=gather_bytes(self.host_gather.plan, self.n_fields),
            multigrid=0 if self._multigrid is None else multigrid_bytes(self._multigrid),
        )

    def _operator(
        self, h1: float, h2: float, constrained: Any, nullspace: bool = False
    ) -> CudaElementOperator:
        return CudaElementOperator(
            self.comm,
            self.grid,
            self._device_geometry,
            self.gather,
            h1,
            h2,
            constrained,
            inner=self.inner,
            nullspace=nullspace,
            regions=self.regions,
        )

    def _lift(self, operator: CudaElementOperator, dirichlet: CudaDirichletValues) -> CudaDirichletLift:
        return CudaDirichletLift(operator, dirichlet, self._workspace)

    def _preconditioner(self, operator: CudaElementOperator) -> Preconditioner | None:
        if self._multigrid is not None:
            return CudaSchwarzMultigrid(self._multigrid, mpi_takes_device_buffers())
        jacobi = self.problem.pressure.preconditioner == "jacobi"
        return Jacobi(operator.inverse_diagonal(), self.inner) if jacobi else None

    @property
    def fields(self) -> Array:
        self._update_host(1)
        return self._host[0]

    @property
    def p(self) -> Array:
        self._update_host(1)
        return self._host_p

    def host_known_side(self) -> Array:
        self._right.copy_to_host(self._host_known)
        return self._host_known

    def host_levels(self) -> Sequence[Array]:
        self._update_host(len(self._host))
        return self._host

    def host_space(self, projection: Projection) -> dict[str, Array]:
        fields: dict[str, Any] = projection.fields()
        copies = {name: rows.copy_to_host() for name, rows in fields.items()}
        self._spaces[id(projection)] = projection, copies
        return copies

    def _update_host(self, count: int) -> None:
        """Copy what the host lacks of the newest levels."""
        if not self._copied:
            self._p.copy_to_host(self._host_p)
        for back in range(self._copied, count):
            self.time_levels.fields[back].copy_to_host(self._host[back])
        self._copied = max(self._copied, count)

    def _load_host(self) -> None:
        self._p.copy_to_device(self._host_p)
        self._right.copy_to_device(self._host_known)
        for level, host in zip(self.time_levels.fields, self._host):
            level.copy_to_device(host)
        self._copied = len(self._host)
        for projection, copies in self._spaces.values():
            fields: dict[str, Any] = projection.fields()
            for name, rows in fields.items():
                rows.copy_to_device(copies[name])
        self._spaces.clear()

    def start(
        self, fields: Array, time: float = 0.0, history: Sequence[Array] = (), dt: float | None = None
    ) -> None:
        self._copied = 0
        super().start(fields, time, history, dt)
        self.regions.collect()

    def resume(self, shift: float, order: int, force: float, stepped: bool, scalars_stepped: bool) -> None:
        super().resume(shift, order, force, stepped, scalars_stepped)
        self.regions.collect()

    def advance(self, dt: float | None = None, until: float = math.inf) -> None:
        self._copied = 0
        self._spaces.clear()
        super().advance(dt, until)

    def _zeros(self, *leading: int) -> Any:
        return cuda.to_device(np.zeros((*leading, *self.grid.shape)))

    def _numbers(self, values: Sequence[float]) -> Any:
        return cuda.to_device(np.array(values))

    def _put(self, values: Any, out: Any) -> None:
        out.copy_to_device(np.ascontiguousarray(values) if isinstance(values, np.ndarray) else values)

    def _average(self, fields: Any) -> None:
        self.gather.sum(fields)
        c = len(fields)
        self.inner.cg_direction(fields, self.inner.weights, np.zeros(c), fields, range(c))

    def _gather_computed(self, weak: Any, compute: Callable[[tuple[int, int]], None]) -> None:
        self.gather.sum_computed(weak, lambda first, end: compute((first, end)))

    def _subtract_sources(self, fields: Any, time: float, rates: Any) -> None:
        if self.kernels.has_gradients:
            with self.regions("other"):
                self.kernels.subtract_mean_gradients(fields, rates)
        if self._sources:
            with self.regions("other"):
                self._sources.subtract(fields, time, rates)

    def courant_rate(self) -> float:
        rate = super().courant_rate()
        self.regions.collect()
        return rate

    def describe(self) -> str:
        return f"fields and steps on {self.device}; surface integrals, diagnostics and outputs on the host"

    def memory(self) -> dict[str, int]:
        """Return the bytes on this rank's device, by what they are for, as counted before they were allocated."""
        return {name: int(size) for name, size in self._memory.items()}
