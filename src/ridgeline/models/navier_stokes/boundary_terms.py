"""What the sides of the box add to the equations on this rank: Dirichlet values, surface integrals, fluxes.

Source of the terms: reference.py, whose names are used here; only faces at sides are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import BoxSide, ElementGeometry
from ridgeline.elements.mesh import ElementGrid, side_axis, side_index
from ridgeline.models.navier_stokes.extrapolation import StepCoefficients
from ridgeline.models.navier_stokes.kernels import make_face_derivatives
from ridgeline.models.navier_stokes.multistep import extrapolation
from ridgeline.models.navier_stokes.problem import (
    DIRICHLET,
    Array,
    FlowProblem,
    smallest_spacing,
    vorticity_order,
)
from ridgeline.parallel.reduce import global_min
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

Indices = NDArray[np.int64]
FLAT = 1e-8  # a side is a plane if its normals differ by less


def side_points(grid: ElementGrid, side: str) -> Indices:
    """Return the places in a flat field [E n n n] of the points of this rank's elements on a side, [f, n, n]."""
    places = np.arange(grid.n_points, dtype=np.int64).reshape(grid.shape)
    return np.asarray(places[side_index(side)][grid.side_elements(side)])


def points_on(grid: ElementGrid, sides: Sequence[str]) -> Indices:
    """Return the sorted distinct places in a flat field of this rank's points on any of some sides."""
    found = [side_points(grid, side).ravel() for side in sides]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


