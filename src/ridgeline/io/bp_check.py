"""Whether a data set is as it was written: its metadata, and every block of its arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

from ridgeline.io import bp_files, bp_sums
from ridgeline.io.bp_reader import BPReader
from ridgeline.runtime.errors import OutputError


@dataclass(frozen=True)
class DataSetCheck:
    """What was compared, and what is damaged, a line for each file, and for each array at a step.

    path: of the data set. steps: whole output steps. unknown: those of them whose arrays have no checksums, which
    an older Ridgeline wrote. unfinished: whether there is one more, being written or half written when its run
    was killed. bytes_compared: of arrays.
    """

    path: Path
    steps: int
    unknown: int
    unfinished: bool
    bytes_compared: int
    damages: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Say it in words, a line each."""
        yield from self.damages
        if self.unknown:
            yield f"{_steps(self.unknown)} of an older Ridgeline, without checksums of the values"
        if self.unfinished:
            yield "one more output step is being written, or was when the run was killed"
        if not self.damages:
            size = f"{self.bytes_compared / 2**20:.1f} MiB of values"
            yield f"{_steps(self.steps)}, metadata and {size}, as they were written"

    def raise_if_damaged(self) -> None:
        """Raise OutputError if something is damaged."""
        if self.damages:
            raise OutputError(
                f"the data set {self.path} is damaged in {len(self.damages)} "
                f"place{'s' if len(self.damages) > 1 else ''}; restore it from a copy, or run again"
            )


def _steps(number: int) -> str:
    return f"{number} output step{'s' if number != 1 else ''}"


def check_data_set(path: Path) -> DataSetCheck:
    """Compare the data set at `path` with its checksums. Reads all of it that can be read.

    Raises OutputError if there is no data set, or one without checksums.
    """
    if not (path / bp_sums.SUMS).exists():
        bp_files.read_index(path)  # says what is there instead
        raise OutputError(
            f"the data set {path} cannot be checked: it holds no {bp_sums.SUMS}, so another program or an older "
            f"Ridgeline wrote it"
        )
    records, wrong = bp_files.checked_records(path)
    # Its length before the index: where a step is being written, the index has that step already.
    more = (path / bp_sums.SUMS).stat().st_size - bp_sums.end_of(records)
    damages = [f"{damage.what} from output step {damage.step} on" for damage in wrong]
    known = records[: wrong[0].step] if wrong else records
    steps = bp_files.intact_index(path)[0].steps if known or not wrong else ()
    if more > 0 and not wrong and len(steps) == len(records):
        damages.append(f"{bp_sums.SUMS} has {more} bytes more than were written")
    lost: set[str] = set()
    for number, step in enumerate(steps[: len(known)]):
        for what in bp_files.problems(path, step):
            known = known[:number]
            if (name := what.split()[0]) not in lost:
                lost.add(name)
                damages.append(f"{what} from output step {number} on")
    compared = 0
    if known:
        with BPReader(path, len(known), isolated=True) as reader:
            try:
                for size, damage in _compare(reader, known):
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


def _compare(reader: BPReader, records: tuple[bp_sums.StepSums, ...]) -> Iterator[tuple[int, str | None]]:
    """Yield for each array of each step its size in bytes, and what is wrong with it."""
    for step, record in enumerate(records):
        where = f"output step {step} (time step {reader.scalars['step'][step]})"
        for name, written in (record.blocks or {}).items():
            blocks = reader.blocks(name, step)
            size = sum(prod(block.shape) for block in blocks) * reader.arrays[name].dtype.itemsize
            if len(blocks) != len(written):
                yield size, f"{name} has {len(blocks)} blocks at {where}, but {len(written)} were written"
                continue
            other = [block for block, digest in zip(blocks, written) if block.digest != digest]
            if not other:
                yield size, None
                continue
            first = ", ".join(f"{start}:{start + n}" for start, n in zip(other[0].start, other[0].shape))
            yield (
                size,
                f"{name} is not as it was written at {where}: {len(other)} of its {len(blocks)} blocks, the first "
                f"{name}[{first}]",
            )
