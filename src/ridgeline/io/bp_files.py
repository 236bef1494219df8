"""The files of a BP5 data set, examined without ADIOS2: which steps are complete, and what is damaged.

A BP5 data set is a folder of `md.idx` (index), `md.0` and `mmd.0` (metadata) and `data.0`, `data.1`, ... (blocks of
arrays). A step is written in the order data, metadata, index, so that its record in the index marks it as complete.
ADIOS2 trusts these files: an incomplete record or a missing file makes it wait forever, or crash. Writers and readers
therefore check the files here first.

`md.idx` is a header of 64 bytes followed by records of a type (1 byte), the length of the body (uint64) and a body of
uint64. Each new set of writers has a record "w": writers, aggregators, subfiles, subfile of each writer. Each step
has a record "s": position and size in `md.0`, the number of flushes, and for each writer the position and size of
each flush and the position of the rest in its subfile.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ridgeline.io import bp_sums
from ridgeline.io.store import check_steps, damaged, damaged_from, no_data_set
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors

INDEX, METADATA, FORMATS = "md.idx", "md.0", "mmd.0"
BP_FILE = re.compile(r"md\.idx|m?md\.\d+|data\.\d+|profiling\.json|ridgeline\.sums")

_HEADER_SIZE = 64
_ENDIAN_AT, _VERSION_AT = 36, 37
_RECORD = struct.Struct("<cQ")
_LONGEST_RECORD = 2**32  # bytes: millions of ranks with dozens of flushes
_BLOCK_ALIGNMENT = 4096  # ADIOS2's StripeSize: a rank's data may begin at the next multiple of it


@dataclass(frozen=True)
class StepExtent:
    """The extent of an output step: its ends in the index and in `md.0`, and the least size of each subfile."""

    record_end: int
    metadata_end: int
    data_ends: dict[int, int]


@dataclass(frozen=True)
class Index:
    """The complete records of `md.idx`."""

    steps: tuple[StepExtent, ...]
    subfiles: int


def is_data_set(path: Path) -> bool:
    """Whether `path` is a folder that contains BP files and nothing else."""
    if not path.is_dir():
        return False
    names = [entry.name for entry in path.iterdir()]
    return (INDEX in names or bp_sums.has_sums(path)) and all(BP_FILE.fullmatch(name) for name in names)


def is_own_data_set(path: Path) -> bool:
    """Whether `path` is a data set that Ridgeline wrote or started, or one whose files are all empty.

    ADIOS2 empties the folder while it opens a new data set, and may be killed at that point.
    """
    return is_data_set(path) and (
        bp_sums.has_sums(path) or all(file.stat().st_size == 0 for file in path.iterdir())
    )


def is_empty(path: Path) -> bool:
    """Whether a folder is empty, or a data set of ours without any data. Raises OSError."""
    if not any(path.iterdir()):
        return True
    try:
        # A data set that was closed without a step has one without data in its index.
        steps = intact_index(path)[0].steps if is_own_data_set(path) else None
        return steps is not None and not any(end > 0 for step in steps for end in step.data_ends.values())
    except OutputError:
        return False  # another format, or damaged: it may contain data


def delete_files(path: Path) -> None:
    """Delete the files of the data set at `path` but not the folder. Raises OSError if it contains other files."""
    for entry in list(path.iterdir()):
        if BP_FILE.fullmatch(entry.name):
            entry.unlink()
    if names := sorted(entry.name for entry in path.iterdir()):
        raise OSError(errno.ENOTEMPTY, f"the folder also contains {', '.join(names[:3])}")


def create(path: Path, setting: str = "output.path") -> None:
    """Create the folder of a new data set, and mark it as ours. The folder is empty or missing before.

    setting: the key that errors tell the user to change. Raises OutputError if this fails.
    """
    with output_errors(f"create the data set {path}", f"set {setting} to a place where you may write"):
        Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)
        bp_sums.create_sums(path)  # from here on the folder is known as ours, even if the run is killed
        (path / INDEX).touch()


def read_index(path: Path) -> Index:
    """Read `md.idx` of the data set at `path`.

    Raises OutputError if `path` is not a BP5 data set or its index is damaged.
    """
    index, wrong = intact_index(path)
    if wrong:
        raise damaged(path, wrong)
    return index


def intact_index(path: Path) -> tuple[Index, str | None]:
    """Return the index up to its first damaged record, and the damage, None if there is none."""
    if not (path / INDEX).is_file():
        raise no_data_set(path)
    raw = bp_sums.bytes_of(path / INDEX)
    if len(raw) < _HEADER_SIZE and not any(raw):
        # Created, but nothing is written yet. ADIOS2 leaves a part of zeros if a run fails at this point.
        return Index((), 0), None
    if len(raw) < _HEADER_SIZE or raw[_ENDIAN_AT] != 0 or raw[_VERSION_AT] != 5:
        raise OutputError(
            f"{path} is not a little-endian BP5 data set, because its {INDEX} has another header. "
            f"It was written by an older version of ADIOS2, or it is damaged."
        )
    steps: list[StepExtent] = []
    writer_to_subfile: tuple[int, ...] = ()
    position, wrong = _HEADER_SIZE, None
    while position + _RECORD.size <= len(raw):
        kind, length = _RECORD.unpack_from(raw, position)
        begin, end = position + _RECORD.size, position + _RECORD.size + length
        if kind not in (b"w", b"s") or length % 8 or not 24 <= length < _LONGEST_RECORD:
            wrong = f"{INDEX} has an unknown record at byte {position}"
            break
        if end > len(raw):
            break  # the record is being written, or its writer was killed
        body = struct.unpack_from(f"<{length // 8}Q", raw, begin)
        if kind == b"w" and len(body) == 3 + body[0] and all(subfile < body[2] for subfile in body[3:]):
            writer_to_subfile = body[3:]
        elif (
            kind == b"s" and writer_to_subfile and len(body) == 3 + len(writer_to_subfile) * (2 * body[2] + 1)
        ):
            steps.append(_step(end, body, writer_to_subfile))
        else:
            wrong = f"{INDEX} has an invalid record at byte {position}"
            break
        position = end
    subfiles = max((subfile + 1 for step in steps for subfile in step.data_ends), default=0)
    return Index(tuple(steps), subfiles), wrong


def _step(record_end: int, body: tuple[int, ...], writer_to_subfile: tuple[int, ...]) -> StepExtent:
    """Read the body of a record "s"."""
    places = iter(body[3:])
    ends: dict[int, int] = {}
    for subfile in writer_to_subfile:
        for _ in range(body[2]):
            begin, size = next(places), next(places)
            ends[subfile] = max(ends.get(subfile, 0), begin + size if size else 0)
        ends[subfile] = max(ends.get(subfile, 0), next(places) - _BLOCK_ALIGNMENT + 1)
    return StepExtent(record_end, body[0] + body[1], ends)


def problem(path: Path, step: StepExtent) -> str | None:
    """Return why the files at `path` cannot contain `step`, None if they may."""
    return next(problems(path, step), None)


def problems(path: Path, step: StepExtent) -> Iterator[str]:
    """Yield a description of each file at `path` that cannot contain its part of `step`."""
    sizes = {METADATA: step.metadata_end}
    sizes |= {f"data.{subfile}": end for subfile, end in step.data_ends.items()}
    for name, least in sizes.items():
        size = _size_of(path / name)
        if size is None:
            yield f"{name} is missing"
        elif size < least:
            yield f"{name} is {size} bytes long, but the index refers to {least}"


def check(path: Path, index: Index) -> None:
    """Raise OutputError if `md.0` or the data files at `path` are shorter than the index says."""
    for number, step in enumerate(index.steps):
        wrong = problem(path, step)
        if wrong:
            raise damaged(path, f"{wrong} (output step {number} of {len(index.steps)})")


def check_formats(path: Path) -> None:
    """Raise OutputError if `mmd.0` at `path` is missing or incomplete."""
    complete = _complete_formats(path)
    if not complete:
        raise damaged(path, f"{FORMATS} is missing or empty")
    if complete != _size_of(path / FORMATS):
        raise damaged(path, f"{FORMATS} is cut off in a record")


@dataclass(frozen=True)
class ReadableSteps:
    """The output steps of a data set that may be read.

    steps: their number; folder: where ADIOS2 finds their files; verified: whether their metadata agree with
    checksums.
    """

    steps: int
    folder: Path
    verified: bool


def readable_steps(path: Path, steps: int | None = None) -> ReadableSteps:
    """Check the data set at `path`, and return its complete output steps, or the first `steps` of them.

    Raises OutputError if it is not a data set, has no complete step or fewer than `steps`, or if these are damaged.
    """
    verified = (path / bp_sums.SUMS).exists()
    records: tuple[bp_sums.StepSums, ...] = ()
    if verified:
        records, damages = checked_records(path)  # before the index, because a writer writes them after it
        if steps is not None:
            records, damages = records[:steps], [damage for damage in damages if damage.step < steps]
        if damages:
            raise damaged_from(path, damages[0].step, damages[0].what, steps is None)
        index = Index(intact_index(path)[0].steps[: len(records)], 0)
    else:
        index = read_index(path)
    check(path, index)
    complete = len(index.steps)
    check_steps(path, complete, steps)
    if not verified:
        check_formats(path)
    elif any(_size_of(path / name) != end for name, (end, _) in records[-1].parts.items()):
        return _truncated_copy(path, records[-1])  # so that ADIOS2 reads nothing that was not verified
    return ReadableSteps(min(complete, steps or complete), path, verified)


def checked_records(path: Path) -> tuple[tuple[bp_sums.StepSums, ...], list[bp_sums.Damage]]:
    """Return the checksums of the complete output steps, and the damages: metadata that do not agree with them."""
    records, wrong = bp_sums.read_sums(path)
    damages = bp_sums.verify_metadata(path, records)
    if wrong:
        damages.append(wrong)
    elif not damages and len(intact_index(path)[0].steps) > len(records) + 1:  # one step may be being written
        damages.append(bp_sums.Damage(len(records), f"{bp_sums.SUMS} is cut off"))
    return records, sorted(damages, key=lambda damage: damage.step)


def _truncated_copy(path: Path, record: bp_sums.StepSums) -> ReadableSteps:
    """Return a copy of the data set up to the step of `record`: a copy of the metadata, with links to the data."""
    doing = f"copy the metadata of {path} to {tempfile.gettempdir()}"
    with output_errors(doing, "set TMPDIR to a folder where you may write"):
        folder = Path(tempfile.mkdtemp(prefix="ridgeline_"))
        for name, (end, _) in record.parts.items():
            (folder / name).write_bytes(bp_sums.bytes_of(path / name)[:end])
        for file in path.glob("data.*"):
            (folder / file.name).symlink_to(file.absolute())
    copy = ReadableSteps(len(read_index(folder).steps), folder, True)
    weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
    return copy


def repair(path: Path, least: int) -> Index:
    """Cut off what a killed writer left incomplete, and return the index of the complete steps.

    Readers require `md.0` and `mmd.0` without gaps, so that these are truncated after the last complete step, like
    the index. Further data in a subfile do no harm: ADIOS2 appends after them. A data set of an older Ridgeline gets
    checksums of its present metadata.

    Raises OutputError, and changes nothing, if fewer than `least` steps are complete.
    """
    index, _ = intact_index(path)
    has_sums = (path / bp_sums.SUMS).exists()
    records, damages = checked_records(path) if has_sums else ((), [])
    most = min([len(records)] + [damage.step for damage in damages]) if has_sums else len(index.steps)
    complete = 0
    for step in index.steps[:most]:
        if problem(path, step):
            break
        complete += 1
    if complete < least:
        why = f" ({damages[0].what} from output step {damages[0].step} on)" if damages else ""
        raise OutputError(
            f"the data set {path} holds {complete} complete output steps{why}, but the run had written {least} when "
            f"its checkpoint was written. Restore the data set, or start from the beginning with --resume never."
        )
    steps = index.steps[:complete]
    sizes = {INDEX: _HEADER_SIZE, METADATA: 0, FORMATS: _complete_formats(path)}
    if steps:
        sizes |= {INDEX: steps[-1].record_end, METADATA: steps[-1].metadata_end}
    if steps and has_sums:
        sizes[FORMATS] = records[complete - 1].parts[FORMATS][0]
    with output_errors(f"continue the data set {path}", "check that you may write there"):
        for name, size in sizes.items():
            if (_size_of(path / name) or 0) > size:
                os.truncate(path / name, size)
        if has_sums:
            bp_sums.SumsWriter(path, complete)
        else:
            sums = bp_sums.SumsWriter(path, 0)
            for step in steps:
                ends = {INDEX: step.record_end, METADATA: step.metadata_end, FORMATS: sizes[FORMATS]}
                sums.add(None, ends)
    return Index(steps, index.subfiles)


def _complete_formats(path: Path) -> int:
    """Return the bytes of the complete records of `mmd.0`: each has two lengths (uint64), then two strings."""
    file = path / FORMATS
    raw = bp_sums.bytes_of(file) if file.is_file() else b""
    position = 0
    while position + 16 <= len(raw):
        end = position + 16 + sum(struct.unpack_from("<2Q", raw, position))
        if end > len(raw):
            break
        position = end
    return position


def _size_of(file: Path) -> int | None:
    return file.stat().st_size if file.is_file() else None
