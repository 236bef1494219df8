"""Reading checkpoints on any number of ranks and any process grid."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.io.checkpoint_format import (
    MAGIC,
    MANIFEST,
    Chunk,
    DamagedError,
    DataFile,
    Manifest,
    decode_table,
    decompress,
    describe_fields,
    differences,
    digest,
    find_checkpoints,
    intersect,
    localize,
    normalized,
    read_manifest,
    step_of,
)
from ridgeline.io.file_errors import explain_errors
from ridgeline.parallel.allreduce import allreduce_max, broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError, full_stop, sentence

if TYPE_CHECKING:
    from mpi4py import MPI


class OtherCaseError(CheckpointError):
    """A checkpoint is of a case with other settings."""


@dataclass(frozen=True)
class LoadedCheckpoint:
    """The checkpoint from which a run resumes.

    state, settings, identity: as given to `save`; refused, remarks: damaged checkpoints that were skipped, and a
    sentence about each; bytes_read: compressed bytes that all ranks read; seconds: of the slowest rank.
    """

    path: Path
    step: int
    time: float
    state: Mapping[str, Any]
    settings: Mapping[str, Any]
    identity: Mapping[str, Any]
    refused: Sequence[Path] = ()
    remarks: Sequence[str] = ()
    bytes_read: int = 0
    seconds: float = 0.0


def load(
    comm: MPI.Comm,
    path: str | os.PathLike[str],
    fields: Mapping[str, DistributedArray],
    identity: Mapping[str, Any],
    *,
    required: bool = True,
    later: Collection[str] = (),
) -> LoadedCheckpoint | None:
    """Fill the local parts of fields from a checkpoint, whatever process grid wrote it.

    Parameters
    ----------
    comm : MPI.Comm
        The ranks of the run.
    path : path
        A checkpoint, or a directory of checkpoints, of which the newest usable one is read. All ranks skip damaged
        ones together, and the remarks name them.
    fields : mapping of str to DistributedArray
        The arrays to fill, with the same names on all ranks.
    identity : mapping
        Settings that must be equal in the checkpoint and in this run. The fields' dtypes and shapes are compared too.
    required : bool
        Whether a missing checkpoint is an error.
    later : collection of str
        Fields that an older checkpoint may lack. They are left unchanged then.

    Returns
    -------
    LoadedCheckpoint or None
        The same on all ranks; None if there is no checkpoint and it is not required.

    Raises
    ------
    CheckpointError
        On all ranks, if a required checkpoint is missing, if the named one or all in the directory are damaged, or if
        the newest usable one belongs to another case; the message lists the differences. `fields` are undefined then.

    Notes
    -----
    Collective: two broadcasts and two allreduces for each checkpoint that is tried. Each rank reads only the tables
    and chunks that contain its cells, and checks their hashes.

    Examples
    --------
    With two ranks, started by `mpiexec -n 2 python program.py`, each of which owns two of four numbers:

    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from ridgeline.io.checkpoint import CheckpointStore, load
    >>> from ridgeline.parallel.partition import DistributedArray
    >>> comm = MPI.COMM_WORLD
    >>> saved = DistributedArray("u", (4,), (2 * comm.rank,), np.full(2, float(comm.rank)))
    >>> with CheckpointStore(comm, "numbers") as store:
    ...     _ = store.save({"u": saved}, step=3, time=0.3, identity={"case": "numbers"})
    >>> found = DistributedArray("u", (4,), (2 * comm.rank,), np.empty(2))
    >>> load(comm, "numbers", {"u": found}, {"case": "numbers"}).step
    3
    >>> [part.tolist() for part in comm.allgather(found.local)]
    [[0.0, 0.0], [1.0, 1.0]]
    """
    begin = time.perf_counter()
    path = Path(path)
    in_words = partial(explain_errors, f"cannot read checkpoint {path}", comm)
    candidates = broadcast_decision(comm, in_words()(partial(_candidates, path, required)))
    refused: list[Path] = []
    remarks: list[str] = []
    for candidate in candidates:
        try:
            manifest = broadcast_decision(
                comm, in_words()(partial(_matching_manifest, candidate, fields, identity, later))
            )
            with errors_on_all_ranks(comm), in_words():
                size = read_parts(candidate, manifest, _fields_in(manifest, fields, later))
        except DamagedError as error:
            refused.append(candidate)
            remarks.append(full_stop(f"checkpoint {candidate} was refused: {error}"))
            continue
        total = comm.allreduce(size)
        return LoadedCheckpoint(
            path=candidate,
            step=manifest.step,
            time=manifest.time,
            state=manifest.state,
            settings=manifest.settings,
            identity=manifest.identity,
            refused=tuple(refused),
            remarks=tuple(remarks),
            bytes_read=total,
            seconds=float(allreduce_max(comm, time.perf_counter() - begin)),
        )
    if not candidates:
        return None
    raise CheckpointError(
        f"there is no usable checkpoint in {path}. {' '.join(map(sentence, remarks))} Name another one, or start "
        "from the beginning with --resume never."
    )


def check_exists(comm: MPI.Comm, path: str | os.PathLike[str]) -> None:
    """Raise CheckpointError on all ranks if there is no checkpoint at a path. Reads no data. Collective."""
    in_words = explain_errors(f"cannot read checkpoint {path}", comm)
    broadcast_decision(comm, in_words(partial(_candidates, Path(path), True)))


def newest_identity(comm: MPI.Comm, path: str | os.PathLike[str]) -> Mapping[str, Any] | None:
    """Return the identity of the first readable checkpoint that `load` would try. Collective.

    None if there is no such checkpoint; `load` raises the error. Reads no data.
    """

    def identity() -> Mapping[str, Any] | None:
        for candidate in _candidates(Path(path), required=False):
            with suppress(DamagedError):
                return read_manifest(candidate).identity
        return None

    in_words = explain_errors(f"cannot read checkpoint {path}", comm)
    return broadcast_decision(comm, in_words(identity))


def _candidates(path: Path, required: bool) -> list[Path]:
    """Return the checkpoints at `path`, in the order in which they are tried."""
    if (path / MANIFEST).exists() or (step_of(path) is not None and path.is_dir()):
        return [path]
    checkpoints = find_checkpoints(path)
    if not checkpoints and required:
        why = "it is a file"
        if path.is_dir():
            why = "it contains no checkpoint"
        elif not path.exists():
            why = "it does not exist"
        raise CheckpointError(
            f"cannot resume from {path}: {why}. Name a directory such as checkpoints/checkpoint_00000100, or the one "
            "above it."
        )
    return checkpoints


def _matching_manifest(
    path: Path,
    fields: Mapping[str, DistributedArray],
    identity: Mapping[str, Any],
    later: Collection[str],
) -> Manifest:
    """Return the manifest of a checkpoint. Raises CheckpointError if this run cannot resume from it."""
    manifest = read_manifest(path)
    present = _fields_in(manifest, fields, later)
    expected = {name: (array.local.dtype.str, array.shape_global) for name, array in present.items()}
    # Fields follow from the settings, so that their differences matter only if the settings agree.
    lines = differences(manifest.identity, normalized(identity)) or differences(
        describe_fields(manifest.fields), describe_fields(expected), "fields."
    )
    if lines:
        raise OtherCaseError(
            f"the checkpoint {path} belongs to another case ({'; '.join(lines)}). Change the settings back, name "
            "another checkpoint, or start from the beginning with --resume never."
        )
    return manifest


def _fields_in(
    manifest: Manifest, fields: Mapping[str, DistributedArray], later: Collection[str]
) -> dict[str, DistributedArray]:
    """Return the fields without those of `later` that the checkpoint lacks."""
    return {name: array for name, array in fields.items() if name in manifest.fields or name not in later}


@dataclass
class _Part:
    """This rank's part of a field, and the number of its cells that have not been read yet."""

    array: DistributedArray
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        self.missing = math.prod(self.array.shape_local)

    def common(self, box: tuple[Sequence[int], Sequence[int]]) -> tuple[slice, ...] | None:
        """Return the global index ranges of the part's cells in a box (offset, shape), None if there are none."""
        return intersect(self.array.offset_global, self.array.shape_local, *box) if self.missing else None


