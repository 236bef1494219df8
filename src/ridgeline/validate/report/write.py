"""The report of a validation: report.html (one self-contained page), report.json, nodes.good."""

from __future__ import annotations

from pathlib import Path

from ridgeline.io.previous import check_file, to_json, write_text
from ridgeline.runtime.files import LastWrites, check_folder
from ridgeline.validate.judge.verdict import Verdict, write_hostfile
from ridgeline.validate.measure.measurements import Measurements
from ridgeline.validate.report.page import make_page


def check_report(folder: str | Path) -> Path:
    """Make the folder; raise OutputError if the files of a report cannot be written into it. Returns its path."""
    path = check_folder(folder, "the report", "--report")
    for name in ("report.json", "report.html", "nodes.good"):
        check_file(path / name, "--report")
    return path


def write_report(measurements: Measurements, verdict: Verdict, folder: str | Path) -> Path:
    """Write report.html, report.json (measurements and verdict) and nodes.good; return the page's path.

    Raises OutputError if they cannot be written, when each has been tried.
    """
    path = check_folder(folder, "the report", "--report")
    writes = LastWrites()
    content = measurements.to_dict() | {"verdict": verdict.to_dict()}
    with writes.trying():
        write_text(path / "report.json", to_json(content, indent=None), "--report")
    with writes.trying():
        write_text(path / "report.html", make_page(measurements, verdict), "--report")
    with writes.trying():
        write_hostfile(verdict.good_nodes(), path / "nodes.good")
    writes.raise_failures()
    return path / "report.html"
