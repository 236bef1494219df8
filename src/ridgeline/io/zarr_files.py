"""The files of a Zarr data set: which steps are complete, what is damaged, and how a step becomes complete.

A data set is a Zarr group of version 3: a folder with `zarr.json`, `ridgeline.sums` (bp_sums.py) and a folder for
each array. Arrays have the axis `step` first, except those that are written once. `zarr.json` holds the metadata of
all arrays ("consolidated metadata"), their number of steps included, and is therefore the record of what is complete:

1. The chunk files of a step are written and forced to the disk. No file with an earlier step is changed in place.
2. A line with the checksums of the step is appended to `ridgeline.sums`.
3. `zarr.json` is replaced, by one rename, by one with one step more.

A writer that is killed before the rename leaves the earlier steps. Files of later steps, which no metadata mention,
are deleted or replaced when the run continues. The `zarr.json` of each array is for programs that do not read
consolidated metadata, and is replaced after the rename.

The attribute CHECKSUM of the group holds two checksums: that of the last line of `ridgeline.sums` that counts, and
that of `zarr.json` with the first one alone. Zarr reads a chunk whose file is missing as zeros. Readers therefore
check that the files exist.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ridgeline.io import bp_sums
from ridgeline.io.store import STEP, damaged, no_data_set
from ridgeline.io.zarr_layout import ArrayLayout
from ridgeline.runtime.errors import OutputError, full_stop, sentence
from ridgeline.runtime.files import output_errors, sync_directory

METADATA = "zarr.json"
CHECKSUM = "ridgeline.checksum"
PARTIAL = ".partial"  # the end of the name of a file that is being written, also of zarr's own

Json = dict[str, Any]

_COMPRESSIONS = {"lz4": "lz4", "blosc": "zstd"}  # compressors of the codec "blosc", as in adios2_bindings.py


@dataclass(frozen=True)
class Catalogue:
    """The content of `zarr.json`.

    attributes: those of the data set; arrays: the metadata of each; records: the seal of the last record of
    `ridgeline.sums` that counts, "" if there is none.
    """

    attributes: Json
    arrays: dict[str, Json]
    records: str = ""

    @property
    def steps(self) -> int:
        """Number of complete output steps."""
        return int(self.arrays[STEP]["shape"][0])

    def at(self, steps: int, records: str) -> Catalogue:
        """Return the catalogue of a data set with another number of steps."""
        arrays = {
            name: {**array, "shape": [steps, *array["shape"][1:]]} if has_steps(array) else array
            for name, array in self.arrays.items()
        }
        return replace(self, arrays=arrays, records=records)

    def encode(self) -> bytes:
        """Return the content of `zarr.json`."""
        document: Json = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": {**self.attributes, CHECKSUM: self.records},
            "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": self.arrays},
        }
        document["attributes"][CHECKSUM] += f" {_seal(document)}"
        return json.dumps(document, indent=1, allow_nan=False).encode()


def _seal(document: Json) -> str:
    return bp_sums.digest(json.dumps(document, sort_keys=True, allow_nan=False).encode())


def has_steps(array: Json) -> bool:
    """Whether an array of these metadata has the axis `step`."""
    return list(array["dimension_names"][:1]) == [STEP]


def array_metadata(
    name: str,
    dtype: DTypeLike,
    layout: ArrayLayout,
    dims: tuple[str, ...],
    attributes: Json,
    compression: str = "none",
    once: bool = False,
) -> Json:
    """Return the metadata of a new array without steps, as Zarr stores them."""
    import zarr
    from zarr.codecs import BloscCodec
    from zarr.storage import MemoryStore

    own = () if once else (layout.steps,)
    itemsize = np.dtype(dtype).itemsize
    compressor = (
        BloscCodec(cname=_COMPRESSIONS[compression], clevel=1, shuffle="shuffle", typesize=itemsize)  # type: ignore[arg-type]
        if compression != "none"
        else None
    )
    array = zarr.create_array(
        MemoryStore(),
        name=name,
        shape=(*(() if once else (0,)), *layout.shape),
        dtype=np.dtype(dtype),
        chunks=(*own, *layout.chunk),
        shards=None if layout.shard == layout.chunk else (*own, *layout.shard),
        compressors=compressor,
        dimension_names=(*(() if once else (STEP,)), *dims),
        attributes=attributes,
    )
    return json.loads(json.dumps(array.metadata.to_dict()))  # type: ignore[no-any-return]


def open_array(path: Path, name: str, metadata: Json, *, writable: bool = False) -> Any:
    """Return the Zarr array `name` with these metadata, whatever its own `zarr.json` says."""
    import zarr
    from zarr.storage import LocalStore, StorePath

    # A file that is missing must be a damage, so that chunks of zeros have one.
    with zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.Array.from_dict(StorePath(LocalStore(path, read_only=not writable), name), metadata)


@contextlib.contextmanager
def zarr_errors(doing: str, hint: str) -> Iterator[None]:
    """Turn an exception of Zarr into an OutputError of one line: "cannot {doing}: reason. {hint}."."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:  # codecs raise whatever their libraries do
        text = (isinstance(error, OSError) and error.strerror) or str(error).strip()
        reason = text.splitlines()[0] if text else type(error).__name__
        raise OutputError(f"cannot {doing}: {full_stop(reason)} {sentence(hint)}") from error


