"""hpcg.dat, the input file of the official HPCG: two lines of comment, the local box, the seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import output_errors, read_regular

NAME = "hpcg.dat"
DEFAULT_SECONDS = 1800  # where the file does not say, as the official code


@dataclass(frozen=True)
class HpcgDat:
    """Points of each rank's box in x, y, z, and the seconds that the timed phase shall take."""

    nx: int
    ny: int
    nz: int
    seconds: int


def read_hpcg_dat(path: str | Path) -> HpcgDat:
    """Read the file; no communication. Words behind the three sizes on their line are comment.

    Raises OutputError if it cannot be read, ConfigError if it has no three sizes or a wrong time.
    """
    with output_errors(f"read {path}", f"--dat names a file as {NAME} of HPCG"):
        lines = read_regular(path).decode(errors="replace").splitlines()
    sizes: list[int] = []
    rest = iter(lines[2:])
    while len(sizes) < 3:
        line = next(rest, None)
        if line is None:
            raise ConfigError(
                f"{path} has {len(sizes)} sizes: below two lines of comment it needs nx ny nz, then the seconds"
            )
        sizes += [_whole(word, path, "a size") for word in line.split()[: 3 - len(sizes)]]
    words = " ".join(rest).split()
    seconds = _whole(words[0], path, "the seconds") if words else DEFAULT_SECONDS
    if seconds < 0:
        raise ConfigError(f"{path}: {seconds} seconds; 0 (one set of iterations) or more is needed")
    return HpcgDat(sizes[0], sizes[1], sizes[2], seconds)


def _whole(word: str, path: str | Path, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"{path}: {what} is {word!r} and must be a whole number") from None
