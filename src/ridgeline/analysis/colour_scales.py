"""Colour scales of fields: maps, limits and extents of images, the same for pictures and movies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.colors import Colormap
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError

# Perceptually uniform maps. Names that differ in the number at their end, and U and V, have different ones.
COLOUR_MAPS = ("viridis", "magma", "cividis", "plasma")
SIGNED_MAP = "RdBu_r"  # white is zero
NOWHERE = "0.6"  # grey where there is no value, for example in a hole of a mesh; white may be zero
SIGNED_SHARE = 0.1  # a field is drawn about zero if both signs reach this share of its largest size
# A component below this share of the largest one would hardly be visible with the limits of the largest.
SMALL = 0.25
ROUNDING = 1e-10  # a component below this share of the largest one is rounding
NOTHING = 1e-30  # a field below this is zero up to rounding: no setting may be smaller
UNIFORM = 1e-12  # a field whose range is below this share of its values is uniform up to rounding
COMPONENTS = ("_x", "_y", "_z")


@dataclass(frozen=True)
class ColourScale:
    """The colours of a field. limits: values at the ends of the map; note: a remark for the title, "" for none."""

    map_name: str
    limits: tuple[float, float]
    note: str = ""

    @property
    def colours(self) -> Colormap:
        """The colour map, with grey for missing values."""
        return colormaps[self.map_name].with_extremes(bad=NOWHERE)

    def title(self, name: str) -> str:
        """Return the title of a picture of the field called `name`."""
        return f"{name}: {self.note}" if self.note else name


def colour_scales(
    ranges: Mapping[str, tuple[float, float]], map_name: str | None = None
) -> dict[str, ColourScale]:
    """Return the colour scales of fields that are drawn together.

    ranges: least and greatest finite value of each; map_name: a colour map for all of them, see `check_colour_map`.

    A component of a vector (velocity_x), and a field of both signs, has a map that is white at zero. Any other field
    has the map that belongs to its name. Components share their limits. A component that is small beside the largest
    one has narrower limits, and a note with their ratio to the shared ones. A field that differs from zero or from a
    uniform value only by rounding has limits that do not show the rounding, and a note.
    """
    scales = _scales_of_values(ranges)
    return scales if map_name is None else {k: replace(s, map_name=map_name) for k, s in scales.items()}


def _scales_of_values(ranges: Mapping[str, tuple[float, float]]) -> dict[str, ColourScale]:
    largest: dict[str, float] = {}
    for name, within in ranges.items():
        largest[family_of(name)] = max(largest.get(family_of(name), 0.0), *map(abs, within))
    scales = {}
    for name, (least, most) in ranges.items():
        own, size = max(abs(least), abs(most)), largest[family_of(name)]
        if 0 < size < NOTHING:
            chosen, low = (SIGNED_MAP, -1.0) if is_component(name) else (colour_map(name), 0.0)
            scales[name] = ColourScale(chosen, (low, 1.0), f"zero up to rounding (at most {own:.1e})")
        elif not is_component(name) and 0 < most - least <= UNIFORM * own:
            limits = (least - 0.1 * own, most + 0.15 * own)  # the value is inside a colour, not between two
            scales[name] = ColourScale(colour_map(name), limits, "uniform up to rounding")
        elif not is_component(name):
            signed = least < 0 < most and min(-least, most) >= SIGNED_SHARE * own
            scales[name] = (
                ColourScale(SIGNED_MAP, (-own, own))
                if signed
                else ColourScale(colour_map(name), (least, most))
            )
        elif own <= ROUNDING * size:
            scales[name] = ColourScale(
                SIGNED_MAP, (-size or -1.0, size or 1.0), "zero up to rounding" if own else "zero"
            )
        elif own < SMALL * size:
            scales[name] = ColourScale(
                SIGNED_MAP, (-own, own), f"limits are 1/{size / own:.2g} of the shared ones"
            )
        else:
            scales[name] = ColourScale(SIGNED_MAP, (-size, size))
    return scales


def colour_map(name: str) -> str:
    """Return the map of a field of one sign. It depends on the name, so that it is the same in every picture."""
    return COLOUR_MAPS[(sum(name.encode()) + len(name) + 2) % len(COLOUR_MAPS)]


def check_colour_map(name: str) -> None:
    """Raise ConfigError with similar names if matplotlib has no colour map of this name."""
    if name in colormaps:
        return
    lower = {known.lower(): known for known in colormaps}
    near = [lower[known] for known in get_close_matches(name.lower(), lower, 3)]
    advice = f"Similar names: {', '.join(near)}." if near else f"Try one of {', '.join(COLOUR_MAPS)}."
    raise ConfigError(f"the colour map {name} does not exist in matplotlib. {advice}")


def is_component(name: str) -> bool:
    """Whether a name is that of a component of a vector."""
    return name.endswith(COMPONENTS)


def family_of(name: str) -> str:
    """Return the name of the vector of a component; for other fields the name itself."""
    return name[:-2] if is_component(name) else name


def finite_range(values: NDArray[np.floating]) -> tuple[float, float]:
    """Return the least and the greatest finite value; (0, 1) if there is none."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def extent_of(plane: xr.DataArray) -> tuple[float, float, float, float]:
    """Return (left, right, bottom, top) of a plane [vertical, horizontal], half a cell beyond the outer values."""
    vertical, horizontal = (_cell_edges(plane, str(dim)) for dim in plane.dims)
    return *horizontal, *vertical


def box_edges(field: xr.DataArray, dim: str) -> tuple[float, float]:
    """Return the ends of the domain along a direction.

    Coordinates are the centres of cells. If the first is 0 they are the points of a periodic box, which ends one
    spacing after the last point.
    """
    low, high = _cell_edges(field, dim)
    periodic = dim in field.coords and float(field[dim].values[0]) == 0.0
    ends = (0.0, high - low) if periodic else (low, high)
    rounding = 1e-9 * (high - low)
    return 0.0 if abs(ends[0]) < rounding else ends[0], 0.0 if abs(ends[1]) < rounding else ends[1]


def _cell_edges(field: xr.DataArray, dim: str) -> tuple[float, float]:
    """Return the outer edges of the cells whose centres are the coordinates of a direction, by default indices."""
    places = field[dim].values
    width = float(places[1] - places[0]) if len(places) > 1 else 1.0
    return float(places[0]) - width / 2, float(places[-1]) + width / 2