def shard_file(path: Path, name: str, metadata: Json, step: int, first: tuple[int, ...]) -> Path:
    """Return the file of the shard, or of the chunk without shards, that holds an item of an array at a step."""
    shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    place = (step, *first) if has_steps(metadata) else first
    return path.joinpath(name, "c", *(str(i // n) for i, n in zip(place, shape)))


def replace_synced(file: Path, content: bytes) -> None:
    """Write a file so that there is the old or the new content at any moment, also after a power cut."""
    new = file.with_name(f".{file.name}{PARTIAL}")
    with new.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(file)
    sync_directory(file.parent)


def sync_file(file: Path) -> None:
    """Force a file, and its name, to the disk."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(file.parent)


def commit(path: Path, catalogue: Catalogue) -> None:
    """Make `catalogue` the content of the data set at `path`. Raises OSError."""
    replace_synced(path / METADATA, catalogue.encode())
    for name, array in catalogue.arrays.items():
        file = path / name / METADATA
        if has_steps(array) or not file.exists():
            file.parent.mkdir(exist_ok=True)
            replace_synced(file, json.dumps(array, indent=1).encode())


def read_catalogue(path: Path) -> Catalogue:
    """Return the content of `zarr.json`. Raises OutputError if it is damaged, or not one of Ridgeline."""
    if not (path / METADATA).is_file():
        raise damaged(path, f"{METADATA} is missing") if bp_sums.has_sums(path) else no_data_set(path)
    raw = bp_sums.bytes_of(path / METADATA)
    try:
        document = json.loads(raw)
        attributes = document["attributes"]
        arrays = document.get("consolidated_metadata", {}).get("metadata", {})
    except (ValueError, LookupError, TypeError, AttributeError):
        document = attributes = arrays = None
    if isinstance(attributes, dict) and CHECKSUM not in attributes and not bp_sums.has_sums(path):
        raise OutputError(
            f"the Zarr data at {path} were not written by Ridgeline. Open them with xarray.open_zarr({str(path)!r})."
        )
    records, _, seal = str((attributes or {}).get(CHECKSUM, "")).partition(" ")
    if attributes:
        attributes[CHECKSUM] = records
    if not attributes or _seal(document) != seal:
        raise damaged(path, f"{METADATA} is not as it was written")
    del attributes[CHECKSUM]
    return Catalogue(attributes, arrays, records)


def counted_records(
    path: Path, catalogue: Catalogue
) -> tuple[tuple[bp_sums.StepSums, ...], bp_sums.Damage | None]:
    """Return the checksums of the complete steps up to the first damaged one, and the damage or None."""
    steps = catalogue.steps
    if not (path / bp_sums.SUMS).exists():
        return (), bp_sums.Damage(0, f"{bp_sums.SUMS} is missing") if steps else None
    records, wrong = bp_sums.read_sums(path)
    if len(records) < steps:
        return records, wrong or bp_sums.Damage(len(records), f"{bp_sums.SUMS} is cut off")
    if steps and records[steps - 1].seal != catalogue.records:
        return (), bp_sums.Damage(0, f"{bp_sums.SUMS} is not as it was written")
    return records[:steps], None


def missing_files(path: Path, catalogue: Catalogue, steps: int) -> Iterator[tuple[int, str]]:
    """Yield (step, name) of the files that the first steps of a data set should have and that are missing."""
    for name, array in catalogue.arrays.items():
        shape = tuple(array["shape"][1:] if has_steps(array) else array["shape"])
        grid = array["chunk_grid"]["configuration"]["chunk_shape"]
        own = grid[1:] if has_steps(array) else grid
        first, _ = ArrayLayout(shape, tuple(own), tuple(own), 1).boxes()
        for step in range(0, steps, grid[0]) if has_steps(array) else range(min(steps, 1)):
            for place in first.tolist():
                file = shard_file(path, name, array, step, tuple(place))
                if not file.is_file():
                    yield step, str(file.relative_to(path))


def cut_off(path: Path, steps: int) -> Catalogue:
    """Leave the first steps of the data set at `path`, and return its catalogue.

    Raises OutputError, and changes nothing, if fewer steps are complete.
    """
    catalogue = read_catalogue(path)
    records, damage = counted_records(path, catalogue)
    lost = min(missing_files(path, catalogue, min(len(records), steps)), default=None)
    complete = min(len(records), lost[0]) if lost else len(records)
    if complete < steps:
        why = f" ({damage.what} from output step {damage.step} on)" if damage else ""
        why = f" ({lost[1]} is missing)" if lost else why
        raise OutputError(
            f"the data set {path} holds {complete} complete output steps{why}, but the run had written {steps} when "
            f"its checkpoint was written. Restore the data set, or start from the beginning with --resume never."
        )
    kept = catalogue.at(steps, records[steps - 1].seal)
    with output_errors(f"continue the data set {path}", "check that you may write there"):
        commit(path, kept)
        for name, array in kept.arrays.items():
            folder = path / name / "c"
            first = -(-steps // array["chunk_grid"]["configuration"]["chunk_shape"][0])
            if has_steps(array) and folder.is_dir():
                for entry in folder.iterdir():
                    if entry.name.isdigit() and int(entry.name) >= first:
                        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for file in path.rglob(f"*{PARTIAL}"):
            file.unlink()
    return kept


def create(path: Path, catalogue: Catalogue, setting: str) -> None:
    """Create a new data set without steps. The folder is empty or missing before.

    setting: the key that errors tell the user to change. Raises OutputError if this fails.
    """
    with output_errors(f"create the data set {path}", f"set {setting} to a place where you may write"):
        Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)
        bp_sums.create_sums(path)  # from here on the folder is known as ours, even if the run is killed
        commit(path, catalogue)


def is_own_zarr(path: Path) -> bool:
    """Whether the folder `path` holds a Zarr data set of Ridgeline and nothing else."""
    names = {METADATA, f".{METADATA}{PARTIAL}", bp_sums.SUMS}
    return bp_sums.has_sums(path) and all(
        entry.name in names or (entry.is_dir() and _is_array(entry)) for entry in path.iterdir()
    )


def _is_array(folder: Path) -> bool:
    return {entry.name for entry in folder.iterdir()} <= {METADATA, f".{METADATA}{PARTIAL}", "c"}


def delete_zarr(path: Path) -> None:
    """Delete the files of the data set at `path` but not the folder. Raises OSError if it contains other files."""
    if not is_own_zarr(path):
        raise OSError(errno.ENOTEMPTY, "the folder also contains files of others")
    for entry in sorted(path.iterdir(), key=lambda entry: entry.name == bp_sums.SUMS):  # the mark last
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def has_no_steps(path: Path) -> bool:
    """Whether nothing is lost with the Zarr data set at `path`, which has no complete step."""
    try:
        return is_own_zarr(path) and (not (path / METADATA).exists() or not read_catalogue(path).steps)
    except OutputError:
        return False  # damaged: it may contain data
