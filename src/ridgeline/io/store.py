"""What every store behind a data set offers: variables, a writer of steps, and a reader of them.

A data set is a folder with arrays that grow by one output step at a time. `bp.py` and `bp_reader.py` store it as
ADIOS2 BP5, `zarr_writer.py` and `zarr_reader.py` as Zarr version 3; `open_store.py` chooses between them. In both,
a step that was killed while it was written does not count, `ridgeline.sums` holds checksums of all values, and the
data set reads back the same however many ranks wrote it.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.parallel.partition import DistributedArray
from ridgeline.runtime.errors import OutputError
from ridgeline.runtime.files import output_errors

if TYPE_CHECKING:
    from mpi4py import MPI

Shape = tuple[int, ...]

STEP, TIME = "step", "time"  # the numbers of every output step
AXES = ("z", "y", "x")
# The identities 0, 1, ... along the axis of particles, and their long_name.
PARTICLE, IDENTITY = "particle", "identity"
SUFFIXES = (".bp", ".zarr")


@dataclass(frozen=True)
class Variable:
    """Describe a global array of a data set, and this rank's block of it.

    Parameters
    ----------
    name : str
        The name of the array.
    dtype : dtype
        Of its numbers.
    shape_global, offset_global, shape_local : tuple of int
        Shape of the whole array, and start and shape of this rank's block.
    unit : str
        The unit as CF writes it; "1" is a pure number.
    description : str
        What it is; "" describes it by its name.
    dims : tuple of str
        Names of the axes, if they are not z, y, x.
    once : bool
        Whether only the first output step has it, such as positions of fixed points.

    Examples
    --------
    >>> from ridgeline.api import Variable
    >>> Variable("T", "float64", (8, 4), (4, 0), (4, 4), unit="K", dims=("y", "x")).bytes_global
    256
    """

    name: str
    dtype: DTypeLike
    shape_global: Shape
    offset_global: Shape
    shape_local: Shape
    unit: str = "1"
    description: str = ""
    dims: tuple[str, ...] = ()
    once: bool = False

    @classmethod
    def of(cls, array: DistributedArray, unit: str = "1", description: str = "") -> Variable:
        """Return the variable that holds a distributed array."""
        places = array.shape_global, array.offset_global, array.shape_local
        return cls(array.name, array.local.dtype, *places, unit, description)

    @property
    def bytes_global(self) -> int:
        """Bytes of the whole array."""
        return prod(self.shape_global) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class StoredArray:
    """An array, which has one shape at all steps. by_block: it is stored as ADIOS2's local arrays, see `BPWriter`."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    by_block: bool = False


@dataclass(frozen=True)
class Selection:
    """A box of an array at one output step. out: a contiguous array of the box's shape, which is filled."""

    step: int
    start: Shape
    out: NDArray[Any]


@dataclass(frozen=True)
class StoredBlock:
    """A block of an array, and the checksum of the values that it has now; None if they cannot be read."""

    start: Shape
    shape: Shape
    digest: str | None


