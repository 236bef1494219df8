"""Checks of a mesh from a file: mirrored elements (which are reversed), folded elements, faces without a partner."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ridgeline.elements.geometry import CHUNK, reference_gradient
from ridgeline.elements.hexahedron import FACE_CORNERS, face_places
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.meshes.raw_mesh import RawMesh
from ridgeline.elements.meshes.topology import face_permutations
from ridgeline.elements.quadrature import derivative_matrix, gauss_lobatto, gll_derivative
from ridgeline.runtime.errors import ConfigError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

NEAR = 1e-6  # of an edge: places that are nearer are the same
FIT = 1e-4  # of a face: surfaces that are nearer are the same
MOST_FACES = 1000  # without a partner, whose neighbourhoods are searched
MOST_PLACES = 10_000  # that are examined in these neighbourhoods
NEWTON_STEPS = 12


def jacobians(places: Array, derivative: Array) -> tuple[Array, Array]:
    """Return the Jacobians J of elements at their points, and the scaled ones, both [m, q, q, q].

    places: coordinates [3, m, q, q, q]. The scaled Jacobian J/(|x_r| |x_s| |x_t|) is 1 where the directions of an
    element are at right angles and 0 where the element is flat. Source: Knupp, Ernst, Thompson, Stimpson and Pebay,
    Verdict, SAND2007-1751.
    """
    tangents = [np.stack(t) for t in zip(*(reference_gradient(c, derivative) for c in places))]
    x_r, x_s, x_t = tangents
    jacobian = (x_r * np.cross(x_s, x_t, axis=0)).sum(axis=0)
    lengths = np.prod([np.sqrt((t**2).sum(axis=0)) for t in tangents], axis=0)
    return jacobian, jacobian / np.where(lengths > 0, lengths, 1.0)


def right_handed(raw: RawMesh) -> tuple[RawMesh, int]:
    """Return the mesh with mirrored elements reversed in their third direction, and how many they were.

    Raises ConfigError that names an element that folds at the points of the file.
    """
    derivative = derivative_matrix(raw.points)
    mirrored = np.zeros(raw.n_elements, np.bool_)
    step = max(1, CHUNK // (12 * len(raw.points) ** 3))
    for start in range(0, raw.n_elements, step):
        jacobian, _ = jacobians(raw.nodes[:, start : start + step], derivative)
        jacobian = jacobian.reshape(-1, len(raw.points) ** 3)
        low, high = jacobian.min(axis=1), jacobian.max(axis=1)
        mirrored[start : start + step] = high < 0
        bad = np.flatnonzero(~((low > 0) | (high < 0)))
        if len(bad):
            raise raw.error(
                f"{raw.name(start + int(bad[0]))} is folded, with a Jacobian of {low[bad[0]]:.3g}",
                "The Jacobian must have one sign in the whole element. Correct the mesh",
            )
    if not mirrored.any():
        return raw, 0
    nodes, corners = raw.nodes.copy(), raw.corners.copy()
    nodes[:, mirrored] = nodes[:, mirrored, ::-1]
    corners[mirrored] = np.roll(corners[mirrored], 4, axis=1)
    named, pairs = raw.named.copy(), raw.pairs.copy()
    # Columns (element, face) of the tables: the third direction has faces 4 and 5.
    for table in (named[:, :2], pairs[:, :2], pairs[:, 2:]):
        table[mirrored[table[:, 0]] & (table[:, 1] >= 4), 1] ^= 1
    return replace(raw, nodes=nodes, corners=corners, named=named, pairs=pairs), int(mirrored.sum())


class WorstElement(NamedTuple):
    """The worst element of a mesh: its least scaled Jacobian, the place of that, and words that name the element."""

    scaled: float
    place: tuple[float, float, float]
    element: str


def worst_element(mesh: Mesh, positions: Indices, order: int) -> WorstElement:
    """Return the worst of some elements at the Gauss-Lobatto points of an order.

    Raises ConfigError that names the element whose map folds.
    """
    n = order + 1
    points, derivative = gauss_lobatto(n)[0], gll_derivative(n)
    step = max(1, CHUNK // (12 * n**3))
    worst = WorstElement(math.inf, (0.0, 0.0, 0.0), "")
    for start in range(0, len(positions), step):
        some = positions[start : start + step]
        places = mesh.places(some, points)
        jacobian, scaled = jacobians(places, derivative)
        least = jacobian.reshape(len(some), -1).min(axis=1)
        bad = int(np.argmin(least))
        if not least[bad] > 0:
            raise ConfigError(
                f"the mapping of the mesh folds {mesh.name_of(some[bad])}, where the Jacobian falls to "
                f"{least[bad]:.3g} at order {order}. It must be > 0 everywhere. Check {mesh.advice}, or use more "
                "elements."
            )
        at = np.unravel_index(np.argmin(scaled), scaled.shape)
        if scaled[at] < worst.scaled:
            x, y, z = (float(c[at]) for c in places)
            worst = WorstElement(float(scaled[at]), (x, y, z), mesh.name_of(some[at[0]]))
    return worst


def require_fitting(raw: RawMesh, pairs: Indices, codes: Indices) -> None:
    """Raise ConfigError if two elements give the face that they share different surfaces, apart from a translation.

    pairs: int64 [p, 2] of faces 6 e + f; codes: how the corners of the second lie in the first.
    """
    q = len(raw.points)
    places, permutations = face_places(q).reshape(6, -1), face_permutations(q).reshape(8, -1)
    flat = raw.nodes.reshape(3, raw.n_elements, -1)
    step = max(1, CHUNK // (20 * q * q))
    for start in range(0, len(pairs), step):
        (a, b), code = pairs[start : start + step].T, codes[start : start + step]
        order = np.take_along_axis(places[a % 6], permutations[code], axis=1)
        first, second = flat[:, a[:, None] // 6, order], flat[:, b[:, None] // 6, places[b % 6]]
        size = np.ptp(first, axis=2).max(axis=0)
        first, second = (c - c[:, :, :1] for c in (first, second))
        bad = np.flatnonzero(np.abs(first - second).max(axis=(0, 2)) > FIT * size)
        if len(bad):
            one, other = (raw.name(*divmod(int(faces[bad[0]]), 6)) for faces in (a, b))
            raise raw.error(
                f"{one} and {other} are the same face but are curved differently",
                "Curve the edges of both elements in the same way",
            )


def require_closed(raw: RawMesh, alone: Indices) -> None:
    """Raise ConfigError if there are faces 6 e + f that belong to no side and to no other element."""
    if not len(alone):
        return
    corners = raw.corner_places()
    faces = corners[alone[:, None] // 6, FACE_CORNERS[alone % 6]]  # [s, 4, 3]
    hanging = _find_hanging_face(faces[:MOST_FACES], faces)
    if hanging is not None:
        number, other = hanging
        element, face = divmod(int(alone[number]), 6)
        raise raw.error(
            f"{raw.name(element, face)} is not conforming, because a corner of element "
            f"{raw.numbers[alone[other] // 6]} lies inside it",
            "Faces of neighbours must have the same corners. Refine both sides in the same way",
        )
    element, face = divmod(int(alone[0]), 6)
    more = f", like {len(alone) - 1} more faces" if len(alone) > 1 else ""
    raise raw.error(
        f"{raw.name(element, face)} belongs to no other element and to no side{more}",
        "Assign every face of the surface to a named side (a physical surface in Gmsh), and join volumes that touch",
    )


def _find_hanging_face(some: Array, faces: Array) -> tuple[int, int] | None:
    """Return the first (face of `some`, face) of which a corner lies inside the former. some, faces: [s, 4, 3]."""
    places = faces.reshape(-1, 3)
    tree = cKDTree(places)
    centre = some.mean(axis=1)
    reach = np.sqrt(((some - centre[:, None]) ** 2).sum(axis=2)).max(axis=1)
    left = MOST_PLACES
    for number in range(len(some)):
        near = tree.query_ball_point(centre[number], reach[number] * (1 + NEAR))
        # A bilinear face lies in the box around its corners. A damaged face may have all others near it.
        low, high = (bound(some[number], axis=0) for bound in (np.min, np.max))
        beside = np.asarray(near)
        apart = np.maximum(low - places[beside], places[beside] - high).max(axis=1)
        for place in beside[apart <= 100 * NEAR * reach[number]][:left].tolist():
            if _is_inside(places[place], some[number], NEAR * reach[number]):
                return number, place // 4
            left -= 1
    return None


def _is_inside(point: Array, face: Array, distance: float) -> bool:
    """Return whether a point lies on a bilinear face, [4, 3], and is not one of its corners."""
    if np.sqrt(((face - point) ** 2).sum(axis=1)).min() <= distance:
        return False
    at = np.array([0.5, 0.5])
    for _ in range(NEWTON_STEPS):
        a, b = at
        weights = np.array([(1 - a) * (1 - b), (1 - a) * b, a * (1 - b), a * b])
        slopes = np.array([[b - 1, -b, 1 - b, b], [a - 1, 1 - a, -a, a]])
        away = point - weights @ face
        at = np.clip(at + np.linalg.lstsq((slopes @ face).T, away, rcond=None)[0], -1.0, 2.0)
    inside = (at >= -NEAR).all() and (at <= 1 + NEAR).all()
    return bool(inside and np.sqrt((away**2).sum()) <= 100 * distance)
