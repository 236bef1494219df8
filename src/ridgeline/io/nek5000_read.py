"""Reading Nek5000 field files, on one rank."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.nek5000_format import DATA_START, ENDIAN_TAG, HEADER_BYTES, Header, decode_header
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors, require_regular

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FieldFile:
    """A field file in memory: elements in the order of their numbers, float64, None for what is not in the file.

    numbers: int64 [E], from 0; coordinates, velocity: [3, E, n, n, n]; pressure, temperature: [E, n, n, n];
    scalars: S01, ... [s, E, n, n, n]; extremes: by tag, [c, E, 2] (min, max) of float32, empty if the file has none.
    """

    header: Header
    numbers: NDArray[np.int64]
    coordinates: Array | None
    velocity: Array | None
    pressure: Array | None
    temperature: Array | None
    scalars: Array
    extremes: dict[str, Array]

    @property
    def time(self) -> float:
        """Model time."""
        return self.header.time

    @property
    def step(self) -> int:
        """Number of the time step."""
        return self.header.step


def read_field_file(path: str | os.PathLike[str], *, compare: bool = True) -> FieldFile:
    """Return what a Nek5000 field file of one part and three dimensions holds, of either order of bytes.

    compare: whether the values must reach from the minimum to the maximum that the file holds for each element. That
    is the file's only record of them. It finds most ranges that were zeroed or swapped, and a changed value that was
    or becomes an extreme. Extremes that are all 0 were not set, and of several scalars S01, ... some programs mix
    them.

    Raises OutputError if it cannot be read, is no such file, or is cut off or too long. Raises it too if elements are
    numbered wrongly, or values do not match the extremes.
    """
    path = Path(path)
    with output_errors(f"read the Nek5000 field file {path}"):
        require_regular(path)
        raw = path.read_bytes()
    header = decode_header(raw[:HEADER_BYTES], path)
    if len(raw) not in (header.data_end, header.size):
        state = "cut off" if len(raw) < header.size else "damaged"
        raise OutputError(
            f"the Nek5000 field file {path} is {state}: it has {len(raw)} bytes where its header asks for "
            f"{header.size}; write it again, or restore it from a copy"
        )
    order = _byte_order(raw, path)
    n_elements, n = header.n_elements, header.n
    numbers = np.frombuffer(raw, f"{order}i4", n_elements, DATA_START).astype(np.int64) - 1
    sorting = np.argsort(numbers, kind="stable")
    if not np.array_equal(numbers[sorting], np.arange(n_elements)):
        raise OutputError(
            f"the Nek5000 field file {path} is damaged: its elements are not numbered 1 to {n_elements}; write it "
            f"again, or restore it from a copy"
        )
    fields, extremes = {}, {}
    for section in header.sections:
        count = n_elements * section.components
        values = np.frombuffer(raw, f"{order}f{header.word}", count * header.points, section.start)
        values = values.reshape(n_elements, section.components, n, n, n)
        fields[section.tag] = values[sorting].swapaxes(0, 1).astype(np.float64)
        if len(raw) == header.size:
            pairs = np.frombuffer(raw, f"{order}f4", 2 * count, section.extremes)
            pairs = pairs.reshape(n_elements, section.components, 2)
            extremes[section.tag] = pairs[sorting].swapaxes(0, 1).astype(np.float64)
            if compare and not (section.tag.startswith("S") and header.scalars > 1):
                _compare(fields[section.tag], extremes[section.tag], section.tag, path)
    scalars = [fields[f"S{i + 1:02d}"][0] for i in range(header.scalars)]
    return FieldFile(
        header, numbers[sorting], fields.get("X"), fields.get("U"),
        fields["P"][0] if "P" in fields else None,
        fields["T"][0] if "T" in fields else None,
        np.stack(scalars) if scalars else np.empty((0, n_elements, n, n, n)),
        extremes,
    )  # fmt: skip


def _compare(values: Array, extremes: Array, tag: str, path: Path) -> None:
    """Raise OutputError unless the values [c, E, n, n, n] reach from minimum to maximum, extremes [c, E, 2]."""
    found = np.stack([values.min(axis=(2, 3, 4)), values.max(axis=(2, 3, 4))], axis=-1).astype(np.float32)
    other = ~np.isclose(found, extremes, rtol=1e-6, atol=0.0, equal_nan=True).all(axis=(0, 2))
    if extremes.any() and other.any():
        raise OutputError(
            f"the Nek5000 field file {path} is damaged: {tag} of {other.sum()} of its {other.size} elements, the "
            f"first is number {other.argmax() + 1}, does not reach from the minimum to the maximum that the file "
            f"holds; restore it from a copy, or read it as it is with compare=False"
        )


def _byte_order(raw: bytes, path: Path) -> str:
    for order in "<>":
        if np.frombuffer(raw, f"{order}f4", 1, HEADER_BYTES)[0] == ENDIAN_TAG:
            return order
    raise OutputError(
        f"the Nek5000 field file {path} is damaged: the number that tells the order of bytes is none; write it "
        f"again, or restore it from a copy"
    )
