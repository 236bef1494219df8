"""How planes of fields become colours: maps, limits and places on the axes, the same for pictures and movies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import Colormap
from numpy.typing import NDArray

# Perceptually uniform maps. Names that differ in the number at their end, and U and V, have different ones.
COLOUR_MAPS = ("viridis", "magma", "cividis", "plasma")
SIGNED_MAP = "RdBu_r"  # white is zero
NOWHERE = "0.6"  # grey where there is no value, as in a hole of a mesh: white may be zero
SIGNED_SHARE = 0.1  # of the largest size that both signs must reach, for a field to be drawn about zero
SMALL = 0.25  # of the largest component of a vector: less would hardly be seen with its limits
ROUNDING = 1e-10  # of the largest component of a vector: less is no flow
COMPONENTS = ("_x", "_y", "_z")


@dataclass(frozen=True)
class Shade:
    """How one field is drawn. limits: of its colours; note: what its title says of them, "" for nothing."""

    map_name: str
    limits: tuple[float, float]
    note: str = ""

    @property
    def colours(self) -> Colormap:
        """The colour map, grey where there is no value."""
        return colormaps[self.map_name].with_extremes(bad=NOWHERE)

    def title(self, name: str) -> str:
        """Return the title of a picture of the field called `name`."""
        return f"{name}: {self.note}" if self.note else name


def shades_of(ranges: Mapping[str, tuple[float, float]]) -> dict[str, Shade]:
    """Return how fields are drawn together. ranges: least and greatest finite value of each.

    A component of a vector (velocity_x), and a field of both signs, has a map that is white at zero. Any other field
    has the map of its name. Components share their limits. One that is small beside the largest has limits of its
    own, and its note says what part of the others' they are.
    """
    largest: dict[str, float] = {}
    for name, within in ranges.items():
        largest[family_of(name)] = max(largest.get(family_of(name), 0.0), *map(abs, within))
    found = {}
    for name, (least, most) in ranges.items():
        own, size = max(abs(least), abs(most)), largest[family_of(name)]
        if not is_component(name):
            signed = least < 0 < most and min(-least, most) >= SIGNED_SHARE * own
            found[name] = Shade(SIGNED_MAP, (-own, own)) if signed else Shade(colour_map(name), (least, most))
        elif own <= ROUNDING * size:
            found[name] = Shade(
                SIGNED_MAP, (-size or -1.0, size or 1.0), "zero but for rounding" if own else "zero"
            )
        elif own < SMALL * size:
            found[name] = Shade(SIGNED_MAP, (-own, own), f"own limits, 1/{size / own:.2g}")
        else:
            found[name] = Shade(SIGNED_MAP, (-size, size))
    return found


def colour_map(name: str) -> str:
    """Return the map of a field that has one sign: by its name, so the same in every picture."""
    return COLOUR_MAPS[(sum(name.encode()) + len(name) + 2) % len(COLOUR_MAPS)]


def is_component(name: str) -> bool:
    """Say whether a name is that of a component of a vector."""
    return name.endswith(COMPONENTS)


def family_of(name: str) -> str:
    """Return the name of the vector that a component belongs to, otherwise the name itself."""
    return name[:-2] if is_component(name) else name


def finite_range(values: NDArray[np.floating]) -> tuple[float, float]:
    """Return the least and the greatest finite value; (0, 1) if there is none."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def extent_of(plane: xr.DataArray) -> tuple[float, float, float, float]:
    """Return (left, right, bottom, top) of a plane [vertical, horizontal], half a cell beyond the outer places."""
    vertical, horizontal = (_cell_edges(plane, str(dim)) for dim in plane.dims)
    return *horizontal, *vertical


def box_edges(field: xr.DataArray, dim: str) -> tuple[float, float]:
    """Return where the domain begins and ends along a direction.

    Places are the middles of cells, or, where the first is 0, the points of a periodic box, which ends a spacing
    after the last.
    """
    low, high = _cell_edges(field, dim)
    periodic = dim in field.coords and float(field[dim].values[0]) == 0.0
    ends = (0.0, high - low) if periodic else (low, high)
    rounding = 1e-9 * (high - low)
    return 0.0 if abs(ends[0]) < rounding else ends[0], 0.0 if abs(ends[1]) < rounding else ends[1]


def _cell_edges(field: xr.DataArray, dim: str) -> tuple[float, float]:
    """Return the outer edges of the cells whose middles are the places along a direction, by default indices."""
    places = field[dim].values
    width = float(places[1] - places[0]) if len(places) > 1 else 1.0
    return float(places[0]) - width / 2, float(places[-1]) + width / 2
