"""The paths that a run writes to: what can be said of them before anything is made there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ridgeline.io.output_files import check_not_special, check_replaceable
from ridgeline.runtime.files import output_errors, try_folder

if TYPE_CHECKING:
    from ridgeline.config.case import AnyCase


def single_outputs(case: AnyCase) -> list[tuple[str, str]]:
    """Return keys and paths of outputs that are one file or folder; at a prefix its own writer looks."""
    return [
        (key, path)
        for key, path in case.written().items()
        if key not in ("checkpoint.path", "output.nek5000")
    ]


def check_paths(case: AnyCase) -> None:
    """Raise OutputError if a run could not write where it should, or would find there what is not ours.

    Leaves nothing behind. Locks of other runs are not looked at: those may be over when this one begins.
    """
    for key, name in single_outputs(case):
        check_not_special(Path(name), key)
        check_replaceable(Path(os.path.realpath(name)), key)
    check_replaceable(Path(case.report_path()), "output.path")
    for key, name in case.written().items():
        folder = Path(os.path.realpath(name))
        with output_errors(f"write {name}", f"set {key} to a place where you may write"):
            try_folder(existing(folder if key == "checkpoint.path" else folder.parent))


def existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that is there. Raises OSError where nobody may look."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
