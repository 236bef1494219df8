"""Formulas at some places of a box, which show before a run whether they are defined there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import Expression

MOST_PLACES = 32  # in a direction

Places = Mapping[str, NDArray[np.float64]]


def places_in_box(
    lengths: Sequence[float], cells: Sequence[int] | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return x, y and z of some points of a box from 0 to its lengths, each 1-D.

    lengths: [L_z, L_y, L_x]; cells: [N_z, N_y, N_x], of whose corners, those in the middle of the box among them, the
    points are a selection. Without cells the points divide each length evenly.
    """
    axes = []
    for length, n in zip(lengths, cells or [MOST_PLACES] * 3, strict=True):
        chosen = np.arange(min(n, MOST_PLACES)) * n // min(n, MOST_PLACES)
        axes.append(chosen * (length / n))
    z, y, x = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
    return {"x": x, "y": y, "z": z}


def undefined_at(expression: Expression, places: Places, time: float = 0.0, **names: float) -> str:
    """Say where a formula is not finite: "it is inf at x = 0, y = 1, z = 2 and t = 0"; "" where it is defined.

    places: x, y and z, 1-D. The place is the first of them. names: values of the other names that it may hold.
    """
    values = np.broadcast_to(expression.evaluate({**places, "t": time, **names}), places["x"].shape)
    wrong = ~np.isfinite(values)
    if not wrong.any():
        return ""
    first = int(np.argmax(wrong))
    where = ", ".join(f"{axis} = {places[axis][first]:g}" for axis in "xyz")
    return f"it is {values[first]:g} at {where} and t = {time:g}"