def read_parts(path: Path, manifest: Manifest, fields: Mapping[str, DistributedArray]) -> int:
    """Fill the local parts of `fields` from the checkpoint directory `path` and return the bytes read.

    Not collective: a rank may read any part of some or all fields of the manifest, in their dtypes. Raises
    DamagedError if a file cannot be read or does not have the bytes that were written, or if no file contains some of
    the cells.
    """
    parts = {name: _Part(array) for name, array in fields.items()}
    size = 0
    for entry in manifest.files:
        if any(parts[name].common(box) is not None for name, box in entry.boxes.items() if name in parts):
            try:
                size += _read_file(path / entry.name, entry, parts)
            except OSError as error:
                raise DamagedError(f"{entry.name} cannot be read ({error.strerror})") from None
            except DamagedError as error:
                raise DamagedError(f"{entry.name} is damaged ({error})") from None
    for name, part in parts.items():
        if part.missing:
            raise DamagedError(f"{part.missing} cells of the field {name} are in none of its files")
    return size


def _read_file(path: Path, entry: DataFile, parts: Mapping[str, _Part]) -> int:
    """Copy the cells of `parts` that a data file contains, and return the bytes read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != entry.size:
            raise DamagedError(f"the file has {size} bytes instead of {entry.size}")
        if file.read(len(MAGIC)) != MAGIC:
            raise DamagedError("its first bytes are wrong")
        file.seek(entry.table_position)
        table = file.read(entry.size - entry.table_position)
        if digest(table) != entry.table_hash:
            raise DamagedError("the hash of its table does not match")
        total = len(table)
        for chunk in decode_table(table):
            part = parts.get(chunk.field)
            common = part.common((chunk.offset, chunk.shape)) if part is not None else None
            if part is not None and common is not None:
                file.seek(chunk.position)
                payload = file.read(chunk.size)
                total += len(payload)
                if digest(payload) != chunk.hash:
                    raise DamagedError(f"the hash of a chunk at byte {chunk.position} does not match")
                _copy(payload, chunk, common, part)
    return total


def _copy(payload: bytes, chunk: Chunk, common: tuple[slice, ...], part: _Part) -> None:
    target = part.array.local[localize(common, part.array.offset_global)]
    decompress(chunk.codec, payload, chunk.shape, localize(common, chunk.offset), target)
    part.missing -= target.size
