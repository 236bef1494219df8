"""Named smooth maps of a box to curved domains: functions of arrays (x, y, z) -> (x, y, z).

A factory takes the box (origin and lengths, as (z, y, x)) and an amplitude, and returns the map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ridgeline.elements.mesh import Mapping
from ridgeline.elements.mesh_protocol import Array
from ridgeline.runtime.errors import ConfigError


def wavy(origin: Sequence[float], lengths: Sequence[float], amplitude: float) -> Mapping:
    """Displace every point smoothly; points on a side move along it, so that the shape of the box is kept.

    x moves by amplitude L_x sin(a) cos(b) cos(c), with a, b, c = 2 pi times the relative x, y, z; y and z move in the
    same way. Periodic directions stay periodic. The map is invertible for |amplitude| < 0.07.
    """
    (z0, y0, x0), (lz, ly, lx) = origin, lengths

    def wave(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        a, b, c = (2 * np.pi * (v - v0) / l for v, v0, l in ((x, x0, lx), (y, y0, ly), (z, z0, lz)))
        return (
            x + amplitude * lx * np.sin(a) * np.cos(b) * np.cos(c),
            y + amplitude * ly * np.cos(a) * np.sin(b) * np.cos(c),
            z + amplitude * lz * np.cos(a) * np.cos(b) * np.sin(c),
        )

    return wave


def annulus(origin: Sequence[float], lengths: Sequence[float], amplitude: float) -> Mapping:
    """Bend the box into a full ring around the z axis: x is the angle, y the radius, z stays.

    The radius is the box's y, which must be > 0. x goes once around, counterclockwise, over its whole length and
    should be periodic. amplitude is not used.
    """
    (_, y0, x0), (_, _, lx) = origin, lengths
    if y0 <= 0:
        raise ConfigError(
            f'grid.mapping = "annulus" uses y as the radius, but grid.origin has y = {y0:g}. It must be > 0.'
        )

    def bend(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        # The sign makes the Jacobian positive, because y points outwards.
        angle = -2 * np.pi * (x - x0) / lx
        return y * np.cos(angle), y * np.sin(angle), z

    return bend


def periodic_hill(origin: Sequence[float], lengths: Sequence[float], amplitude: float) -> Mapping:
    """Raise the floor y = y_min to smooth hills at both ends of x, `amplitude` times the height of the box.

    The hill is amplitude L_y cos^2(pi x / L_x) to the fourth power, flat in between; the roof stays. The map is
    periodic in x. It resembles the hills of Mellen, Froehlich and Rodi (2000) but does not use their polynomials.
    """
    (_, y0, x0), (_, ly, lx) = origin, lengths

    def raise_floor(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
        floor = amplitude * ly * np.cos(np.pi * (x - x0) / lx) ** 8
        eta = (y - y0) / ly
        return x, y0 + floor + eta * (ly - floor), z

    return raise_floor


MAPPINGS: dict[str, Callable[[Sequence[float], Sequence[float], float], Mapping]] = {
    "wavy": wavy,
    "annulus": annulus,
    "periodic-hill": periodic_hill,
}
