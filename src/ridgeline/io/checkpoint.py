"""Checkpoints: the state of a run on disk, from which it resumes on any number of ranks. This file writes them.

Groups of consecutive ranks share a data file, which they write by MPI-IO. Everything is written into a directory with
a temporary name, the manifest last, and is forced to the disk before one rename makes it a checkpoint. A crash at any
moment therefore leaves the previous checkpoint unchanged. checkpoint_format.py describes the files, and
checkpoint_load.py reads them.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.io.checkpoint_format import (
    CHUNK_BYTES,
    MAGIC,
    MANIFEST,
    PARTIAL,
    REMOVED,
    Chunk,
    DataFile,
    Manifest,
    bounding_boxes,
    compress,
    data_file_name,
    delete,
    digest,
    encode_table,
    find_checkpoints,
    is_leftover,
    is_ours,
    normalized,
    read_manifest,
    split_box,
    step_of,
)
from ridgeline.io.checkpoint_load import LoadedCheckpoint, load
from ridgeline.io.file_errors import explain, explain_errors
from ridgeline.parallel.allreduce import (
    allreduce_max,
    broadcast_decision,
    errors_on_all_ranks,
    raise_on_all_ranks,
)
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError, RidgelineError
from ridgeline.runtime.files import sync_directory

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = [
    "CheckpointStore",
    "LoadedCheckpoint",
    "SavedCheckpoint",
    "find_checkpoints",
    "load",
    "read_manifest",
]
log = logging.getLogger(__name__)
ROUND_BYTES = 32 << 20  # what a rank passes to one collective write: at most this much and one chunk


@dataclass(frozen=True)
class SavedCheckpoint:
    """A saved checkpoint. bytes_raw: of fields; bytes_written: of data files; seconds: of the slowest rank."""

    path: Path
    step: int
    bytes_raw: int
    bytes_written: int
    seconds: float

    @property
    def ratio(self) -> float:
        """Ratio of compression: raw bytes over written bytes."""
        return self.bytes_raw / self.bytes_written


class CheckpointStore:
    """The checkpoints of one run. Every method is collective over `comm`.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the run.
    path : path
        The directory of the checkpoints. It belongs to one run at a time.
    keep : int
        Number of newest checkpoints that are kept.
    ranks_per_file : int
        Number of consecutive ranks that share a data file.
    writers_at_once : int
        Number of data files that are written at the same time, because thousands of them would overload a file
        system. 0 writes all at the same time.
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
    ) -> LoadedCheckpoint | None:
        """Fill `fields` from the newest usable checkpoint here ("auto"; None if there is none), or from a path.

        later: names of fields that an older checkpoint may lack. Collective; see `load` of this module. Damaged
        checkpoints are deleted after the next save.
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
    ) -> SavedCheckpoint:
        """Write a checkpoint of `fields`, then delete those beyond the newest `keep`. Collective.

        Parameters
        ----------
        fields : mapping of str to DistributedArray
            The same names, order, dtypes and global shapes on all ranks. The parts of all ranks tile each array.
        step, time : int, float
            Number of the time step, and the time in the model's unit.
        identity : mapping
            Settings that must be equal in a run that resumes from this checkpoint.
        state : mapping, optional
            State of the time loop, such as the position in its outputs.
        settings : mapping, optional
            All settings, for the record. These three mappings are plain data; those of rank 0 are written.

        Raises
        ------
        CheckpointError
            On all ranks, if one of them fails. Earlier checkpoints are unchanged then, and what was written of this
            one is removed.
        """
        begin = perf_counter()
        what = f"cannot write a checkpoint to {self.path}"
        advice = (
            "Earlier checkpoints are unchanged. Free space there, or set checkpoint.path to another place."
        )
        in_words = partial(explain_errors, what, self._comm, advice)  # a decorator and a context
        check_tiling(self._comm, fields)
        sequence, final = broadcast_decision(self._comm, in_words()(lambda: self._prepare(step)))
        unfinished = final.with_name(final.name + PARTIAL)
        file = unfinished / data_file_name(self._group_index)
        explain_error = partial(explain, what, self._comm, advice=advice)
        try:
            with errors_on_all_ranks(self._comm), in_words(), self._turn():
                entry = write_group_file(self._group, file, fields, explain_error)
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
            except OSError as error:  # the new checkpoint is safe, and the run continues
                log.warning("cannot delete old checkpoints in %s: %s.", self.path, error.strerror)
        self._refused.clear()
        written = sum(file.size for file in entries) if entries else 0
        raw = sum(math.prod(a.shape_global) * a.local.itemsize for a in fields.values())
        seconds = float(allreduce_max(self._comm, perf_counter() - begin))
        saved: SavedCheckpoint = self._comm.bcast(SavedCheckpoint(final, step, raw, written, seconds))
        return saved

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let the groups write in turn: group g begins when group g - writers_at_once has ended or failed.

        It is the relay of Yeung et al. (GESTS), Sec. 3.2: one empty message from leader to leader.
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
        """Create the directory to write to, and return the checkpoint's number and final name. Only on rank 0."""
        self.path.mkdir(parents=True, exist_ok=True)
        sync_directory(self.path.parent)
        for directory in self.path.iterdir():
            if is_leftover(directory):
                with suppress(OSError):
                    delete(directory)
        numbers = [manifest.sequence for _, manifest in self._readable()]
        name = f"checkpoint_{step:08d}"
        final, attempt = self.path / name, 1
        # A run that went back writes a step again. The old checkpoint of this step stays until the new one is
        # complete.
        while final.exists():
            attempt += 1
            final = self.path / f"{name}_{attempt}"
        final.with_name(final.name + PARTIAL).mkdir()
        return max(numbers, default=0) + 1, final

    def _readable(self) -> Iterator[tuple[Path, Manifest]]:
        """Yield the checkpoints here whose manifest can be read, the newest first."""
        for directory in find_checkpoints(self.path):
            try:
                yield directory, read_manifest(directory)
            except CheckpointError:
                continue

    def _prune(self, newest: Path) -> None:
        """Delete earlier checkpoints of the same step, damaged ones, and those beyond the newest `keep`."""
        step = step_of(newest)
        others = [directory for directory, _ in self._readable() if directory != newest]
        replaced = [d for d in others if step_of(d) == step or d in self._refused]
        kept = [d for d in others if d not in replaced]
        for directory in {*replaced, *self._refused, *kept[self.keep - 1 :]}:
            if is_ours(directory):
                removed = directory.with_name(directory.name + REMOVED)
                directory.rename(removed)  # so that no partly deleted checkpoint is ever found
                delete(removed)
            else:
                log.warning(
                    "%s is not deleted, because it contains files that do not belong to a checkpoint.",
                    directory,
                )

    def set_aside(self, in_use: Path | None = None) -> Path | None:
        """Move the checkpoints of earlier runs into a folder `previous`, and return it; None if there are none.

        Checkpoints in an existing folder `previous` are deleted, so that one earlier run is kept. If they are of a
        later step than those that are moved, or if that folder holds anything else, or the checkpoint `in_use` from
        which the run began, it stays and the new folder is `previous-2`. Collective. Raises CheckpointError on all
        ranks.
        """
        what = f"cannot move the old checkpoints in {self.path} to another folder"

        def move() -> Path | None:
            checkpoints = [directory for directory in find_checkpoints(self.path) if is_ours(directory)]
            if not checkpoints:
                return None
            aside, number = self.path / "previous", 1
            while aside.exists() or aside.is_symlink():
                used = in_use is not None and in_use.resolve().is_relative_to(aside.resolve())
                older = [] if used or aside.is_symlink() else find_checkpoints(aside)
                less_advanced = max(map(_step, older), default=0) <= max(map(_step, checkpoints))
                if (
                    older
                    and less_advanced
                    and len(older) == len(list(aside.iterdir()))
                    and all(map(is_ours, older))
                ):
                    shutil.rmtree(aside)
                else:
                    number += 1
                    aside = self.path / f"previous-{number}"
            aside.mkdir()
            for directory in checkpoints:
                directory.rename(aside / directory.name)
            return aside

        return broadcast_decision(self._comm, explain_errors(what, self._comm)(move))