class DirichletValues:
    """Values of fields at constrained points: where they are, what they are at a time.

    points: int64 [m_c] of each component, sorted places in a flat field; values: float64 [m_c] likewise, as
    `update` last set them; nonzero: whether values can differ from 0; steady: whether they do not change;
    elements: int64, those with a constrained point.
    """

    def __init__(self, grid: ElementGrid, points: Sequence[Indices]) -> None:
        self.points = list(points)
        self.values = [np.zeros(len(p)) for p in self.points]
        together = np.concatenate(self.points) if self.points else np.empty(0, np.int64)
        self.elements = np.unique(together // grid.n**3)
        self.nonzero = False
        self.steady = True

    def put(self, component: int, places: Indices, found: Array | float) -> None:
        """Set the values of one component at some of its points."""
        at = np.searchsorted(self.points[component], places.ravel())
        self.values[component][at] = np.broadcast_to(found, places.shape).ravel()

    def write(self, fields: Array) -> None:
        """Write the values into fields [c, E, n, n, n]."""
        for field, points, values in zip(fields, self.points, self.values):
            field.reshape(-1)[points] = values


class PressureSideTerms:
    """Surface integrals of the pressure equation at one Dirichlet side.

    Holds the vorticity on its faces at the levels in time, latest first.
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
        self.side: BoxSide = geometry.sides[name]
        self.elements = self.side.elements
        n = grid.n
        axis, upper = side_axis(name)
        steps = (n * n, n, 1)  # from a point to the next along z, y, x
        first, second = (a for a in range(3) if a != axis)
        start = (n - 1) * steps[axis] if upper else 0
        self.places = np.array([start, steps[axis], steps[first], steps[second]], np.int64)
        self._derive = make_face_derivatives()
        self.derivative = geometry.derivative
        self.end_row = np.ascontiguousarray(geometry.derivative[-1 if upper else 0])
        # Reference directions across and along the face, as rows of the metrics (r along x is row 0).
        self.rows = (2 - axis, 2 - first, 2 - second)
        self.metrics = self._metrics(geometry, name)
        self.mass = geometry.mass[side_index(name)][self.elements]
        self.sum = GatherScatter(comm, grid.ids[side_index(name)][self.elements], 3, overlap)
        total = self.mass.copy()
        self.sum.sum(total)
        self.share = self.mass / total
        self.derivatives = np.zeros((3, 3, len(self.elements), n, n))
        self.vorticity = [np.zeros((3, len(self.elements), n, n)) for _ in range(levels)]

    def _metrics(self, geometry: ElementGeometry, name: str) -> Array:
        """Return d(across, first, second)/d(x, y, z) on the faces, [3, 3, f, n, n]."""
        n = len(geometry.weights)
        chosen = np.zeros((3, 3, len(self.elements), n, n))
        for place, row in enumerate(self.rows):
            if geometry.axis_aligned:
                chosen[place, row] = geometry.scale[self.elements, row][:, None, None]
            else:
                for x in range(3):
                    field = geometry.metrics[:, 3 * row + x]
                    chosen[place, x] = field[side_index(name)][self.elements]
        return chosen

    def record(self, velocity: Array) -> None:
        """Take the vorticity of a velocity [3, E, n, n, n] as that of the newest level. Neighbours."""
        fields = velocity.reshape(3, velocity.shape[1], -1)
        self._derive(self.elements, self.places, self.end_row, self.derivative, fields, self.derivatives)
        newest = self.vorticity.pop()
        g = np.einsum("rxfab,crfab->cxfab", self.metrics, self.derivatives)
        for i, (c, x) in enumerate(((2, 1), (0, 2), (1, 0))):
            np.subtract(g[c, x], g[x, c], out=newest[i])
        newest *= self.share
        self.sum.sum(newest)
        self.vorticity.insert(0, newest)

    def add_viscous(self, viscosity: float, a: Sequence[float], b: Array) -> None:
        """Subtract nu <grad q, n x w*> from a weak field b [E, n, n, n]; a: extrapolation of the levels."""
        vorticity = sum(c * w for c, w in zip(a, self.vorticity))
        normal = self.side.normal_area.transpose(1, 0, 2, 3)
        tangential = -viscosity * np.cross(normal, vorticity, axis=0)
        along_first, along_second = np.einsum("rxfab,xfab->rfab", self.metrics[1:], tangential)
        d = self.derivative
        self.add(d.T @ along_first + along_second @ d, b)

    def add(self, faces: Array, b: Array) -> None:
        """Add values on the faces [f, n, n] to a field [E, n, n, n]."""
        b[self.side.index][self.elements] += faces


class Boundaries:
    """All sides of a problem on this rank.

    Raises ConfigError for a symmetry side that is not a plane along the axes. Raises it too for Dirichlet velocities
    whose flux through all sides is not zero where the flow has no way out. Built collectively.
    """

    def __init__(
        self, comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, problem: FlowProblem
    ) -> None:
        self._comm, self._grid, self._geometry, self._problem = comm, grid, geometry, problem
        dirichlet = points_on(grid, problem.sides_of(*DIRICHLET))
        velocity = [dirichlet, dirichlet, dirichlet]
        for name in problem.sides_of("symmetry"):
            self._refuse_curved(name)
            component = 2 - side_axis(name)[0]
            velocity[component] = np.union1d(velocity[component], points_on(grid, [name]))
        self.velocity = DirichletValues(grid, velocity)
        self.velocity.nonzero = any(problem.sides[s].value is not None for s in problem.sides_of(*DIRICHLET))
        self.pressure_points = points_on(grid, problem.sides_of("outflow"))
        self.scalars = []
        for scalar in problem.scalars:
            fixed = [name for name, side in scalar.sides.items() if side.kind == "fixed"]
            self.scalars.append(DirichletValues(grid, [points_on(grid, fixed)]))
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
        self._spacing = float(global_min(comm, smallest_spacing(geometry.coordinates[:, near])))
        self._updated = False

    def _refuse_curved(self, name: str) -> None:
        side = self._geometry.sides[name]
        normal = side.normal_area / side.area[:, None]
        axis = 2 - side_axis(name)[0]
        bent = float(np.abs(np.delete(normal, axis, axis=1)).max(initial=0.0))
        if self._comm.allreduce(bent > FLAT):
            raise ConfigError(
                f'[boundary.{name}] kind = "symmetry" on a side that is not a plane across {name[0]}: symmetry holds '
                f"for one component of the velocity; use a mapping that keeps the side flat, or another kind"
            )

    def coordinates(self, name: str) -> tuple[Array, Array, Array]:
        """Return (x, y, z) of the points of this rank's faces on a side, [f, n, n] each."""
        x, y, z = self._geometry.sides[name].take(self._geometry.coordinates)
        return x, y, z

    def update(self, time: float) -> None:
        """Compute the Dirichlet values of a time; steady ones only the first time."""
        problem = self._problem
        if not (self._updated and self.velocity.steady):
            for name in problem.sides_of(*DIRICHLET):
                side, places = problem.sides[name], side_points(self._grid, name)
                found = (0.0, 0.0, 0.0) if side.value is None else side.value(*self.coordinates(name), time)
                for component in range(3):
                    self.velocity.put(component, places, found[component])
        for scalar, dirichlet in zip(problem.scalars, self.scalars):
            if self._updated and dirichlet.steady:
                continue
            for name, fixed in scalar.sides.items():
                if fixed.kind == "fixed" and fixed.value is not None:
                    dirichlet.put(
                        0, side_points(self._grid, name), fixed.value(*self.coordinates(name), time)
                    )
        self._updated = True

    def record(self, velocity: Array) -> None:
        """Note the vorticity of a new velocity at all sides that need it. Neighbours."""
        for side in self.sides:
            side.record(velocity)

    def add_pressure_terms(self, at: StepCoefficients, b: Array) -> None:
        """Subtract nu <grad q, n x w*> + b_0/dt <q, n.u> from the pressure's weak right-hand side b, of a step."""
        viscosity = self._problem.viscosity
        order = vorticity_order(at.order, viscosity, at.steps[0], self._spacing)
        a = extrapolation(at.steps[:order])
        for side in self.sides:
            side.add_viscous(viscosity, a, b)
            if self.velocity.nonzero:
                side.add(-at.shift * self._through(side.side), b)

    def _dirichlet_velocity(self, side: BoxSide) -> Array:
        """Return the velocity at the points of a Dirichlet side, [3, f, n, n]."""
        places = side_points(self._grid, side.name)
        dirichlet = self.velocity
        return np.stack([v[np.searchsorted(p, places)] for p, v in zip(dirichlet.points, dirichlet.values)])

    def _through(self, side: BoxSide) -> Array:
        """Return n.u times area at the points of a Dirichlet side, [f, n, n]."""
        return np.asarray((side.normal_area.swapaxes(0, 1) * self._dirichlet_velocity(side)).sum(axis=0))

    def flux(self) -> tuple[float, float]:
        """Return the integrals of n.u and |u| over all Dirichlet sides. Collective."""
        mine = np.zeros(2)
        for side in self.sides:
            speed = np.sqrt((self._dirichlet_velocity(side.side) ** 2).sum(axis=0))
            mine += self._through(side.side).sum(), (side.side.area * speed).sum()
        net, size = self._comm.allreduce(mine)
        return float(net), float(size)

    def add_backflow(self, ahead: Sequence[tuple[float, Array]], right: Array) -> None:
        """Add <v, min(0, n.u) u> / 2 at outflow sides to weak right-hand sides [3, E, n, n, n].

        ahead: factors and velocities whose sum is the extrapolated velocity u.
        """
        for name in self._problem.sides_of("outflow"):
            side = self._geometry.sides[name]
            u = np.sum([factor * side.take(velocity) for factor, velocity in ahead], axis=0)
            inwards = np.minimum(0.0, np.einsum("fxab,xfab->fab", side.normal_area, u))
            for component in range(3):
                right[component][side.index][side.elements] += 0.5 * inwards * u[component]

    def add_scalar_fluxes(self, time: float, right: Array) -> None:
        """Add <q, k dT/dn> to the weak right-hand sides of the scalars, [S, E, n, n, n]."""
        for i, scalar in enumerate(self._problem.scalars):
            for name, condition in scalar.sides.items():
                if condition.kind == "flux" and condition.value is not None:
                    side = self._geometry.sides[name]
                    found = condition.value(*self.coordinates(name), time)
                    right[i][side.index][side.elements] += side.area * found