class DataSetReader(Protocol):
    """Reads the complete output steps of a data set, even while a run is writing it: `BPReader` or `ZarrReader`.

    Attributes
    ----------
    path : Path
        Folder of the data set.
    steps : int
        Number of output steps.
    arrays : dict of str to StoredArray
        The arrays.
    scalars : dict of str to array
        Numbers that change with the step, such as `step` and `time`: one value for each step.
    attributes, array_attributes : dict
        Attributes of the data set, and those of each array under its name.
    """

    path: Path
    steps: int
    arrays: dict[str, StoredArray]
    scalars: dict[str, NDArray[Any]]
    attributes: dict[str, Any]
    array_attributes: dict[str, dict[str, Any]]

    def read(self, name: str, selections: Iterable[Selection]) -> None:
        """Read selections of the array `name` into their `out`, which must be contiguous and of the array's dtype.

        Raises OutputError if the data cannot be read.
        """

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks of the array `name` at an output step, in the order of their checksums."""

    def close(self) -> None:
        """Release the files; a later `read` opens them again."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class DataSetWriter(ABC):
    """Writes one data set, a step at a time. Every method is collective over the ranks that write.

    Attributes
    ----------
    path : Path
        Folder of the data set.
    steps : int
        Number of output steps in it.
    """

    def __init__(
        self, path: str | Path, comm: MPI.Comm, variables: Sequence[Variable], steps: int, setting: str
    ) -> None:
        """steps: how many are kept; setting: the key of `path`, which errors tell the user to change."""
        self.path = Path(path)
        self.steps = steps
        self._comm = comm
        self._variables = {v.name: v for v in variables}
        self._setting = setting
        self._open = False

    def write(self, step: int, time: float, arrays: Mapping[str, NDArray[Any]]) -> int:
        """Append one output step, and return the bytes of its arrays on all ranks before compression.

        step: number of the time step; time: model time; arrays: this rank's blocks by name, with the declared shapes
        and dtypes. Rows may be strided, to leave out ghosts. Arrays that are written once are given in every call,
        and stored in the first step. No array is referenced after the return.
        """
        from ridgeline.parallel.allreduce import errors_on_all_ranks

        arrays = self._checked(arrays)
        if not self._open:
            raise OutputError(f"the data set {self.path} was closed, by `close` or after an error.")
        with errors_on_all_ranks(self._comm):
            if self._comm.rank == 0:
                self._check_space(step)
        self._open = False  # until the step is complete
        self._write_step(step, time, arrays)
        self.steps += 1
        self._open = True
        return sum(self._variables[name].bytes_global for name in arrays)

    def _checked(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Return the arrays that this step stores, in the order of declaration."""
        if set(arrays) != set(self._variables):
            raise ValueError(f"The data set has the arrays {sorted(self._variables)}, not {sorted(arrays)}.")
        for name, v in self._variables.items():
            given, declared = (arrays[name].dtype, arrays[name].shape), (np.dtype(v.dtype), v.shape_local)
            if given != declared:
                raise ValueError(
                    f"The array {listed({name: given})} was given, but {listed({name: declared})} is declared."
                )
        return {name: arrays[name] for name, v in self._variables.items() if not (v.once and self.steps)}

    def _check_space(self, step: int) -> None:
        """Raise OutputError if the step does not fit. Before it is begun, all ranks can still raise together."""
        need = self._bytes_of_step()
        with output_errors(f"write output step {step} to {self.path}", "Check that the folder still exists"):
            free = min(shutil.disk_usage(self.path).free, self._room_below_limit())
        if need > free:
            raise OutputError(
                f"cannot write output step {step} to {self.path}: it needs {need / 2**20:.1f} MiB, but "
                f"{max(free, 0) / 2**20:.1f} MiB are free. Free space, increase output.every, or set "
                f"{self._setting} to a path on another file system."
            )

    @abstractmethod
    def _bytes_of_step(self) -> int:
        """Return the bytes that a step takes at least, 0 where compression hides them."""

    @abstractmethod
    def _room_below_limit(self) -> float:
        """Return the bytes that the limit on the size of a file (`ulimit -f`) allows a step to take."""

    @abstractmethod
    def _write_step(self, step: int, time: float, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Store one step: its blocks, their checksums, and then the record that makes it complete."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Checksum of everything in the data set, which identifies the run that wrote it; "" except on rank 0."""

    @abstractmethod
    def close(self) -> None:
        """Finish the data set; does nothing if it is closed already, or after an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()


def check_same_arrays(
    path: Path, stored: Mapping[str, tuple[np.dtype[Any], Shape]], variables: Iterable[Variable], setting: str
) -> None:
    """Raise OutputError if a data set that is continued holds other arrays than those that the run writes."""
    declared = {v.name: (np.dtype(v.dtype), v.shape_global) for v in variables}
    if stored != declared:
        raise OutputError(
            f"the data set {path} holds {listed(stored)}, but this run writes {listed(declared)}. Set "
            f"{setting} to another name, or start from the beginning with --resume never."
        )


def listed(arrays: Mapping[str, tuple[np.dtype[Any], Shape]]) -> str:
    """Return arrays in words: "U float64[5, 3, 7], V float64[5, 3, 7]"."""
    return ", ".join(f"{name} {dtype}{list(shape)}" for name, (dtype, shape) in sorted(arrays.items()))


def output_index(reader: DataSetReader, step: int | None) -> int:
    """Return the index of the output of time step `step`, None for the last; raise OutputError if there is none."""
    if step is None:
        return reader.steps - 1
    steps = [int(n) for n in reader.scalars.get("step", np.arange(reader.steps))]
    if step not in steps:
        shown = ", ".join(map(str, steps[:8])) + (f", ..., {steps[-1]}" if len(steps) > 8 else "")
        raise OutputError(
            f"the data set {reader.path} has no step {step} (initial.step). It has the steps {shown}. Omit "
            f"initial.step to take the last one."
        )
    return steps.index(step)


def read_block(
    reader: DataSetReader, name: str, output: int, offset: tuple[int, int, int], out: NDArray[Any]
) -> None:
    """Read the block of an array that begins at a global offset into `out`, converted to its dtype. Local."""
    dtype = reader.arrays[name].dtype
    block = out if out.dtype == dtype else np.empty(out.shape, dtype)
    reader.read(name, [Selection(output, offset, block)])
    if block is not out:
        with np.errstate(over="ignore"):  # the caller checks for infinities
            out[...] = block


def dimension_names(
    shapes: Mapping[str, Shape], named: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Return the names of the axes of each array.

    named: those that are known. The first array with three axes without names is an image, with the axes z, y, x, as
    are all others of its shape. Other programs write the positions along such an axis as an array with its name.
    """
    image = next((shape for name, shape in shapes.items() if name not in named and len(shape) == 3), None)
    dims = {}
    for name, shape in shapes.items():
        if name in named:
            dims[name] = named[name]
        elif shape == image:
            dims[name] = AXES
        elif image is not None and name in AXES and shape == (image[AXES.index(name)],):
            dims[name] = (name,)
        else:
            dims[name] = tuple(f"{name}_{axis}" for axis in range(len(shape)))
    return dims


def describe(path: Path) -> str:
    """Describe what is at `path` for messages: "a file", "a folder with a.txt, b.txt"."""
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


def no_data_set(path: Path) -> OutputError:
    """Return the error for a path without a data set, which says what is there instead."""
    folder = path.parent
    near = sorted(p.name for p in folder.iterdir() if p.suffix in SUFFIXES) if folder.is_dir() else []
    there = f" The folder {folder} contains {', '.join(near[:5])}." if near else ""
    why = "nothing exists there"
    if path.exists():
        why = f"this is {describe(path)}, but a data set is a folder with md.idx (BP5) or zarr.json (Zarr)"
    return OutputError(f"there is no data set at {path}: {why}.{there}")


def damaged(path: Path, what: str, more: str = "") -> OutputError:
    """Return the error for a damaged data set."""
    return OutputError(f"the data set {path} is damaged: {what}. Restore it from a copy, or run again.{more}")


def damaged_from(path: Path, step: int, what: str, is_whole: bool) -> OutputError:
    """Return the error for a data set that is damaged from an output step on.

    is_whole: whether all steps were to be read. The error then says how to read those before.
    """
    more = f" The steps before can be read with: ridgeline.open({str(path)!r}, steps={step})"
    return damaged(path, f"{what} from output step {step} on", more if step and is_whole else "")


def check_steps(path: Path, complete: int, steps: int | None) -> None:
    """Raise OutputError if a data set has no complete output step, or fewer than are to be read."""
    if not complete:
        raise OutputError(
            f"the data set {path} holds no complete output step, because its run has not reached the first one or "
            "ended before it."
        )
    if steps is not None and not 1 <= steps <= complete:
        raise OutputError(
            f"the data set {path} holds {complete} complete output steps, so steps must be 1 to {complete}, not "
            f"{steps}."
        )
