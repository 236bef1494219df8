"""The format of a checkpoint on disk: names, the manifest, tables of chunks, and compressed chunks.

    <checkpoint.path>/checkpoint_00000700/manifest.json   what was saved, and one entry per data file
                                         /data_0000.bin   magic, chunks back to back, table of chunks
                                         /data_0001.bin   the next group of ranks

A *chunk* is a box of one field with at most CHUNK_BYTES. Its bytes are shuffled (all first bytes of the numbers, then
all second bytes, ...) and compressed by LZ4. Shuffling separates the slowly varying exponents, which compress well,
from the noisy mantissas, which do not. The *table* of a data file is JSON with one row per chunk. Every byte of a
checkpoint is covered by a 64-bit XXH3 hash: the table has the hashes of chunks, and the manifest those of tables and
its own. The magic and the lengths are compared too. docs/restart.md describes the format.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import xxhash
from numpy.typing import DTypeLike, NDArray

from ridgeline.runtime.errors import CheckpointError
from ridgeline.runtime.files import DAMAGED

FORMAT = 1
MAGIC = b"ridgeline ckpt 1"  # first bytes of every data file
MANIFEST = "manifest.json"
CHUNK_BYTES = 4 << 20  # of raw data, so that copying, shuffling and compressing a chunk stays in the cache
PARTIAL = ".partial"  # suffix of a checkpoint that is being written
REMOVED = ".removed"  # suffix of a checkpoint that is being deleted

_NAME = re.compile(r"checkpoint_(\d{8,})(?:_\d+)?")
_FILE = re.compile(r"manifest\.json|data_\d{4,}\.bin")

Index = tuple[int, ...]


class DamagedError(CheckpointError):
    """A checkpoint is incomplete, or its bytes are not those that were written."""


def data_file_name(group: int) -> str:
    """Return the file name of the data of one group of ranks."""
    return f"data_{group:04d}.bin"


def step_of(directory: Path) -> int | None:
    """Return the step in a checkpoint's name, None if it is not the name of a complete checkpoint."""
    match = _NAME.fullmatch(directory.name)
    return int(match[1]) if match else None


def is_ours(directory: Path) -> bool:
    """Whether a directory contains files of a checkpoint and nothing else. Raises OSError."""
    return directory.is_dir() and all(_FILE.fullmatch(entry.name) for entry in directory.iterdir())


def is_leftover(directory: Path) -> bool:
    """Whether a directory was left behind by an interrupted write or delete. Raises OSError."""
    name_fits = directory.suffix in (PARTIAL, REMOVED) and step_of(directory.with_suffix("")) is not None
    return name_fits and is_ours(directory)


def delete(directory: Path) -> None:
    """Delete a checkpoint's files, then their directory, which stays if something else is in it. Raises OSError."""
    for entry in list(directory.iterdir()):
        if _FILE.fullmatch(entry.name):
            entry.unlink()
    directory.rmdir()


def digest(data: bytes | bytearray | memoryview) -> str:
    """Return the 64-bit XXH3 hash as 16 hexadecimal digits."""
    return str(xxhash.xxh3_64_hexdigest(data))


