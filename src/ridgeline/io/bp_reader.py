"""Reading a BP5 data set: its contents, and selections of its arrays. Serial; needs no MPI.

ADIOS2 may end the process when it reads damaged metadata. `BPEngine` calls it in this process, which is safe if the
metadata agree with the checksums of the data set. `IsolatedEngine` calls it in a child process, for data sets without
checksums: if the child dies, the reader raises an error and the program continues. `BPReader` chooses between them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import IO, Any, Protocol, cast

import numpy as np
import xxhash
from numpy.typing import NDArray

from ridgeline.io import bp_files
from ridgeline.io.adios2_bindings import adios2_errors, load_bindings
from ridgeline.io.bp_attributes import CELLS
from ridgeline.io.bp_blocks import slabs
from ridgeline.io.store import Selection, Shape, StoredArray, StoredBlock
from ridgeline.runtime.errors import OutputError

__all__ = ["BPReader", "Selection", "StoredArray"]
DTYPES = {
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
    "float": np.float32,
    "double": np.float64,
    "float complex": np.complex64,
    "double complex": np.complex128,
}
# The child of a rank must not join the MPI job, which an ADIOS2 with MPI does through mpi4py.
_SERIAL = {"MPI4PY_RC_INITIALIZE": "0", "MPI4PY_RC_FINALIZE": "0"}
_MOST_COMPRESSED = 100_000  # the highest ratio of compression, that of a constant field


@dataclass(frozen=True)
class Contents:
    """The contents of a data set except the values of arrays; see `BPReader`. left_out: names that are not read."""

    arrays: dict[str, StoredArray] = field(default_factory=dict)
    scalars: dict[str, NDArray[Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    array_attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    attribute_types: dict[str, np.dtype[Any]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class DataSetEngine(Protocol):
    """Reads the files of a data set whose metadata were checked: `BPEngine` or `IsolatedEngine`."""

    contents: Contents

    def read(self, name: str, selections: Iterable[Selection]) -> None:
        """Read selections of the array `name` into their `out`. Raises OutputError."""

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks of the array `name` at an output step, in the order in which they were written."""

    def close(self) -> None:
        """Release the files or the process; a later `read` opens them again."""


