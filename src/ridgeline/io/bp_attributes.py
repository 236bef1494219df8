"""Attributes of a data set, as ADIOS2 takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# CF's attributes of the coordinates that every data set has. A model names another unit or meaning of time itself.
COORDINATES = {
    "step": {"units": "1", "long_name": "number of the time step"},
    "time": {"units": "1", "long_name": "model time"},
}


def storable(key: str, value: Any) -> Any:
    """Return an attribute as ADIOS2 takes it: str, list of str, or a NumPy array; None for nothing."""
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return list(value)
    array = np.asarray(value)
    if array.dtype == bool:
        array = array.astype(np.uint8)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise TypeError(f"attribute {key} = {value!r} is neither text, numbers nor a list of one of them")
    return np.ascontiguousarray(array) if array.ndim else array


def periodic_box(lengths: Sequence[float]) -> dict[str, Any]:
    """Return the attributes that say where a periodic box from the origin ends, under LAMMPS' names of its bounds.

    lengths: of x, y, z. Source: LAMMPS, src/ADIOS/dump_custom_adios.cpp.
    """
    low = {f"box{axis}lo": 0.0 for axis in "xyz"}
    return (
        low
        | {f"box{axis}hi": float(length) for axis, length in zip("xyz", lengths)}
        | {"boundarystr": "pp pp pp"}
    )


def in_types(attributes: Mapping[str, Any], types: Mapping[str, np.dtype[Any]]) -> dict[str, Any]:
    """Return attributes of `storable` as a data set can take them that has some in other dtypes (str: text).

    A setting may be a word in one run and a number in the next. ADIOS2 writes both, but nothing could be read
    any more: an attribute keeps its type. A number after a word becomes text, a word after a number is left out.
    """
    fitting: dict[str, Any] = {}
    for key, value in attributes.items():
        stored = types.get(key)
        if value is None or stored is None or stored == getattr(value, "dtype", np.dtype(str)):
            fitting[key] = value
        elif stored == np.dtype(str):
            fitting[key] = str(value.tolist())
        elif isinstance(value, np.ndarray) and (value.astype(stored) == value).all():
            fitting[key] = value.astype(stored)
    return fitting
