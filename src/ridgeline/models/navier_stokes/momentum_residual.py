"""The viscous traction on sides from the weak residual of the momentum equation: it converges faster than gradients.

For every basis function q that vanishes where the velocity is given, a step solves

    nu (grad q, grad u) + b_0/dt (q, u) + (q, grad p) = (q, F)

For the basis function of a point on a wall, the difference of both sides is nu <q, du/dn>, the flux through the wall.
Its error falls as the square of that of a gradient at the wall, because u satisfies just this equation, and sums over
the points of walls balance the forces in the volume. It is shared out by area among the faces at the point, also of
several walls, after each has its own gradient:

    flux of a face = nu du/dn area + (residual - sum over all faces of nu du/dn area) area / sum of areas

The other half of the viscous traction needs no derivative across the wall, as div u = 0. It is taken as

    nu ((grad u)^T n - n div u) = nu (grad_s u . n - n div_s u),   grad_s, div_s along the wall

Source: Gresho and Sani, "Incompressible Flow and the Finite Element Method", 1998, on consistent fluxes; Carey, Chow
and Seager, Comput. Methods Appl. Mech. Eng. 50 (1985) 107, on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry, Side
from ridgeline.elements.hexahedron import face_places
from ridgeline.models.navier_stokes.derivatives import physical_gradient, weak_divergence
from ridgeline.models.navier_stokes.problem import DIRICHLET, Array, FlowProblem, FlowState

if TYPE_CHECKING:
    from mpi4py import MPI


class KnownSide(NamedTuple):
    """The known side of the velocity's equation in the step that led to a flow.

    weak: (q, F) on the host, assembled, [3, E, n, n, n]; shift: b_0/dt; force: what a flow rate adds to F, (x, y, z).
    What a stable outflow adds is left out: it is 0 at walls at rest.
    """

    weak: Array
    shift: float
    force: tuple[float, float, float]


class _Faces(NamedTuple):
    """Faces of a side: where their points are in a field of the elements of `MomentumResidual`, [f, n, n].

    given: the components (x, y, z) of the velocity that the side gives, float64 1 or 0, [3, 1, 1, 1].
    """

    side: Side
    places: NDArray[np.int64]
    given: Array


class MomentumResidual:
    """The residual at the points of some sides. Made collectively."""

    def __init__(
        self, comm: MPI.Comm, geometry: ElementGeometry, problem: FlowProblem, sides: Sequence[str]
    ) -> None:
        grid = geometry.grid
        self._geometry, self._viscosity = geometry, problem.viscosity
        self._elements = np.unique(grid.side_points(sides) // grid.n**3)
        self._gather = GatherScatter(comm, grid.ids[self._elements], 3, problem.overlap)
        self._faces = {name: self._faces_of(comm, problem, side) for name, side in geometry.sides.items()}
        areas = np.zeros((3, len(self._elements), *(grid.n,) * 3))
        for faces in self._faces.values():
            _add(areas, faces, faces.given * faces.side.area)
        self._gather.sum(areas)
        self._shares = {}
        for name in sides:
            total = areas.reshape(3, -1)[:, self._faces[name].places]
            given = self._faces[name].given * self._faces[name].side.area
            self._shares[name] = np.divide(given, total, out=np.zeros_like(total), where=total > 0)

    def _faces_of(self, comm: MPI.Comm, problem: FlowProblem, side: Side) -> _Faces:
        """Return the faces of a side that the elements have. Collective."""
        kind, given = problem.sides[side.name].kind, np.zeros(3)
        if kind == "symmetry":
            given[np.argmax(comm.allreduce(np.abs(side.normal_area).sum(axis=(0, 2, 3))))] = 1.0
        else:
            given[:] = kind in DIRICHLET
        here = np.isin(side.elements, self._elements)
        part = Side(side.name, side.elements[here], side.faces[here], side.normal_area[here], side.area[here])
        n = self._geometry.grid.n
        element = np.searchsorted(self._elements, part.elements)
        places = element[:, None, None] * n**3 + face_places(n)[part.faces]
        return _Faces(part, places, given[:, None, None, None])

    def corrections(self, flow: FlowState, step: KnownSide) -> dict[str, Array]:
        """Return what to add to nu (grad u + grad u^T) n area at the points of each side's faces, [3, f, n, n].

        flow: that the step led to. Computed by NumPy on the elements with a point on the sides. Collective: one
        exchange with neighbours.
        """
        geometry, elements, viscosity = self._geometry, self._elements, self._viscosity
        mass = geometry.mass[elements]
        weak = physical_gradient(geometry, flow.pressure, elements)
        for residual, u, force in zip(weak, flow.velocity, step.force):
            residual += step.shift * u[elements] - force
            residual *= mass
            gradient = physical_gradient(geometry, u, elements)
            residual += viscosity * weak_divergence(geometry, mass * gradient, elements)

        along = {}
        for name, faces in self._faces.items():
            if not faces.given.any():
                continue
            side, normal = faces.side, faces.side.normal_area.transpose(1, 0, 2, 3)
            gradients = [
                side.of_elements(physical_gradient(geometry, u, side.elements)) for u in flow.velocity
            ]
            across = np.stack([(gradient * normal).sum(axis=0) for gradient in gradients])
            _add(weak, faces, -viscosity * faces.given * across)
            if name in self._shares:
                divergence = sum(gradient[i] for i, gradient in enumerate(gradients))
                along[name] = -viscosity * faces.given * normal * divergence

        self._gather.sum(weak)
        weak -= step.weak[:, elements]
        excess = weak.reshape(3, -1)
        return {
            name: along.get(name, 0.0) + share * excess[:, self._faces[name].places]
            for name, share in self._shares.items()
        }


def _add(field: Array, faces: _Faces, values: Array) -> None:
    """Add values [3, f, n, n] on faces to a field [3, m, n, n, n] of the elements of a residual."""
    for component, value in zip(field, values):
        np.add.at(component.reshape(-1), faces.places, value)
