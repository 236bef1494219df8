"""The settings of an HPCG run, from its options or hpcg.dat, and the place of its report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ridgeline.bench.hpcg.declaration import DEFAULT_POINTS, DEFAULT_SECONDS, HpcgOptions
from ridgeline.bench.hpcg.hpcg_dat import NAME, read_hpcg_dat
from ridgeline.bench.hpcg.report import report_name
from ridgeline.bench.result import Result
from ridgeline.io.previous import write_text
from ridgeline.runtime.files import check_folder


@dataclass(frozen=True)
class HpcgSettings:
    """Points [x, y, z] of each rank's box, seconds that the timed sets take, and the file that both come from."""

    box: tuple[int, int, int]
    seconds: float
    source: str | None = None


def choose_settings(options: HpcgOptions) -> HpcgSettings:
    """Return box and seconds: as given, else of hpcg.dat, else 104 points and 60 s. No communication.

    hpcg.dat is the file that is named, or lies in the current folder if no size is given. Sizes left out are the
    largest given. Raises OutputError or ConfigError for a file that cannot be read.
    """
    sizes = options.nx, options.ny, options.nz
    given = [size for size in sizes if size is not None]
    dat = options.dat
    if dat is None and not given and Path(NAME).is_file():
        dat = NAME
    box, seconds = (DEFAULT_POINTS,) * 3, DEFAULT_SECONDS
    if dat is not None:
        content = read_hpcg_dat(dat)
        box, seconds = (content.nx, content.ny, content.nz), float(content.seconds)
    elif given:
        box = (max(given),) * 3
    nx, ny, nz = (default if size is None else size for size, default in zip(sizes, box))
    return HpcgSettings((nx, ny, nz), seconds if options.seconds is None else options.seconds, dat)


def check_output(options: HpcgOptions) -> Path:
    """Make the folder of the report and return it. Raises OutputError if nothing can be written there."""
    return check_folder(options.output, "the report", "--output")


def write_report(result: Result, options: HpcgOptions) -> list[str]:
    """Write the report under its official name; return the line that says where."""
    path = check_output(options) / report_name(datetime.now())
    write_text(path, result.extra["text"], "--output")
    return [f"report: {path}"]
