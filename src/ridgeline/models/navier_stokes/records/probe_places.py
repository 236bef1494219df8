"""The places of a case's probes, and the refusal of those outside the domain. No communication."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.inverse_map import places_inside
from ridgeline.elements.mesh import ElementMesh
from ridgeline.elements.mesh_protocol import Mesh
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.io.place_lists import read_places
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from ridgeline.models.navier_stokes.case_sections.sections import NavierStokesSettings

Array = NDArray[np.float64]
SHOWN = 5  # places that an error names
POINTS_AT_ONCE = 2**18  # of elements that are looked at


def places_of(case: NavierStokesSettings) -> Array:
    """Return the places of a case, float64 [m, 3] of (x, y, z): of its [[probe]], then of its file.

    Raises ConfigError for a file that cannot be read, or holds something else or nothing.
    """
    found = [np.empty((0, 3))]
    for probe in case.probe:
        end = probe.place if probe.to is None else probe.to
        found.append(np.linspace(probe.place, end, probe.points))
    if case.output.probes.file:
        found.append(read_places(case.output.probes.file, "output.probes.file"))
    places = np.concatenate(found)
    if not len(places):
        raise ConfigError(
            f'output.probes.file = "{case.output.probes.file}" holds no place; need a line x,y,z'
        )
    return places


def refuse_outside(places: Array, missing: NDArray[np.int64]) -> None:
    """Raise ConfigError that names the places outside the domain, by their numbers, if there are some."""
    if not len(missing):
        return
    shown = ", ".join(f"probe {i} at {tuple(places[i].tolist())}" for i in missing[:SHOWN])
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    raise ConfigError(
        f"[[probe]] and output.probes.file: {shown}{more} of {len(places)} places lie outside the domain; need "
        f"places [x, y, z] inside it, also where it is periodic"
    )


def checked_places(case: NavierStokesSettings, mesh: Mesh) -> Array:
    """Return the places of a case as `places_of` does; ConfigError too for those outside the mesh."""
    places = places_of(case)
    if isinstance(mesh, ElementMesh) and mesh.axis_aligned:
        low, high = (np.array([mesh.edges[axis][end] for axis in (2, 1, 0)]) for end in (0, -1))
        slack = 1e-9 * (high - low)
        outside = ((places < low - slack) | (places > high + slack)).any(axis=1)
    else:
        outside = np.ones(len(places), np.bool_)
        n = case.grid.order + 1
        at_once = max(POINTS_AT_ONCE // n**3, 1)
        for first in range(0, mesh.n_elements, at_once):
            positions = mesh.range(first, min(at_once, mesh.n_elements - first))
            for _, numbers, _ in places_inside(mesh.places(positions, gauss_lobatto(n)[0]), places):
                outside[numbers] = False
    refuse_outside(places, np.flatnonzero(outside))
    return places
