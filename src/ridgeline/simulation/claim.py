"""What a run holds while it runs: locks of the paths that it writes to, tried before anything is compiled."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ridgeline.io.output_files import check_not_special, check_replaceable, check_writable, delete_output
from ridgeline.parallel.allreduce import errors_on_all_ranks
from ridgeline.runtime.errors import CheckpointError, OutputError
from ridgeline.runtime.files import output_errors, try_folder
from ridgeline.runtime.locks import PathLock
from ridgeline.simulation.paths import single_outputs

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

log = logging.getLogger(__name__)


class Claim:
    """Holds the output paths of a run from entering to leaving. Collective; rank 0 touches the files.

    files: paths of further files by the options that name them; None or "-" for none.

    Raises OutputError or CheckpointError on all ranks if another run holds a path, or if Ridgeline did not write what
    is there. It also raises them if nothing can be written there.
    """

    def __init__(self, case: AnyCase, comm: MPI.Comm, files: Mapping[str, str | None] | None = None) -> None:
        self._paths, self._outputs = case.written(), single_outputs(case)
        self._report = Path(case.report_path())
        self._files = {option: path for option, path in (files or {}).items() if path not in (None, "-")}
        self._comm = comm
        self._held = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with errors_on_all_ranks(self._comm):
            if self._comm.rank == 0:
                try:
                    self._take()
                except BaseException:
                    self._held.close()
                    raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def discard(self) -> None:
        """Delete what earlier runs of ours left at the paths of the outputs; checkpoints stay. Collective.

        Called when the run is sure to begin: one that is refused deletes nothing.
        """
        with errors_on_all_ranks(self._comm):
            if self._comm.rank == 0:
                for key, path in self._outputs:
                    delete_output(path, key)

    def _take(self) -> None:
        self._refuse_files_over_outputs()
        for key, name in self._outputs:
            check_not_special(Path(name), key)  # before a lock is made beside it
        checkpoints = Path(self._paths["checkpoint.path"])
        self._take_checkpoints(checkpoints)
        outputs = [(key, Path(path)) for key, path in self._paths.items() if key != "checkpoint.path"]
        # The report is written beside the data set, whether that is written or not.
        for key, path in [*outputs, ("output.path", self._report)]:
            with output_errors(f"make the folder of {path}", f"set {key} to a place where you may write"):
                path.parent.mkdir(parents=True, exist_ok=True)
            self._lock(PathLock.beside(path, f"{key} = {path}"))
        for key, name in self._outputs:
            check_replaceable(Path(os.path.realpath(name)), key)
        check_writable(self._report, "output.path")
        for option, file in self._files.items():
            check_writable(file, option)

    def _lock(self, lock: PathLock) -> None:
        dead = lock.acquire()
        self._held.callback(lock.release)
        if dead is not None:
            log.info("%s: the lock of %s, which is over, is taken over", lock.file, dead)

    def _take_checkpoints(self, folder: Path) -> None:
        """Make the directory, lock it, and try whether files can be made in it."""
        made = not folder.exists()
        try:
            Path(os.path.realpath(folder)).mkdir(parents=True, exist_ok=True)
            try_folder(folder)
        except OSError as error:
            raise CheckpointError(
                f"cannot write checkpoints to {folder}: {error.strerror}; set checkpoint.path to a place where you "
                f"may write"
            ) from None
        if made:
            self._held.callback(_remove_if_empty, folder)
        self._lock(PathLock.inside(folder, f"checkpoint.path = {folder}"))

    def _refuse_files_over_outputs(self) -> None:
        for option, file in self._files.items():
            for key, path in self._paths.items():
                real = os.path.realpath(path)
                if os.path.commonpath([os.path.realpath(file), real]) == real:
                    raise OutputError(f"{option} {file} is {key} or lies in it; choose another {option}")


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()
