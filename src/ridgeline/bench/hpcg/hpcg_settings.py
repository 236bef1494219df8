"""The settings of an HPCG run, from its options or from hpcg.dat.

hpcg.dat is the input file of the official HPCG: two lines of comment, the local box, the seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ridgeline.bench.hpcg.hpcg_options import (
    DEFAULT_POINTS,
    DEFAULT_SECONDS,
    BoxOptions,
    BoxPerRank,
    HpcgOptions,
)
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.files import output_errors, read_regular

NAME = "hpcg.dat"
SECONDS_OF_DAT = 1800  # where the file does not give them, as in the official code


@dataclass(frozen=True)
class HpcgSettings:
    """The points [x, y, z] of each rank's box, the seconds of the timed sets, and the file that gave both, if any."""

    box: tuple[int, int, int]
    seconds: float
    source: str | None = None


def choose_settings(options: HpcgOptions) -> HpcgSettings:
    """Return the box and seconds: from the options, otherwise from hpcg.dat, otherwise 104 points and 60 s.

    hpcg.dat is the file that an option names, or the one in the current folder if no size is given. Sizes that are
    left out are the largest of the others. No communication. Raises OutputError or ConfigError for a file that cannot
    be read.
    """
    sizes = options.nx, options.ny, options.nz
    dat = options.dat
    if dat is None and sizes == (None, None, None) and Path(NAME).is_file():
        dat = NAME
    box, seconds = box_of(options), DEFAULT_SECONDS
    if dat is not None:
        content = read_hpcg_dat(dat)
        x, y, z = (a if b is None else b for a, b in zip((content.nx, content.ny, content.nz), sizes))
        box, seconds = (x, y, z), float(content.seconds)
    return HpcgSettings(box, seconds if options.seconds is None else options.seconds, dat)


def box_of(options: BoxOptions) -> tuple[int, int, int]:
    """Return the points [x, y, z] of a rank's box, where sizes that are left out are the largest of the others."""
    return BoxPerRank(DEFAULT_POINTS).box(vars(options))


@dataclass(frozen=True)
class HpcgDat:
    """The points of each rank's box in x, y, z, and the seconds of the timed sets, as the file has them."""

    nx: int
    ny: int
    nz: int
    seconds: int


def read_hpcg_dat(path: str | Path) -> HpcgDat:
    """Read hpcg.dat. Words behind the three sizes on their line are comment. No communication.

    Raises OutputError if it cannot be read, ConfigError if it has no three sizes or a wrong time.
    """
    with output_errors(f"read {path}", f"give --dat a file in the format of HPCG's {NAME}"):
        lines = read_regular(path).decode(errors="replace").splitlines()
    sizes: list[int] = []
    rest = iter(lines[2:])
    while len(sizes) < 3:
        line = next(rest, None)
        if line is None:
            raise ConfigError(
                f"{path}: there are {len(sizes)} sizes, but the file must have nx, ny and nz and then the seconds, "
                "below two lines of comment."
            )
        sizes += [_whole(word, path, "one of the sizes") for word in line.split()[: 3 - len(sizes)]]
    words = " ".join(rest).split()
    seconds = _whole(words[0], path, "the number of seconds") if words else SECONDS_OF_DAT
    if seconds < 0:
        raise ConfigError(
            f"{path}: the seconds are {seconds}, but they must be 0 (for one set of iterations) or more."
        )
    return HpcgDat(sizes[0], sizes[1], sizes[2], seconds)


def _whole(word: str, path: str | Path, what: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ConfigError(f"{path}: {what} is {word!r}, but it must be a whole number.") from None
