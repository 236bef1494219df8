"""The one place where predictions come to stand beside measured points.

`ridgeline study collect` writes what this returns as the column `predicted`, and draws it as a dashed curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def predicted_seconds(record: Mapping[str, Any], report: Mapping[str, Any]) -> float | None:
    """Return the seconds of a step that a prediction for the machine of a report gives; None without one.

    record: of job.json; report: of the run.
    """
    return None
