"""What the sides of the mesh contribute to the equations on this rank: Dirichlet values, surface integrals, fluxes.

    DirichletValues      the values of fields at constrained points
    PressureSideTerms    the surface integrals of the pressure equation at one side
    Boundaries           all sides of a problem, as a step uses them

The terms and their names are those of reference.py. Only faces at sides are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry, Side
from ridgeline.elements.hexahedron import face_index
from ridgeline.elements.mesh import ElementGrid
from ridgeline.models.navier_stokes.kernels import make_face_derivatives
from ridgeline.models.navier_stokes.problem import (
    DIRICHLET,
    LEAK,
    Array,
    FlowProblem,
    smallest_spacing,
    vorticity_order,
)
from ridgeline.models.navier_stokes.time_stepping import StepCoefficients, extrapolation
from ridgeline.parallel.allreduce import allreduce_min
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

Indices = NDArray[np.int64]
FLAT = 1e-8  # the normals of a plane side differ by less than this


class DirichletValues:
    """The values of fields at constrained points.

    points: int64 [m_c] for each component, sorted positions in a flat field; values: float64 [m_c] for each, as
    `Boundaries.update` last set them; nonzero: whether values can differ from 0; steady: whether they never change;
    elements: int64, the elements with a constrained point.
    """

    def __init__(self, grid: ElementGrid, points: Sequence[Indices]) -> None:
        self.points = list(points)
        self.values = [np.zeros(len(p)) for p in self.points]
        every = np.concatenate(self.points) if self.points else np.empty(0, np.int64)
        self.elements = np.unique(every // grid.n**3)
        self.nonzero = False
        self.steady = True

    def put(self, component: int, places: Indices, values: Array | float) -> None:
        """Set the values of one component at some of its points."""
        at = np.searchsorted(self.points[component], places.ravel())
        self.values[component][at] = np.broadcast_to(values, places.shape).ravel()

    def write(self, fields: Array) -> None:
        """Write the values into fields [c, E, n, n, n]."""
        for field, points, values in zip(fields, self.points, self.values):
            field.reshape(-1)[points] = values


class _FacePart(NamedTuple):
    """The faces of one kind, 0 ... 5, of a side: the arguments of the kernel of `make_face_derivatives`."""

    elements: Indices
    strides: Indices
    end_row: Array
    derivatives: Array


def _face_strides(face: int, n: int) -> Indices:
    """Return where a face begins in an element, and the strides across it, along its slow and its fast direction."""
    steps = (n * n, n, 1)  # from a point to the next along z, y, x
    axis = 2 - face // 2
    first, second = (a for a in range(3) if a != axis)
    return np.array([(n - 1) * steps[axis] * (face % 2), steps[axis], steps[first], steps[second]], np.int64)


class PressureSideTerms:
    """The surface integrals of the pressure equation at one Dirichlet side.

    It keeps the vorticity on the faces of the side at the time levels, latest first.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        name: str,
        levels: int,
        overlap: bool,
    ) -> None:
        self.side: Side = geometry.sides[name]
        self.elements = self.side.elements
        n, d = grid.n, geometry.derivative
        self._derive = make_face_derivatives()
        self.derivative = d
        self._parts = [
            _FacePart(
                self.elements[part],
                _face_strides(face, n),
                np.ascontiguousarray(d[-1 if face % 2 else 0]),
                np.zeros((3, 3, part.stop - part.start, n, n)),
            )
            for face, part in self.side.parts
        ]
        self.metrics = self._metrics(geometry)
        self.mass = self.side.take(geometry.mass)
        self.sum = GatherScatter(comm, self.side.take(grid.ids), 3, overlap)
        total = self.mass.copy()
        self.sum.sum(total)
        self.share = self.mass / total
        self.vorticity = [np.zeros((3, len(self.elements), n, n)) for _ in range(levels)]

    def _metrics(self, geometry: ElementGeometry) -> Array:
        """Return d(across, slow, fast)/d(x, y, z) on the faces, [3, 3, f, n, n]."""
        n = len(geometry.weights)
        chosen = np.zeros((3, 3, len(self.elements), n, n))
        for face, part in self.side.parts:
            elements = self.elements[part]
            # Reference directions across and along the face, as rows of the metrics (r along x is row 0).
            rows = (face // 2, *(row for row in (2, 1, 0) if row != face // 2))
            for place, row in enumerate(rows):
                if geometry.axis_aligned:
                    chosen[place, row, part] = geometry.scale[elements, row][:, None, None]
                else:
                    of_row = geometry.metrics[elements, 3 * row : 3 * row + 3].swapaxes(0, 1)
                    chosen[place, :, part] = of_row[(slice(None), *face_index(face))]
        return chosen

    def record(self, velocity: Array) -> None:
        """Keep the vorticity of a velocity [3, E, n, n, n] as that of the newest level. Sums over neighbours."""
        fields = velocity.reshape(3, velocity.shape[1], -1)
        newest = self.vorticity.pop()
        for (_, where), part in zip(self.side.parts, self._parts):
            self._derive(part.elements, part.strides, part.end_row, self.derivative, fields, part.derivatives)
            g = np.einsum("rxfab,crfab->cxfab", self.metrics[:, :, where], part.derivatives)
            for i, (c, x) in enumerate(((2, 1), (0, 2), (1, 0))):
                np.subtract(g[c, x], g[x, c], out=newest[i, where])
        newest *= self.share
        self.sum.sum(newest)
        self.vorticity.insert(0, newest)

    def add_viscous(self, viscosity: float, a: Sequence[float], b: Array) -> None:
        """Subtract nu <grad q, n x w*> from a weak field b [E, n, n, n]. a: coefficients that extrapolate w*."""
        vorticity = sum(c * w for c, w in zip(a, self.vorticity))
        normal = self.side.normal_area.transpose(1, 0, 2, 3)
        tangential = -viscosity * np.cross(normal, vorticity, axis=0)
        along_first, along_second = np.einsum("rxfab,xfab->rfab", self.metrics[1:], tangential)
        d = self.derivative
        self.side.add(d.T @ along_first + along_second @ d, b)


class Boundaries:
    """All sides of a problem on this rank.

    Built collectively. Raises ConfigError for a symmetry side that is not a plane across x, y or z.
    """

    def __init__(
        self, comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, problem: FlowProblem
    ) -> None:
        self._comm, self._grid, self._geometry, self._problem = comm, grid, geometry, problem
        self._points: dict[str, Indices] = {}
        dirichlet = grid.side_points(problem.sides_of(*DIRICHLET))
        velocity = [dirichlet, dirichlet, dirichlet]
        for name in problem.sides_of("symmetry"):
            component = self._normal_component(name)
            velocity[component] = np.union1d(velocity[component], grid.side_points([name]))
        self.velocity = DirichletValues(grid, velocity)
        self.velocity.nonzero = any(problem.sides[s].value is not None for s in problem.sides_of(*DIRICHLET))
        self.pressure_points = grid.side_points(problem.sides_of("outflow"))
        self.scalars = []
        for scalar in problem.scalars:
            fixed = [name for name, side in scalar.sides.items() if side.kind == "fixed"]
            self.scalars.append(DirichletValues(grid, [grid.side_points(fixed)]))
            self.scalars[-1].nonzero = any(scalar.sides[name].value is not None for name in fixed)
        self.sides = [
            PressureSideTerms(comm, grid, geometry, name, problem.time_order, problem.overlap)
            for name in problem.sides_of(*DIRICHLET)
        ]
        self.velocity.steady = all(problem.sides[s].steady for s in problem.sides_of(*DIRICHLET))
        for scalar, values in zip(problem.scalars, self.scalars):
            values.steady = all(side.steady for side in scalar.sides.values() if side.kind == "fixed")
        near = self.velocity.elements[:0]
        if self.sides:
            near = np.unique(np.concatenate([side.elements for side in self.sides]))
        self._spacing = float(allreduce_min(comm, smallest_spacing(geometry.coordinates[:, near])))
        self._updated = False

    def _normal_component(self, name: str) -> int:
        """Return the component (0: x) across a symmetry side. ConfigError if the side is not a plane. Collective."""
        normal = np.abs(self._geometry.sides[name].normal_area).sum(axis=(0, 2, 3))
        total = self._comm.allreduce(normal) if self._comm.size > 1 else normal
        component = int(np.argmax(total))
        if np.delete(total, component).max() > FLAT * total[component]:
            raise ConfigError(
                f'[boundary.{name}] has kind = "symmetry", but the side is not a plane perpendicular to x, y or z, '
                f"which symmetry requires. Use a mesh or a mapping in which the side is flat, or another kind."
            )
        return component

    def _places(self, name: str) -> Indices:
        """Return the positions in a flat field of all copies of the points on a side, ascending."""
        if name not in self._points:
            self._points[name] = self._grid.side_points([name])
        return self._points[name]

    def _at(self, places: Indices) -> tuple[Array, Array, Array]:
        """Return (x, y, z) of the points at positions of a flat field."""
        x, y, z = self._geometry.coordinates.reshape(3, -1)[:, places]
        return x, y, z

    def update(self, time: float) -> None:
        """Compute the Dirichlet values at a time; steady values only the first time."""
        problem = self._problem
        if not (self._updated and self.velocity.steady):
            for name in problem.sides_of(*DIRICHLET):
                side, places = problem.sides[name], self._places(name)
                u = (0.0, 0.0, 0.0) if side.value is None else side.value(*self._at(places), time)
                for component in range(3):
                    self.velocity.put(component, places, u[component])
        for scalar, dirichlet in zip(problem.scalars, self.scalars):
            if self._updated and dirichlet.steady:
                continue
            for name, fixed in scalar.sides.items():
                if fixed.kind == "fixed" and fixed.value is not None:
                    places = self._places(name)
                    dirichlet.put(0, places, fixed.value_at(np.stack(self._at(places)), time, no_flow))
        self._updated = True

    def record(self, velocity: Array) -> None:
        """Keep the vorticity of a new velocity at all sides that need it. Communicates with neighbours."""
        for side in self.sides:
            side.record(velocity)

    def add_pressure_terms(self, at: StepCoefficients, b: Array) -> None:
        """Subtract nu <grad q, n x w*> + b_0/dt <q, n.u> from the weak right-hand side b of a step's pressure."""
        viscosity = self._problem.viscosity
        order = vorticity_order(at.order, viscosity, at.steps[0], self._spacing)
        a = extrapolation(at.steps[:order])
        for side in self.sides:
            side.add_viscous(viscosity, a, b)
            if self.velocity.nonzero:
                side.side.add(-at.shift * self._through(side.side), b)

    def _dirichlet_velocity(self, side: Side) -> Array:
        """Return the velocity at the points of a Dirichlet side, [3, f, n, n]."""
        places = self._grid.side_places(side.name)
        dirichlet = self.velocity
        return np.stack([v[np.searchsorted(p, places)] for p, v in zip(dirichlet.points, dirichlet.values)])

    def _through(self, side: Side) -> Array:
        """Return n.u times area at the points of a Dirichlet side, [f, n, n]."""
        return np.asarray((side.normal_area.swapaxes(0, 1) * self._dirichlet_velocity(side)).sum(axis=0))

    def flux(self) -> tuple[float, float]:
        """Return the integrals of n.u and |u| over all Dirichlet sides. Collective."""
        local = np.zeros(2)
        for side in self.sides:
            speed = np.sqrt((self._dirichlet_velocity(side.side) ** 2).sum(axis=0))
            local += self._through(side.side).sum(), (side.side.area * speed).sum()
        net, size = self._comm.allreduce(local)
        return float(net), float(size)

    def add_backflow(self, ahead: Sequence[tuple[float, Array]], right: Array) -> None:
        """Add <v, min(0, n.u) u> / 2 at outflow sides to weak right-hand sides [3, E, n, n, n].

        ahead: coefficients and velocities whose sum of products is the extrapolated velocity u.
        """
        for name in self._problem.sides_of("outflow"):
            side = self._geometry.sides[name]
            u = np.sum([factor * side.take(velocity) for factor, velocity in ahead], axis=0)
            inwards = np.minimum(0.0, np.einsum("fxab,xfab->fab", side.normal_area, u))
            for component in range(3):
                side.add(0.5 * inwards * u[component], right[component])

    def add_scalar_fluxes(self, time: float, ahead: Sequence[tuple[float, Array]], right: Array) -> None:
        """Add <q, k dT/dn> to the weak right-hand sides [3 + S, E, n, n, n] of the scalars.

        ahead: coefficients and fields [3 + S, ...] whose sum of products is the extrapolated flow.
        """
        for i, scalar in enumerate(self._problem.scalars, start=3):
            for name, condition in scalar.sides.items():
                if condition.kind == "flux" and condition.value is not None:
                    side = self._geometry.sides[name]
                    places = side.take(self._geometry.coordinates)
                    flux = condition.value_at(places, time, partial(_sum_at, side, ahead))
                    side.add(side.area * flux, right[i])


def _sum_at(side: Side, ahead: Sequence[tuple[float, Array]]) -> Array:
    """Return the sum of products of factors and fields at the points of a side, [c, f, n, n]."""
    return np.asarray(np.sum([factor * side.take(fields) for factor, fields in ahead], axis=0))


def no_flow() -> Array:
    """Stand for the flow where a value must not depend on it."""
    raise ValueError("a fixed value depends on the flow")


def require_balance(net: float, size: float) -> None:
    """Raise ConfigError if a `Boundaries.flux` out of a domain without outflow is more than rounding."""
    if abs(net) > LEAK * size:
        raise ConfigError(
            f"the velocities given at the sides carry a net volume flux of {net:.3g} out of the domain, and no side "
            f'can balance it. The net flux must be 0. Make inflow and outflow equal, or set kind = "outflow" on a '
            f"side."
        )
