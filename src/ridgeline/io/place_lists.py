"""Lists of positions as CSV files: a line x,y,z for each, with or without a header; written ones are numbered."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ridgeline.io.output_files import GENERATOR, write_text
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import output_errors, read_regular

Array = NDArray[np.float64]
HEADERS = (["x", "y", "z"], ["probe", "x", "y", "z"])


def read_places(path: str | Path, option: str) -> Array:
    """Return the positions (x, y, z) in a CSV file, float64 [m, 3]. option: the setting that names the file.

    Empty lines, lines that begin with #, a header x,y,z or probe,x,y,z, and the numbers of probes are skipped. Raises
    ConfigError for a file that cannot be read, and for a line that is not three finite numbers.
    """
    path = Path(path)
    try:
        lines = read_regular(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "the file is not text"
        raise ConfigError(
            f'{option} = "{path}" cannot be read: {why}. Give a CSV file with a line x,y,z for each place.'
        ) from error
    places: list[list[float]] = []
    first = 0  # column of x
    for number, row in enumerate(csv.reader(lines), start=1):
        if not row or row[0].lstrip().startswith("#"):
            continue
        try:
            place = [float(text) for text in row[first:]]
        except ValueError:
            place = []
            header = [text.strip().lower() for text in row]
            if not places and header in HEADERS:
                first = HEADERS.index(header)
                continue
        if len(place) != 3 or not all(map(math.isfinite, place)):
            raise ConfigError(
                f"{path}:{number}: the line is {','.join(row)[:60]!r}, but each line of {option} must be three "
                "numbers x,y,z."
            )
        places.append(place)
    return np.array(places, np.float64).reshape(-1, 3)


def write_places(path: Path, places: Array, option: str) -> None:
    """Write positions [m, 3] as lines probe,x,y,z, numbered from 0. Raises OutputError. option: see `read_places`."""
    rows = [f"{number},{x!r},{y!r},{z!r}" for number, (x, y, z) in enumerate(places.tolist())]
    with output_errors(f"write the places {path}", f"set {option} to a place where you may write"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join([f"# {GENERATOR}", "probe,x,y,z", *rows]) + "\n", option)