class BPReader:
    """Reads the complete output steps of a data set, even while a run is writing it. Opening reads metadata only.

    Parameters
    ----------
    path : path
        Folder of the data set.
    steps : int, optional
        Number of output steps to read, for example those before a damage; None reads all.
    isolated : bool, optional
        Whether ADIOS2 reads in a child process. None does so if the data set has no checksums.

    Attributes
    ----------
    arrays : dict of str to StoredArray
        The arrays.
    scalars : dict of str to array
        Numbers that change with the step, such as `step` and `time`: one value for each step.
    attributes, array_attributes : dict
        Attributes of the data set, and those of each array under its name.
    attribute_types : dict of str to dtype
        Types of all attributes by their full names; str stands for text.

    Raises
    ------
    OutputError
        If `path` is not a BP5 data set, has no complete step, or is damaged.
    """

    def __init__(self, path: str | Path, steps: int | None = None, *, isolated: bool | None = None) -> None:
        self.path = Path(path)
        self._arguments = self.path, steps
        files = bp_files.readable_steps(self.path, steps)
        self.steps = files.steps
        if isolated is None:
            isolated = not files.verified
        self._files = files  # kept, because its folder may be a temporary copy that is deleted with it
        engine = IsolatedEngine if isolated else BPEngine
        self._engine: DataSetEngine = engine(self.path, files.folder, files.steps)
        contents = self._engine.contents
        half = {name for name, own in contents.array_attributes.items() if own.pop("float16", False)}
        # The bits of float16 are stored as uint16.
        self.arrays = {
            name: replace(array, dtype=np.dtype(np.float16)) if name in half else array
            for name, array in contents.arrays.items()
        }
        self.scalars = contents.scalars
        self.attributes, self.array_attributes = contents.attributes, contents.array_attributes
        self.attribute_types = contents.attribute_types
        if not files.verified:
            self._check_sizes()
        for name in contents.left_out:
            warnings.warn(
                f"{self.path}: {name} is ignored, because it is not a number or an array at every step.",
                stacklevel=3,
            )

    def _check_sizes(self) -> None:
        """Raise OutputError for an array that is too large for the files, before memory is allocated for it."""
        size_of_files = sum(file.stat().st_size for file in self.path.glob("data.*"))
        for array in self.arrays.values():
            size = prod(array.shape) * array.dtype.itemsize
            if size > _MOST_COMPRESSED * max(size_of_files, 1):
                raise OutputError(
                    f"the data set {self.path} is damaged: {array.name} has the shape {list(array.shape)}, but all "
                    f"data files together hold {size_of_files} bytes. Restore it from a copy, or run again."
                )

    def read(self, name: str, selections: Iterable[Selection]) -> None:
        """Read selections of the array `name` into their `out`, which must be contiguous and of the array's dtype.

        Raises OutputError if the data cannot be read.
        """
        selections = list(selections)
        stored = self.arrays[name]
        if any(not s.out.flags.c_contiguous or s.out.dtype != stored.dtype for s in selections):
            raise ValueError(f"{name} can be read into contiguous arrays of {stored.dtype} only.")
        bits = self._engine.contents.arrays[name].dtype
        self._engine.read(name, [replace(s, out=s.out.view(bits)) for s in selections])

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks of the array `name` at an output step, in the order in which they were written."""
        return self._engine.blocks(name, step)

    def close(self) -> None:
        """Release the files; a later `read` opens them again."""
        self._engine.close()

    def __enter__(self) -> BPReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return BPReader, self._arguments  # a process that receives a copy opens the data set itself


class BPEngine:
    """Reads the first output steps of a data set with ADIOS2 in this process.

    path: the data set, for messages; folder: the folder with its files; steps: the number of steps. Raises
    OutputError if ADIOS2 reports an error. On damaged metadata ADIOS2 may end the process instead: use
    `IsolatedEngine` then.
    """

    def __init__(self, path: Path, folder: Path, steps: int) -> None:
        self._path, self._folder, self._steps = path, folder, steps
        self._lock = threading.Lock()  # an engine of ADIOS2 may be used by one thread at a time
        self._bindings = load_bindings()
        self._engine: Any = None
        with self._errors():
            self._adios = self._bindings.ADIOS()
            self._open()
            self.contents = self._read_contents()

    def _open(self) -> None:
        self._io = self._adios.DeclareIO("input")
        self._io.SetEngine("BP5")
        # The POSIX transport waits forever for data that a killed writer never wrote; this one raises an error.
        self._io.AddTransport("File", {"Library": "stdio"})
        # Steps that a run has written since the index was checked are left to the next reader.
        self._io.SetParameters({"SelectSteps": f"0:{self._steps - 1}"})
        self._engine = self._io.Open(str(self._folder), self._bindings.Mode.ReadRandomAccess)

    def _errors(self) -> Any:
        return adios2_errors(
            f"read the data set {self._path}",
            "the data set may be damaged, or compressed with an operator that this ADIOS2 lacks",
        )

    def _read_contents(self) -> Contents:
        contents = Contents()
        attributes = set(self._io.AvailableAttributes("", "/"))
        for name in self._io.AvailableVariables():
            variable = self._io.InquireVariable(name)
            dtype, kind = DTYPES.get(variable.Type()), variable.ShapeID()
            shapes = self._bindings.ShapeID
            known = kind in (shapes.GlobalArray, shapes.LocalArray, shapes.GlobalValue)
            if name in CELLS and kind == shapes.LocalArray:
                continue  # only for ParaView
            steps = 1 if f"{name}/once" in attributes else self._steps
            if dtype is None or not known or variable.Steps() != steps:
                contents.left_out.append(name)
            elif kind == shapes.GlobalValue:
                values = np.empty(self._steps, dtype)
                variable.SetStepSelection((0, self._steps))
                self._engine.Get(variable, values, self._bindings.Mode.Sync)
                contents.scalars[name] = values
            elif kind == shapes.LocalArray:
                boxes = self._boxes(name, 0)
                shape = (sum(n for _, (n, *_) in boxes), *boxes[0][1][1:])
                contents.arrays[name] = StoredArray(name, np.dtype(dtype), shape, True)
            else:
                contents.arrays[name] = StoredArray(name, np.dtype(dtype), tuple(variable.Shape()))
        for name in self._io.AvailableAttributes("", "/"):
            owner, _, key = name.rpartition("/")
            if owner in contents.arrays or owner in contents.scalars:
                contents.array_attributes.setdefault(owner, {})[key] = self._attribute(name)
            else:
                contents.attributes[name] = self._attribute(name)
            kind = self._io.InquireAttribute(name, "", "/").Type()
            contents.attribute_types[name] = np.dtype(DTYPES.get(kind, str))
        return contents

    def _attribute(self, name: str) -> Any:
        attribute = self._io.InquireAttribute(name, "", "/")
        if attribute.Type() == "string":
            values = attribute.DataString()
            return values[0] if attribute.SingleValue() else list(values)
        data = np.array(attribute.Data())
        return data.reshape(-1)[0].item() if attribute.SingleValue() else data

    def read(self, name: str, selections: Iterable[Selection]) -> None:
        """Read selections of the array `name`, all in one pass by several threads of ADIOS2."""
        with self._lock, self._errors():
            if self._engine is None:
                self._open()
            try:
                variable = self._io.InquireVariable(name)
                for selection in selections:
                    variable.SetStepSelection((selection.step, 1))
                    for start, out in self._selected(name, variable, selection):
                        variable.SetSelection((list(start), list(out.shape)))
                        self._engine.Get(variable, out, self._bindings.Mode.Deferred)
                self._engine.PerformGets()
            except Exception:
                # Otherwise ADIOS2 would fill the selections at the next call, when the arrays may be gone.
                self._release()
                raise

    def _selected(
        self, name: str, variable: Any, selection: Selection
    ) -> Iterator[tuple[Shape, NDArray[Any]]]:
        """Yield (start, part of the output) for the whole array, or for each block that the selection touches."""
        if not self.contents.arrays[name].by_block:
            yield selection.start, selection.out
            return
        first, rest = selection.start[0], selection.start[1:]
        for block, ((begin, *_), (n, *_)) in enumerate(self._boxes(name, selection.step)):
            low, high = max(first, begin), min(first + len(selection.out), begin + n)
            if low < high:
                variable.SetBlockSelection(block)
                yield (low - begin, *rest), selection.out[low - first : high - first]

    def _boxes(self, name: str, step: int) -> list[tuple[Shape, Shape]]:
        """Return (start, shape) of the blocks of an array. The blocks of a local array follow each other."""
        listed = self._engine.BlocksInfo(name, step)
        boxes = [tuple(tuple(map(int, b[key].split(","))) for key in ("Start", "Count")) for b in listed]
        if self._io.InquireVariable(name).ShapeID() != self._bindings.ShapeID.LocalArray:
            return [(start, shape) for start, shape in boxes]
        ends = np.cumsum([0] + [shape[0] for _, shape in boxes]).tolist()
        return [((begin, *(0,) * (len(shape) - 1)), shape) for begin, (_, shape) in zip(ends, boxes)]

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        with self._lock, self._errors():
            if self._engine is None:
                self._open()
            boxes = self._boxes(name, step)
        return [StoredBlock(start, shape, self._digest(name, step, start, shape)) for start, shape in boxes]

    def _digest(self, name: str, step: int, start: Shape, shape: Shape) -> str | None:
        dtype = self.contents.arrays[name].dtype
        values = xxhash.xxh3_64()
        for z0, z1 in slabs(shape, dtype.itemsize):
            slab = np.empty((z1 - z0, *shape[1:]), dtype)
            try:
                self.read(name, [Selection(step, (start[0] + z0, *start[1:]), slab)])
            except OutputError:
                return None
            values.update(slab.data)
        return str(values.hexdigest())

    def _release(self) -> None:
        """Close the files. ADIOS2's own Close would also leave a file with times of each reader in /tmp."""
        self._engine = self._io = None
        self._adios.RemoveIO("input")

    def close(self) -> None:
        with self._lock, self._errors():
            if self._engine is not None:
                self._release()


