"""Viscous traction and heat flux at sides from the weak residual of the solved equations, not from gradients there.

For every basis function q that vanishes where the velocity is given, a step solves

    nu (grad q, grad u) + b_0/dt (q, u) + (q, grad p) = (q, F)

For the basis function of a point on a wall, the difference of both sides is nu <q, du/dn>, the flux through the wall.
Its error falls as the square of that of a gradient at the wall, because u satisfies just this equation, and sums over
the points of walls balance the forces in the volume. It is shared out by area among the faces at the point, also of
several walls, after each has its own gradient:

    flux of a face = nu du/dn area + (residual - sum over all faces of nu du/dn area) area / sum of areas

The other half of the viscous traction needs no derivative across the wall, as div u = 0. It is taken as

    nu ((grad u)^T n - n div u) = nu (grad_s u . n - n div_s u),   grad_s, div_s along the wall

The heat flux k <q, dT/dn> through a side where a scalar T is fixed is the residual of its equation in the same way,

    k (grad q, grad T) + b_0/dt (q, T) = (q, F) + <q, k dT/dn>

and through other sides it is what the settings give.

If the viscosity is nu_0 + nu' and varies, the residual gives the part with nu_0, and nu' (grad u + grad u^T) n is
taken from gradients. The residual of a scalar gives the whole flux, see kernels_diffusion.py.

Source: Gresho and Sani, "Incompressible Flow and the Finite Element Method", 1998, on consistent fluxes; Carey, Chow
and Seager, Comput. Methods Appl. Mech. Eng. 50 (1985) 107, on their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry, Side
from ridgeline.elements.hexahedron import face_places
from ridgeline.models.navier_stokes.derivatives import physical_gradient, weak_divergence
from ridgeline.models.navier_stokes.problem import DIRICHLET, Array, FlowProblem, FlowState
from ridgeline.models.navier_stokes.sources import VISCOSITY_KEY

if TYPE_CHECKING:
    from mpi4py import MPI


class KnownSide(NamedTuple):
    """The known sides of the equations in the step that led to a flow.

    velocity: (q, F) on the host, assembled, [3, E, n, n, n]; scalars: theirs, not assembled and with the given
    fluxes, [S, E, n, n, n], of which only those with fixed sides are used, or None if they are not known; shift:
    b_0/dt; force: what a flow rate adds to F, (x, y, z). What a stable outflow adds is left out: it is 0 at walls at
    rest.
    """

    velocity: Array
    scalars: Array | None
    shift: float
    force: tuple[float, float, float]


class SideFlux(NamedTuple):
    """A flux at the points of a side's faces, times area: by the residual, and by gradients at the side."""

    value: Array
    by_gradients: Array


class _Faces(NamedTuple):
    """Faces of a side: where their points are in a field of the elements of a residual, [f, n, n].

    given: float64 1 or 0, whether the side gives each component, [c, 1, 1, 1].
    """

    side: Side
    places: NDArray[np.int64]
    given: Array


