"""Checkpoints: the state of a run on disk, from which it resumes on any number of ranks.

Groups of consecutive ranks share a data file, written by MPI-IO. Everything goes into a directory with a temporary
name, the manifest last. It is forced to the disk before one rename makes it a checkpoint. So a crash at any moment
leaves the previous checkpoint as it was. checkpoint_format.py says what the files hold, checkpoint_load.py reads
them.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, cast

from mpi4py import MPI as mpi

from ridgeline.io.checkpoint_format import (
    PARTIAL,
    REMOVED,
    Manifest,
    data_name,
    delete,
    find_checkpoints,
    is_leftover,
    is_ours,
    normalized,
    read_manifest,
    step_of,
)
from ridgeline.io.checkpoint_load import Loaded, load
from ridgeline.io.checkpoint_write import check_tiling, commit, sync_directory, write_group_file
from ridgeline.io.file_errors import explain, explained
from ridgeline.parallel.allreduce import allreduce_max, broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["CheckpointStore", "Loaded", "Saved", "find_checkpoints", "load", "read_manifest"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """What a checkpoint cost. bytes_raw: of the fields; bytes_written: of the data files; seconds: slowest rank."""

    path: Path
    step: int
    bytes_raw: int
    bytes_written: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Compression ratio: raw bytes over written bytes."""
        return self.bytes_raw / self.bytes_written


