"""Wind in plain NumPy on the whole grid: the oracle that the compiled engine is held to. Written to be read.

A step of Godunov's method (Bell, Colella and Glaz 1989; Almgren et al. 1998):

 1. The tendencies F = -G p + diffusion + sources of all fields, of the present state.
 2. The normal velocities at faces half a step later: traced along characteristics from parabolas or lines in the
    cells (Colella and Woodward 1984; Colella 1990), with transverse derivatives and F.
 3. The MAC projection makes the face velocities free of divergence.
 4. All fields at faces half a step later, traced with the projected velocities; the upwind side counts. Their fluxes
    give the change A by advection, conservatively.
 5. q1 = q + dt (A + F), and then q* = q1 + dt/2 (F(q1) - F(q)), Heun's corrector for all that F holds. With
    Crank-Nicolson's scheme, q1 - dt/2 L q1 = q + dt (A + F) - dt/2 L q, and the corrector leaves out diffusion.
 6. The nodal projection of q* + dt G p gives the new velocity and the new pressure.

The method of lines takes the states at faces at the time of the fields (steps 2 to 4 with dt = 0), and makes steps 1
to 6 twice, in Heun's scheme.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.wind.direct_solvers import cell_solver, helmholtz_solver, node_solver
from ridgeline.models.wind.forcing import forces_reference
from ridgeline.models.wind.problem import (
    GHOST,
    PLM,
    UNLIMITED,
    WindProblem,
    evaluate_side,
    normal_field,
)
from ridgeline.models.wind.reference_physics import Eddies, ReferencePhysics, solve_varying

Array = NDArray[Any]
SMALL = 1e-10  # face velocities below this part of the largest speed carry the mean of both sides


def previous(q: Array, axis: int) -> Array:
    """Return the values one cell below along an axis."""
    return np.roll(q, 1, axis)


def following(q: Array, axis: int) -> Array:
    """Return the values one cell above along an axis."""
    return np.roll(q, -1, axis)


def limited_slope(q: Array, axis: int, unlimited: bool) -> Array:
    """Return the difference across a cell: the central one, limited by twice the one-sided ones (van Leer 1977)."""
    central = 0.5 * (following(q, axis) - previous(q, axis))
    if unlimited:
        return central
    low, high = 2.0 * (q - previous(q, axis)), 2.0 * (following(q, axis) - q)
    least = np.minimum(np.minimum(abs(low), abs(high)), abs(central))
    return np.where(low * high > 0.0, np.copysign(least, central), 0.0)


def edge_values(q: Array, axis: int, reconstruction: int) -> tuple[Array, Array]:
    """Return the values at the lower and upper faces of the parabola, or line, in each cell."""
    slope = limited_slope(q, axis, reconstruction == UNLIMITED)
    if reconstruction == PLM:
        return q - 0.5 * slope, q + 0.5 * slope
    below = previous(q, axis)
    edge = 0.5 * (below + q) - (slope - previous(slope, axis)) / 6.0
    low, high = edge, following(edge, axis)
    if reconstruction == UNLIMITED:
        return low, high
    # Colella and Woodward (1984), eq. 1.10: no extremum inside a cell.
    flat = (high - q) * (q - low) <= 0.0
    steep_high = abs(high - q) >= 2.0 * abs(low - q)
    steep_low = abs(low - q) >= 2.0 * abs(high - q)
    high_limited = np.where(flat, q, np.where(steep_high, 3.0 * q - 2.0 * low, high))
    low_limited = np.where(flat, q, np.where(~steep_high & steep_low, 3.0 * q - 2.0 * high, low))
    return low_limited, high_limited


def traced(q: Array, low: Array, high: Array, at_low: Array, at_high: Array) -> tuple[Array, Array]:
    """Return the means over what crosses the lower and upper face of each cell.

    at_low, at_high: velocity times dt over the width, at those faces.
    """
    curvature = 6.0 * q - 3.0 * (low + high)
    up, down = np.maximum(at_high, 0.0), np.maximum(-at_low, 0.0)
    above = high - 0.5 * up * ((high - low) - (1.0 - 2.0 / 3.0 * up) * curvature)
    below = low + 0.5 * down * ((high - low) + (1.0 - 2.0 / 3.0 * down) * curvature)
    return below, above


def upwind(velocity: Array, left: Array, right: Array, small: float) -> Array:
    """Return the state on the side that the velocity comes from."""
    return np.where(velocity > small, left, np.where(velocity < -small, right, 0.5 * (left + right)))


def riemann(left: Array, right: Array, small: float) -> Array:
    """Return the normal velocity at a face between two states, as of Burgers' equation."""
    mean = left + right
    still = ((left <= 0.0) & (right >= 0.0)) | (abs(mean) < small)
    return np.where(still, 0.0, np.where(mean > 0.0, left, right))


