"""The report of a validation: report.html (one self-contained page), report.json, nodes.good."""

from __future__ import annotations

import json
from pathlib import Path

from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.output_paths import check_folder
from ridgeline.validate.measurements import Measurements
from ridgeline.validate.report_page import make_page
from ridgeline.validate.verdict import Verdict, write_hostfile


def write_report(measurements: Measurements, verdict: Verdict, folder: str | Path) -> Path:
    """Write report.html, report.json (measurements and verdict) and nodes.good; return the page's path.

    Raises OutputError if they cannot be written.
    """
    path = check_folder(folder, "the report", "--report")
    content = measurements.to_dict() | {"verdict": verdict.to_dict()}
    page = make_page(measurements, verdict)
    try:
        (path / "report.json").write_text(json.dumps(content) + "\n")
        (path / "report.html").write_text(page)
    except OSError as error:
        raise OutputError(f"cannot write into {path}: {error.strerror}; choose another --report") from None
    write_hostfile(verdict.good_nodes(), path / "nodes.good")
    return path / "report.html"
