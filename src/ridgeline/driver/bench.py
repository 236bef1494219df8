"""Benchmarks as jobs of their own: prepare this rank, measure, print on rank 0."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.launcher import end_with_launcher
from ridgeline.runtime.threads import configure_threads


def run_transposes(
    pattern: dict[str, Any],
    process_grids: Sequence[tuple[int, int]] | None,
    batches: Sequence[int],
    json_path: str | None = None,
    debug: bool = False,
) -> dict[str, Any]:
    """Measure the exchanges of a `bench.transpose.Pattern` on all ranks; print on rank 0; return the figures.

    Collective over the world. Any failure ends the job (see `runtime.communicator.ends_job_on_error`).
    """
    end_with_launcher()
    configure_threads(1)

    from ridgeline.bench.transpose import Pattern, make_table, measure_transposes, to_dict
    from ridgeline.comm.reduce import together
    from ridgeline.runtime.communicator import ends_job_on_error, world

    comm = world()
    with ends_job_on_error(comm, debug):
        asked = Pattern(**pattern)
        figures = measure_transposes(comm, asked, process_grids, batches)
        result = to_dict(asked, comm.size, figures)
        with together(comm):
            if comm.rank == 0:
                if json_path is not None:
                    _write(json_path, json.dumps(result, indent=2) + "\n")
                if json_path != "-":
                    # A table cut at 80 columns would be of no use in a file.
                    console = Console(width=None if sys.stdout.isatty() else 200)
                    console.print(make_table(asked, comm.size, figures), highlight=False)
    return result


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}; choose another --json") from None
