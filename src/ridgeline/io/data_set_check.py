"""Verification of a data set: its metadata and every block of its arrays are compared with their checksums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ridgeline.io import bp_files, bp_sums, zarr_files
from ridgeline.io.bp_reader import BPReader
from ridgeline.io.open_store import is_zarr
from ridgeline.io.store import DataSetReader
from ridgeline.io.zarr_reader import ZarrReader
from ridgeline.runtime.errors import OutputError


@dataclass(frozen=True)
class DataSetCheck:
    """The result of a verification.

    Attributes
    ----------
    path : Path
        The data set.
    steps, unknown : int
        Number of complete output steps, and of those without checksums of arrays, which an older Ridgeline wrote.
    unfinished : bool
        Whether there is one more step that is being written, or was when its run was killed.
    bytes_compared : int
        Bytes of array values that were compared.
    damages : tuple of str
        A line for each damaged file, and for each damaged array at a step.
    """

    path: Path
    steps: int
    unknown: int
    unfinished: bool
    bytes_compared: int
    damages: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the lines of the result for people."""
        yield from self.damages
        if self.unknown:
            yield f"{_steps(self.unknown)} from an older version of Ridgeline have no checksums of the values"
        if self.unfinished:
            yield "one more output step is being written, or was being written when the run was killed"
        if not self.damages:
            size = f"{self.bytes_compared / 2**20:.1f} MiB of values"
            yield f"{_steps(self.steps)} with metadata and {size} are as they were written"

    def raise_if_damaged(self) -> None:
        """Raise OutputError if there are damages."""
        if self.damages:
            raise OutputError(
                f"the data set {self.path} is damaged in {len(self.damages)} "
                f"place{'s' if len(self.damages) > 1 else ''}. Restore it from a copy, or run again."
            )


def _steps(number: int) -> str:
    return f"{number} output step{'s' if number != 1 else ''}"


def check_data_set(path: Path) -> DataSetCheck:
    """Compare the data set at `path` with its checksums, and read everything that can be read.

    Raises OutputError if there is no data set, or if it has no checksums.
    """
    if is_zarr(path):
        return _check_zarr(path)
    if not (path / bp_sums.SUMS).exists():
        bp_files.read_index(path)  # raises an error that says what is there instead
        raise OutputError(
            f"the data set {path} cannot be checked, because it has no {bp_sums.SUMS}: another program or an older "
            f"version of Ridgeline wrote it."
        )
    records, wrong = bp_files.checked_records(path)
    # The length is taken before the index is read: while a step is being written, the index has that step already.
    more = (path / bp_sums.SUMS).stat().st_size - bp_sums.end_of(records)
    damages = [f"{damage.what} from output step {damage.step} on" for damage in wrong]
    intact = records[: wrong[0].step] if wrong else records
    steps = bp_files.intact_index(path)[0].steps if intact or not wrong else ()
    if more > 0 and not wrong and len(steps) == len(records):
        damages.append(f"{bp_sums.SUMS} has {more} more bytes than were written")
    reported: set[str] = set()
    for number, step in enumerate(steps[: len(intact)]):
        for what in bp_files.problems(path, step):
            intact = intact[:number]
            if (name := what.split()[0]) not in reported:
                reported.add(name)
                damages.append(f"{what} from output step {number} on")
    compared = 0
    if intact:
        with BPReader(path, len(intact), isolated=True) as reader:
            try:
                for size, damage in _compare(reader, intact):
                    compared += size
                    damages += [damage] if damage else []
            except OutputError as error:  # ADIOS2 crashed
                damages.append(str(error))
    return DataSetCheck(
        path,
        len(records),
        sum(record.blocks is None for record in records),
        not wrong and len(steps) > len(records),
        compared,
        tuple(damages),
    )


def _check_zarr(path: Path) -> DataSetCheck:
    """Compare a Zarr data set with its checksums."""
    try:
        catalogue = zarr_files.read_catalogue(path)
    except OutputError as error:
        return DataSetCheck(path, 0, 0, False, 0, (str(error),))
    records, damage = zarr_files.counted_records(path, catalogue)
    steps = len(records)
    damages = [f"{damage.what} from output step {damage.step} on"] if damage else []
    lost = sorted(zarr_files.missing_files(path, catalogue, steps))
    damages += [f"{name} is missing from output step {step} on" for step, name in lost]
    compared = 0
    if steps:
        try:
            with ZarrReader(path, steps) as reader:
                for size, wrong in _compare(reader, records):
                    compared += size
                    damages += [wrong] if wrong and not lost else []
        except OutputError as error:
            damages.append(str(error))
    written = bp_sums.read_sums(path)[0] if damage is None else records
    return DataSetCheck(path, steps, 0, len(written) > steps, compared, tuple(damages))


def _compare(
    reader: DataSetReader, records: tuple[bp_sums.StepSums, ...]
) -> Iterator[tuple[int, str | None]]:
    """Yield for each array at each step its size in bytes, and its damage or None."""
    for step, record in enumerate(records):
        where = f"output step {step} (time step {reader.scalars['step'][step]})"
        for name, written in (record.blocks or {}).items():
            blocks = reader.blocks(name, step)
            array = reader.arrays.get(name)  # numbers of the step, which Zarr stores alike, are not counted
            size = sum(prod(block.shape) for block in blocks) * array.dtype.itemsize if array else 0
            if len(blocks) != len(written):
                yield size, f"{name} has {len(blocks)} blocks at {where}, but {len(written)} were written"
                continue
            damaged = [block for block, digest in zip(blocks, written) if block.digest != digest]
            if not damaged:
                yield size, None
                continue
            first = ", ".join(f"{start}:{start + n}" for start, n in zip(damaged[0].start, damaged[0].shape))
            yield (
                size,
                f"{name} is not as it was written at {where}: {len(damaged)} of its {len(blocks)} blocks differ, the "
                f"first is {name}[{first}]",
            )