def _step(directory: Path) -> int:
    """Return the step of a checkpoint, from the name of its folder."""
    return step_of(directory) or 0


def check_tiling(comm: MPI.Comm, fields: Mapping[str, DistributedArray]) -> None:
    """Raise CheckpointError on all ranks unless the parts of each field have as many cells as its global shape."""
    cells = np.array([math.prod(array.shape_local) for array in fields.values()], np.int64)
    total = np.zeros_like(cells)
    comm.Allreduce(cells, total)
    for (name, array), n in zip(fields.items(), total):
        if n != math.prod(array.shape_global):
            raise CheckpointError(
                f"cannot save the field {name}: its parts on all ranks have {n} cells, but its shape "
                f"{list(array.shape_global)} has {math.prod(array.shape_global)}. Each cell must be on one rank."
            )


def write_group_file(
    group: MPI.Intracomm,
    path: Path,
    fields: Mapping[str, DistributedArray],
    explain: Callable[[Exception], RidgelineError],
) -> DataFile | None:
    """Write the parts of `fields` on the ranks of `group` to one file, and force it to the disk. Collective.

    explain: returns, for an error of this rank, the error that all ranks of the group raise. Returns the file's entry
    in the manifest on the group's rank 0, None on the others.
    """
    file = mpi.File.Open(group, os.fspath(path), mpi.MODE_CREATE | mpi.MODE_WRONLY)
    try:
        chunks, end = _write_chunks(group, file, fields, explain)
        problem: RidgelineError | None = None
        tables = group.gather(chunks)
        chunks = [chunk for table in tables or () for chunk in table]
        table = encode_table(chunks)
        try:
            if group.rank == 0:
                file.Write_at(end, table)
        except Exception as error:
            problem = explain(error)
        try:
            file.Sync()
        except Exception as error:
            problem = explain(error)
        raise_on_all_ranks(group, problem)
    finally:
        file.Close()
    if group.rank:
        return None
    size = path.stat().st_size
    if size != end + len(table):
        raise CheckpointError(
            f"{path} has {size} bytes, although {end + len(table)} bytes were written without an error."
        )
    return DataFile(path.name, size, end, digest(table), bounding_boxes(chunks))