def split_box(shape: Sequence[int], itemsize: int, limit: int = CHUNK_BYTES) -> Iterator[tuple[Index, Index]]:
    """Yield (offset, shape) of boxes of at most `limit` bytes that tile a block of `shape`, in C order.

    A box consists of as many whole planes, or rows of one plane, or cells of one row, as fit, and of at least one
    cell.
    """
    if 0 in shape:
        return
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) * itemsize > limit:
        axis += 1
    if axis == len(shape):
        yield (), ()
        return
    whole = tuple(shape[axis + 1 :])
    most = max(1, limit // (math.prod(whole) * itemsize))
    for *lead, start in product(*map(range, shape[:axis]), range(0, shape[axis], most)):
        size = min(most, shape[axis] - start)
        yield (*lead, start, *(0 for _ in whole)), (*(1 for _ in lead), size, *whole)


def intersect(
    offset_a: Sequence[int], shape_a: Sequence[int], offset_b: Sequence[int], shape_b: Sequence[int]
) -> tuple[slice, ...] | None:
    """Return the global index ranges of the intersection of two boxes, None if it is empty."""
    ranges = []
    for a, n_a, b, n_b in zip(offset_a, shape_a, offset_b, shape_b):
        first, last = max(a, b), min(a + n_a, b + n_b)
        if first >= last:
            return None
        ranges.append(slice(first, last))
    return tuple(ranges)


def localize(ranges: tuple[slice, ...], offset: Sequence[int]) -> tuple[slice, ...]:
    """Return global index ranges relative to `offset`."""
    return tuple(slice(r.start - o, r.stop - o) for r, o in zip(ranges, offset))


def _bytes_first(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a view of the bytes of an array [...], strided or not, with the shape [itemsize, ...]."""
    return np.moveaxis(array[..., np.newaxis].view(np.uint8), -1, 0)


def compress(box: NDArray[Any], scratch: NDArray[np.uint8]) -> tuple[str, bytes]:
    """Return (codec, payload) of a box. scratch: uint8, at least box.nbytes, overwritten.

    The codec "lz4" means shuffled and compressed, "none" only shuffled, which is used if LZ4 saves nothing.
    """
    shuffled = scratch[: box.nbytes]
    np.copyto(shuffled.reshape(box.itemsize, *box.shape), _bytes_first(box))
    packed: bytes = lz4.block.compress(shuffled, store_size=False)
    return ("lz4", packed) if len(packed) < box.nbytes else ("none", shuffled.tobytes())


def decompress(
    codec: str, payload: bytes, shape: Index, source: tuple[slice, ...], target: NDArray[Any]
) -> None:
    """Write the cells `source` of a chunk of `shape` to `target`, a view of their shape and the field's dtype.

    Raises DamagedError if the payload has another number of bytes.
    """
    size = math.prod(shape) * target.itemsize
    try:
        raw = lz4.block.decompress(payload, uncompressed_size=size) if codec == "lz4" else payload
    except lz4.block.LZ4BlockError as error:
        raise DamagedError(f"a chunk cannot be decompressed ({error})") from None
    if len(raw) != size:
        raise DamagedError(f"a chunk holds {len(raw)} bytes instead of {size}")
    cells = np.frombuffer(raw, np.uint8).reshape(target.itemsize, *shape)
    np.copyto(_bytes_first(target), cells[(slice(None), *source)])


@dataclass(frozen=True)
class Chunk:
    """One row of a table. offset, shape: global cells; position, size: bytes in the data file."""

    field: str
    offset: Index
    shape: Index
    position: int
    size: int
    codec: str
    hash: str


def encode_table(chunks: Sequence[Chunk]) -> bytes:
    """Return the table as JSON: a list of rows with the members of `Chunk` in order."""
    rows = [[c.field, c.offset, c.shape, c.position, c.size, c.codec, c.hash] for c in chunks]
    return json.dumps(rows, separators=(",", ":")).encode()


def decode_table(data: bytes) -> list[Chunk]:
    """Return the chunks of a table whose hash has been checked."""
    return [Chunk(row[0], tuple(row[1]), tuple(row[2]), *row[3:]) for row in json.loads(data)]


@dataclass(frozen=True)
class DataFile:
    """A data file. boxes: for each field the first global cell and the shape of the box around its chunks."""

    name: str
    size: int
    table_position: int
    table_hash: str
    boxes: Mapping[str, tuple[Index, Index]]


def bounding_boxes(chunks: Sequence[Chunk]) -> dict[str, tuple[Index, Index]]:
    """Return for each field the offset and the shape of the smallest box around its chunks."""
    boxes: dict[str, tuple[Index, Index]] = {}
    for c in chunks:
        low, shape = boxes.get(c.field, (c.offset, c.shape))
        first = tuple(map(min, low, c.offset))
        ends = (max(l + n, o + m) for l, n, o, m in zip(low, shape, c.offset, c.shape))
        boxes[c.field] = first, tuple(e - f for e, f in zip(ends, first))
    return boxes


@dataclass(frozen=True)
class Manifest:
    """The description of a checkpoint.

    Attributes
    ----------
    sequence : int
        Grows by one with every checkpoint in a directory: the newest has the largest, even if a run went back to an
        earlier step.
    step, time, written, ranks
        Number of the time step, model time, date, and number of ranks.
    identity, settings, state : mapping
        Settings that must be equal in a run that resumes, all settings, and the state of the time loop.
    fields : mapping
        For each name the dtype, as NumPy's `dtype.str`, and the global shape.
    files : sequence of DataFile
        The data files.
    """

    sequence: int
    step: int
    time: float
    written: str
    ranks: int
    identity: Mapping[str, Any]
    settings: Mapping[str, Any]
    state: Mapping[str, Any]
    fields: Mapping[str, tuple[str, Index]]
    files: Sequence[DataFile]

    def encode(self) -> bytes:
        """Return the manifest as JSON with its own hash. Raises TypeError for values that JSON cannot store."""
        body = {"format": FORMAT, **asdict(self)}
        return _to_json({**body, "xxh3_64": digest(_to_json(body))})

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Return the manifest in `data`. Raises DamagedError, or CheckpointError for a newer format."""
        try:
            body = json.loads(data)
            stored_hash = body.pop("xxh3_64")
            version = body.pop("format")
        except DAMAGED:
            raise DamagedError(f"{MANIFEST} is damaged (it is not a manifest)") from None
        content = {"format": version, **body}
        if digest(_to_json(content)) != stored_hash or _to_json({**content, "xxh3_64": stored_hash}) != data:
            raise DamagedError(f"{MANIFEST} is damaged (its hash does not match)")
        if version != FORMAT:
            raise CheckpointError(
                f"the checkpoint has format {version}, but this version of Ridgeline reads format {FORMAT}. "
                "Resume with the version that wrote it."
            )
        fields = {name: (dtype, tuple(shape)) for name, (dtype, shape) in body.pop("fields").items()}
        files = [
            DataFile(boxes={n: (tuple(o), tuple(s)) for n, (o, s) in file.pop("boxes").items()}, **file)
            for file in body.pop("files")
        ]
        return cls(fields=fields, files=files, **body)


def _plain(value: Any) -> Any:
    """Turn NumPy scalars and arrays, which settings and the state may contain, into types of JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"The state and settings of a checkpoint must be plain data, not {type(value).__name__}.")


def _to_json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, default=_plain) + "\n").encode()


def normalized(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping as JSON returns it: tuples as lists, NumPy scalars as numbers."""
    result: dict[str, Any] = json.loads(_to_json(dict(mapping)))
    return result


def describe_fields(fields: Mapping[str, tuple[DTypeLike, Index]]) -> dict[str, Any]:
    """Return the dtypes and shapes of fields in a readable form, for comparison."""
    return {name: {"dtype": np.dtype(d).name, "shape": list(s)} for name, (d, s) in fields.items()}


def differences(checkpoint: Mapping[str, Any], run: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return "key: the checkpoint has X, the run has Y" for every key whose values differ. Nested keys are dotted."""
    lines = []
    for key in [*checkpoint, *(k for k in run if k not in checkpoint)]:
        a, b = checkpoint.get(key), run.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            lines += differences(a, b, f"{prefix}{key}.")
        elif a != b or (key in checkpoint) != (key in run):
            a_text = repr(a) if key in checkpoint else "nothing"
            b_text = repr(b) if key in run else "nothing"
            lines.append(f"{prefix}{key}: the checkpoint has {a_text}, the run has {b_text}")
    return lines


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a checkpoint.

    Parameters
    ----------
    directory : pathlib.Path
        The folder of the checkpoint.

    Returns
    -------
    Manifest
        Step, time, settings, and the shape and dtype of each field.

    Raises
    ------
    DamagedError
        If the manifest is missing, unreadable or not as it was written. This is a CheckpointError.
    CheckpointError
        If its format is newer than this version of Ridgeline.

    Notes
    -----
    Local: one small file is read, and its hash is compared.

    Examples
    --------
    >>> import ridgeline
    >>> from ridgeline.io.checkpoint import read_manifest
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, checkpoint={"path": "kept"})
    >>> with ridgeline.Simulation(case, progress=False) as simulation:
    ...     newest = simulation.save()
    >>> read_manifest(newest).fields["V"]
    ('<f8', (8, 8, 8))
    """
    try:
        data = (directory / MANIFEST).read_bytes()
    except OSError as error:
        raise DamagedError(f"{MANIFEST} cannot be read ({error.strerror})") from None
    return Manifest.decode(data)


def find_checkpoints(path: Path) -> list[Path]:
    """Return the checkpoints in a directory, the newest first, after those with a damaged manifest.

    Parameters
    ----------
    path : path
        The directory of checkpoints (checkpoint.path of a run).

    Returns
    -------
    list of pathlib.Path
        The folders of the checkpoints; empty if there is no such directory.

    Notes
    -----
    Local. It reads the manifest of each checkpoint, and none of the data.

    Examples
    --------
    >>> import ridgeline
    >>> from ridgeline.io.checkpoint import find_checkpoints, read_manifest
    >>> kept = {"path": "kept", "every": 2}
    >>> case = ridgeline.Case("gray_scott", 4, grid={"shape": (8, 8, 8)}, checkpoint=kept)
    >>> report = ridgeline.Simulation(case, progress=False).run()
    >>> [read_manifest(path).step for path in find_checkpoints("kept")]
    [4, 2]
    """
    try:
        entries = [entry for entry in Path(path).iterdir() if step_of(entry) is not None and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(entries, key=_age, reverse=True)


def _age(directory: Path) -> tuple[float, str]:
    try:
        return float(read_manifest(directory).sequence), directory.name
    except CheckpointError:
        return math.inf, directory.name
