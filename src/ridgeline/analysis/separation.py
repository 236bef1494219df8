"""Where a flow separates from a wall and reattaches: the zeros of the wall shear along a side of the domain."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.interpolate import KroghInterpolator
from scipy.optimize import brentq

from ridgeline.runtime.errors import ConfigError

ROUNDING = 1e-9  # of the largest shear: what is smaller counts as zero


class ShearZero(NamedTuple):
    """A zero of the wall shear: "separation" or "reattachment", and where it is."""

    kind: str
    x: float
    y: float
    z: float
    arc_length: float


def shear_zeros(shear: xr.DataArray, along: str = "x") -> list[ShearZero]:
    """Return where the wall shear changes its sign, in the order of the side.

    The flow separates where the shear falls through zero in the direction in which it is positive, and reattaches
    where it rises. Zeros are those of the polynomial through the four or five nearest points.

    Parameters
    ----------
    shear : xarray.DataArray
        A component of the wall shear along a side at one output, such as wall_shear_x, [arc_length], from an
        [[output.part]] with a side and a mean along one axis. Its coordinates are arc_length, curve, x, y and z.
    along : {"x", "y", "z"}
        The axis of this component, which is the direction of the flow.

    Returns
    -------
    list of ShearZero
        Empty if the shear has one sign. Parts of the side on which it is zero, as on a face across the flow, are left
        out.

    Raises
    ------
    ConfigError
        If the array is not along a side, or has several outputs.

    Examples
    --------
    A bubble from x = 1 to x = 3:

    >>> import numpy as np
    >>> import xarray as xr
    >>> from ridgeline.analysis import shear_zeros
    >>> x = np.linspace(0, 4, 41) + 0.01
    >>> flat = ("arc_length", np.zeros(41))
    >>> places = {"arc_length": x, "x": ("arc_length", x), "y": flat, "z": flat, "curve": flat}
    >>> shear = xr.DataArray((x - 1) * (x - 3), places, ("arc_length",))
    >>> [(zero.kind, round(zero.x, 3)) for zero in shear_zeros(shear)]
    [('separation', 1.0), ('reattachment', 3.0)]
    """
    if shear.dims != ("arc_length",):
        raise ConfigError(
            f"the wall shear has the dimensions {', '.join(map(str, shear.dims)) or 'none'}, but it must have "
            "arc_length alone. Select an output, such as data.wall_shear_x.isel(step=-1), of a part on a side with "
            "a mean along one axis."
        )
    zeros = []
    for number in np.unique(shear["curve"].values):
        here = shear.isel(arc_length=np.flatnonzero(shear["curve"].values == number))
        zeros += _on_curve(here, along)
    return zeros


def _on_curve(shear: xr.DataArray, along: str) -> list[ShearZero]:
    arc = shear["arc_length"].values.astype(float)
    values = shear.values.astype(float)
    sign = np.where(np.abs(values) > ROUNDING * np.abs(values).max(initial=0.0), np.sign(values), 0.0)
    zeros = []
    for low, high in _brackets(sign):
        near = slice(max(low - 1, 0), high + 2)
        curve = KroghInterpolator(arc[near], np.stack([values, *(shear[a].values for a in "xyz")])[:, near].T)
        at = float(arc[low + 1])
        if high - low == 1:
            at = float(brentq(lambda place, curve=curve: curve(place)[0], arc[low], arc[high]))
        _, x, y, z = map(float, curve(at))
        rising = (values[high] > values[low]) == (shear[along].values[high] > shear[along].values[low])
        zeros.append(ShearZero("reattachment" if rising else "separation", x, y, z, at))
    return zeros


def _brackets(sign: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return pairs of points with opposite signs, with at most one zero between them."""
    nonzero = np.flatnonzero(sign)
    return [
        (int(low), int(high))
        for low, high in pairwise(nonzero)
        if sign[low] * sign[high] < 0 and high - low <= 2
    ]
