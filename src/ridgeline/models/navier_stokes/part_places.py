"""Where the parts of a flow are: their points in the box around the domain, or their faces on a side.

    domain_box(mesh, order)               the box around a mesh, (low, high)
    located_grid(part, shape, box)        the uniform grid from which a part selects, exact at planes that are places
    reaches_domain(mesh, order, points)   whether any of the points of a part lies in an element
    side_extent(case, mesh, part)         the size of a part on a side

No function communicates.
"""

from __future__ import annotations

import math

import numpy as np

from ridgeline.config.check import did_you_mean
from ridgeline.config.part_selection import AXES, ROUNDING, SelectedPoints, SelectionError, UniformGrid
from ridgeline.config.parts import PartExtent, PartSection
from ridgeline.elements.inverse_map import lattice_inside
from ridgeline.elements.mesh import BoxMesh
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.models.navier_stokes.case_sections.output import InterpolatedPartSection
from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings
from ridgeline.models.navier_stokes.mesh_rules import Faces, countable
from ridgeline.models.navier_stokes.side_curve import curve_of
from ridgeline.parallel.partition import Triple

Floats = tuple[float, float, float]
Box = tuple[Floats, Floats]
AT_ONCE = 2**18  # points of elements that are looked at together


def domain_box(mesh: Mesh, order: int) -> Box:
    """Return the ends (z, y, x) of the box around the points of a mesh."""
    if isinstance(mesh, BoxMesh) and mesh.axis_aligned:
        return _triple(edges[0] for edges in mesh.edges), _triple(edges[-1] for edges in mesh.edges)
    points = gauss_lobatto(order + 1)
    low, high = np.full(3, math.inf), np.full(3, -math.inf)
    if isinstance(mesh, BoxMesh):  # the map of a box takes its sides to the boundary of the domain
        parts = (Faces.of(mesh, side, points).places for side in mesh.sides)
    else:
        step = max(1, AT_ONCE // (order + 1) ** 3)
        parts = (
            mesh.places(mesh.range(first, min(step, mesh.n_elements - first)), points[0])
            for first in range(0, mesh.n_elements, step)
        )
    for places in parts:
        flat = places.reshape(3, -1)
        low, high = np.minimum(low, flat.min(axis=1)), np.maximum(high, flat.max(axis=1))
    return _triple(low[::-1]), _triple(high[::-1])


def _triple(values: object) -> Floats:
    z, y, x = (float(value) for value in values)  # type: ignore[attr-defined]
    return z, y, x


def located_grid(part: PartSection, shape: Triple, box: Box) -> UniformGrid:
    """Return the uniform grid of cell centres in a box from which a part selects.

    Across a plane that the part gives as a place, or as "mid", the grid has this place alone: fields are
    interpolated, so that no other plane need be taken for it. Raises SelectionError for a place outside the box.
    """
    points, origin, spacing = list(shape), [], []
    for axis, (n, low, high) in enumerate(zip(shape, *box)):
        place = None
        for key in ("plane", "line"):
            for word in getattr(part, key).split(","):
                name, _, at = (text.strip() for text in word.partition("="))
                if name == AXES[axis]:
                    place = _place(key, name, at, low, high)
        if place is None:
            spacing.append((high - low) / n)
            origin.append(low + spacing[-1] / 2)
        else:
            points[axis] = 1
            spacing.append(high - low)
            origin.append(place)
    return UniformGrid((points[0], points[1], points[2]), _triple(origin), _triple(spacing))


def _place(key: str, name: str, at: str, low: float, high: float) -> float | None:
    """Return the place of a plane, None if it is an index or something else."""
    if at == "mid":
        return 0.5 * (low + high)
    if at.lstrip("+-").isdigit():
        return None
    try:
        place, slack = float(at), ROUNDING * (high - low)
    except ValueError:
        return None
    if not low - slack <= place <= high + slack:
        raise SelectionError(key, f"inside the domain, which extends from {low:g} to {high:g} in {name}")
    return min(max(place, low), high)


def reaches_domain(mesh: Mesh, order: int, grid: UniformGrid, points: SelectedPoints) -> bool:
    """Return whether any of the points of a part lies in an element, and not in a hole or beside a bent side."""
    if isinstance(mesh, BoxMesh) and mesh.axis_aligned:
        return True
    z, y, x = (
        np.asarray(grid.places(axis))[start::stride][:count]
        for axis, (start, count, stride) in enumerate(zip(points.start, points.count, points.stride))
    )
    nodes = gauss_lobatto(order + 1)[0]
    step = max(1, AT_ONCE // (order + 1) ** 3)
    for first in range(0, mesh.n_elements, step):
        places = mesh.places(mesh.range(first, min(step, mesh.n_elements - first)), nodes)
        if any(len(lattice_inside(places[:, e], (z, y, x))[0]) for e in range(places.shape[1])):
            return True
    return False


def side_extent(case: NavierStokesSettings, mesh: Mesh, part: InterpolatedPartSection) -> PartExtent:
    """Return the size of a part on a side. Raises SelectionError for a side that is not one, and for its mean."""
    closed = [side for side in case.side_names() if not case.is_periodic(side)]
    if part.side not in closed:
        near = did_you_mean(part.side, closed)
        sides = ", ".join(closed) or "none, because all sides are periodic"
        raise SelectionError("side", f"one of the sides that are not periodic, which are {sides}{near}")
    n, faces = case.grid.order + 1, mesh.side_size(part.side)
    points = faces * n * n
    if not part.mean:
        return PartExtent((faces, n, n), points, False, "face s r")
    if len(part.mean) == 3:
        return PartExtent((1,), points, True, "point")
    if not countable(mesh, part.side):  # at most: looked at when the run begins
        return PartExtent((faces * n,), points, True, "arc length")
    places = Faces.of(mesh, part.side, gauss_lobatto(n)).places
    curve = curve_of(places, "xyz".index(part.mean[0]))
    return PartExtent((len(curve.members),), points, True, "arc length")