class ReferenceSolver:
    """A flow on the whole grid, advanced step by step.

    Parameters
    ----------
    problem : what is computed
    fields : the initial state of all fields, (nz, ny, nx) each
    pressure : at the nodes, (nz+1, ny+1, nx+1), of which the last in a periodic direction repeats the first
    physics : closure, ground, turbines and damping, None without any
    """

    def __init__(
        self,
        problem: WindProblem,
        fields: list[Array],
        pressure: Array | None = None,
        physics: ReferencePhysics | None = None,
    ) -> None:
        self.problem, self.physics = problem, physics
        self.side_time = 0.0  # at which values and fluxes at sides are taken
        self._forces = np.array(problem.forces)
        self.fields = [np.array(q) for q in fields]
        self.time = 0.0
        self.pressure = np.zeros([n + 1 for n in problem.shape]) if pressure is None else np.array(pressure)
        self._cells, self._nodes = cell_solver(problem), node_solver(problem)
        self._inner = tuple(slice(GHOST, -GHOST) for _ in range(3))
        self._small, self._dt = 0.0, 1.0
        self._helmholtz: dict[tuple[int, float], Any] = {}

    # ---- ghosts and sides ----

    def padded(self, number: int, q: Array) -> Array:
        """Return a field with its ghosts."""
        return self.pad(q, [self._side_values(number, axis) for axis in range(3)])

    def pad(self, q: Array, sides: list[tuple[Any, Any]]) -> Array:
        """Return cells with ghosts. sides: along each axis, the values at both sides, None for no gradient."""
        for axis, values in enumerate(sides):
            width = [(0, 0)] * 3
            width[axis] = (GHOST, GHOST)
            wraps = self.problem.periodic[axis]
            q = np.pad(q, width, mode="wrap" if wraps else "symmetric")
            for ghosts, value in zip((slice(None, GHOST), slice(-GHOST, None)), values):
                if value is not None and not wraps:
                    place = tuple(ghosts if d == axis else slice(None) for d in range(3))
                    q[place] = 2.0 * self._spread(value, axis, q.shape) - q[place]
        return q

    def _side_values(self, number: int, axis: int) -> tuple[Any, Any]:
        """Return the values of a field at both sides of an axis, None where a flux is given."""
        values: list[Any] = []
        for last in (False, True):
            side = self.problem.at(axis, last)
            if side is None or not side.fields[number].fixed:
                values.append(None)
            else:
                values.append(
                    evaluate_side(side.fields[number].value, self._places(axis, last), self.side_time)
                )
        return values[0], values[1]

    def _places(self, axis: int, last: bool) -> dict[str, Any]:
        """Return the coordinates of the cells' faces on a side, to broadcast to three dimensions."""
        places: dict[str, Any] = {}
        for d, name in enumerate("zyx"):
            shape = [1, 1, 1]
            shape[d] = -1
            places[name] = self.problem.centres(d).reshape(shape)
        length = self.problem.shape[axis] * self.problem.widths[axis]
        places["zyx"[axis]] = length if last else 0.0
        return places

    def _spread(self, value: Any, axis: int, shape: tuple[int, ...]) -> Any:
        """Return the values of a side for an array whose axes before this one have ghosts already."""
        value = np.asarray(value)
        if value.ndim == 0:
            return value
        full = [1 if d == axis else n for d, n in enumerate(self.problem.shape)]
        value = np.broadcast_to(value, full)
        for d in range(3):
            if d != axis and shape[d] > full[d]:
                width = [(0, 0)] * 3
                width[d] = (GHOST, GHOST)
                value = np.pad(value, width, mode="wrap" if self.problem.periodic[d] else "edge")
        return value

    def at_sides(self, state: Array, number: int, axis: int, q: Array, left: Array, right: Array) -> Array:
        """Return states at faces with those on the sides: the given value, or the state from inside."""
        for last in (False, True):
            side = self.problem.at(axis, last)
            if side is None:
                continue
            face = tuple(
                slice(-GHOST, -GHOST + 1)
                if d == axis and last
                else slice(GHOST, GHOST + 1)
                if d == axis
                else slice(None)
                for d in range(3)
            )
            if side.fields[number].fixed:
                state[face] = 0.5 * (previous(q, axis)[face] + q[face])
            else:
                state[face] = (left if last else right)[face]
        return state

    # ---- advection ----

    def states(self, number: int, q: Array, axis: int, at_low: Array, at_high: Array) -> tuple[Array, Array]:
        """Return the states from both sides of each lower face; velocities are times dt over the width."""
        low, high = edge_values(q, axis, self.problem.reconstruction)
        below, above = traced(q, low, high, at_low, at_high)
        return previous(above, axis), below

    def transverse(self, axis: int, hats: dict[int, Array], faces: list[Array]) -> Array:
        """Return the derivatives along the other axes times the velocities there, at cells."""
        total: Any = 0.0
        for d in range(3):
            if d != axis:
                mean = 0.5 * (faces[d] + following(faces[d], d))
                total = total + mean * ((following(hats[d], d) - hats[d]) / self.problem.widths[d])
        return np.asarray(total)

    def corrected(self, axis: int, left: Array, right: Array, change: Array) -> tuple[Array, Array]:
        """Return states at faces with a change of the cells that they come from."""
        return left + previous(change, axis), right + change

    def face_velocities(self, fields: list[Array], tendencies: list[Array], dt: float) -> list[Array]:
        """Return the velocities across the lower faces in z, y and x, traced by dt/2, before their projection."""
        h = self.problem.widths
        states = {}
        for axis in range(3):
            ratio = fields[normal_field(axis)] * (dt / h[axis])
            for number in range(3):
                states[axis, number] = self.states(number, fields[number], axis, ratio, ratio)
        advective = []
        for axis in range(3):
            c = normal_field(axis)
            left, right = states[axis, c]
            advective.append(
                self.at_sides(riemann(left, right, self._small), c, axis, fields[c], left, right)
            )
        faces = []
        for axis in range(3):
            c = normal_field(axis)
            hats = {
                d: self.at_sides(
                    upwind(advective[d], *states[d, c], self._small), c, d, fields[c], *states[d, c]
                )
                for d in range(3)
                if d != axis
            }
            change = 0.5 * dt * (tendencies[c] - self.transverse(axis, hats, advective))
            left, right = self.corrected(axis, *states[axis, c], change)
            faces.append(self.at_sides(riemann(left, right, self._small), c, axis, fields[c], left, right))
        return faces

    def advection(self, number: int, q: Array, tendency: Array, faces: list[Array], dt: float) -> Array:
        """Return -div(u q) at the cells, with q at the faces traced by dt/2 with the projected velocities."""
        h = self.problem.widths
        states = []
        for axis in range(3):
            ratio = faces[axis] * (dt / h[axis])
            states.append(self.states(number, q, axis, ratio, following(ratio, axis)))
        hats = {
            d: self.at_sides(upwind(faces[d], *states[d], self._small), number, d, q, *states[d])
            for d in range(3)
        }
        total = 0.0
        for axis in range(3):
            change = 0.5 * dt * (tendency - self.transverse(axis, hats, faces))
            left, right = self.corrected(axis, *states[axis], change)
            state = self.at_sides(upwind(faces[axis], left, right, self._small), number, axis, q, left, right)
            flux = faces[axis] * state
            total = total - (following(flux, axis) - flux) / h[axis]
        return np.asarray(total)[self._inner]

    def project_faces(self, faces: list[Array]) -> list[Array]:
        """Return face velocities made free of divergence, with ghosts: u - grad(phi)."""
        problem = self.problem
        divergence = sum(
            ((following(u, axis) - u) / h)[self._inner]
            for axis, (u, h) in enumerate(zip(faces, problem.widths))
        )
        phi = -self._cells.solve(np.asarray(divergence))
        phi = phi.astype(faces[0].dtype)
        at_sides: list[tuple[Any, Any]] = []
        for axis in range(3):
            pair = [problem.at(axis, last) for last in (False, True)]
            low, high = (0.0 if side is not None and side.outflow else None for side in pair)
            at_sides.append((low, high))
        padded = self.pad(phi, at_sides)
        projected = []
        for axis, (u, h) in enumerate(zip(faces, problem.widths)):
            new = u - (padded - previous(padded, axis)) / h
            projected.append(self._pad_faces(new, axis))
        return projected

    def _pad_faces(self, u: Array, axis: int) -> Array:
        """Return velocities at faces with ghosts from those of the faces inside."""
        inner = tuple(
            slice(GHOST, -GHOST + (not self.problem.periodic[d])) if d == axis else slice(GHOST, -GHOST)
            for d in range(3)
        )
        u = u[inner]
        for d in range(3):
            wraps = self.problem.periodic[d]
            width = [(0, 0)] * 3
            width[d] = (GHOST, GHOST - (d == axis and not wraps))
            u = np.pad(u, width, mode="wrap" if wraps else "edge")
        return u

    # ---- tendencies ----

    def pressure_gradient(self) -> list[Array]:
        """Return G p at the cells in x, y and z: the mean gradient of the trilinear pressure in each cell."""
        result = []
        for axis in (2, 1, 0):
            g = np.diff(self.pressure, axis=axis) / self.problem.widths[axis]
            for d in range(3):
                if d != axis:
                    low, high = (
                        tuple(part if e == d else slice(None) for e in range(3))
                        for part in (slice(None, -1), slice(1, None))
                    )
                    g = 0.5 * (g[low] + g[high])
            result.append(g)
        return result

    def diffusion(self, number: int, q: Array) -> Array:
        """Return div(kappa grad q) with fluxes at the sides. q: with ghosts."""
        problem = self.problem
        kappa = problem.diffusivity(number)
        total: Any = np.zeros(problem.shape, q.dtype)
        for axis, h in enumerate(problem.widths):
            if kappa:
                total = total + ((following(q, axis) - q) - (q - previous(q, axis)))[self._inner] * (
                    kappa / h**2
                )
            for last in (False, True):
                side = problem.at(axis, last)
                if side is not None and not side.fields[number].fixed:
                    flux = evaluate_side(side.fields[number].value, self._places(axis, last), self.side_time)
                    cells = tuple(
                        (slice(-1, None) if last else slice(0, 1)) if d == axis else slice(None)
                        for d in range(3)
                    )
                    total[cells] += np.asarray(flux) / h
        return np.asarray(total)

    def sources(self, fields: list[Array]) -> list[Array]:
        """Return the sources of all fields that act in each cell by itself: forces, buoyancy and rotation."""
        problem = self.problem
        theta = fields[3] if problem.scalars else fields[2]
        u, v, w = fields[:3]
        rates = forces_reference(u, v, w, theta, problem.theta_profile, self._forces)
        return [*rates, *(np.zeros_like(q) for q in fields[3:])]

    def tendencies(
        self, fields: list[Array], time: float, with_diffusion: bool = True, eddies: Eddies | None = None
    ) -> list[Array]:
        """Return F = -G p + diffusion + sources of all fields at the cells at a time. eddies: of the fields."""
        self.side_time = time
        result = self.sources(fields)
        for c, gradient in enumerate(self.pressure_gradient()):
            result[c] = result[c] - gradient
        padded = [self.padded(n, q) for n, q in enumerate(fields)]
        if with_diffusion:
            result = [f + self.diffusion(n, q) for n, (f, q) in enumerate(zip(result, padded))]
        if self.physics is not None:
            result = [f + r for f, r in zip(result, self.physics.rates(fields, time, self._dt))]
            if eddies is not None:
                result = [f + r for f, r in zip(result, self.physics.stresses(padded, eddies))]
                diffusion = self.eddy_diffusion(fields, eddies, time)
                result = [f + d for f, d in zip(result, diffusion)] if with_diffusion else result
        return result

    def eddies(self, fields: list[Array], time: float) -> Eddies | None:
        """Return the eddy viscosities of fields at a time, with ghosts, None without a closure."""
        self.side_time = time
        if self.physics is None or not self.physics.has_closure:
            return None
        found = self.physics.eddies([self.padded(n, q) for n, q in enumerate(fields)])
        nu, kappa = (self.pad(each, [(None, None)] * 3) for each in found[:2])
        return Eddies(nu, kappa, found[2])

    def eddy_diffusion(self, fields: list[Array], eddies: Eddies | None, time: float) -> list[Array]:
        """Return div(kappa_t grad q) of all fields, with their sides at a time."""
        if eddies is None or self.physics is None:
            return [np.zeros_like(q) for q in fields]
        self.side_time = time
        result = []
        for n, q in enumerate(fields):
            kappa, padded = self.physics.coefficient(n, eddies), self.padded(n, q)
            total: Any = 0.0
            for axis, h in enumerate(self.problem.widths):
                flux = 0.5 * (previous(kappa, axis) + kappa) * (padded - previous(padded, axis)) / h
                total = total + (following(flux, axis) - flux)[self._inner] / h
            result.append(total)
        return result

    # ---- a step ----

    def start(self) -> None:
        """Make an initial velocity free of divergence, by the nodal projection."""
        self.pressure[...] = 0.0
        self._project(1.0, self.time)

    def guess_pressure(self, dt: float) -> None:
        """Let the pressure be that of a step of length dt, which is not kept: the first step needs one."""
        fields, time = self.fields, self.time
        self.fields = list(fields)
        self.advance(dt)
        self.fields, self.time = fields, time

    def advance(self, dt: float) -> None:
        """Advance by one step of length dt."""
        self._small = SMALL * max(float(abs(u).max()) for u in self.fields[:3])
        self._dt = dt
        before, end = self.fields, self.time + dt
        if self.physics is not None:
            self._forces = self.physics.forces(before, dt)
        if self.problem.godunov:
            eddies = self.eddies(before, self.time)
            tendencies = self.tendencies(before, self.time, eddies=eddies)
            change = self.all_advection(before, tendencies, dt, self.time + 0.5 * dt)
            first = self._stage(before, [a + f for a, f in zip(change, tendencies)], dt, eddies)
            self.fields = self._corrected_sources(first, before, tendencies, eddies, dt)
            self.pressure = self._project(dt, end)
        else:
            tendencies = self.tendencies(before, self.time, eddies=self.eddies(before, self.time))
            change = self.all_advection(before, tendencies, 0.0, self.time)
            total = [a + f for a, f in zip(change, tendencies)]
            self.fields = self._stage(before, total, dt)
            self._project(dt, end)
            later = self.tendencies(self.fields, end, eddies=self.eddies(self.fields, end))
            change = self.all_advection(self.fields, later, 0.0, end)
            mean = [0.5 * (a + (b + c)) for a, b, c in zip(total, change, later)]
            if self.problem.implicit:  # the solve brings diffusion at the end of the step
                old, new = self._diffusions(before, self.time), self._diffusions(self.fields, end)
                mean = [m + 0.5 * (a - b) for m, a, b in zip(mean, old, new)]
            self.fields = self._stage(before, mean, dt)
            self.pressure = self._project(dt, end)
        self.time = end

    def all_advection(
        self, fields: list[Array], tendencies: list[Array], dt: float, time: float
    ) -> list[Array]:
        """Return the changes of all fields by advection, with states at faces dt/2 later, and sides at a time."""
        self.side_time = time
        padded = [self.padded(n, q) for n, q in enumerate(fields)]
        ghosts = [self.pad(f, [(None, None)] * 3) for f in tendencies]
        faces = self.project_faces(self.face_velocities(padded, ghosts, dt))
        self.faces = faces
        return [self.advection(n, q, ghosts[n], faces, dt) for n, q in enumerate(padded)]

    def _diffusions(self, fields: list[Array], time: float) -> list[Array]:
        self.side_time = time
        return [self.diffusion(n, self.padded(n, q)) for n, q in enumerate(fields)]

    def _stage(
        self, fields: list[Array], rates: list[Array], dt: float, eddies: Eddies | None = None
    ) -> list[Array]:
        """Return fields + dt rates; with Crank-Nicolson's scheme half of the diffusion in the rates at the end."""
        new = [q + dt * rate for q, rate in zip(fields, rates)]
        if not self.problem.implicit:
            return new
        for n, q in enumerate(fields):
            kappa = self.problem.diffusivity(n)
            if eddies is not None and self.physics is not None:
                varying = kappa + self.physics.coefficient(n, eddies)
                new[n] = q + solve_varying(self.problem, n, 0.5 * dt * varying, new[n] - q)
            elif kappa:
                # (1 - dt/2 L) (new - q) = dt rates; L of the difference has homogeneous sides.
                new[n] = q + self._solve_helmholtz(n, 0.5 * dt * kappa, new[n] - q)
        return new

    def _solve_helmholtz(self, number: int, factor: float, b: Array) -> Array:
        """Return the solution of x - factor lap x = b with homogeneous sides of a field."""
        key = (number, factor)
        if key not in self._helmholtz:
            self._helmholtz = {k: v for k, v in self._helmholtz.items() if k[0] != number}
            self._helmholtz[key] = helmholtz_solver(self.problem, number, factor)
        return np.asarray(self._helmholtz[key].solve(b).astype(b.dtype))

    def _corrected_sources(
        self,
        first: list[Array],
        before: list[Array],
        tendencies: list[Array],
        eddies: Eddies | None,
        dt: float,
    ) -> list[Array]:
        """Return the fields after Heun's corrector for sources, and for diffusion where it is explicit.

        With Crank-Nicolson's scheme it holds the change of the eddy viscosities, applied to the predicted fields.
        """
        explicit, end = not self.problem.implicit, self.time + dt
        if not explicit:
            tendencies = self.tendencies(before, self.time, False, eddies)
            old = self.eddy_diffusion(first, eddies, end)
            tendencies = [f + d for f, d in zip(tendencies, old)]
        of_first = self.eddies(first, end)
        later = self.tendencies(first, end, explicit, of_first)
        if not explicit:
            later = [f + d for f, d in zip(later, self.eddy_diffusion(first, of_first, end))]
        return [q + 0.5 * dt * (new - old) for q, new, old in zip(first, later, tendencies)]

    def _project(self, dt: float, time: float) -> Array:
        """Make the velocity of the fields approximately free of divergence. Returns the new pressure."""
        problem = self.problem
        self.side_time = time
        velocity = [u + dt * g for u, g in zip(self.fields[:3], self.pressure_gradient())]
        b = np.zeros([n + 1 for n in problem.shape])
        for axis in range(3):
            u = velocity[normal_field(axis)].astype(np.float64)
            for d in range(3):
                u = self._to_nodes(u, d, d == axis)
            b += u
        b += self._through_sides()
        b = self._merged(b)
        solved = self._nodes.solve(
            b[tuple(slice(0, n + (not w)) for n, w in zip(problem.shape, problem.periodic))]
        )
        for d in range(3):
            if problem.periodic[d]:
                solved = np.concatenate([solved, solved.take([0], d)], d)
        kept, self.pressure = self.pressure, solved / dt
        self.fields[:3] = [u - dt * g.astype(u.dtype) for u, g in zip(velocity, self.pressure_gradient())]
        self.pressure = kept
        return np.asarray(solved / dt)

    def _to_nodes(self, u: Array, axis: int, difference: bool) -> Array:
        """Return half the sum of the cells around each node along an axis, or their difference over the width."""
        width = [(0, 0)] * 3
        width[axis] = (1, 1)
        q = np.pad(u, width)
        n = u.shape[axis]
        below, above = q.take(range(n + 1), axis), q.take(range(1, n + 2), axis)
        return np.asarray(
            (below - above) / self.problem.widths[axis] if difference else 0.5 * (below + above)
        )

    def _through_sides(self) -> Array:
        """Return what flows through inflows, at the nodes there."""
        problem = self.problem
        b = np.zeros([n + 1 for n in problem.shape])
        for axis in range(3):
            for last in (False, True):
                side = problem.at(axis, last)
                if side is None or not side.inflow:
                    continue
                value = evaluate_side(
                    side.fields[normal_field(axis)].value, self._places(axis, last), self.side_time
                )
                u = np.broadcast_to(value, [1 if d == axis else n for d, n in enumerate(problem.shape)])
                for d in range(3):
                    if d != axis:
                        u = self._to_nodes(np.asarray(u, np.float64), d, False)
                place = tuple(
                    (slice(-1, None) if last else slice(0, 1)) if d == axis else slice(None) for d in range(3)
                )
                b[place] += (-1.0 if last else 1.0) * u / problem.widths[axis]
        return b

    def _merged(self, b: Array) -> Array:
        """Add the last plane of nodes of each periodic direction to the first one, which is the same."""
        for d in range(3):
            if self.problem.periodic[d]:
                first, last = (
                    tuple(place if e == d else slice(None) for e in range(3))
                    for place in (slice(0, 1), slice(-1, None))
                )
                b[first] += b[last]
        return b
