"""Exports of fields on spectral elements as Nek5000 field files, which nek5000_format.py describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.export.source import ExportSource
from ridgeline.io.nek5000 import write_index
from ridgeline.io.nek5000_format import ENDIAN_TAG, Header
from ridgeline.io.vtk_format import AXES
from ridgeline.runtime.errors import ConfigError

PLACES = tuple(reversed(AXES))
VELOCITIES = ("velocity_x", "velocity_y", "velocity_z")


def write_field_files(source: ExportSource, path: Path) -> None:
    """Write a field file for each step, each with the mesh, and their index if `path` ends in .nek5000.

    Fields are velocity_x, velocity_y, velocity_z (U), pressure (P) and scalar_0, scalar_1, ... (T, S01, ...). Raises
    ConfigError for other fields.
    """
    sections = _sections(source)
    many = path.suffix == ".nek5000"
    for index, (step, time) in enumerate(source.steps):
        file = path.with_name(f"{path.stem}0.f{index + 1:05d}") if many else path
        _write_file(source, sections, index, step, time, file)
    if many:
        write_index(path.with_suffix(""), source.n_steps)


def _sections(source: ExportSource) -> dict[str, tuple[str, ...]]:
    """Return the variables of each section of a file by its tag."""
    names = list(source.fields())
    scalars = [f"scalar_{i}" for i in range(sum(name.startswith("scalar_") for name in names))]
    tags: dict[str, tuple[str, ...]] = {"X": PLACES}
    if all(name in names for name in VELOCITIES):
        tags["U"] = VELOCITIES
    if "pressure" in names:
        tags["P"] = ("pressure",)
    tags |= {(f"S{i:02d}" if i else "T"): (name,) for i, name in enumerate(scalars)}
    held = {name for sources in tags.values() for name in sources}
    if wrong := [name for name in names if name not in held]:
        raise ConfigError(
            f"Nek5000 field files hold velocity_x, velocity_y, velocity_z together, pressure, and scalar_0, "
            f"scalar_1, ... without gaps, but not {', '.join(wrong)}. Choose fields with --variables, or use .pvd."
        )
    return tags


def _write_file(
    source: ExportSource,
    variables: dict[str, tuple[str, ...]],
    index: int,
    step: int,
    time: float,
    path: Path,
) -> None:
    shape = source.shape("x")
    word = max(source.variable(name).dtype.itemsize for names in variables.values() for name in names)
    scalars = sum(tag not in ("X", "U", "P", "T") for tag in variables)
    header = Header(
        word=max(word, 4),
        n=shape[-1],
        n_elements=shape[0],
        time=time,
        step=step,
        coordinates=True,
        velocity="U" in variables,
        pressure="P" in variables,
        temperature="T" in variables,
        scalars=scalars,
    )
    with path.open("wb") as out:
        out.write(header.encode() + np.array([ENDIAN_TAG], "<f4").tobytes())
        out.write(np.arange(1, shape[0] + 1, dtype="<i4").data)
        extremes = [
            _write_section(source, variables[section.tag], index, header.word, out)
            for section in header.sections
        ]
        for pairs in extremes:
            out.write(pairs.data)


def _write_section(
    source: ExportSource, names: tuple[str, ...], index: int, word: int, out: BinaryIO
) -> NDArray[Any]:
    """Write one field, and return the extremes of each element and component, float32 [E, c, 2]."""
    extremes = [np.empty((0, len(names), 2), "<f4")]
    for _, values in source.pieces(names, index):
        block = np.stack([values[name] for name in names], axis=1)
        out.write(np.ascontiguousarray(block, f"<f{word}").data)
        extremes.append(
            np.stack([block.min(axis=(2, 3, 4)), block.max(axis=(2, 3, 4))], axis=-1).astype("<f4")
        )
    return np.concatenate(extremes)