class IsolatedEngine:
    """Reads like `BPEngine`, but in a child process; if that dies, a method raises OutputError."""

    def __init__(self, path: Path, folder: Path, steps: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._opened = path, folder.absolute(), steps
        self.contents: Contents = self._start()

    def _start(self) -> Any:
        environment = os.environ | _SERIAL | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", "from ridgeline.io.bp_reader import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self._end = weakref.finalize(self, _end, self._child)
        self._requests, self._answers = (
            cast(IO[bytes], self._child.stdin),
            cast(IO[bytes], self._child.stdout),
        )
        return self._ask(*self._opened)

    def _ask(self, *request: Any) -> Any:
        try:
            pickle.dump(request, self._requests)
            self._requests.flush()
            answer = pickle.load(self._answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end()
            code = self._child.returncode
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise OutputError(
                f"cannot read the data set {self._path}: ADIOS2 crashed while reading it ({how}), so it is damaged. "
                f"Restore it from a copy, or run again."
            ) from None
        if isinstance(answer, OutputError):
            raise answer
        return answer

    def read(self, name: str, selections: Iterable[Selection]) -> None:
        with self._lock:
            self._reopen()
            for selection in selections:
                rest = selection.start[1:]
                for z0, z1 in slabs(selection.out.shape, selection.out.itemsize):
                    box = (selection.start[0] + z0, *rest), (z1 - z0, *selection.out.shape[1:])
                    selection.out[z0:z1] = self._ask("read", name, selection.step, *box)

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        with self._lock:
            self._reopen()
            blocks: list[StoredBlock] = self._ask("blocks", name, step)
            return blocks

    def _reopen(self) -> None:
        if not self._end.alive:
            self._start()

    def close(self) -> None:
        with self._lock:
            self._end()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe:
            with contextlib.suppress(OSError):  # for data that were not sent to a dead child
                pipe.close()


def serve() -> None:
    """Answer the requests on the standard input until it ends: the main program of the child process."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that output of ADIOS2 is not mistaken for an answer
    engine: BPEngine | None = None
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        answer: Any
        try:
            if engine is None:
                engine = BPEngine(*request)
                answer = engine.contents
            elif request[0] == "blocks":
                answer = engine.blocks(*request[1:])
            else:
                _, name, step, start, shape = request
                answer = np.empty(shape, engine.contents.arrays[name].dtype)
                engine.read(name, [Selection(step, start, answer)])
        except OutputError as error:
            answer = error
        pickle.dump(answer, answers, protocol=5)
        answers.flush()
