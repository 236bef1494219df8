"""Checkpoints of a run: when it starts, from which state; when it stops, what it leaves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.io.checkpoint import CheckpointStore, SavedCheckpoint
from ridgeline.io.checkpoint_load import check_exists, newest_identity
from ridgeline.models.contract import Model
from ridgeline.parallel.allreduce import broadcast_decision
from ridgeline.runtime.errors import CheckpointError
from ridgeline.simulation.writes import Write, WriteLog

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import AnyCase

log = logging.getLogger(__name__)


class Restart:
    """Restores a model at the beginning of a run and saves it at checkpoints.

    writes: what the checkpoints of this run have cost so far, the same on all ranks.
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
        self._on_disk = 0  # bytes of this run's checkpoints
        self._newest: Path | None = None  # checkpoint, written by this run or started from
        self._others_there = False  # whether checkpoint.path may hold checkpoints that are not of this run

    def check(self, resume: str) -> None:
        """Raise what can be known before anything is compiled: no initial file, no checkpoint there. Collective."""
        if resume == "never":
            broadcast_decision(self._comm, self._case.check_files)
        elif resume != "auto":
            check_exists(self._comm, resume)

    def settle(self, resume: str) -> AnyCase:
        """Return the case with those settings chosen that are left to the run (`AnyCase.settled`). Collective.

        resume: as in `begin`. Raises CheckpointError if the newest checkpoint is of a newer format.
        """
        identity = None
        if resume != "never":
            path = self._store.path if resume == "auto" else resume
            identity = newest_identity(self._comm, path)
        self._case = self._case.settled(identity)
        return self._case

    def begin(self, resume: str) -> tuple[int, Mapping[str, Any] | None]:
        """Bring the model to its first state; return its step and the position of the outputs.

        resume: "never" starts anew, "auto"
        continues from the newest usable checkpoint or starts anew if there is none, anything else is the
        path of a checkpoint. The position (see `simulation.outputs`) is None for a run that starts anew. Collective.

        Raises CheckpointError if the checkpoint asked for is missing, damaged or of another run.
        """
        if resume == "never":
            self._others_there = True
            self._model.initialize()
            return 0, None
        loaded = self._store.load(self._model.state(), self._case.identity(), resume, self._model.later)
        if loaded is not None:
            for remark in loaded.remarks:
                self._say(logging.WARNING, remark)
        if loaded is None:
            self._say(logging.INFO, f"no checkpoint in {self._case.checkpoint.path}: starting at step 0")
            self._model.initialize()
            return 0, None
        if loaded.step > self._case.run.steps:
            raise CheckpointError(
                f"the checkpoint {loaded.path} is at step {loaded.step}, beyond run.steps = "
                f"{self._case.run.steps}; raise run.steps or resume from an earlier one"
            )
        self._model.restored(loaded.step, loaded.time)
        self._newest = loaded.path
        if loaded.path.resolve().parent != self._store.path.resolve():
            self._others_there = True
        self._say(logging.INFO, f"continuing from {loaded.path} at step {loaded.step}")
        return loaded.step, loaded.state

    def save(self, step: int, position: Mapping[str, Any]) -> None:
        """Write a checkpoint of the present state. Collective. Raises CheckpointError on every rank.

        position: of the outputs (see `simulation.outputs`).
        """
        self._set_aside()
        saved = self._store.save(
            self._model.state(),
            step=step,
            time=self._model.time(step),
            identity=self._case.identity(),
            state=position,
            settings=self._case.flatten(),
        )
        self._record(saved)

    def follow(self, case: AnyCase, model: Model) -> None:
        """Save another model from now on, whose settings have the same [checkpoint]."""
        self._case, self._model = case, model

    def _record(self, saved: SavedCheckpoint) -> None:
        self._newest = saved.path
        self._on_disk += saved.bytes_written
        self.writes.record(Write(saved.step, saved.bytes_raw, saved.seconds))

    def newest(self) -> Path | None:
        """Return the newest checkpoint that this run has written or started from, None if there is none."""
        return self._newest

    def figures(self) -> dict[str, float]:
        """Return how many checkpoints were written, and of all together bytes, compression and both bandwidths.

        bytes_raw: of the fields, what the run saved; bytes_written: of the data files, what the disk took. The same
        seconds divide both: compression, writing and forcing to the disk, of the slowest rank.
        """
        saved = self.writes
        if not saved.count:
            return {"written": 0}
        return {
            "written": saved.count,
            "bytes_raw": saved.bytes,
            "bytes_written": self._on_disk,
            "compression_ratio": saved.bytes / self._on_disk,
            "raw_bytes_per_second": saved.bytes / saved.seconds,
            "written_bytes_per_second": self._on_disk / saved.seconds,
        }

    def set_aside(self) -> None:
        """Keep checkpoints of earlier runs from being resumed, or deleted as old ones of this run. Collective.

        Called when the run is sure to begin; one that saves only if it is stopped leaves them alone until then.
        """
        if self._case.checkpoint.every:
            self._set_aside()

    def _set_aside(self) -> None:
        if not self._others_there:
            return
        self._others_there = False
        aside = self._store.set_aside(self._newest)
        if aside is not None:
            self._say(
                logging.WARNING,
                f"the checkpoints of an earlier run are now in {aside}; to continue that run, set checkpoint.path "
                f"to it and resume",
            )

    def _say(self, level: int, text: str) -> None:
        if self._comm.rank == 0:
            log.log(level, "%s", text)
