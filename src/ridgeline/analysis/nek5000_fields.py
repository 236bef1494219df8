"""Nek5000 field files as data sets of images: what `ridgeline plot duct0.f00003`, or `duct.nek5000`, opens."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ridgeline.analysis.element_images import ELEMENT_DIMS, on_grid
from ridgeline.analysis.slices import STEP
from ridgeline.io.nek5000_read import read_field_file
from ridgeline.runtime.errors import OutputError

_FIELD_FILE = re.compile(r"(.*0\.f)(\d{5})")
_COUNT = re.compile(r"numtimesteps:\s*(\d+)")


def is_nek5000(path: Path) -> bool:
    """Say whether a name is that of a field file, or of the file that lists them."""
    return path.suffix == ".nek5000" or _FIELD_FILE.fullmatch(path.name) is not None


def open_nek5000(path: Path, sharp: Collection[str] = ()) -> xr.Dataset:
    """Return the fields of one file as images, of the last that a .nek5000 file lists. sharp: as for `on_grid`.

    Names are those of output.variables. Raises OutputError for a file that cannot be read, or without its mesh.
    """
    if path.suffix == ".nek5000":
        count = _COUNT.search(path.read_text(errors="replace")) if path.is_file() else None
        path = path.with_name(f"{path.stem}0.f{int(count[1]) if count else 1:05d}")
    file = read_field_file(path)
    coordinates = file.coordinates
    if coordinates is None:  # the mesh is in the first file alone
        match = _FIELD_FILE.fullmatch(path.name)
        first = path.with_name(f"{match[1]}00001") if match else path
        coordinates = read_field_file(first).coordinates
    if coordinates is None:
        raise OutputError(
            f"{path} has no mesh, nor has the first file beside it; write X with the first file"
        )
    named = dict(
        zip(("velocity_x", "velocity_y", "velocity_z"), () if file.velocity is None else file.velocity)
    )
    named |= {name: values for name, values in (("pressure", file.pressure), ("scalar_0", file.temperature))
              if values is not None}  # fmt: skip
    named |= {f"scalar_{number}": values for number, values in enumerate(file.scalars, start=1)}
    coords = {name: (ELEMENT_DIMS, places) for name, places in zip("xyz", coordinates)}
    return on_grid(
        xr.Dataset(
            {name: ((STEP, *ELEMENT_DIMS), _one(values)) for name, values in named.items()},
            {STEP: [file.step], "time": (STEP, [file.time]), **coords},
        ),
        sharp=sharp,
    )


def _one(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values of one output."""
    return values[np.newaxis]
