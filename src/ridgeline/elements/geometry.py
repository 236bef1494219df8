"""The geometry of spectral elements for integration and differentiation: metrics, Jacobians, surfaces.

The map of an element is the polynomial through its points (isoparametric), so that constants and divergences come
out consistently. An axis-aligned element needs three scale factors and a volume; the mass matrix is the only array of
points that is kept for it. Source: Deville, Fischer, Mund (2002), Secs. 4.3 and 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.hexahedron import face_index, face_places
from ridgeline.elements.mesh import ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto, gll_derivative
from ridgeline.runtime.errors import ConfigError

Array = NDArray[np.float64]

CHUNK = 2**22  # numbers of temporary arrays at a time
MOST_FACES = 6  # of one element at one side of a mesh


def reference_gradient(u: Array, derivative: Array) -> tuple[Array, Array, Array]:
    """Return (u_r, u_s, u_t) of a field [..., z, y, x]: derivatives in the reference directions."""
    along_r = u @ derivative.T
    along_s = derivative @ u
    flat = u.reshape(*u.shape[:-2], u.shape[-2] * u.shape[-1])
    along_t = (derivative @ flat).reshape(u.shape)
    return along_r, along_s, along_t


@dataclass(frozen=True, eq=False)
class Side:
    """The faces of this rank's elements at one side of the mesh.

    elements: int64 [f], local indices. faces: int64 [f], 0 ... 5, ascending; an element may have several faces here.
    normal_area: float64 [f, 3, n, n], outward normal times area times quadrature weight at each point. area: its
    length, [f, n, n]. The axes of a face are those of the field without the axis across the face.
    """

    name: str
    elements: NDArray[np.int64]
    faces: NDArray[np.int64]
    normal_area: Array
    area: Array

    @cached_property
    def parts(self) -> list[tuple[int, slice]]:
        """The runs of equal faces: (face, which of the f elements)."""
        starts = np.searchsorted(self.faces, np.arange(7))
        return [
            (face, slice(*starts[face : face + 2])) for face in range(6) if starts[face] < starts[face + 1]
        ]

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return face_places(self.area.shape[-1])[self.faces]

    def take(self, field: NDArray[Any]) -> NDArray[Any]:
        """Return the values of a field [..., e, z, y, x] on the faces, [..., f, n, n]."""
        n = self.area.shape[-1]
        flat = field.reshape(*field.shape[:-4], -1)
        return np.asarray(flat[..., self.elements[:, None, None] * n**3 + self._places])

    def of_elements(self, values: Array) -> Array:
        """Return the values on the faces, [..., f, n, n], of values [..., f, z, y, x] of their elements."""
        every = np.arange(len(self.faces))[:, None, None]
        flat = values.reshape(*values.shape[:-3], self.area.shape[-1] ** 3)
        return np.asarray(flat[..., every, self._places])

    def add(self, values: Array, field: Array) -> None:
        """Add values on the faces [f, n, n] to a field [E, n, n, n]."""
        for face, part in self.parts:
            field[face_index(face)][self.elements[part]] += values[part]


class ElementGeometry:
    """Compute the geometry of one rank's elements, float64 throughout.

    Parameters
    ----------
    grid : ElementGrid
        The elements.

    Attributes
    ----------
    derivative, weights : [n, n] and [n], of one direction
    coordinates : [3, E, n, n, n]
    mass : [E, n, n, n], quadrature weight times Jacobian
    scale, volume : [E, 3] = (dr/dx, ds/dy, dt/dz) and [E] = Jacobian on axis-aligned meshes; otherwise empty
    metrics, factors : [E, 9, n, n, n] = r_x, r_y, r_z, s_x, ..., t_z and [E, 6, n, n, n] = G_rr, G_rs, G_rt, G_ss,
        G_st, G_tt with weight and Jacobian on curved meshes; otherwise without elements
    extents : [E, 3], the mean lengths along r, s, t

    Raises
    ------
    ConfigError
        If the Jacobian of an element's map is not positive; the message names the element.

    Examples
    --------
    >>> from ridgeline.elements.geometry import ElementGeometry
    >>> from ridgeline.elements.mesh import BoxMesh, ElementGrid
    >>> geometry = ElementGeometry(ElementGrid(BoxMesh.box((1, 1, 2), (1.0, 1.0, 3.0)), order=4))
    >>> round(float(geometry.mass.sum()), 12), geometry.coordinates.shape  # the volume of the box
    (3.0, (3, 2, 5, 5, 5))
    """

    def __init__(self, grid: ElementGrid) -> None:
        n = grid.n
        self.grid = grid
        self.axis_aligned = grid.mesh.axis_aligned
        self.derivative = gll_derivative(n)
        self.weights = gauss_lobatto(n)[1]
        self.coordinates = grid.coordinates
        self._cube = np.einsum("k,j,i->kji", self.weights, self.weights, self.weights)
        if self.axis_aligned:
            lengths = grid.mesh.box_lengths(grid.positions)
            if not (lengths > 0).all():
                raise ConfigError("an element has no volume. Check grid.lengths and grid.distribution.")
            self.scale = 2.0 / lengths
            self.volume = lengths.prod(axis=1) / 8.0
            self.metrics = np.empty((0, 9, n, n, n))
            self.factors = np.empty((0, 6, n, n, n))
            self.mass = self.volume[:, None, None, None] * self._cube
            self.extents = lengths
        else:
            self.scale, self.volume = np.empty((0, 3)), np.empty(0)
            self.metrics = np.empty((grid.n_elements, 9, n, n, n))
            self.factors = np.empty((grid.n_elements, 6, n, n, n))
            self.mass = np.empty(grid.shape)
            self.extents = np.empty((grid.n_elements, 3))
            per_element = 30 * n**3
            step = max(1, CHUNK // per_element)
            for start in range(0, grid.n_elements, step):
                self._set_curved(slice(start, min(start + step, grid.n_elements)))

    def _set_curved(self, chunk: slice) -> None:
        """Set the arrays of some curved elements."""
        tangents = self._tangents(chunk)
        adjugate, jacobian = _cross_products(tangents)
        worst = jacobian.reshape(len(jacobian), -1).min(axis=1)
        if not (worst > 0).all():
            local = int(np.argmin(worst))
            name = self.grid.mesh.name_of(self.grid.positions[chunk][local])
            raise ConfigError(
                f"the mapping of the mesh folds {name}, where the Jacobian falls to {worst[local]:.3g}. It must be "
                f"> 0 everywhere. Check {self.grid.mesh.advice}, or use more elements."
            )
        metrics = adjugate / jacobian
        mass = jacobian * self._cube
        self.mass[chunk] = mass
        for row in range(3):
            for column in range(3):
                self.metrics[chunk, 3 * row + column] = metrics[row, column]
        pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        for place, (a, b) in enumerate(pairs):
            self.factors[chunk, place] = mass * (metrics[a] * metrics[b]).sum(axis=0)
        # The mean length along a direction is the length of the tangent, integrated over the reference cube.
        for direction in range(3):
            speed = np.sqrt((tangents[:, direction] ** 2).sum(axis=0))
            self.extents[chunk, direction] = (speed * self._cube).sum(axis=(1, 2, 3)) / 4.0

    def _tangents(self, elements: slice | NDArray[np.int64]) -> Array:
        """Return d(x, y, z)/d(r, s, t) of some elements: [3 of x, 3 of r, e, n, n, n]."""
        return np.stack(
            [np.stack(reference_gradient(c[elements], self.derivative)) for c in self.coordinates]
        )

    @cached_property
    def sides(self) -> dict[str, Side]:
        """The faces at the sides of the mesh by name, including the periodic sides of a box."""
        return {name: self._side(name) for name in self.grid.mesh.sides}

    def _side(self, name: str) -> Side:
        elements, faces = self.grid.side_faces(name)
        n = self.grid.n
        weights = np.outer(self.weights, self.weights)
        normal_area = np.empty((len(elements), 3, n, n))
        for face in np.unique(faces):
            part = faces == face
            adjugate, _ = _cross_products(self._tangents(elements[part]))
            # J grad r, s or t on the face: [3, f, n, n]
            normal = adjugate[(face // 2, slice(None), *face_index(face))]
            normal_area[part] = (normal if face % 2 else -normal).transpose(1, 0, 2, 3) * weights
        area = np.sqrt((normal_area**2).sum(axis=1))
        return Side(name, elements, faces, normal_area, area)


def _cross_products(tangents: Array) -> tuple[Array, Array]:
    """Return J grad(r, s, t) [3 of r, 3 of x, ...] and the Jacobian J [...] from d(x)/d(r) [3 of x, 3 of r, ...]."""
    x_r, x_s, x_t = (tangents[:, direction] for direction in range(3))
    adjugate = np.stack([np.cross(x_s, x_t, axis=0), np.cross(x_t, x_r, axis=0), np.cross(x_r, x_s, axis=0)])
    return adjugate, (x_r * adjugate[0]).sum(axis=0)
