"""Checksums of a data set, in the file `ridgeline.sums` of its folder: neither ADIOS2 nor Zarr checks the values.

The file is the line `ridgeline sums 1` and one line for each output step, written when the step is complete:

    {"metadata": {"md.idx": [162, "9f..."], "md.0": ..., "mmd.0": ...}, "blocks": {"U": ["77...", ...], ...}} e1...

For each file of BP5's metadata the line holds the end and the checksum of the part that the step added; the part
begins where that of the step before ended. For each array it holds the checksum of each block, over the values as
they were handed to the store: in the order of ADIOS2's `BlocksInfo`, or in that of Zarr's shards. The checksums
therefore do not depend on where blocks are stored, nor on their compression. The last word is the checksum of the
line and of the last word of the line before. Every checksum is a 64-bit XXH3 hash in hexadecimal digits.

A killed run leaves complete lines, and at most a part of one more. A step without a line is not complete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash

from ridgeline.runtime.files import output_errors

SUMS = "ridgeline.sums"
HEADER = b"ridgeline sums 1\n"
METADATA_FILES = ("md.idx", "md.0", "mmd.0")

_ACTIVE_AT = 39  # byte of md.idx that ADIOS2 sets while a writer has the data set open

Blocks = Mapping[str, Sequence[str]]  # checksums of the blocks of each array


@dataclass(frozen=True)
class StepSums:
    """The checksums of one output step.

    parts: for each file of metadata the end of the step's part, and its checksum; blocks: checksums of the blocks of
    each array, None for a step that an older Ridgeline wrote; end: position at which the line ends; seal: checksum of
    the line.
    """

    parts: Mapping[str, tuple[int, str]]
    blocks: Blocks | None
    end: int
    seal: str


@dataclass(frozen=True)
class Damage:
    """A damage of a file: the first output step that it affects, counted from 0, and a description."""

    step: int
    what: str


_BEGIN = StepSums(dict.fromkeys(METADATA_FILES, (0, "")), {}, len(HEADER), "")


def digest(values: Any) -> str:
    """Return the checksum of bytes or of a contiguous array."""
    return str(xxhash.xxh3_64_hexdigest(values))


def create_sums(path: Path) -> None:
    """Create the file of checksums in the folder `path`, which marks the data set as one of Ridgeline."""
    (path / SUMS).write_bytes(HEADER)


def has_sums(path: Path) -> bool:
    """Whether the folder `path` has a file of checksums, even if only its first bytes are written."""
    try:
        with (path / SUMS).open("rb") as file:
            return HEADER.startswith(file.read(len(HEADER)))
    except OSError:
        return False


def read_sums(path: Path) -> tuple[tuple[StepSums, ...], Damage | None]:
    """Return the records of the data set at `path` up to the first damaged one, and the damage or None."""
    raw = bytes_of(path / SUMS)
    if not HEADER.startswith(raw[: len(HEADER)]):
        return (), Damage(0, f"{SUMS} does not begin with {HEADER.decode().strip()!r}")
    records: list[StepSums] = []
    last = _BEGIN
    lines = raw[len(HEADER) :].split(b"\n")
    for line in lines[:-1]:  # the last one is being written, or was when its writer died
        text, _, seal = line.rpartition(b" ")
        if seal.decode("ascii", "replace") != _seal(text, last):
            return tuple(records), Damage(len(records), f"{SUMS} is not as it was written")
        content = json.loads(text)
        parts = {name: (end, part) for name, (end, part) in content["metadata"].items()}
        last = StepSums(parts, content["blocks"], last.end + len(line) + 1, seal.decode())
        records.append(last)
    return tuple(records), None


def end_of(records: Sequence[StepSums]) -> int:
    """Return the position at which the last of the records ends."""
    return (records[-1] if records else _BEGIN).end


def verify_metadata(path: Path, records: Sequence[StepSums]) -> list[Damage]:
    """Compare the metadata at `path` with the records, and return the first damage of each file."""
    damages = []
    for name in METADATA_FILES:
        content = _metadata(path, name)
        start = 0
        for step, record in enumerate(records):
            end, written = record.parts[name]
            if content is None or len(content) < end:
                damages.append(Damage(step, f"{name} is {'missing' if content is None else 'cut off'}"))
                break
            if digest(content[start:end]) != written:
                damages.append(Damage(step, f"{name} is not as it was written"))
                break
            start = end
    return damages


class SumsWriter:
    """Appends the checksums of one output step after another.

    path: folder of the data set; steps: the number of records to keep. Later ones are cut off; 0 starts a new file.
    metadata_files: names of the files of metadata that grow with every step.
    """

    def __init__(self, path: Path, steps: int, metadata_files: Sequence[str] = METADATA_FILES) -> None:
        self._path, self._metadata_files = path, metadata_files
        self._last = read_sums(path)[0][steps - 1] if steps else _BEGIN
        with _write_errors(path):
            if not steps:
                create_sums(path)
            os.truncate(path / SUMS, self._last.end)

    @property
    def fingerprint(self) -> str:
        """Checksum of everything in the data set: the end of the chain of its records."""
        return self._last.seal

    def add(self, blocks: Blocks | None, ends: Mapping[str, int] | None = None) -> None:
        """Append the record of an output step.

        blocks: checksums of the blocks of each array; ends: the end of the step's part of each file of metadata, by
        default the end of the file. Raises OutputError if the record cannot be written.
        """
        parts = {}
        with _write_errors(self._path):
            for name in self._metadata_files:
                start = self._last.parts[name][0]
                part = _metadata(self._path, name, start, ends[name] if ends else None) or b""
                parts[name] = start + len(part), digest(part)
            text = json.dumps({"metadata": parts, "blocks": blocks}).encode()
            seal = _seal(text, self._last)
            line = text + b" " + seal.encode() + b"\n"
            with (self._path / SUMS).open("ab") as file:
                file.write(line)
        self._last = StepSums(parts, blocks, self._last.end + len(line), seal)


def _seal(text: bytes, before: StepSums) -> str:
    return digest(before.seal.encode() + text)


def _metadata(path: Path, name: str, start: int = 0, end: int | None = None) -> bytes | None:
    """Return a part of a file of metadata, without the byte that says whether a writer is active; None if missing."""
    with output_errors(f"read {path / name}", "check that you may read it"):
        try:
            with (path / name).open("rb") as file:
                file.seek(start)
                content = bytearray(file.read() if end is None else file.read(end - start))
        except FileNotFoundError:
            return None
    if name == METADATA_FILES[0] and start <= _ACTIVE_AT < start + len(content):
        content[_ACTIVE_AT - start] = 0
    return bytes(content)


def bytes_of(file: Path) -> bytes:
    """Return the content of a file. Raises OutputError if it cannot be read."""
    with output_errors(f"read {file}", "check that you may read it"):
        return file.read_bytes()


def _write_errors(path: Path) -> AbstractContextManager[None]:
    advice = "free space, or set the data set's path to another file system. The steps before it are intact"
    return output_errors(f"write the checksums {path / SUMS}", advice)


def fingerprint(path: str | os.PathLike[str], steps: int) -> str:
    """Return the `SumsWriter.fingerprint` after the first `steps` >= 1 steps; "" if there are fewer."""
    records = read_sums(Path(path))[0] if (Path(path) / SUMS).exists() else ()
    return records[steps - 1].seal if len(records) >= steps else ""
