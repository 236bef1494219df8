"""Writing the files of a checkpoint: the data file of a group of ranks by MPI-IO, and the manifest."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI as mpi
from numpy.typing import NDArray

from ridgeline.io.checkpoint_format import (
    CHUNK_BYTES,
    MAGIC,
    MANIFEST,
    Chunk,
    DataFile,
    Manifest,
    bounding_boxes,
    compress,
    cut,
    digest,
    encode_table,
)
from ridgeline.parallel.allreduce import raise_on_all_ranks
from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import CheckpointError, RidgelineError

if TYPE_CHECKING:
    from mpi4py import MPI

ROUND_BYTES = 32 << 20  # what a rank hands to one collective write: so much, and at most a chunk above


def check_tiling(comm: MPI.Comm, fields: Mapping[str, DistributedArray]) -> None:
    """Raise CheckpointError on all ranks unless the parts of each field have as many cells as the whole."""
    cells = np.array([math.prod(array.shape_local) for array in fields.values()], np.int64)
    total = np.zeros_like(cells)
    comm.Allreduce(cells, total)
    for (name, array), n in zip(fields.items(), total):
        if n != math.prod(array.shape_global):
            raise CheckpointError(
                f"cannot save field {name}: its parts on all ranks have {n} cells, but its shape "
                f"{list(array.shape_global)} has {math.prod(array.shape_global)}; a part may belong to one rank only"
            )


def write_group_file(
    group: MPI.Intracomm,
    path: Path,
    fields: Mapping[str, DistributedArray],
    explain: Callable[[Exception], RidgelineError],
) -> DataFile | None:
    """Write the parts that the ranks of `group` have of `fields` to one file, down to the disk. Collective.

    explain: turns what went wrong on this rank into the error that all ranks of the group raise.
    Returns the file's entry in the manifest on the group's rank 0, None on the others.
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
            f"{path} has {size} bytes after {end + len(table)} were written without an error"
        )
    return DataFile(path.name, size, end, digest(table), bounding_boxes(chunks))


def _write_chunks(
    group: MPI.Intracomm,
    file: mpi.File,
    fields: Mapping[str, DistributedArray],
    explain: Callable[[Exception], RidgelineError],
) -> tuple[list[Chunk], int]:
    """Write magic and chunks in rounds of bounded size; return this rank's chunks and the end of all."""
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
        before, total, failed, more_anywhere = _agree(group, len(payload), problem is not None, more)
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


def _agree(group: MPI.Intracomm, size: int, failed: bool, more: bool) -> tuple[int, int, bool, bool]:
    """Return bytes of the ranks before, bytes of all, whether any rank failed, whether any has more."""
    mine, total, before = (
        np.array([size, failed, more], np.int64),
        np.zeros(3, np.int64),
        np.zeros(1, np.int64),
    )
    group.Exscan(mine[:1], before)
    group.Allreduce(mine, total)
    # Exscan leaves the result of rank 0 undefined.
    return int(before[0]) if group.rank else 0, int(total[0]), bool(total[1]), bool(total[2])


def _rounds(
    fields: Mapping[str, DistributedArray], header: bytes
) -> Iterator[tuple[list[Chunk], NDArray[np.uint8], bool]]:
    """Yield (chunks, their bytes, whether there is more) without end. header: bytes before the first chunk.

    Positions of the chunks count from the round's first byte. The bytes are overwritten by the next round.
    """
    raw = sum(array.local.nbytes for array in fields.values())
    buffer = np.empty(len(header) + min(raw, ROUND_BYTES + CHUNK_BYTES), np.uint8)
    buffer[: len(header)] = np.frombuffer(header, np.uint8)
    scratch = np.empty(CHUNK_BYTES, np.uint8)
    chunks, end = list[Chunk](), len(header)
    for name, array in fields.items():
        for offset, shape in cut(array.shape_local, array.local.itemsize, CHUNK_BYTES):
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
    """Write the manifest into the directory `partial` and give it its final name, each step down to the disk."""
    with (partial / MANIFEST).open("wb") as file:
        file.write(manifest.encode())
        file.flush()
        os.fsync(file.fileno())
    sync_directory(partial)
    partial.rename(final)
    sync_directory(final.parent)


def sync_directory(path: Path) -> None:
    """Force the names in a directory to the disk, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
