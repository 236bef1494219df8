"""The Courant number that a case begins with, over its time step: what `ridgeline check` says without a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.courant import inverse_spacing
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models.navier_stokes.exact import Array
from ridgeline.models.navier_stokes.initial import initial_velocity
from ridgeline.models.navier_stokes.problem import DIRICHLET, VelocitySide, sides_of
from ridgeline.models.navier_stokes.problem_of_case import velocity_sides

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ridgeline.models.navier_stokes.settings import NavierStokesCase

MOST_ELEMENTS = 512  # that are all looked at; of a larger mesh as many, and some at each side with a value
GROUP = 64  # elements at a time


@dataclass(frozen=True, eq=False)
class ChosenElements(ElementGrid):
    """Any elements of a mesh, as if a rank had them. chosen: their positions."""

    chosen: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 3), np.int64))

    @property
    def n_elements(self) -> int:
        """How many."""
        return len(self.chosen)

    @property
    def positions(self) -> NDArray[np.int64]:
        """Their positions."""
        return self.chosen


def _groups(mesh: Mesh, sides: Mapping[str, VelocitySide]) -> Iterator[NDArray[np.int64]]:
    """Yield positions of elements: all, or evenly spread ones and of each side with a value some."""
    total = mesh.n_elements
    parts = -(-total // GROUP)
    for part in np.unique(np.linspace(0, parts - 1, min(parts, MOST_ELEMENTS // GROUP)).astype(np.int64)):
        first = int(part) * GROUP
        yield mesh.range(first, min(GROUP, total - first))
    if total <= MOST_ELEMENTS:
        return
    for name in (name for name, side in sides.items() if side.value is not None):
        yield mesh.side_positions(name, GROUP)


def first_courant_rate(case: NavierStokesCase, mesh: Mesh) -> float:
    """Return the largest |u_r|/dr + |u_s|/ds + |u_t|/dt before step 1, 1/time, as the engine finds it.

    Of the flow of step 0 with what its sides give, and of that which a held flow rate makes; over `_groups`.
    """
    sides, forcing = velocity_sides(case), case.model.forcing
    along = np.zeros(3)
    if forcing.kind == "flow-rate":
        along["xyz".index(forcing.direction)] = forcing.bulk_velocity or 0.0
    largest = 0.0
    for positions in _groups(mesh, sides):
        grid = ChosenElements(mesh, case.grid.order, chosen=positions)
        geometry = ElementGeometry(grid)
        velocity = initial_velocity(case, *grid.coordinates)
        _write_dirichlet(velocity, geometry, sides)
        for u in (velocity, np.broadcast_to(along[:, None, None, None, None], velocity.shape)):
            largest = max(largest, _rate(geometry, u))
    return largest


def _write_dirichlet(velocity: Array, geometry: ElementGeometry, sides: Mapping[str, VelocitySide]) -> None:
    """Put the Dirichlet velocities at time 0 into a field [3, e, n, n, n]."""
    grid = geometry.grid
    for name in sides_of(sides, "symmetry"):
        across = int(np.argmax(np.abs(geometry.sides[name].normal_area).sum(axis=(0, 2, 3))))
        velocity[across].reshape(-1)[grid.side_points([name])] = 0.0
    for name in sides_of(sides, *DIRICHLET):
        places, value = grid.side_points([name]), sides[name].value
        x, y, z = grid.coordinates.reshape(3, -1)[:, places]
        velocity.reshape(3, -1)[:, places] = 0.0 if value is None else np.asarray(value(x, y, z, 0.0))


def _rate(geometry: ElementGeometry, u: Array) -> float:
    inverse = inverse_spacing(gauss_lobatto(geometry.grid.n)[0])
    rate = np.zeros(u.shape[1:])
    for axis in range(3):
        if geometry.axis_aligned:
            across = u[axis] * geometry.scale[:, axis, None, None, None]
        else:
            across = (u.swapaxes(0, 1) * geometry.metrics[:, 3 * axis : 3 * axis + 3]).sum(axis=1)
        shape = [1, 1, 1, 1]
        shape[3 - axis] = len(inverse)
        rate += np.abs(across) * inverse.reshape(shape)
    return float(rate.max())
