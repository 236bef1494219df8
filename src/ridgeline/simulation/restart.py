"""Checkpoints of a run: the state that it starts from, and the checkpoints that it saves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ridgeline.config.intervals import ROUNDING
from ridgeline.config.schema import fields_of
from ridgeline.io.checkpoint import CheckpointStore, SavedCheckpoint
from ridgeline.io.checkpoint_load import OtherCaseError, check_exists, newest_identity
from ridgeline.models.contract import Model
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.runtime.errors import CheckpointError
from ridgeline.simulation.outputs import Write, WriteLog

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

log = logging.getLogger(__name__)


class Restart:
    """Restores a model at the beginning of a run and saves it at checkpoints.

    `writes` counts what the checkpoints of this run have cost so far, the same on all ranks.
    """

    def __init__(self, case: AnyCase, model: Model, comm: MPI.Comm) -> None:
        """Collective; touches no file."""
        self._case, self._model, self._comm = case, model, comm
        section = case.checkpoint
        self._store = CheckpointStore(
            comm,
            section.path,
            keep=section.keep,
            ranks_per_file=section.ranks_per_file,
            writers_at_once=section.writers_at_once,
        )
        self.writes = WriteLog()
        self._bytes_on_disk = 0  # of this run's checkpoints
        # The newest checkpoint that this run has written, or the one that it started from.
        self._newest: Path | None = None
        # Whether checkpoint.path may hold checkpoints of earlier runs.
        self._has_foreign = False

    def check(self, resume: str) -> None:
        """Raise an error for a missing initial file or checkpoint, before anything is compiled. Collective."""
        if resume == "never":
            broadcast_decision(self._comm, self._case.check_files)
        elif resume != "auto":
            check_exists(self._comm, resume)

    def settle(self, resume: str) -> AnyCase:
        """Return the case with the settings fixed that the user left to the run (`AnyCase.settled`). Collective.

        `resume` is as in `set_first_state`. Raises CheckpointError if the newest checkpoint has a newer format.
        """
        identity = None
        if resume != "never":
            path = self._store.path if resume == "auto" else resume
            identity = newest_identity(self._comm, path)
        self._case = self._case.settled(identity)
        return self._case

    def set_first_state(self, resume: str) -> tuple[int, Mapping[str, Any] | None]:
        """Bring the model to its first state; return its step and the position of the outputs. Collective.

        Parameters
        ----------
        resume
            "never" starts anew, "auto" continues from the newest usable checkpoint or starts anew if there is none,
            and anything else is the path of a checkpoint.

        Returns
        -------
        tuple
            The step, and the position (see outputs.py), which is None for a run that starts anew.

        Raises
        ------
        CheckpointError
            If the named checkpoint is missing, damaged or belongs to another run.
        """
        if resume == "never":
            self._has_foreign = True
            self._model.initialize()
            return 0, None
        try:
            loaded = self._store.load(self._model.state(), self._case.identity(), resume, self._model.later)
        except OtherCaseError as error:
            raise CheckpointError(f"{error}{_other_parameters(self._case)}") from None
        if loaded is None:
            self._log(
                logging.INFO,
                f"there is no checkpoint in {self._case.checkpoint.path}, so the run starts at step 0.",
            )
            self._model.initialize()
            return 0, None
        for remark in loaded.remarks:
            self._log(logging.WARNING, remark)
        steps, end = self._case.run.steps, self._case.run.end_time
        if steps is not None and loaded.step > steps:
            raise CheckpointError(
                f"the checkpoint {loaded.path} is at step {loaded.step}, beyond run.steps = "
                f"{steps}. Increase run.steps, or resume from an earlier checkpoint."
            )
        if end is not None and loaded.time > end * (1 + ROUNDING):
            raise CheckpointError(
                f"the checkpoint {loaded.path} is at time {loaded.time:.9g}, beyond run.end_time = {end:.9g}. "
                f"Increase run.end_time, or resume from an earlier checkpoint."
            )
        self._model.restored(loaded.step, loaded.time)
        self._newest = loaded.path
        if loaded.path.resolve().parent != self._store.path.resolve():
            self._has_foreign = True
        self._log(logging.INFO, f"continuing from {loaded.path} at step {loaded.step}.")
        return loaded.step, loaded.state

    def save(self, step: int, position: Mapping[str, Any]) -> None:
        """Write a checkpoint of the current state. Collective. Raises CheckpointError on every rank.

        `position` is that of the outputs (see outputs.py).
        """
        self._set_aside_foreign()
        saved = self._store.save(
            self._model.state(),
            step=step,
            time=self._model.time(step),
            identity=self._case.identity(),
            state=position,
            settings=self._case.flatten(),
        )
        self._record(saved)

    def _record(self, saved: SavedCheckpoint) -> None:
        self._newest = saved.path
        self._bytes_on_disk += saved.bytes_written
        self.writes.record(Write(saved.step, saved.bytes_raw, saved.seconds))

    def follow(self, case: AnyCase, model: Model) -> None:
        """Save another model from now on; its section [checkpoint] is the same."""
        self._case, self._model = case, model

    def newest(self) -> Path | None:
        """Return the newest checkpoint that this run has written or started from, or None."""
        return self._newest

    def figures(self) -> dict[str, float]:
        """Return the number of checkpoints, their bytes, the compression and the bandwidths, for the report.

        bytes_raw counts the fields that were saved, and bytes_written the data files on the disk. Both bandwidths
        divide by the same seconds of the slowest rank: compressing, writing and forcing to the disk.
        """
        saved = self.writes
        if not saved.count:
            return {"written": 0}
        return {
            "written": saved.count,
            "bytes_raw": saved.bytes,
            "bytes_written": self._bytes_on_disk,
            "compression_ratio": saved.bytes / self._bytes_on_disk,
            "raw_bytes_per_second": saved.bytes / saved.seconds,
            "written_bytes_per_second": self._bytes_on_disk / saved.seconds,
        }

    def set_aside(self) -> None:
        """Move checkpoints of earlier runs away, so that they are not taken for this run's. Collective.

        Call it when the run is sure to begin. A run that saves only if it is stopped leaves them alone until then.
        """
        if self._case.checkpoint.is_used:
            self._set_aside_foreign()

    def _set_aside_foreign(self) -> None:
        if not self._has_foreign:
            return
        self._has_foreign = False
        aside = self._store.set_aside(self._newest)
        if aside is not None:
            self._log(
                logging.WARNING,
                f"the checkpoints of an earlier run are now in {aside}. To continue that run, set checkpoint.path "
                f"to it and resume.",
            )

    def _log(self, level: int, text: str) -> None:
        if self._comm.rank == 0:
            log.log(level, "%s", text)


def _other_parameters(case: AnyCase) -> str:
    """Say how a case continues from the state of another one, with a space before; "" if its model cannot."""
    kind = fields_of(type(case)).get("initial.kind")
    if kind is None or "file" not in get_args(kind.annotation):
        return ""
    return (
        " To continue from its state with other parameters, start a new run with --set initial.kind=file --set "
        "initial.path=DATA_SET and with other paths, such as --set output.path=after.bp."
    )
