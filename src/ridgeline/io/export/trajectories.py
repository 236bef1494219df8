"""Exports of particles as text: LAMMPS dumps for OVITO, VMD and MDAnalysis, and extended XYZ for ASE and OVITO.

Numbers have as many digits as reading them back with the same bits requires. Values are in the units of the run: for
atoms those of Lennard-Jones (LAMMPS' "units lj"). Sources: docs.lammps.org/dump.html (style custom); the
specification of extended XYZ at github.com/libAtoms/extxyz.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.export.source import POSITION, ExportSource

# How both formats call what a run writes; other variables keep their names.
_LAMMPS = {"velocity": ("vx", "vy", "vz"), "force": ("fx", "fy", "fz"), "image": ("ix", "iy", "iz")}
_EXTXYZ = {"velocity": "velo", "force": "forces"}
# A particle without a chemical element, as ASE calls it.
_SPECIES = "X"
_LINES = 2**12  # that are formatted at a time


@dataclass(frozen=True)
class _Box:
    """The box: low and high ends along x, y, z, and whether each direction is periodic."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    periodic: tuple[bool, ...]


def write_lammps_dump(source: ExportSource, path: Path) -> None:
    """Write all steps as one LAMMPS dump of style custom: id, type, x, y, z, and the other variables."""
    names, columns = [POSITION], ["x", "y", "z"]
    for name in source.fields():
        names.append(name)
        n = source.components(name)
        several = [f"{name}[{i + 1}]" for i in range(n)] if n > 1 else [name]
        columns += _LAMMPS.get(name, several)
    n_points = source.shape(POSITION)[0]
    with path.open("w") as out:
        for index, (step, _) in enumerate(source.steps):
            box = _box(source, index)
            out.write(f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{n_points}\n")
            out.write(f"ITEM: BOX BOUNDS {' '.join('pp' if each else 'ff' for each in box.periodic)}\n")
            out.writelines(f"{low!r} {high!r}\n" for low, high in zip(box.low, box.high))
            out.write(f"ITEM: ATOMS id type {' '.join(columns)}\n")
            for identity, rows in _rows(source, names, index):
                out.writelines(f"{i} 1 {line}\n" for i, line in zip(identity, rows))


def write_extxyz(source: ExportSource, path: Path) -> None:
    """Write all steps as one file of extended XYZ."""
    names = [POSITION, *source.fields()]
    properties = ["species:S:1", "id:I:1"]
    for name in names:
        letter = "R" if source.variable(name).dtype.kind == "f" else "I"
        called = "pos" if name == POSITION else _EXTXYZ.get(name, name)
        properties.append(f"{called}:{letter}:{source.components(name)}")
    with path.open("w") as out:
        for index, (step, time) in enumerate(source.steps):
            box = _box(source, index)
            a, b, c = (high - low for low, high in zip(box.low, box.high))
            origin = " ".join(map(repr, box.low))
            periodic = " ".join("T" if each else "F" for each in box.periodic)
            out.write(f"{source.shape(POSITION)[0]}\n")
            out.write(
                f'Lattice="{a!r} 0.0 0.0 0.0 {b!r} 0.0 0.0 0.0 {c!r}" Origin="{origin}" pbc="{periodic}" '
            )
            out.write(f"Properties={':'.join(properties)} Time={time!r} Step={step}\n")
            for identity, rows in _rows(source, names, index):
                out.writelines(f"{_SPECIES} {i} {line}\n" for i, line in zip(identity, rows))


def _rows(
    source: ExportSource, names: Sequence[str], index: int
) -> Iterator[tuple[Sequence[int], list[str]]]:
    """Yield the identities, from 1 on, of some particles of a step, and their numbers as text."""
    axis = source.row_axis
    known = source.dataset.coords[axis].values if axis in source.dataset.coords else None
    for low in range(0, source.shape(POSITION)[0], _LINES):
        here = slice(low, min(low + _LINES, source.shape(POSITION)[0]))
        values = {
            name: source.read(name, index, (here, *(slice(None) for _ in source.shape(name)[1:])))
            for name in names
        }
        rows = np.arange(here.start, here.stop) if source.rows is None else source.rows[here]
        identity = rows if known is None else known[rows]
        yield (identity + 1).tolist(), _lines(values)


def _lines(values: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return a line for each particle, with the shortest text that gives each number back."""
    columns = [part for array in values.values() for part in array.reshape(len(array), -1).T]
    texts = [list(map(_text_of(column), column.tolist())) for column in columns]
    return [" ".join(row) for row in zip(*texts)]


def _text_of(column: NDArray[Any]) -> Any:
    """Return the function that writes a number of a column; a float32 needs fewer digits than its float64."""
    return "{:.9g}".format if column.dtype == np.float32 else repr


def _box(source: ExportSource, index: int) -> _Box:
    """Return the periodic box of the run, or the one around the particles of a step."""
    attributes = source.dataset.attrs
    if all(f"box{axis}hi" in attributes for axis in "xyz"):
        low, high = (tuple(float(attributes[f"box{axis}{end}"]) for axis in "xyz") for end in ("lo", "hi"))
        periodic = tuple(word == "pp" for word in str(attributes.get("boundarystr", "ff ff ff")).split())
        return _Box(low, high, periodic)
    ends = [
        (values[POSITION].min(axis=0), values[POSITION].max(axis=0))
        for _, values in source.pieces([POSITION], index)
    ]
    low, high = np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)
    return _Box(tuple(low.tolist()), tuple(high.tolist()), (False,) * 3)
