"""Checksums of a data set, in the file `ridgeline.sums` of its folder: what ADIOS2 itself does not check."""

from __future__ import annotations

from pathlib import Path

SUMS = "ridgeline.sums"
HEADER = b"ridgeline sums 1\n"


def begin(path: Path) -> None:
    """Begin the checksums of a new data set in the folder `path`: from here on it is known as Ridgeline's."""
    (path / SUMS).write_bytes(HEADER)


def is_begun(path: Path) -> bool:
    """Say whether the folder `path` holds checksums, if only the first bytes of them."""
    try:
        with (path / SUMS).open("rb") as file:
            return HEADER.startswith(file.read(len(HEADER)))
    except OSError:
        return False
