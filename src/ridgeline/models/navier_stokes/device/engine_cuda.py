"""Navier-Stokes on one NVIDIA GPU per rank: fields, solves and steps stay in device memory.

The twin of `engine_cpu.CpuEngine`, with the same steps (`engine.SplittingEngine`). The host has one copy of fields
and pressure, for input, output, figures and checkpoints, brought up to date when it is asked for. Kernels go to the
default stream, and so do the events that time its regions. The host waits for sums only, and once a step for the
events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import cuda

from ridgeline.elements.device.gather_scatter_cuda import CudaGatherScatter
from ridgeline.elements.device.gather_scatter_cuda import device_bytes as gather_bytes
from ridgeline.elements.device.geometry_cuda import CudaGeometry
from ridgeline.elements.device.operator_cuda import CudaElementOperator
from ridgeline.elements.device.schwarz_cuda import CudaSchwarzMultigrid
from ridgeline.elements.device.schwarz_cuda import device_bytes as multigrid_bytes
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
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
from ridgeline.models.navier_stokes.device.element_kernels_cuda import CudaElementKernels
from ridgeline.models.navier_stokes.device.memory import DeviceParts, device_bytes
from ridgeline.models.navier_stokes.device.regions_cuda import DeviceRegions
from ridgeline.models.navier_stokes.device.sources_cuda import CudaSources, require_formulas
from ridgeline.models.navier_stokes.engine import SplittingEngine
from ridgeline.models.navier_stokes.pressure import schwarz_multigrid
from ridgeline.models.navier_stokes.problem import Array, FlowProblem
from ridgeline.parallel.devices import mpi_takes_device_buffers, require_device_memory, select_device
from ridgeline.runtime.regions import Regions

if TYPE_CHECKING:
    from mpi4py import MPI


class CudaEngine(SplittingEngine):
    """Velocity, pressure and scalars of this rank's elements on its GPU. Built collectively.

    Parameters and attributes are those of `engine_cpu.CpuEngine`. Raises ConfigError as that does. Raises DeviceError
    for what `require_formulas` names, if this rank has no GPU, and, with the sum, if its memory is too small.
    """

    regions: DeviceRegions
    kernels: CudaElementKernels
    gather: CudaGatherScatter
    inner: CudaInnerProduct

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        problem: FlowProblem,
        regions: Regions | None = None,
        geometry: ElementGeometry | None = None,
    ) -> None:
        require_formulas(problem.scalars)
        timed = DeviceRegions(Regions() if regions is None else regions)
        super().__init__(comm, grid, problem, timed, geometry)
        self.device = select_device(comm)
        assembled, host_inner, host_boundaries = self._host_parts()
        self._multigrid = None
        if problem.pressure.preconditioner == "schwarz":
            self._multigrid = schwarz_multigrid(comm, self.geometry, problem, self.regions)
        self._memory = device_bytes(self._parts(host_boundaries), problem)
        advice = (
            "use more GPUs (-n), fewer grid.elements, or a smaller model.projection or model.pressure.restart"
        )
        require_device_memory(comm, self.device, self._memory, advice)
        self.gather = CudaGatherScatter(
            comm, self.host_gather.plan, mpi_takes_device_buffers(), fields=self.n_fields
        )
        self._device_geometry = CudaGeometry(self.geometry, self.gather)
        self.inner = CudaInnerProduct(host_inner)
        self.inverse_mass = cuda.to_device((1.0 / assembled).reshape(-1))
        self.kernels = CudaElementKernels(self._device_geometry, problem)
        self._sources = CudaSources(self._device_geometry, problem.scalars)
        self.boundaries = CudaBoundaries(host_boundaries, self.geometry, problem)
        self._make_fields()
        self._host = [np.zeros((self.n_fields, *grid.shape)) for _ in range(problem.time_order)]
        self._host_p = np.zeros(grid.shape)
        self._copied = 0  # levels that the host has as they are, with the pressure
        self._spaces: dict[int, tuple[Projection, dict[str, Array]]] = {}  # of a checkpoint
        self._workspace = CudaWorkspace()
        self._make_solves()

    def _parts(self, boundaries: Boundaries) -> DeviceParts:
        """Return what of this rank's mesh takes memory on the device."""
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
            self.comm, self.grid, self._device_geometry, self.gather, h1, h2, constrained, inner=self.inner,
            nullspace=nullspace, regions=self.regions,
        )  # fmt: skip

    def _lift(self, operator: CudaElementOperator, dirichlet: CudaDirichletValues) -> CudaDirichletLift:
        return CudaDirichletLift(operator, dirichlet, self._workspace)

    def _preconditioner(self, operator: CudaElementOperator) -> Preconditioner | None:
        if self._multigrid is not None:
            return CudaSchwarzMultigrid(self._multigrid, mpi_takes_device_buffers())
        jacobi = self.problem.pressure.preconditioner == "jacobi"
        return Jacobi(operator.inverse_diagonal(), self.inner) if jacobi else None

    @property
    def fields(self) -> Array:
        """The host's copy of velocity and scalars, [3 + S, E, n, n, n], brought up to date."""
        self._bring(1)
        return self._host[0]

    @property
    def p(self) -> Array:
        """The host's copy of the pressure, [E, n, n, n], brought up to date."""
        self._bring(1)
        return self._host_p

    def host_levels(self) -> Sequence[Array]:
        """Return the host's copies of the fields of all levels, newest first, brought up to date."""
        self._bring(len(self._host))
        return self._host

    def host_space(self, projection: Projection) -> dict[str, Array]:
        """Return copies of the fields of a projection, by name; what is written there counts after `resume`."""
        fields: dict[str, Any] = projection.fields()
        copies = {name: rows.copy_to_host() for name, rows in fields.items()}
        self._spaces[id(projection)] = projection, copies
        return copies

    def _bring(self, count: int) -> None:
        """Copy what the host lacks of the newest levels."""
        if not self._copied:
            self._p.copy_to_host(self._host_p)
        for back in range(self._copied, count):
            self.time_levels.fields[back].copy_to_host(self._host[back])
        self._copied = max(self._copied, count)

    def _take_over(self) -> None:
        self._p.copy_to_device(self._host_p)
        for level, found in zip(self.time_levels.fields, self._host):
            level.copy_to_device(found)
        self._copied = len(self._host)
        for projection, copies in self._spaces.values():
            fields: dict[str, Any] = projection.fields()
            for name, rows in fields.items():
                rows.copy_to_device(copies[name])
        self._spaces.clear()

    def start(
        self, fields: Array, time: float = 0.0, history: Sequence[Array] = (), dt: float | None = None
    ) -> None:
        """Begin at `time`, as `SplittingEngine.start` does. Collective."""
        self._copied = 0
        super().start(fields, time, history, dt)
        self.regions.collect()

    def resume(self, shift: float, order: int, force: float) -> None:
        """Continue from what was put in place, as `SplittingEngine.resume` does. Collective."""
        super().resume(shift, order, force)
        self.regions.collect()

    def advance(self, dt: float | None = None) -> None:
        """Advance by one time step, as `SplittingEngine.advance` does. Collective."""
        self._copied = 0
        self._spaces.clear()
        super().advance(dt)

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

    def _gather_computed(self, weak: Any, compute: Callable[..., None]) -> None:
        self.gather.sum_computed(weak, compute)

    def _subtract_sources(self, fields: Any, time: float, rates: Any) -> None:
        if self.kernels.has_gradients:
            with self.regions("other"):
                self.kernels.subtract_mean_gradients(fields, rates)
        if self._sources:
            with self.regions("other"):
                self._sources.subtract(time, rates)

    def courant_rate(self) -> float:
        """Return what `SplittingEngine.courant_rate` does, and charge the regions that it ends. Collective."""
        rate = super().courant_rate()
        self.regions.collect()
        return rate

    def describe(self) -> str:
        """Return how fields are computed, in words."""
        return f"fields and steps on {self.device}; surface integrals, figures and outputs by the host"

    def memory(self) -> dict[str, int]:
        """Return the bytes on this rank's device, by what they are for."""
        return {name: int(size) for name, size in self._memory.items()}