class SideResidual:
    """Shares the residual of an equation with c components at the points of some sides among the faces there.

    given: whether each side of the mesh gives each component, float64 [c]; sides: those whose fluxes are asked for.
    elements: this rank's elements with a point on them. Made collectively.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        geometry: ElementGeometry,
        given: Mapping[str, Array],
        sides: Sequence[str],
        overlap: bool,
    ) -> None:
        grid = geometry.grid
        components = len(next(iter(given.values())))
        self.elements = np.unique(grid.side_points(sides) // grid.n**3)
        self._gather = GatherScatter(comm, grid.ids[self.elements], components, overlap)
        self._faces = {name: self._faces_of(geometry, geometry.sides[name], given[name]) for name in given}
        areas = np.zeros((components, len(self.elements), *(grid.n,) * 3))
        for faces in self._faces.values():
            _add(areas, faces, faces.given * faces.side.area)
        self._gather.sum(areas)
        self._shares = {}
        for name in sides:
            faces = self._faces[name]
            total = areas.reshape(components, -1)[:, faces.places]
            given_area = faces.given * faces.side.area
            self._shares[name] = np.divide(given_area, total, out=np.zeros_like(total), where=total > 0)

    def _faces_of(self, geometry: ElementGeometry, side: Side, given: Array) -> _Faces:
        """Return the faces of a side that the elements have."""
        here = np.isin(side.elements, self.elements)
        part = Side(side.name, side.elements[here], side.faces[here], side.normal_area[here], side.area[here])
        n = geometry.grid.n
        element = np.searchsorted(self.elements, part.elements)
        places = element[:, None, None] * n**3 + face_places(n)[part.faces]
        return _Faces(part, places, given[:, None, None, None])

    def given_faces(self) -> dict[str, Side]:
        """Return the faces that the elements have, of the sides that give a component."""
        return {name: faces.side for name, faces in self._faces.items() if faces.given.any()}

    def given(self, name: str) -> Array:
        """Return which components a side gives, float64 1 or 0, [c, 1, 1, 1]."""
        return self._faces[name].given

    def corrections(self, weak: Array, across: Mapping[str, Array], known: Array) -> dict[str, Array]:
        """Return what to add to the fluxes by gradients at the points of each of the sides, [c, f, n, n]. Collective.

        weak: the left side of the equation on the elements, not assembled, [c, m, n, n, n], changed in place; across:
        fluxes by gradients on `given_faces`; known: the right side, assembled. One exchange with neighbours.
        """
        for name, flux in across.items():
            _add(weak, self._faces[name], -self._faces[name].given * flux)
        self._gather.sum(weak)
        weak -= known
        excess = weak.reshape(len(weak), -1)
        return {name: share * excess[:, self._faces[name].places] for name, share in self._shares.items()}

    def assemble(self, field: Array) -> Array:
        """Return the sums over elements at the points of the sides of a field [c, m, n, n, n]. Collective."""
        assembled = field.copy()
        self._gather.sum(assembled)
        return assembled


def _add(field: Array, faces: _Faces, values: Array) -> None:
    """Add values [c, f, n, n] on faces to a field [c, m, n, n, n] of the elements of a residual."""
    for component, value in zip(field, values):
        np.add.at(component.reshape(-1), faces.places, value)


class SideFluxes:
    """Viscous traction and heat fluxes at some sides of a problem. Made collectively, as all methods are.

    sides: for the traction. heated: for each scalar, the sides for its flux.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        geometry: ElementGeometry,
        problem: FlowProblem,
        sides: Sequence[str],
        heated: Sequence[Sequence[str]] = (),
    ) -> None:
        self._geometry, self._problem = geometry, problem
        self.sides = tuple(sides)
        self.heated = tuple(map(tuple, heated))
        given = {name: _given(comm, problem, side) for name, side in geometry.sides.items()}
        self._momentum: SideResidual | None = None
        if self.sides:
            self._momentum = SideResidual(comm, geometry, given, self.sides, problem.overlap)
        self._heat: list[SideResidual | None] = []
        for scalar, names in zip(problem.scalars, self.heated):
            fixed = {name: np.array([float(side.kind == "fixed")]) for name, side in scalar.sides.items()}
            chosen = [name for name in names if fixed[name].any()]
            self._heat.append(
                SideResidual(comm, geometry, fixed, chosen, problem.overlap) if chosen else None
            )

    def traction(self, flow: FlowState, step: KnownSide | None) -> dict[str, SideFlux]:
        """Return nu (grad u + grad u^T) n area at the points of each of the sides, [3, f, n, n]. Collective.

        n: out of the fluid; step: that led to the flow, None if none did: the fluxes are then those of gradients.
        Computed by NumPy on the elements with a point on the sides.
        """
        geometry, viscosity = self._geometry, self._problem.viscosity
        fluxes, along, excess = {}, {}, {}
        for name in self.sides:
            side = geometry.sides[name]
            gradients = _gradients(geometry, side, flow.velocity)
            fluxes[name] = viscosity * _strain(side, gradients)
            divergence = sum(gradient[i] for i, gradient in enumerate(gradients))
            along[name] = -viscosity * _normal(side) * divergence
            excess[name] = self._excess(VISCOSITY_KEY, side, flow) * _strain(side, gradients)
        residual = self._momentum
        if step is None or residual is None:
            return {name: SideFlux(flux + excess[name], flux + excess[name]) for name, flux in fluxes.items()}

        elements = residual.elements
        mass = geometry.mass[elements]
        weak = physical_gradient(geometry, flow.pressure, elements)
        for left, u, force in zip(weak, flow.velocity, step.force):
            left += step.shift * u[elements] - force
            left *= mass
            gradient = physical_gradient(geometry, u, elements)
            left += viscosity * weak_divergence(geometry, mass * gradient, elements)
        across = {}
        for name, faces in residual.given_faces().items():
            gradients = _gradients(geometry, faces, flow.velocity)
            across[name] = viscosity * np.stack([(g * _normal(faces)).sum(axis=0) for g in gradients])
        added = residual.corrections(weak, across, step.velocity[:, elements])
        for name, part in along.items():
            added[name] += residual.given(name) * part
        return {
            name: SideFlux(flux + excess[name] + added[name], flux + excess[name])
            for name, flux in fluxes.items()
        }

    def heat(self, number: int, flow: FlowState, step: KnownSide | None) -> dict[str, SideFlux]:
        """Return k dT/dn area of a scalar at the points of each of its heated sides, [f, n, n]. Collective.

        It is the flux into the fluid. Arguments as for `traction`.
        """
        geometry, scalar = self._geometry, self._problem.scalars[number]
        theta, diffusivity = flow.scalars[number], scalar.diffusivity

        def by_gradients(side: Side) -> Array:
            varies = self._excess(f"scalar.{number}.diffusivity_formula", side, flow)
            return heat_by_gradients(geometry, diffusivity + varies, side, theta)

        fluxes = {name: by_gradients(geometry.sides[name]) for name in self.heated[number]}
        if step is None or step.scalars is None:
            return {name: SideFlux(flux, flux) for name, flux in fluxes.items()}
        values = {name: self._prescribed(number, name, flow) for name in fluxes}
        residual = self._heat[number]
        if residual is not None:
            elements = residual.elements
            mass = geometry.mass[elements]
            gradient = physical_gradient(geometry, theta, elements)
            weak = diffusivity * weak_divergence(geometry, mass * gradient, elements)
            weak += mass * (step.shift * theta[elements])
            across = {name: by_gradients(faces)[None] for name, faces in residual.given_faces().items()}
            known = residual.assemble(step.scalars[number][None, elements])
            for name, correction in residual.corrections(weak[None], across, known).items():
                values[name] = fluxes[name] + correction[0]
        return {name: SideFlux(values[name], flux) for name, flux in fluxes.items()}

    def _excess(self, key: str, side: Side, flow: FlowState) -> Array | float:
        """Return a coefficient less its reference at the points of a side, [f, n, n], 0 if it is constant."""
        for each in self._problem.variable_coefficients:
            if each.key == key:
                places = side.take(self._geometry.coordinates)
                return each.evaluate(places, flow.time, _fields_at(side, flow)) - each.reference
        return 0.0

    def _prescribed(self, number: int, name: str, flow: FlowState) -> Array:
        """Return the flux that the settings give at a side, times area, [f, n, n]; 0 without one."""
        side, condition = self._geometry.sides[name], self._problem.scalars[number].sides[name]
        if condition.kind != "flux" or condition.value is None:
            return np.zeros_like(side.area)
        places = side.take(self._geometry.coordinates)
        return np.asarray(side.area * condition.value_at(places, flow.time, lambda: _fields_at(side, flow)))


