"""The settings of an HPCG run, from its options or hpcg.dat, and the place of its report."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ridgeline.bench.hpcg.hpcg_dat import NAME, read_hpcg_dat
from ridgeline.bench.hpcg.hpcg_options import DEFAULT_POINTS, DEFAULT_SECONDS, BoxOptions, HpcgOptions
from ridgeline.bench.hpcg.report import report_name
from ridgeline.bench.hpcg.scaling import BoxPerRank
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
    """Return the points [x, y, z] of a rank's box: sizes left out are the largest of the others."""
    return BoxPerRank(DEFAULT_POINTS).box(vars(options))


def check_output(options: HpcgOptions) -> Path:
    """Make the folder of the report and return it. Raises OutputError if nothing can be written there."""
    return check_folder(options.output, "the report", "--output")


def write_report(result: Result, options: HpcgOptions) -> list[str]:
    """Write the report under its official name; return the line that says where."""
    path = check_output(options) / report_name(datetime.now())
    write_text(path, result.extra["text"], "--output")
    return [f"report: {path}"]