class CheckpointStore:
    """The checkpoints of one run in the directory `path`, of which the newest `keep` are kept.

    Consecutive ranks, `ranks_per_file` of them, share a data file. At most `writers_at_once` files are written at
    a time, 0 is all: thousands of them would crowd a file system. Every method is collective over `comm`.
    A directory belongs to one run at a time.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        path: str | os.PathLike[str],
        *,
        keep: int = 2,
        ranks_per_file: int = 64,
        writers_at_once: int = 0,
    ) -> None:
        self.path = Path(path)
        self.keep = keep
        self._comm = comm
        self._group_index = comm.rank // ranks_per_file
        self._group = cast(mpi.Intracomm, comm.Split(self._group_index, comm.rank))
        self._leads = self._group.rank == 0
        self._leaders = comm.Split(0 if self._leads else mpi.UNDEFINED, comm.rank)
        self._writers_at_once = writers_at_once
        self._refused: set[Path] = set()

    def close(self) -> None:
        """Free the communicators. Collective."""
        self._group.Free()
        if self._leads:
            self._leaders.Free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def load(
        self,
        fields: Mapping[str, DistributedArray],
        identity: Mapping[str, Any],
        resume: str | os.PathLike[str] = "auto",
        later: Collection[str] = (),
    ) -> Loaded | None:
        """Fill `fields` from the newest usable checkpoint here ("auto"; None if there is none), or from a path.

        later: names of fields that an older checkpoint may lack. Collective; see `load` of this module. Checkpoints
        that were refused are deleted after the next save.
        """
        automatic = resume == "auto"
        path = self.path if automatic else Path(resume)
        loaded = load(self._comm, path, fields, identity, required=not automatic, later=later)
        if loaded is not None:
            self._refused.update(directory for directory in loaded.refused if directory.parent == self.path)
        return loaded

    def save(
        self,
        fields: Mapping[str, DistributedArray],
        *,
        step: int,
        time: float,
        identity: Mapping[str, Any],
        state: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Saved:
        """Write a checkpoint of `fields`, then delete those beyond the newest `keep`. Collective.

        fields: equal names, order, dtypes and global shapes on all ranks, whose parts tile each global array.
        time: in the model's unit. identity: what a run must have in common to resume. state: the time loop's own,
        such as its output position; settings: for the record. All three plain data; rank 0's are written.

        Raises CheckpointError on all ranks if any of them fails; earlier checkpoints are untouched then and
        what was written of this one is removed.
        """
        begin = perf_counter()
        what = (
            f"cannot write a checkpoint to {self.path} (earlier ones are untouched; free space there or set "
            "checkpoint.path elsewhere)"
        )
        in_words = partial(explained, what, self._comm)
        check_tiling(self._comm, fields)
        sequence, final = broadcast_decision(self._comm, in_words()(lambda: self._prepare(step)))
        unfinished = final.with_name(final.name + PARTIAL)
        file = unfinished / data_name(self._group_index)
        blame = partial(explain, what, self._comm)
        try:
            with errors_on_all_ranks(self._comm), in_words(), self._turn():
                entry = write_group_file(self._group, file, fields, blame)
            entries = self._leaders.gather(entry) if self._leads else None

            def finish() -> None:
                manifest = Manifest(
                    sequence=sequence,
                    step=step,
                    time=time,
                    written=datetime.now(UTC).isoformat(timespec="seconds"),
                    ranks=self._comm.size,
                    identity=normalized(identity),
                    settings=normalized(settings or {}),
                    state=normalized(state or {}),
                    fields={name: (a.local.dtype.str, tuple(a.shape_global)) for name, a in fields.items()},
                    files=entries or [],
                )
                commit(unfinished, final, manifest)

            broadcast_decision(self._comm, in_words()(finish))
        except CheckpointError:
            if self._comm.rank == 0:
                with suppress(OSError):
                    delete(unfinished)
            raise
        if self._comm.rank == 0:
            try:
                self._prune(final)
            except OSError as error:  # the new checkpoint is safe: the run goes on
                log.warning("cannot delete old checkpoints in %s: %s", self.path, error.strerror)
        self._refused.clear()
        written = sum(file.size for file in entries) if entries else 0
        raw = sum(math.prod(a.shape_global) * a.local.itemsize for a in fields.values())
        seconds = float(allreduce_max(self._comm, perf_counter() - begin))
        saved: Saved = self._comm.bcast(Saved(final, step, raw, written, seconds))
        return saved

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Write in turn: group g begins when group g - writers_at_once has ended, well or not.

        The relay of Yeung et al. (GESTS), Sec. 3.2. One empty message from leader to leader.
        """
        if self._writers_at_once == 0:
            yield
            return
        before, after = self._group_index - self._writers_at_once, self._group_index + self._writers_at_once
        if self._leads and before >= 0:
            self._leaders.recv(source=before)
        self._group.Barrier()
        try:
            yield
        finally:
            if self._leads and after < self._leaders.size:
                self._leaders.send(None, dest=after)

    def _prepare(self, step: int) -> tuple[int, Path]:
        """Make the directory to write to; return the checkpoint's number and final name. Rank 0 only."""
        self.path.mkdir(parents=True, exist_ok=True)
        sync_directory(self.path.parent)
        for directory in self.path.iterdir():
            if is_leftover(directory):
                with suppress(OSError):
                    delete(directory)
        numbers = [manifest.sequence for _, manifest in self._readable()]
        name = f"checkpoint_{step:08d}"
        final, attempt = self.path / name, 1
        while (
            final.exists()
        ):  # a run that went back writes a step again; the old one stays until this is done
            attempt += 1
            final = self.path / f"{name}_{attempt}"
        final.with_name(final.name + PARTIAL).mkdir()
        return max(numbers, default=0) + 1, final

    def _readable(self) -> Iterator[tuple[Path, Manifest]]:
        """Yield the checkpoints here whose manifest is whole, the newest first."""
        for directory in find_checkpoints(self.path):
            try:
                yield directory, read_manifest(directory)
            except CheckpointError:
                continue

    def _prune(self, newest: Path) -> None:
        """Delete what `newest` replaces: its step written before, what was refused, what is beyond `keep`."""
        step = step_of(newest)
        others = [directory for directory, _ in self._readable() if directory != newest]
        replaced = [d for d in others if step_of(d) == step or d in self._refused]
        kept = [d for d in others if d not in replaced]
        for directory in {*replaced, *self._refused, *kept[self.keep - 1 :]}:
            if is_ours(directory):
                removed = directory.with_name(directory.name + REMOVED)
                directory.rename(removed)  # at once, so that no half-deleted checkpoint is ever found
                delete(removed)
            else:
                log.warning("%s is kept: it holds files that are not of a checkpoint", directory)

    def set_aside(self, in_use: Path | None = None) -> Path | None:
        """Move the checkpoints of earlier runs into a folder `previous` of the directory; None if there are none.

        The checkpoints that such a folder held before are deleted, so that one run before this one is kept. If the
        folder holds more than them, or `in_use`, from which the run began, it stays and the new one is `previous-2`.
        Collective. Raises CheckpointError on all ranks.
        """
        what = f"cannot set the old checkpoints in {self.path} aside"

        def move() -> Path | None:
            found = [directory for directory in find_checkpoints(self.path) if is_ours(directory)]
            if not found:
                return None
            aside, number = self.path / "previous", 1
            while aside.exists() or aside.is_symlink():
                used = in_use is not None and in_use.resolve().is_relative_to(aside.resolve())
                older = [] if used or aside.is_symlink() else find_checkpoints(aside)
                if older and len(older) == len(list(aside.iterdir())) and all(map(is_ours, older)):
                    shutil.rmtree(aside)
                else:
                    number += 1
                    aside = self.path / f"previous-{number}"
            aside.mkdir()
            for directory in found:
                directory.rename(aside / directory.name)
            return aside

        return broadcast_decision(self._comm, explained(what, self._comm)(move))
