"""A small data set of the shape that `ridgeline.open` returns, in memory or lazy with every read recorded."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import xarray as xr
from xarray.core import indexing

from recording_array import RecordingArray
from ridgeline.analysis.slices import slabs

SHAPE = (4, 6, 5, 7)  # step, z, y, x
STEPS = (0, 10, 20, 40)


@dataclass
class Recorded:
    """A lazy data set, and the sizes of all reads from it so far in bytes."""

    dataset: xr.Dataset
    reads: list[int] = field(default_factory=list)


def make_dataset(u, v) -> xr.Dataset:
    dims = ("step", "z", "y", "x")
    coords = {"step": list(STEPS), "time": ("step", 2.0 * np.array(STEPS))}
    return xr.Dataset({"U": (dims, u), "V": (dims, v)}, coords, {"model": "gray_scott", "model.F": 0.02})


@pytest.fixture
def values():
    """U and V, shape (4, 6, 5, 7), float64, distinct in every cell."""
    generator = np.random.default_rng(7)
    return generator.normal(1.0, 0.25, SHAPE), generator.uniform(0.0, 0.5, SHAPE)


@pytest.fixture
def dataset(values) -> xr.Dataset:
    return make_dataset(*values)


@pytest.fixture
def recorded(values) -> Recorded:
    reads: list[int] = []
    lazy = (indexing.LazilyIndexedArray(RecordingArray(array, reads)) for array in values)
    return Recorded(make_dataset(*lazy), reads)


@pytest.fixture
def small_slabs(monkeypatch) -> int:
    """Make slabs one plane, so that results have to be merged; return its bytes."""
    plane = SHAPE[2] * SHAPE[3] * 8
    monkeypatch.setattr(slabs, "__defaults__", (plane,))
    return plane
