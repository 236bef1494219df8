"""Layout of Nek5000 field files (`name0.f00001`), which ParaView, VisIt and pymech read.

A file begins with a header of 132 characters and the number 6.54321 as float32, from which readers derive the byte
order. Then follow the int32 numbers (from 1) of the elements in the order of the file, the fields, and the extremes
of each element. Fields are in the order of the header's tags: X (coordinates, 3 components), U (velocity, 3), P
(pressure), T (temperature), S01...S99 (further scalars). X and U hold one element after the other, with its x, y, z;
the others are [element, z, y, x]. The extremes, float32 (min, max), follow in the same order. Files of
two-dimensional runs, which are not read here, have none. Source: Nek5000 user's guide, "Restart/Output files
(.f00000)".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from ridgeline.runtime.errors import OutputError

HEADER_BYTES = 132
ENDIAN_TAG = np.float32(6.54321)
DATA_START = HEADER_BYTES + 4
MOST_SCALARS = 99  # two digits in the header
_TAGS = re.compile(r"(X?)(U?)(P?)(T?)(?:S(\d\d))?")


@dataclass(frozen=True)
class FileSection:
    """A section of a file: one field, [element, component, z, y, x]."""

    tag: str  # "X", "U", "P", "T", "S01", ...
    components: int
    start: int  # position of its first byte in the file
    extremes: int  # position of its minima and maxima, float32 [element, component, 2]


@dataclass(frozen=True)
class Header:
    """The header of 132 characters. word: bytes of a number, 4 or 8; n: points of an element in each direction."""

    word: int
    n: int
    n_elements: int
    time: float
    step: int
    coordinates: bool
    velocity: bool
    pressure: bool
    temperature: bool
    scalars: int

    def encode(self) -> bytes:
        """Return the 132 characters."""
        flags = (self.coordinates, self.velocity, self.pressure, self.temperature)
        tags = "".join(tag for tag, present in zip("XUPT", flags) if present)
        tags += f"S{self.scalars:02d}" if self.scalars else ""
        line = (
            f"#std {self.word:1d} {self.n:2d} {self.n:2d} {self.n:2d} {self.n_elements:10d} {self.n_elements:10d} "
            f"{self.time:20.13E} {self.step:9d} {0:6d} {1:6d} {tags}"
        )
        return line.ljust(HEADER_BYTES).encode()

    @property
    def sections(self) -> list[FileSection]:
        """The sections of the file, in its order."""
        parts = [("X", 3)] * self.coordinates + [("U", 3)] * self.velocity
        parts += [("P", 1)] * self.pressure + [("T", 1)] * self.temperature
        parts += [(f"S{i + 1:02d}", 1) for i in range(self.scalars)]
        start = DATA_START + 4 * self.n_elements
        extremes = start + sum(c for _, c in parts) * self.n_elements * self.points * self.word
        sections = []
        for tag, components in parts:
            sections.append(FileSection(tag, components, start, extremes))
            start += components * self.n_elements * self.points * self.word
            extremes += components * self.n_elements * 8
        return sections

    @property
    def points(self) -> int:
        """Number of points of an element."""
        return math.prod((self.n,) * 3)

    @property
    def data_end(self) -> int:
        """Bytes of the file without the extremes."""
        numbers = sum(section.components for section in self.sections) * self.points
        return DATA_START + self.n_elements * (4 + numbers * self.word)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.data_end + 8 * self.n_elements * sum(section.components for section in self.sections)


def decode_header(text: bytes, path: object) -> Header:
    """Return the header of the file `path`, given its first bytes.

    Raises OutputError for a file that is not a Nek5000 field file, is one of several parts, or is two-dimensional.
    """
    if text[:4] != b"#std":
        raise OutputError(f"{path} is not a Nek5000 field file, because it does not begin with #std.")
    words = text.decode("ascii", "replace").split()
    try:
        if len(text) < HEADER_BYTES:
            raise ValueError
        word, nx, ny, nz, total, here = map(int, words[1:7])
        time, step, n_files = float(words[7]), int(words[8]), int(words[10])
        tags = _TAGS.fullmatch(words[11]) if len(words) > 11 else None
        if word not in (4, 8) or min(nx, total, step + 1) < 1 or tags is None or not words[11]:
            raise ValueError
    except ValueError:
        raise OutputError(
            f"the Nek5000 field file {path} is damaged: its header is {text.decode('ascii', 'replace').strip()!r}. "
            f"Write it again, or restore it from a copy."
        ) from None
    if n_files != 1 or here != total:
        raise OutputError(
            f"{path} is one of {n_files} parts of a Nek5000 field, but only fields in one file can be read."
        )
    if not nx == ny == nz:
        raise OutputError(
            f"{path} has elements of {nx} x {ny} x {nz} points, but only elements with the same number of points in "
            "three dimensions can be read."
        )
    x, u, p, t, s = tags.groups()
    return Header(word, nx, total, time, step, bool(x), bool(u), bool(p), bool(t), int(s or 0))
