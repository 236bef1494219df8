"""The whole method in NumPy and SciPy on one rank: the oracle for the engines.

Written to be read: `ReferenceSolver` advances the flow, with dense operators on the elements (`Elements`), assembled
sparse matrices and direct solves (`DirectSolver`). Fields are float64 [E, n, n, n] = (element, z, y, x), equal where
elements share a point, and vectors [3, E, n, n, n]; "unassembled" is the contribution of each element to a weak form.

    du/dt + u.grad u = -grad p + nu lap u + f,   div u = 0,   dT/dt + u.grad T = k lap T + s
    f: the constant force, source terms, and -beta (T - T_0) g of each scalar with an expansion beta, at the gravity g

BDF k / EXT k splitting, velocity and pressure in the same space. With (., .) the quadrature on the points, b and a
the coefficients, N = f - u.grad u (dealiased), and F = sum_j a_j N^{n+1-j} - sum_{j>0} b_j u^{n+1-j} / dt:

    (grad q, grad p) = (grad q, F) - nu <grad q, n x w*> - b_0/dt <q, n.u>,    w* = curl sum_j a'_j u^{n+1-j}
    nu (grad v, grad u) + b_0/dt (v, u) = (v, F) - (v, grad p)

<., .> are integrals over Dirichlet sides; the first is the rotational form of the viscous term:
(grad q, curl w) = <grad q, n x w>, whose parts between elements cancel for the continuous w that curl() returns.
a' is a, or that of order 2 (`vorticity_order`). Steps may have any lengths (time_stepping.py).
Sources: Karniadakis, Israeli and Orszag, J. Comput. Phys. 97 (1991) 414; Tomboulides, Lee and Orszag, J. Sci.
Comput. 12 (1997) 139; Hadri et al., Eqs. 2-4. Backflow at outflow sides: Bruneau and Fabrie, RAIRO 30 (1996) 815.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from ridgeline.config.expressions import Formula
from ridgeline.elements.mesh import ElementGrid, side_axis, side_index
from ridgeline.elements.quadrature import gauss, gauss_interpolation, gauss_lobatto, gll_derivative
from ridgeline.models.navier_stokes.boundary_terms import no_flow
from ridgeline.models.navier_stokes.problem import (
    DIRICHLET,
    Array,
    FlowProblem,
    bubble_filter,
    smallest_spacing,
    vorticity_order,
)
from ridgeline.models.navier_stokes.sources import values_of
from ridgeline.models.navier_stokes.time_stepping import backward, extrapolation

Flags = NDArray[np.bool_]


class ReferenceSolver:
    """Advances velocity u [3, E, n, n, n], pressure p [E, n, n, n] and scalars [S, E, n, n, n] of all elements.

    history: velocity and scalars [3 + S, E, n, n, n] at t - dt and t - 2 dt, to start at full order. Without them,
    the first steps are of first and second order.
    """

    def __init__(
        self,
        grid: ElementGrid,
        problem: FlowProblem,
        velocity: Array,
        scalars: Array | None = None,
        time: float = 0.0,
        history: Sequence[Array] = (),
    ) -> None:
        if grid.size != 1:
            raise ValueError(
                f"the reference solver runs on one rank, but the grid is distributed over {grid.size}"
            )
        self.elements, self.problem, self.time = Elements(grid), problem, time
        scalars = np.zeros((0, *grid.shape)) if scalars is None else scalars
        self.fields = [np.concatenate([velocity, scalars]), *(np.array(old) for old in history)]
        # The weak right-hand sides N of the levels before the present one.
        self.rates = [
            self.rate(old, time - back * problem.dt) for back, old in enumerate(self.fields[1:], start=1)
        ]
        self.steps = [problem.dt] * len(history)  # lengths of the last steps, newest first
        self.p = np.zeros(grid.shape)
        self.stiffness = self.elements.stiffness()
        self.mass = sparse.diags(self.gather(self.elements.mass))
        self.fixed = self._fixed_points()
        outflow = self._flags(problem.sides_of("outflow"))
        self.pressure_solver = DirectSolver(self.stiffness, outflow, problem.level_is_free)
        self.solvers: dict[int, DirectSolver] = {}  # of each field, for the last b_0/dt
        self.shift = 0.0
        self.held_force = 0.0  # that holds the flow rate

    @property
    def u(self) -> Array:
        """The present velocity."""
        return self.fields[0][:3]

    @property
    def scalars(self) -> Array:
        """The present scalars."""
        return self.fields[0][3:]

    def step(self, dt: float | None = None) -> None:
        """Advance by one time step, of the problem's dt if none is given."""
        problem, elements = self.problem, self.elements
        self.rates.insert(0, self.rate(self.fields[0], self.time))
        order = min(problem.time_order, len(self.fields))
        dt = problem.dt if dt is None else dt
        steps = [dt, *self.steps[: order - 1]]
        b, a = backward(steps), extrapolation(steps)
        self.time += dt
        shift = b[0] / dt
        differences = sum(c * old for c, old in zip(b[1:], self.fields)) / dt
        right = sum(c * rate for c, rate in zip(a, self.rates)) - elements.mass * differences
        ahead = np.asarray(sum(c * old for c, old in zip(a, self.fields)))
        dirichlet = self._dirichlet(self.time)
        self.p = self._pressure(right[:3], steps, dirichlet[:3], shift)
        right[:3] -= elements.mass * elements.gradient(self.p)
        self.known = right[:3].copy()  # without what a stable outflow adds, which is 0 at walls at rest
        right[:3] += self._backflow(ahead[:3])
        right[3:] += self._fluxes(self.time, ahead)
        self.known = np.concatenate([self.known, right[3:]])
        new = np.stack([self._helmholtz(i, right[i], dirichlet[i], shift) for i in range(len(right))])
        self._hold_flow_rate(new, shift)
        if problem.filter_weight:
            self._filter(new, dirichlet)
        self.fields = [new, *self.fields[: problem.time_order - 1]]
        self.rates = self.rates[: problem.time_order - 1]
        self.steps = steps[: problem.time_order - 1]

    def rate(self, fields: Array, time: float) -> Array:
        """Return N, unassembled: (v, f - u.grad u) and (v, s - u.grad T) of fields [3 + S, E, n, n, n]."""
        elements, problem = self.elements, self.problem
        result = np.stack([-elements.advection(fields[:3], f, problem.dealias_points) for f in fields])
        for i, force in enumerate(problem.force):
            result[i] += elements.mass * force
        for term in problem.source_terms:
            values = values_of(elements.coordinates, time, fields)
            result[term.field] += elements.mass * term.evaluate(values, fields)
        for coefficient in problem.variable_coefficients:
            first, count = coefficient.field, coefficient.count
            excess = coefficient.evaluate(elements.coordinates, time, fields) - coefficient.reference
            gradient = np.stack([elements.gradient(f) for f in fields[first : first + count]])
            if count == 3:
                divergence = gradient[0, 0] + gradient[1, 1] + gradient[2, 2]
                gradient = gradient + gradient.swapaxes(0, 1)
                for i in range(3):
                    gradient[i, i] -= divergence
            for i, flux in enumerate(excess * gradient, start=first):
                result[i] -= elements.weak_divergence(flux)
                closed = [name for name, side in problem.sides.items() if side.kind != "periodic"]
                for name in closed if count == 3 else ():
                    through = (elements.normal_area(name) * elements.face(name, flux)).sum(0)
                    result[i] += elements.on_side(name, through)
        for i, scalar in enumerate(problem.scalars, start=3):
            if scalar.source is not None and not isinstance(scalar.source, Formula):
                result[i] += elements.mass * scalar.source(*self.elements.at(), time)
            for component, slope in enumerate(scalar.mean_gradient):
                result[i] -= slope * elements.mass * fields[component]
            for component, gravity in enumerate(problem.gravity):
                lighter = scalar.expansion * (fields[i] - scalar.reference)
                result[component] -= elements.mass * lighter * gravity
        return result

    def gather(self, weak: Array) -> Array:
        """Return the sums at the distinct points, [n_unique], of an unassembled field."""
        return np.asarray(
            np.bincount(self.elements.ids.ravel(), weak.ravel(), self.elements.grid.n_unique), np.float64
        )

    def _pressure(self, right: Array, steps: Sequence[float], dirichlet: Array, shift: float) -> Array:
        """Return the pressure of the next time level. dirichlet: velocity at Dirichlet points [3, n_unique].

        steps: lengths of the steps that the order takes, newest first.
        """
        elements, problem = self.elements, self.problem
        force = elements.assemble(right) / elements.assembled_mass
        weak = elements.weak_divergence(force)
        order = vorticity_order(len(steps), problem.viscosity, steps[0], self._spacing())
        a = extrapolation(steps[:order])
        vorticity = elements.curl(np.asarray(sum(c * old[:3] for c, old in zip(a, self.fields))))
        for name in problem.sides_of(*DIRICHLET):
            normal = elements.normal_area(name)
            tangential = np.cross(normal, elements.face(name, vorticity), axis=0)
            weak -= problem.viscosity * elements.weak_divergence(
                elements.on_side(name, tangential), weighted=True
            )
            through = (normal * elements.face(name, dirichlet[:, elements.ids])).sum(0)
            weak -= shift * elements.on_side(name, through)
        b = self.gather(weak)
        if problem.level_is_free:  # what quadrature leaves of the flux through all sides has no solution
            b -= self.gather(elements.mass) * b.sum() / elements.volume
        return self._level(self.pressure_solver.solve(b, np.zeros_like(b))[elements.ids])

    def _spacing(self) -> float:
        """Return the smallest distance of points in elements at Dirichlet sides."""
        grid = self.elements.grid
        chosen = [grid.side_elements(name) for name in self.problem.sides_of(*DIRICHLET)]
        elements = np.unique(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)
        return smallest_spacing(self.elements.coordinates[:, elements])

    def _level(self, p: Array) -> Array:
        """Return the pressure, shifted to the mean 0 if only its gradient matters."""
        elements = self.elements
        if not self.problem.level_is_free:
            return p
        return np.asarray(p - (elements.mass * p).sum() / elements.volume)

    def _helmholtz(self, i: int, right: Array, dirichlet: Array, shift: float) -> Array:
        """Return field i of the next time level. right: weak, unassembled; dirichlet: its values at fixed points."""
        if shift != self.shift:
            self.solvers, self.shift = {}, shift
        if i not in self.solvers:
            scalars = self.problem.scalars
            diffusivity = self.problem.viscosity if i < 3 else scalars[i - 3].diffusivity
            matrix = sparse.csr_matrix(diffusivity * self.stiffness + shift * self.mass)
            self.solvers[i] = DirectSolver(matrix, self.fixed[i])
        solved = self.solvers[i].solve(self.gather(right), dirichlet)
        return np.asarray(solved[self.elements.ids])

    def side_force(self, name: str) -> Array:
        """Return force and torque about the origin of the flow on a side after a step, as in side_fluxes.py."""
        elements, viscosity = self.elements, self.problem.viscosity
        excess = np.stack([self._residual(i) for i in range(3)])
        areas = np.zeros_like(excess)
        for side in self.problem.sides:
            ids, (across, _), given = elements.ids_at(side), self._gradients(side), self._given(side)
            area = np.sqrt((elements.normal_area(side) ** 2).sum(0))
            for i in np.flatnonzero(given):
                np.subtract.at(excess[i], ids, viscosity * across[i])
                np.add.at(areas[i], ids, area)
        ids, normal, given = elements.ids_at(name), elements.normal_area(name), self._given(name)
        across, transposed = self._gradients(name)
        viscous = viscosity * (across + transposed)
        divergence = elements.face(name, sum(elements.gradient(u)[i] for i, u in enumerate(self.u)))
        area = np.sqrt((normal**2).sum(0))
        for i in np.flatnonzero(given):
            viscous[i] += excess[i][ids] * area / areas[i][ids] - viscosity * normal[i] * divergence
        if (coefficient := self.problem.variable_viscosity) is not None:
            varies = coefficient.evaluate(elements.coordinates, self.time, self.fields[0])
            viscous += elements.face(name, varies - viscosity) * (across + transposed)
        force = elements.face(name, self.p) * normal - viscous
        torque = np.cross(elements.at(name), force, axis=0)
        return np.stack([force.sum(axis=(1, 2, 3)), torque.sum(axis=(1, 2, 3))])

    def _gradients(self, side: str) -> tuple[Array, Array]:
        """Return (grad u) n and (grad u)^T n, times area, at the points of a side, [3, f, n, n] each."""
        elements = self.elements
        gradient = np.stack([elements.face(side, elements.gradient(u)) for u in self.u])  # [u, x, f, n, n]
        normal = elements.normal_area(side)
        return np.einsum("ij...,j...->i...", gradient, normal), np.einsum(
            "ji...,j...->i...", gradient, normal
        )

    def _given(self, side: str) -> Flags:
        """Return which components of the velocity a side gives."""
        kind = self.problem.sides[side].kind
        if kind == "symmetry":
            return np.asarray(np.arange(3) == 2 - side_axis(side)[0])
        return np.full(3, kind in DIRICHLET)

    def side_heat(self, number: int, name: str) -> float:
        """Return the heat flux of a scalar through a side that fixes it after a step, as in side_fluxes.py."""
        scalar, theta = self.problem.scalars[number], self.scalars[number]
        elements = self.elements
        excess = self._residual(3 + number)
        areas = np.zeros_like(excess)
        normals = {side: elements.normal_area(side) for side in self.problem.sides}
        slopes = {
            side: scalar.diffusivity * (elements.face(side, elements.gradient(theta)) * normal).sum(0)
            for side, normal in normals.items()
        }
        for side in (side for side, condition in scalar.sides.items() if condition.kind == "fixed"):
            np.subtract.at(excess, elements.ids_at(side), slopes[side])
            np.add.at(areas, elements.ids_at(side), np.sqrt((normals[side] ** 2).sum(0)))
        ids, area = elements.ids_at(name), np.sqrt((normals[name] ** 2).sum(0))
        return float((slopes[name] + excess[ids] * area / areas[ids]).sum())

    def _residual(self, i: int) -> Array:
        """Return k <q, df/dn> of field i for the basis function of each distinct point, [n_unique]."""
        u = np.zeros(self.elements.grid.n_unique)
        u[self.elements.ids] = self.fields[0][i]
        diffusivity = self.problem.viscosity if i < 3 else self.problem.scalars[i - 3].diffusivity
        matrix = diffusivity * self.stiffness + self.shift * self.mass
        return np.asarray(matrix @ u - self.gather(self.known[i]))

    def _hold_flow_rate(self, new: Array, shift: float) -> None:
        """Add the response of this step to a uniform force, as much of it as the flow rate needs."""
        wanted, elements = self.problem.flow_rate, self.elements
        if wanted is None:
            return
        force = np.zeros_like(new[:3])
        force[wanted.axis] = 1.0
        b = self.gather(elements.weak_divergence(force))
        p = self._level(self.pressure_solver.solve(b, np.zeros_like(b))[elements.ids])
        right = elements.mass * (force - elements.gradient(p))
        rest = np.zeros((3, elements.grid.n_unique))
        response = np.stack([self._helmholtz(i, right[i], rest[i], shift) for i in range(3)])
        bulk, unit = ((elements.mass * u[wanted.axis]).sum() / elements.volume for u in (new, response))
        amount = (wanted.bulk_velocity - bulk) / unit
        new[:3] += amount * response
        self.known += amount * right
        self.p += amount * p
        self.held_force = amount

    def _backflow(self, ahead: Array) -> Array:
        """Return <v, min(0, n.u) u> / 2 at outflow sides, which removes the energy that backflow brings in."""
        elements = self.elements
        total = np.zeros_like(ahead)
        for name in self.problem.sides_of("outflow"):
            u = elements.face(name, ahead)
            inwards = np.minimum(0.0, (elements.normal_area(name) * u).sum(0))
            total += elements.on_side(name, 0.5 * inwards * u)
        return total

    def _fluxes(self, time: float, ahead: Array) -> Array:
        """Return <q, k dT/dn> of every scalar, [S, E, n, n, n] unassembled. ahead: the extrapolated fields."""
        elements = self.elements
        total = np.zeros((len(self.problem.scalars), *elements.grid.shape))
        for i, scalar in enumerate(self.problem.scalars):
            for name, side in scalar.sides.items():
                if side.kind == "flux" and side.value is not None:
                    area = np.sqrt((elements.normal_area(name) ** 2).sum(0))
                    at, flow = np.stack(elements.at(name)), partial(elements.face, name, ahead)
                    total[i] += elements.on_side(name, area * side.value_at(at, time, flow))
        return total

    def _filter(self, new: Array, dirichlet: Array) -> None:
        """Remove part of the highest modes, in place; fixed points keep their values."""
        elements, problem = self.elements, self.problem
        f = bubble_filter(elements.points, problem.filter_weight, problem.filter_modes)
        new[:] = np.einsum("kc,jb,ia,...cba->...kji", f, f, f, new, optimize=True)
        for i, field in enumerate(new):
            fixed = self.fixed[i][elements.ids]
            field[fixed] = dirichlet[i][elements.ids][fixed]

    def _flags(self, sides: Sequence[str]) -> Flags:
        """Return which distinct points lie on any of some sides."""
        flags = np.zeros(self.elements.grid.n_unique, bool)
        for name in sides:
            flags[self.elements.ids_at(name)] = True
        return flags

    def _fixed_points(self) -> Flags:
        """Return which distinct points of the fields [3 + S, n_unique] are Dirichlet points."""
        problem = self.problem
        velocity = np.stack([self._flags(problem.sides_of(*DIRICHLET))] * 3)
        for name in problem.sides_of("symmetry"):
            velocity[2 - side_axis(name)[0]] |= self._flags([name])
        scalars = [
            self._flags([k for k, s in scalar.sides.items() if s.kind == "fixed"])
            for scalar in problem.scalars
        ]
        return np.stack([*velocity, *scalars])

    def _dirichlet(self, time: float) -> Array:
        """Return the values of the fields [3 + S, n_unique] at Dirichlet points, zero elsewhere."""
        elements, problem = self.elements, self.problem
        values = np.zeros((len(self.fixed), elements.grid.n_unique))

        def put(i: int, name: str, given: Array | float) -> None:
            values[i, elements.ids_at(name)] = given

        for name in problem.sides_of(*DIRICHLET):
            at = elements.at(name)
            side = problem.sides[name]
            velocity = (0.0, 0.0, 0.0) if side.value is None else side.value(*at, time)
            for i in range(3):
                put(i, name, velocity[i])
        for i, scalar in enumerate(problem.scalars, start=3):
            for name, fixed in scalar.sides.items():
                if fixed.kind == "fixed" and fixed.value is not None:
                    put(i, name, fixed.value_at(np.stack(elements.at(name)), time, no_flow))
        return values


