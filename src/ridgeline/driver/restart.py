"""Checkpoints of a run: when it starts, from which state; when it stops, what it leaves."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.comm.reduce import raise_together
from ridgeline.io.checkpoint import CheckpointStore, Saved
from ridgeline.io.checkpoint_load import check_named
from ridgeline.models.contract import Model
from ridgeline.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.config.case import Case
    from ridgeline.runtime.context import Context

log = logging.getLogger(__name__)


class Restart:
    """Restores a model at the beginning of a run and saves it at checkpoints."""

    def __init__(self, case: Case, model: Model, comm: MPI.Comm) -> None:
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
        self._saved: list[Saved] = []
        self._started_from: Path | None = None

    def check(self, resume: str, context: Context) -> None:
        """Raise what can be known before anything is compiled: no initial file, no checkpoint there. Collective."""
        if resume == "never":
            self._model.check_initial(self._case, context)
        elif resume != "auto":
            check_named(self._comm, resume)

    def begin(self, resume: str) -> tuple[int, Mapping[str, Any] | None]:
        """Bring the model to its first state; return its step and the position of the outputs.

        resume: "never" starts anew (checkpoints of an earlier run are set aside, not deleted), "auto"
        continues from the newest usable checkpoint or starts anew if there is none, anything else is the
        path of a checkpoint. The position (see `driver.outputs`) is None for a run that starts anew. Collective.

        Raises CheckpointError if the checkpoint asked for is missing, damaged or of another run.
        """
        if resume == "never":
            self._set_aside()
            self._model.initialize()
            return 0, None
        loaded = self._store.load(self._model.state(), self._case.identity(), resume)
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
        self._started_from = loaded.path
        self._say(logging.INFO, f"continuing from {loaded.path} at step {loaded.step}")
        return loaded.step, loaded.state

    def save(self, step: int, position: Mapping[str, Any]) -> None:
        """Write a checkpoint of the present state. Collective. Raises CheckpointError on every rank.

        position: of the outputs (see `driver.outputs`).
        """
        saved = self._store.save(
            self._model.state(),
            step=step,
            time=self._model.time(step),
            identity=self._case.identity(),
            state=position,
            settings=self._case.flatten(),
        )
        self._saved.append(saved)

    def newest(self) -> Path | None:
        """Return the newest checkpoint that this run has written or started from, None if there is none."""
        return self._saved[-1].path if self._saved else self._started_from

    def figures(self) -> dict[str, float]:
        """Return how many checkpoints were written, their bytes, compression and bandwidth."""
        if not self._saved:
            return {"written": 0}
        total = sum(saved.bytes_written for saved in self._saved)
        raw = sum(saved.bytes_raw for saved in self._saved)
        seconds = sum(saved.seconds for saved in self._saved)
        return {
            "written": len(self._saved),
            "bytes": total,
            "compression_ratio": raw / total,
            "bytes_per_second": raw / seconds,
        }

    def _set_aside(self) -> None:
        """Rename checkpoints of an earlier run to `<path>.previous`: a fresh run must not resume into them."""
        path = Path(self._case.checkpoint.path)
        error = None
        if self._comm.rank == 0 and path.is_dir() and any(path.glob("checkpoint_*")):
            previous = path.with_name(path.name + ".previous")
            try:
                if previous.exists():
                    shutil.rmtree(previous)
                path.rename(previous)
                self._say(
                    logging.WARNING,
                    f"starting anew: the checkpoints of an earlier run are now in {previous} "
                    f"(--resume auto would have continued it)",
                )
            except OSError as problem:
                error = CheckpointError(f"cannot set the old checkpoints in {path} aside: {problem.strerror}")
        raise_together(self._comm, error)

    def _say(self, level: int, text: str) -> None:
        if self._comm.rank == 0:
            log.log(level, "%s", text)
