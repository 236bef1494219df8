"""The paths that a run writes to: checked before anything is compiled, and locked for as long as it runs.

`ridgeline check` uses the checks before it sets the threads of Numba, so nothing here may import Numba at the top.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ridgeline.io.output_files import (
    check_appendable,
    check_not_special,
    check_replaceable,
    check_writable,
    delete_output,
)
from ridgeline.runtime.errors import CheckpointError, OutputError
from ridgeline.runtime.extras import require_extra
from ridgeline.runtime.files import output_errors, try_folder
from ridgeline.runtime.locks import PathLock

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

log = logging.getLogger(__name__)


def single_outputs(case: AnyCase) -> list[tuple[str, str]]:
    """Return keys and paths of the outputs that are one file or folder.

    Outputs that begin with a prefix (Nek5000 fields) are left out: their own writer checks them.
    """
    return [
        (key, path)
        for key, path in case.written().items()
        if key not in ("checkpoint.path", "output.nek5000")
    ]


def check_paths(case: AnyCase) -> None:
    """Raise OutputError if a run could not write one of its paths: no store, no permission, or something not ours.

    Nothing is left behind. Locks are not looked at: a run that holds one may have ended before this one begins.
    """
    _require_stores(case.data_sets())
    for key, name in single_outputs(case):
        check_not_special(Path(name), key)
        check_replaceable(Path(os.path.realpath(name)), key)
    check_replaceable(Path(case.report_path()), "output.path")
    for key, name in case.written().items():
        folder = Path(os.path.realpath(name))
        with output_errors(f"write {name}", f"Set {key} to a place where you may write."):
            try_folder(nearest_existing(folder if key == "checkpoint.path" else folder.parent))


def _require_stores(data_sets: Mapping[str, tuple[str, str]]) -> None:
    """Raise OutputError if the package of a store is not installed. data_sets: paths and stores by their keys."""
    for key, (name, store) in data_sets.items():
        if store == "bp5":
            user = f"{key} = {name}, a BP5 data set,"
            require_extra("adios2", user, 'set output.format = "zarr"', OutputError)


def nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists. Raises OSError where nobody may look."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


class OutputLocks:
    """Locks on the output paths of a run, held from entering the block to leaving it.

    Collective; only rank 0 touches the files. `files` names further files by the option that gives each; None and
    "-" stand for no file.

    Raises OutputError or CheckpointError on all ranks if another run holds a path, if Ridgeline did not write what
    is there, or if nothing can be written there.
    """

    def __init__(self, case: AnyCase, comm: MPI.Comm, files: Mapping[str, str | None] | None = None) -> None:
        self._paths, self._outputs = case.written(), single_outputs(case)
        self._data_sets = case.data_sets()
        self._report = Path(case.report_path())
        self._files = {option: path for option, path in (files or {}).items() if path and path != "-"}
        self._comm = comm
        self._locks = contextlib.ExitStack()

    def __enter__(self) -> Self:
        from ridgeline.parallel.allreduce import errors_on_all_ranks

        with errors_on_all_ranks(self._comm):
            if self._comm.rank == 0:
                try:
                    self._acquire()
                except BaseException:
                    self._locks.close()
                    raise
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    def discard(self) -> None:
        """Delete what earlier runs of ours left at the paths of the outputs; checkpoints stay. Collective.

        Call it when the run is sure to begin: a run that is refused deletes nothing.
        """
        from ridgeline.parallel.allreduce import errors_on_all_ranks

        with errors_on_all_ranks(self._comm):
            if self._comm.rank == 0:
                for key, path in self._outputs:
                    delete_output(path, key)

    def _acquire(self) -> None:
        """Check and lock every path, on rank 0."""
        _require_stores(self._data_sets)
        for option, file in self._files.items():
            for key, name in self._paths.items():
                real = os.path.realpath(name)
                if os.path.commonpath([os.path.realpath(file), real]) == real:
                    raise OutputError(f"{option} {file} is {key}, or is inside it. Choose another {option}.")
        for key, name in self._outputs:
            # Before a lock is made beside it.
            check_not_special(Path(name), key)
        self._lock_checkpoints(Path(self._paths["checkpoint.path"]))
        outputs = [(key, Path(path)) for key, path in self._paths.items() if key != "checkpoint.path"]
        # The report is written beside the data set, whether that is written or not.
        for key, path in [*outputs, ("output.path", self._report)]:
            with output_errors(f"create the folder of {path}", f"Set {key} to a place where you may write."):
                path.parent.mkdir(parents=True, exist_ok=True)
            self._lock(PathLock.beside(path, f"{key} = {path}"))
        for key, name in self._outputs:
            check_replaceable(Path(os.path.realpath(name)), key)
        check_writable(self._report, "output.path")
        for option, file in self._files.items():
            # A log is continued, and everything else is replaced.
            check = check_appendable if option == "--log" else check_writable
            check(file, option)

    def _lock_checkpoints(self, folder: Path) -> None:
        """Make the folder of the checkpoints, lock it, and try whether files can be made in it."""
        is_new = not folder.exists()
        try:
            Path(os.path.realpath(folder)).mkdir(parents=True, exist_ok=True)
            try_folder(folder)
        except OSError as error:
            raise CheckpointError(
                f"cannot write checkpoints to {folder}: {error.strerror}. Set checkpoint.path to a place where you "
                f"may write."
            ) from None
        if is_new:
            self._locks.callback(_remove_if_empty, folder)
        self._lock(PathLock.inside(folder, f"checkpoint.path = {folder}"))

    def _lock(self, lock: PathLock) -> None:
        dead = lock.acquire()
        self._locks.callback(lock.release)
        if dead is not None:
            log.info("the lock %s belonged to %s. That run has ended, so this run uses it.", lock.file, dead)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