def _write_chunks(
    group: MPI.Intracomm,
    file: mpi.File,
    fields: Mapping[str, DistributedArray],
    explain: Callable[[Exception], RidgelineError],
) -> tuple[list[Chunk], int]:
    """Write the magic and the chunks in rounds of bounded size; return this rank's chunks and the end of all."""
    written: list[Chunk] = []
    problem: RidgelineError | None = None
    rounds = _rounds(fields, MAGIC if group.rank == 0 else b"")
    end, more_anywhere = 0, True
    while more_anywhere:
        chunks: list[Chunk] = []
        payload: NDArray[np.uint8] = np.empty(0, np.uint8)
        more = False
        if problem is None:
            try:
                chunks, payload, more = next(rounds)
            except Exception as error:
                problem = explain(error)
        before, total, failed, more_anywhere = _combine_round(group, len(payload), problem is not None, more)
        if failed:
            break
        try:
            file.Write_at_all(end + before, payload)
        except Exception as error:
            problem = explain(error)
        written += [replace(chunk, position=end + before + chunk.position) for chunk in chunks]
        end += total
    raise_on_all_ranks(group, problem)
    return written, end


def _combine_round(group: MPI.Intracomm, size: int, failed: bool, more: bool) -> tuple[int, int, bool, bool]:
    """Return the bytes on lower ranks and on all ranks, whether any rank failed, and whether any has more."""
    local = np.array([size, failed, more], np.int64)
    before, total = np.zeros(1, np.int64), np.zeros(3, np.int64)
    group.Exscan(local[:1], before)
    group.Allreduce(local, total)
    # Exscan leaves the result of rank 0 undefined.
    return int(before[0]) if group.rank else 0, int(total[0]), bool(total[1]), bool(total[2])


def _rounds(
    fields: Mapping[str, DistributedArray], header: bytes
) -> Iterator[tuple[list[Chunk], NDArray[np.uint8], bool]]:
    """Yield (chunks, their bytes, whether there are more) of each round, and empty rounds forever after the last.

    header: bytes before the first chunk. Positions of chunks count from the first byte of the round. The next round
    overwrites the bytes.
    """
    raw = sum(array.local.nbytes for array in fields.values())
    buffer = np.empty(len(header) + min(raw, ROUND_BYTES + CHUNK_BYTES), np.uint8)
    buffer[: len(header)] = np.frombuffer(header, np.uint8)
    scratch = np.empty(CHUNK_BYTES, np.uint8)
    chunks, end = list[Chunk](), len(header)
    for name, array in fields.items():
        for offset, shape in split_box(array.shape_local, array.local.itemsize, CHUNK_BYTES):
            box = array.local[tuple(slice(o, o + n) for o, n in zip(offset, shape))]
            codec, packed = compress(box, scratch)
            place = tuple(o + g for o, g in zip(offset, array.offset_global))
            chunks.append(Chunk(name, place, shape, end, len(packed), codec, digest(packed)))
            buffer[end : end + len(packed)] = np.frombuffer(packed, np.uint8)
            end += len(packed)
            if end >= ROUND_BYTES:
                yield chunks, buffer[:end], True
                chunks, end = [], 0
    yield chunks, buffer[:end], False
    while True:
        yield [], buffer[:0], False


def commit(partial: Path, final: Path, manifest: Manifest) -> None:
    """Write the manifest into the directory `partial` and rename this to `final`, each forced to the disk."""
    with (partial / MANIFEST).open("wb") as file:
        file.write(manifest.encode())
        file.flush()
        os.fsync(file.fileno())
    sync_directory(partial)
    partial.rename(final)
    sync_directory(final.parent)