def traction_by_gradients(geometry: ElementGeometry, viscosity: float, side: Side, velocity: Array) -> Array:
    """Return nu (grad u + grad u^T) n area at the points of a side's faces, [3, f, n, n]. No communication."""
    return viscosity * _strain(side, _gradients(geometry, side, velocity))


def heat_by_gradients(
    geometry: ElementGeometry, diffusivity: Array | float, side: Side, theta: Array
) -> Array:
    """Return k dT/dn area at the points of a side's faces, [f, n, n]. No communication."""
    (gradient,) = _gradients(geometry, side, theta[None])
    return np.asarray(diffusivity * (gradient * _normal(side)).sum(axis=0))


def _fields_at(side: Side, flow: FlowState) -> Array:
    """Return velocity and scalars at the points of a side's faces, [3 + S, f, n, n]."""
    return np.stack([side.take(field) for field in (*flow.velocity, *flow.scalars)])


def _normal(side: Side) -> Array:
    """Return n area at the points of a side's faces, [3, f, n, n]."""
    return side.normal_area.transpose(1, 0, 2, 3)


def _strain(side: Side, gradients: Sequence[Array]) -> Array:
    """Return (grad u + grad u^T) n area, [3, f, n, n], from the gradient of each component."""
    normal = _normal(side)
    strain = np.zeros(normal.shape)
    for i, gradient in enumerate(gradients):
        strain[i] += (gradient * normal).sum(axis=0)
        strain += gradient * normal[i]
    return strain


def _gradients(geometry: ElementGeometry, side: Side, fields: Array) -> list[Array]:
    """Return the gradient of each field at the points of a side's faces, [3, f, n, n]."""
    return [side.of_elements(physical_gradient(geometry, field, side.elements)) for field in fields]


def _given(comm: MPI.Comm, problem: FlowProblem, side: Side) -> Array:
    """Return which components of the velocity a side gives, float64 1 or 0, [3]. Collective."""
    kind, given = problem.sides[side.name].kind, np.zeros(3)
    if kind == "symmetry":
        given[np.argmax(comm.allreduce(np.abs(side.normal_area).sum(axis=(0, 2, 3))))] = 1.0
    else:
        given[:] = kind in DIRICHLET
    return given
