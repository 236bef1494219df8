"""Two sides of a mesh that are one: which face meets which, after a translation that is found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ridgeline.elements.hexahedron import FACE_CORNERS
from ridgeline.elements.meshes.raw import RawMesh
from ridgeline.elements.meshes.topology import code_of
from ridgeline.runtime.errors import ConfigError

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

NEAR = 1e-4  # of the shortest diagonal of a face: places that are nearer are one


def _shift(first: Array, second: Array) -> Array:
    return np.asarray(second.mean(axis=(0, 1)) - first.mean(axis=(0, 1)))


def match_sides(raw: RawMesh, first: Indices, second: Indices, words: str) -> tuple[Indices, Array]:
    """Return which faces of two sides meet, int64 [p, 2] of faces 6 e + f, and the translation, [3].

    first, second: int64, faces of the two sides; words: name them. Raises ConfigError if they do not match.
    """
    corners = raw.corner_places()
    a, b = (corners[faces[:, None] // 6, FACE_CORNERS[faces % 6]] for faces in (first, second))
    shift = _shift(a, b)
    if len(first) != len(second):
        raise raw.error(
            f"{words} are periodic and have {len(first)} and {len(second)} faces", "need equal meshes there"
        )
    near = NEAR * float(np.sqrt(((a[:, 3] - a[:, 0]) ** 2).sum(axis=1)).min())
    apart, partner = cKDTree(b.mean(axis=1)).query(a.mean(axis=1) + shift)
    bad = np.flatnonzero(apart > near)
    if len(bad) or len(np.unique(partner)) < len(partner):
        at = int(bad[0]) if len(bad) else 0
        x, y, z = shift
        raise raw.error(
            f"{words} are periodic by the translation ({x:.6g}, {y:.6g}, {z:.6g}), and "
            f"{raw.name(*divmod(int(first[at]), 6))} has no partner",
            "need two sides that are equal but for a translation",
        )
    return np.stack([first, second[partner]], axis=1), shift


def codes_of_pairs(raw: RawMesh, pairs: Indices) -> Indices:
    """Return how the corners of the second face of each pair lie in the first, after a translation, int64 [p]."""
    corners = raw.corner_places()
    a, b = (corners[faces[:, None] // 6, FACE_CORNERS[faces % 6]] for faces in pairs.T)
    a, b = (c - c.mean(axis=1, keepdims=True) for c in (a, b))
    apart = ((b[:, :, None] - a[:, None]) ** 2).sum(axis=3)  # [p, corner of second, of first]
    found = code_of(np.broadcast_to(np.arange(4), (len(pairs), 4)), apart.argmin(axis=2))
    size = ((a[:, 3] - a[:, 0]) ** 2).sum(axis=1)
    bad = np.flatnonzero((found < 0) | (apart.min(axis=2).max(axis=1) > NEAR**2 * size))
    if len(bad):
        raise _no_translation(raw, pairs[bad[0]])
    return found


def _no_translation(raw: RawMesh, pair: Indices) -> ConfigError:
    one, other = (raw.name(*divmod(int(face), 6)) for face in pair)
    return raw.error(
        f"{one} and {other} are periodic and differ by more than a translation", "need faces of equal form"
    )