class Elements:
    """Operators on all elements of a mesh, and their assembled matrices."""

    def __init__(self, grid: ElementGrid) -> None:
        n = self.n = grid.n
        self.grid = grid
        self.points, self.weights = gauss_lobatto(n)
        self.derivative = gll_derivative(n)
        self.coordinates = grid.coordinates
        self.ids = grid.ids
        tangent = np.stack([self.reference_gradient(c) for c in self.coordinates])  # [x, r, e, z, y, x]
        self.jacobian = np.linalg.det(np.moveaxis(tangent, (0, 1), (-2, -1)))
        inverse = np.linalg.inv(np.moveaxis(tangent, (0, 1), (-2, -1)))
        self.metrics = np.moveaxis(inverse, (-2, -1), (0, 1))  # d r / d x: [r, x, e, z, y, x]
        self.mass = self.jacobian * np.einsum("k,j,i->kji", *[self.weights] * 3)
        self.assembled_mass = self.assemble(self.mass)
        self.volume = float(self.mass.sum())

    def assemble(self, weak: Array) -> Array:
        """Return weak with the contributions of all elements to a point added, for [..., E, n, n, n]."""
        total = np.zeros((*weak.shape[:-4], self.grid.n_unique))
        for index in np.ndindex(weak.shape[:-4]):
            np.add.at(total[index], self.ids, weak[index])
        return total[..., self.ids]

    def reference_gradient(self, u: Array) -> Array:
        """Return d u / d(r, s, t), [3, ..., E, n, n, n]."""
        d = self.derivative
        along = ("il,...l->...i", "jl,...li->...ji", "kl,...lji->...kji")
        return np.stack([np.einsum(how, d, u) for how in along])

    def gradient(self, u: Array) -> Array:
        """Return d u / d(x, y, z), [3, E, n, n, n]."""
        return np.asarray(np.einsum("rx...,r...->x...", self.metrics, self.reference_gradient(u)))

    def weak_divergence(self, f: Array, weighted: bool = False) -> Array:
        """Return (grad q, f) for every q, unassembled. weighted: f already has the weights of the quadrature."""
        flux = np.einsum("rx...,x...->r...", self.metrics, f) * (1.0 if weighted else self.mass)
        d = self.derivative
        along = ("li,...l->...i", "lj,...li->...ji", "lk,...lji->...kji")
        return np.asarray(sum(np.einsum(how, d, c) for how, c in zip(along, flux)))

    def curl(self, u: Array) -> Array:
        """Return curl u, [3, E, n, n, n], continuous: the mean over elements, weighted by mass."""
        g = np.stack([self.gradient(c) for c in u])  # [component, derivative]
        curl = np.stack([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])
        return self.assemble(curl * self.mass) / self.assembled_mass

    def advection(self, velocity: Array, f: Array, m: int) -> Array:
        """Return (v, u.grad f), unassembled, integrated on m Gauss points per direction; m = 0: on the points."""
        flux = np.einsum("rx...,x...->r...", self.metrics * self.jacobian, velocity)
        if m == 0:
            cube = np.einsum("k,j,i->kji", *[self.weights] * 3)
            return np.asarray((flux * self.reference_gradient(f)).sum(0) * cube)
        to = gauss_interpolation(self.n, m)
        cube = np.einsum("k,j,i->kji", *[gauss(m)[1]] * 3)

        def fine(u: Array) -> Array:
            return np.asarray(np.einsum("kc,jb,ia,...cba->...kji", to, to, to, u, optimize=True))

        contravariant = np.einsum("rx...,x...->r...", fine(self.metrics * self.jacobian), fine(velocity))
        product = (contravariant * fine(self.reference_gradient(f))).sum(0) * cube
        return np.asarray(np.einsum("kc,jb,ia,...kji->...cba", to, to, to, product, optimize=True))

    def stiffness(self) -> sparse.csr_matrix:
        """Return the assembled matrix of (grad q, grad u) on the distinct points."""
        n_elements = self.grid.n_elements
        eye, d = sparse.identity(self.n), sparse.csr_matrix(self.derivative)
        cubes = (
            sparse.kron(eye, sparse.kron(eye, d)),
            sparse.kron(eye, sparse.kron(d, eye)),
            sparse.kron(sparse.kron(d, eye), eye),
        )
        along = [sparse.kron(sparse.identity(n_elements), cube, format="csr") for cube in cubes]
        total = 0
        for x in range(3):
            gradient = sum(sparse.diags(self.metrics[r, x].ravel()) @ along[r] for r in range(3))
            total = total + gradient.T @ sparse.diags(self.mass.ravel()) @ gradient
        q = self.scatter()
        return sparse.csr_matrix(q.T @ total @ q)

    def scatter(self) -> sparse.csr_matrix:
        """Return the matrix from values at distinct points to those of the elements."""
        m = self.ids.size
        return sparse.csr_matrix((np.ones(m), (np.arange(m), self.ids.ravel())), (m, self.grid.n_unique))

    def normal_area(self, side: str) -> Array:
        """Return outward normal times area times quadrature weight at a side, [3, f, n, n]."""
        axis, upper = side_axis(side)
        chosen = self.grid.side_elements(side)
        face = (self.metrics * self.jacobian)[(2 - axis, slice(None), *side_index(side))][:, chosen]
        return np.asarray(face * np.outer(self.weights, self.weights) * (1.0 if upper else -1.0))

    def on_side(self, side: str, faces: Array) -> Array:
        """Return a field that is `faces` [..., f, n, n] on a side and zero elsewhere, unassembled."""
        field = np.zeros((*faces.shape[:-3], *self.grid.shape))
        chosen = np.zeros((*faces.shape[:-3], self.grid.n_elements, self.n, self.n))
        chosen[..., self.grid.side_elements(side), :, :] = faces
        field[(..., *side_index(side))] = chosen
        return field

    def at(self, side: str | None = None) -> tuple[Array, Array, Array]:
        """Return the coordinates (x, y, z) of all points, or of those of a side."""
        x, y, z = self.coordinates if side is None else self.face(side, self.coordinates)
        return x, y, z

    def ids_at(self, side: str) -> NDArray[np.int64]:
        """Return the numbers of the distinct points on a side, [f, n, n]."""
        return np.asarray(self.ids[side_index(side)][self.grid.side_elements(side)])

    def face(self, side: str, field: Array) -> Array:
        """Return the values of a field [..., E, n, n, n] on a side, [..., f, n, n]."""
        return np.asarray(field[(..., *side_index(side))][..., self.grid.side_elements(side), :, :])


class DirectSolver:
    """Solves A u = b on the free points of an assembled matrix; the fixed ones keep their Dirichlet values.

    singular: A u = 0 for constants; u is then 0 at one point, and b must have the sum 0.
    """

    def __init__(self, matrix: sparse.csr_matrix, fixed: Flags, singular: bool = False) -> None:
        free = np.flatnonzero(~fixed)
        self.free = free[1:] if singular else free
        self.matrix = matrix
        self.factors = splu(sparse.csc_matrix(matrix[self.free][:, self.free]))

    def solve(self, b: Array, dirichlet: Array) -> Array:
        """Return u with A u = b on the free points and u = dirichlet on the others, all [n_unique]."""
        u = dirichlet.copy()
        u[self.free] = 0.0
        u[self.free] = self.factors.solve((b - self.matrix @ u)[self.free])
        return u
