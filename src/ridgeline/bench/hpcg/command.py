"""HPCG as a job of its own: its settings from the command line or hpcg.dat, its run, its report, its verdict."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from ridgeline.bench.benchmark import run_benchmark
from ridgeline.io.previous import write_text
from ridgeline.parallel.job import job
from ridgeline.runtime.errors import VerificationError
from ridgeline.runtime.files import check_folder

DEFAULT_BOX = (104, 104, 104)
DEFAULT_SECONDS = 60.0

Sizes = tuple[int | None, int | None, int | None]


def run_hpcg(
    sizes: Sizes,
    process_grid: tuple[int, int, int],
    seconds: float | None = None,
    threads: int = 1,
    dat: str | None = None,
    stream: bool = True,
    output: str = ".",
    json_path: str | None = None,
    debug: bool = False,
) -> dict[str, Any]:
    """Run HPCG on all ranks; print on rank 0, write the official report into `output`; return the figures.

    Collective over the world. sizes: nx, ny, nz of each rank, those that are None as the largest given; all None: of
    hpcg.dat, which is `dat` or lies in the current folder, else 104. seconds: None: of hpcg.dat, else 60. Any failure
    ends the job; a result that is not valid does so after the report is written, as VerificationError.
    """
    with job(threads, debug) as comm:
        from ridgeline.parallel.reduce import decide, together

        options = decide(comm, lambda: choose_settings(sizes, seconds, dat))
        with together(comm):
            if comm.rank == 0:
                check_folder(output, "the report", "--output")
    options |= {"process_grid": process_grid, "threads": threads, "stream": stream}
    result = run_benchmark(
        "hpcg.measure.measure_hpcg", options, threads=threads, json_path=json_path, debug=debug
    )
    with job(threads, debug) as comm:
        with together(comm):
            if comm.rank == 0:
                path = write_report(Path(output), result["extra"]["text"])
                if json_path != "-":
                    print(f"report: {path}")
        if not result["verified"]:
            raise VerificationError(
                f"HPCG result is INVALID: {', '.join(result['extra']['failures'])}; the report in {output} has the "
                f"figures, and a wrong one means a fault of memory, processor or network, or of the program"
            )
    return result


def choose_settings(sizes: Sizes, seconds: float | None, dat: str | None) -> dict[str, Any]:
    """Return box, seconds and source (the file that they come from, or None) as `measure_hpcg` takes them.

    Reads hpcg.dat if it is named, or if there is one and no size is given. No communication. Raises OutputError or
    ConfigError for a file that cannot be read.
    """
    from ridgeline.bench.hpcg.hpcg_dat import NAME, read_hpcg_dat

    given = [size for size in sizes if size is not None]
    if dat is None and not given and Path(NAME).is_file():
        dat = NAME
    box, default = DEFAULT_BOX, DEFAULT_SECONDS
    if dat is not None:
        content = read_hpcg_dat(dat)
        box, default = (content.nx, content.ny, content.nz), float(content.seconds)
    elif given:
        box = (max(given),) * 3
    nx, ny, nz = (default if size is None else size for size, default in zip(sizes, box))
    return {
        "box": (nx, ny, nz),
        "seconds": default if seconds is None else seconds,
        "source": None if dat is None else str(dat),
    }


def write_report(folder: Path, text: str) -> Path:
    """Write the report under its official name into `folder`, which is made; return its path."""
    from ridgeline.bench.hpcg.report import report_name

    path = check_folder(folder, "the report", "--output") / report_name(datetime.now())
    write_text(path, text, "--output")
    return path
