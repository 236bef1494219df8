"""The files of a BP5 data set, looked at without ADIOS2: what is there, what is complete, what is damaged.

A BP5 data set is a folder of `md.idx` (index), `md.0` and `mmd.0` (metadata) and `data.0`, `data.1`, ...
(blocks of arrays). A step is written in the order data, metadata, index, so its index record says that it is
complete. ADIOS2 trusts these files: a half-written record or a missing file makes it wait, or worse. So
writers and readers ask here first.

`md.idx` is a header of 64 bytes and then records of a type (1 byte), a body length (uint64) and a body of uint64.
Each new set of writers has a record "w" (writers, aggregators, subfiles, subfile of each writer). Each step has a
record "s": position and size in `md.0`, and flushes. For each writer it also has position and size of each flush, and
the position of the rest in its subfile.
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
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors

INDEX, METADATA, FORMATS = "md.idx", "md.0", "mmd.0"
BP_FILE = re.compile(r"md\.idx|m?md\.\d+|data\.\d+|profiling\.json|ridgeline\.sums")

_HEADER_SIZE = 64
_ENDIAN_AT, _VERSION_AT = 36, 37
_RECORD = struct.Struct("<cQ")
_LONGEST_RECORD = 2**32  # bytes: millions of ranks with dozens of flushes
_BLOCK_ALIGNMENT = 4096  # ADIOS2's StripeSize: a rank's data may begin at the next multiple beyond the end


@dataclass(frozen=True)
class StepExtent:
    """What one output step needs: bytes of `md.0`, and of each subfile at least this many bytes."""

    record_end: int
    metadata_end: int
    data_ends: dict[int, int]


@dataclass(frozen=True)
class Index:
    """The complete records of `md.idx`."""

    steps: tuple[StepExtent, ...]
    subfiles: int


def describe(path: Path) -> str:
    """Say what is at `path`, for messages: "a file", "a folder with a.txt, b.txt"."""
    if not path.exists():
        return "nothing"
    if path.is_file():
        return "a file"
    if not path.is_dir():
        return "a device, a pipe or a socket"
    names = sorted(entry.name for entry in path.iterdir())
    if not names:
        return "an empty folder"
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"a folder with {shown}"


def is_data_set(path: Path) -> bool:
    """Say whether `path` is a folder of BP files and of nothing else."""
    if not path.is_dir():
        return False
    names = [entry.name for entry in path.iterdir()]
    return (INDEX in names or bp_sums.is_begun(path)) and all(BP_FILE.fullmatch(name) for name in names)


def is_ours(path: Path) -> bool:
    """Say whether `path` is a data set that Ridgeline wrote or had begun, or one that holds nothing at all.

    Holding nothing: ADIOS2 empties the folder while it opens a new data set, and may be killed there.
    """
    return is_data_set(path) and (
        bp_sums.is_begun(path) or all(file.stat().st_size == 0 for file in path.iterdir())
    )


def holds_nothing(path: Path) -> bool:
    """Say whether a folder is empty, or a data set of ours without a block of data. Raises OSError."""
    if not any(path.iterdir()):
        return True
    try:
        # A data set that is closed without a step has one in its index, of no data.
        steps = intact_index(path)[0].steps if is_ours(path) else None
        return steps is not None and not any(end > 0 for step in steps for end in step.data_ends.values())
    except OutputError:
        return False  # of another format, or damaged: there may be something in it


def empty(path: Path) -> None:
    """Delete the files of the data set at `path`; the folder stays. Raises OSError if something else is in it."""
    for entry in list(path.iterdir()):
        if BP_FILE.fullmatch(entry.name):
            entry.unlink()
    if names := sorted(entry.name for entry in path.iterdir()):
        raise OSError(errno.ENOTEMPTY, f"it also holds {', '.join(names[:3])}")


def create(path: Path, setting: str = "output.path") -> None:
    """Make the folder of a new data set, empty or not there (`previous.make_way`), and mark it as ours.

    setting: what errors tell the user to change. Raises OutputError if it cannot be done.
    """
    with output_errors(f"create the data set {path}", f"set {setting} to a place where you may write"):
        Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)
        bp_sums.begin(path)  # the folder is ours from here on, whenever we are killed
        (path / INDEX).touch()


def read_index(path: Path) -> Index:
    """Read `md.idx` of the data set at `path`.

    Raises OutputError if `path` is not a BP5 data set or its index is damaged.
    """
    index, wrong = intact_index(path)
    if wrong:
        raise _damaged(path, wrong)
    return index


def intact_index(path: Path) -> tuple[Index, str | None]:
    """Return the index up to its first record that is wrong, and what is wrong there."""
    if not (path / INDEX).is_file():
        near = sorted(p.name for p in path.parent.glob("*.bp")) if path.parent.is_dir() else []
        there = f"; {path.parent} holds {', '.join(near[:5])}" if near else ""
        raise OutputError(
            f"no data set at {path}: found {describe(path)} where a folder with {INDEX} should be{there}"
        )
    raw = bp_sums.bytes_of(path / INDEX)
    if len(raw) < _HEADER_SIZE and not any(raw):
        return Index(
            (), 0
        ), None  # created, nothing written yet; ADIOS2 leaves a part of zeros if a run fails then
    if len(raw) < _HEADER_SIZE or raw[_ENDIAN_AT] != 0 or raw[_VERSION_AT] != 5:
        raise OutputError(
            f"{path} is not a little-endian BP5 data set: its {INDEX} has another header; "
            f"it may be of an older ADIOS2, or damaged"
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
            break  # being written, or cut off when its writer was killed
        body = struct.unpack_from(f"<{length // 8}Q", raw, begin)
        if kind == b"w" and len(body) == 3 + body[0] and all(subfile < body[2] for subfile in body[3:]):
            writer_to_subfile = body[3:]
        elif (
            kind == b"s" and writer_to_subfile and len(body) == 3 + len(writer_to_subfile) * (2 * body[2] + 1)
        ):
            steps.append(_step(end, body, writer_to_subfile))
        else:
            wrong = f"{INDEX} has a wrong record at byte {position}"
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
    """Return what is wrong if the files at `path` cannot hold `step`, None if they may."""
    return next(problems(path, step), None)


def problems(path: Path, step: StepExtent) -> Iterator[str]:
    """Yield what is wrong with each file at `path` that cannot hold its part of `step`."""
    wanted = {METADATA: step.metadata_end}
    wanted |= {f"data.{subfile}": end for subfile, end in step.data_ends.items()}
    for name, least in wanted.items():
        size = _size_of(path / name)
        if size is None:
            yield f"{name} is missing"
        elif size < least:
            yield f"{name} is {size} bytes long where the index refers to {least}"


def check(path: Path, index: Index) -> None:
    """Raise OutputError if `md.0` or the data files at `path` cannot hold what the index says."""
    for number, step in enumerate(index.steps):
        wrong = problem(path, step)
        if wrong:
            raise _damaged(path, f"{wrong} (output step {number} of {len(index.steps)})")


def check_formats(path: Path) -> None:
    """Raise OutputError if `mmd.0` at `path` is not whole."""
    complete = _complete_formats(path)
    if not complete:
        raise _damaged(path, f"{FORMATS} is missing or empty")
    if complete != _size_of(path / FORMATS):
        raise _damaged(path, f"{FORMATS} is cut off in a record")


@dataclass(frozen=True)
class Readable:
    """The output steps of a data set that may be read: how many, and the folder where ADIOS2 finds their files.

    verified: whether their metadata are as they were written; without checksums nobody knows.
    """

    steps: int
    folder: Path
    verified: bool


def readable(path: Path, steps: int | None = None) -> Readable:
    """Look at the data set at `path`, and return its whole output steps, or the first so many.

    Raises OutputError if it is none, holds no whole step or fewer than `steps`, or if these are damaged.
    """
    verified = (path / bp_sums.SUMS).exists()
    records: tuple[bp_sums.StepSums, ...] = ()
    if verified:
        records, damages = checked_records(path)  # before the index: a writer writes them after it
        if steps is not None:
            records, damages = records[:steps], [damage for damage in damages if damage.step < steps]
        if damages:
            raise _damaged_from(path, damages, steps is None)
        index = Index(intact_index(path)[0].steps[: len(records)], 0)
    else:
        index = read_index(path)
    check(path, index)
    found = len(index.steps)
    if not found:
        raise OutputError(
            f"the data set {path} holds no whole output step: its run has not reached the first, or ended before it"
        )
    if steps is not None and not 1 <= steps <= found:
        raise OutputError(f"the data set {path} holds {found} whole output steps, so it has no first {steps}")
    if not verified:
        check_formats(path)
    elif any(_size_of(path / name) != end for name, (end, _) in records[-1].parts.items()):
        return _cut_copy(path, records[-1])  # ADIOS2 sees nothing that was not verified
    return Readable(min(found, steps or found), path, verified)


def checked_records(path: Path) -> tuple[tuple[bp_sums.StepSums, ...], list[bp_sums.Damage]]:
    """Return the checksums of the whole output steps, and where the metadata do not agree with them."""
    records, wrong = bp_sums.read(path)
    damages = bp_sums.verify(path, records)
    if wrong:
        damages.append(wrong)
    elif not damages and len(intact_index(path)[0].steps) > len(records) + 1:  # one may be being written
        damages.append(bp_sums.Damage(len(records), f"{bp_sums.SUMS} is cut off"))
    return records, sorted(damages, key=lambda damage: damage.step)


def _damaged_from(path: Path, damages: list[bp_sums.Damage], advise: bool) -> OutputError:
    first = damages[0]
    rest = f"; {path.name} can be read up to there: ridgeline.open({str(path)!r}, steps={first.step})"
    return _damaged(
        path, f"{first.what} from output step {first.step} on", rest if first.step and advise else ""
    )


def _cut_copy(path: Path, record: bp_sums.StepSums) -> Readable:
    """Return a copy of the data set that ends with the step of `record`: of the metadata, with links to the data."""
    doing = f"copy the metadata of {path} to {tempfile.gettempdir()}"
    with output_errors(doing, "set TMPDIR to a folder where you may write"):
        folder = Path(tempfile.mkdtemp(prefix="ridgeline_"))
        for name, (end, _) in record.parts.items():
            (folder / name).write_bytes(bp_sums.bytes_of(path / name)[:end])
        for file in path.glob("data.*"):
            (folder / file.name).symlink_to(file.absolute())
    copy = Readable(len(read_index(folder).steps), folder, True)
    weakref.finalize(copy, shutil.rmtree, folder, ignore_errors=True)
    return copy


def repair(path: Path, least: int) -> Index:
    """Cut off what a killed writer left half written, and return the index of the steps that are whole.

    Readers take `md.0` and `mmd.0` without gaps, so these are cut after the last whole step like the index.
    What lies in a subfile beyond it does no harm: ADIOS2 appends after it. A data set of an older Ridgeline gets
    checksums of the metadata that it has.

    Raises OutputError, and changes nothing, if fewer than `least` steps are whole.
    """
    index, _ = intact_index(path)
    summed = (path / bp_sums.SUMS).exists()
    records, damages = checked_records(path) if summed else ((), [])
    most = min([len(records)] + [damage.step for damage in damages]) if summed else len(index.steps)
    whole = 0
    for step in index.steps[:most]:
        if problem(path, step):
            break
        whole += 1
    if whole < least:
        why = f" ({damages[0].what} from output step {damages[0].step} on)" if damages else ""
        raise OutputError(
            f"the data set {path} holds {whole} whole output steps{why}, but the run had written {least} when its "
            f"checkpoint was taken; restore it, or start anew with --resume never"
        )
    steps = index.steps[:whole]
    sizes = {INDEX: _HEADER_SIZE, METADATA: 0, FORMATS: _complete_formats(path)}
    if steps:
        sizes |= {INDEX: steps[-1].record_end, METADATA: steps[-1].metadata_end}
    if steps and summed:
        sizes[FORMATS] = records[whole - 1].parts[FORMATS][0]
    with output_errors(f"continue the data set {path}", "may you write there?"):
        for name, size in sizes.items():
            if (_size_of(path / name) or 0) > size:
                os.truncate(path / name, size)
        if summed:
            bp_sums.SumsWriter(path, whole)
        else:
            _adopt(path, steps, sizes[FORMATS])
    return Index(steps, index.subfiles)


def _adopt(path: Path, steps: tuple[StepExtent, ...], formats_end: int) -> None:
    """Write checksums of the metadata that are there."""
    sums = bp_sums.SumsWriter(path, 0)
    for step in steps:
        sums.add(None, {INDEX: step.record_end, METADATA: step.metadata_end, FORMATS: formats_end})


def _complete_formats(path: Path) -> int:
    """Return how many bytes of `mmd.0` hold complete records: two lengths (uint64), then two strings."""
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


def _damaged(path: Path, what: str, more: str = "") -> OutputError:
    return OutputError(f"the data set {path} is damaged: {what}; restore it from a copy, or run again{more}")
