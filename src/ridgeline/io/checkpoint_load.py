"""Reading checkpoints back, onto any number of ranks and any process grid."""

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
from ridgeline.io.file_errors import explained
from ridgeline.parallel.allreduce import allreduce_max, broadcast_decision, errors_on_all_ranks
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Loaded:
    """What a resumed run continues from.

    state, settings, identity: as given to `save`. remarks: one sentence per checkpoint that was refused.
    bytes_read: by all ranks, compressed. seconds: of the slowest rank.
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
) -> Loaded | None:
    """Fill the local parts of `fields` from a checkpoint, whatever ranks and process grid wrote it. Collective.

    path: one checkpoint, or a directory of checkpoints, of which the newest usable one is taken. All ranks together
    pass over damaged ones, which the remarks name. identity: what must be equal in the checkpoint and this run; dtype
    and shape of the fields are compared too. later: fields that an older checkpoint may lack; they stay as they are.
    Each rank reads the tables and chunks that hold its cells, and checks their hashes.

    Returns None if there is no checkpoint and it is not `required`.
    Raises CheckpointError if a required checkpoint is missing, or if the one named, or all, are damaged. Raises it
    too if the newest usable one is of another case, and lists the differences. `fields` are undefined then.
    """
    begin = time.perf_counter()
    path = Path(path)
    in_words = partial(explained, f"cannot read checkpoint {path}", comm)
    candidates = broadcast_decision(comm, in_words()(partial(_candidates, path, required)))
    refused: list[Path] = []
    remarks: list[str] = []
    for candidate in candidates:
        try:
            manifest = broadcast_decision(
                comm, in_words()(partial(_matching_manifest, candidate, fields, identity, later))
            )
            with errors_on_all_ranks(comm), in_words():
                size = read_parts(candidate, manifest, _held(manifest, fields, later))
        except DamagedError as error:
            refused.append(candidate)
            remarks.append(f"checkpoint {candidate} was refused: {error}")
            continue
        total = comm.allreduce(size)
        return Loaded(
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
        f"no usable checkpoint in {path}: {'; '.join(remarks)}; name another one, or start from the beginning "
        "with --resume never"
    )


def check_named(comm: MPI.Comm, path: str | os.PathLike[str]) -> None:
    """Raise CheckpointError on all ranks if there is no checkpoint at a path at all. Reads no data. Collective."""
    in_words = explained(f"cannot read checkpoint {path}", comm)
    broadcast_decision(comm, in_words(partial(_candidates, Path(path), True)))


def newest_identity(comm: MPI.Comm, path: str | os.PathLike[str]) -> Mapping[str, Any] | None:
    """Return the identity of the checkpoint that `load` tries first of those that can be read. Collective.

    None if there is no such checkpoint: `load` says why. Reads no data.
    """

    def identity() -> Mapping[str, Any] | None:
        for candidate in _candidates(Path(path), required=False):
            with suppress(DamagedError):
                return read_manifest(candidate).identity
        return None

    in_words = explained(f"cannot read checkpoint {path}", comm)
    return broadcast_decision(comm, in_words(identity))


def _candidates(path: Path, required: bool) -> list[Path]:
    """Return the checkpoints that `path` means, in the order to try them."""
    if (path / MANIFEST).exists() or (step_of(path) is not None and path.is_dir()):
        return [path]
    found = find_checkpoints(path)
    if not found and required:
        kind = (
            "holds no checkpoint" if path.is_dir() else "does not exist" if not path.exists() else "is a file"
        )
        raise CheckpointError(
            f"cannot resume from {path}: it {kind}; name a directory such as checkpoints/checkpoint_00000100, "
            "or the one above it"
        )
    return found


def _matching_manifest(
    path: Path,
    fields: Mapping[str, DistributedArray],
    identity: Mapping[str, Any],
    later: Collection[str],
) -> Manifest:
    """Return the manifest of a checkpoint that this run can continue from."""
    manifest = read_manifest(path)
    held = _held(manifest, fields, later)
    mine = {name: (array.local.dtype.str, array.shape_global) for name, array in held.items()}
    # Fields follow from the settings, so they are worth naming only where the settings agree.
    found = differences(manifest.identity, normalized(identity)) or differences(
        describe_fields(manifest.fields), describe_fields(mine), "fields."
    )
    if found:
        raise CheckpointError(
            f"checkpoint {path} is of another case ({'; '.join(found)}); change the settings back, name another "
            "checkpoint, or start from the beginning with --resume never"
        )
    return manifest


def _held(
    manifest: Manifest, fields: Mapping[str, DistributedArray], later: Collection[str]
) -> dict[str, DistributedArray]:
    """Return the fields but for those that came later than the checkpoint."""
    return {name: array for name, array in fields.items() if name in manifest.fields or name not in later}


@dataclass
class _Part:
    """This rank's part of one field, and how many of its cells have not been read yet."""

    array: DistributedArray
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        self.missing = math.prod(self.array.shape_local)

    def common(self, box: tuple[Sequence[int], Sequence[int]]) -> tuple[slice, ...] | None:
        """Return the global index ranges of the part's cells in a box (offset, shape)."""
        return intersect(self.array.offset_global, self.array.shape_local, *box) if self.missing else None


def read_parts(path: Path, manifest: Manifest, fields: Mapping[str, DistributedArray]) -> int:
    """Fill the local parts of `fields` from the checkpoint directory `path` and return the bytes read.

    Not collective: every rank may ask for any part of some or all fields of the manifest, in their dtypes.
    Raises DamagedError if a file cannot be read, has other bytes than were written, or cells are in none.
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
            raise DamagedError(f"{part.missing} cells of field {name} are in none of its files")
    return size


def _read_file(path: Path, entry: DataFile, parts: Mapping[str, _Part]) -> int:
    """Copy the cells that one data file holds of `parts` and return the bytes read."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != entry.size:
            raise DamagedError(f"it has {size} bytes instead of {entry.size}")
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
