"""ADIOS2's engine that reads a BP5 data set: what is in it, pieces of its arrays, checksums of its blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from ridgeline.io.adios2_bindings import adios2_errors, load_bindings
from ridgeline.io.bp_blocks import Shape, slabs
from ridgeline.io.viewer_schemas import CELLS
from ridgeline.runtime.errors import OutputError

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


@dataclass(frozen=True)
class StoredArray:
    """An array with the same shape at every step. by_block: stored as ADIOS2's local arrays, see `BPWriter`."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape
    by_block: bool = False


@dataclass(frozen=True)
class Selection:
    """A box of one array at one output step, and where it goes: a contiguous array of the box's shape."""

    step: int
    start: Shape
    out: NDArray[Any]


@dataclass(frozen=True)
class StoredBlock:
    """A box of one array as it was written, and the checksum of its values now, None if they cannot be read."""

    start: Shape
    shape: Shape
    digest: str | None


@dataclass(frozen=True)
class Contents:
    """What a data set holds beside the values of its arrays; see BPReader. left_out: names of what is not read."""

    arrays: dict[str, StoredArray] = field(default_factory=dict)
    scalars: dict[str, NDArray[Any]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    array_attributes: dict[str, dict[str, Any]] = field(default_factory=dict)
    attribute_types: dict[str, np.dtype[Any]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class BPEngine:
    """Reads the first output steps of a data set.

    path: the data set, for messages. folder: where its files are. steps: how many.

    Raises OutputError where ADIOS2 says that it cannot. On damaged metadata ADIOS2 may as well end the process:
    then use `bp_isolated.IsolatedEngine`.
    """

    def __init__(self, path: Path, folder: Path, steps: int) -> None:
        self._path, self._folder, self._steps = path, folder, steps
        self._lock = threading.Lock()  # ADIOS2's engines are for one thread at a time
        self._bindings = load_bindings()
        self._engine: Any = None
        with self._errors():
            self._adios = self._bindings.ADIOS()
            self._open()
            self.contents = self._read_contents()

    def _open(self) -> None:
        self._io = self._adios.DeclareIO("input")
        self._io.SetEngine("BP5")
        # The POSIX transport waits for ever for data that a killed writer never wrote; this one raises.
        self._io.AddTransport("File", {"Library": "stdio"})
        # Steps that a run has written since the index was checked are for the next reader.
        self._io.SetParameters({"SelectSteps": f"0:{self._steps - 1}"})
        self._engine = self._io.Open(str(self._folder), self._bindings.Mode.ReadRandomAccess)

    def _errors(self) -> Any:
        return adios2_errors(
            f"read the data set {self._path}",
            "it may be damaged, or compressed with an operator that this ADIOS2 lacks",
        )

    def _read_contents(self) -> Contents:
        found = Contents()
        attributes = set(self._io.AvailableAttributes("", "/"))
        for name in self._io.AvailableVariables():
            variable = self._io.InquireVariable(name)
            dtype, kind = DTYPES.get(variable.Type()), variable.ShapeID()
            of_array = (self._bindings.ShapeID.GlobalArray, self._bindings.ShapeID.LocalArray)
            known = kind in (*of_array, self._bindings.ShapeID.GlobalValue)
            if name in CELLS and kind == self._bindings.ShapeID.LocalArray:
                continue  # for ParaView
            steps = 1 if f"{name}/once" in attributes else self._steps
            if dtype is None or not known or variable.Steps() != steps:
                found.left_out.append(name)
            elif kind == self._bindings.ShapeID.GlobalValue:
                values = np.empty(self._steps, dtype)
                variable.SetStepSelection((0, self._steps))
                self._engine.Get(variable, values, self._bindings.Mode.Sync)
                found.scalars[name] = values
            elif kind == self._bindings.ShapeID.LocalArray:
                boxes = self._boxes(name, 0)
                shape = (sum(n for _, (n, *_) in boxes), *boxes[0][1][1:])
                found.arrays[name] = StoredArray(name, np.dtype(dtype), shape, True)
            else:
                found.arrays[name] = StoredArray(name, np.dtype(dtype), tuple(variable.Shape()))
        for name in self._io.AvailableAttributes("", "/"):
            owner, _, key = name.rpartition("/")
            if owner in found.arrays or owner in found.scalars:
                found.array_attributes.setdefault(owner, {})[key] = self._attribute(name)
            else:
                found.attributes[name] = self._attribute(name)
            kind = self._io.InquireAttribute(name, "", "/").Type()
            found.attribute_types[name] = np.dtype(DTYPES.get(kind, str))
        return found

    def _attribute(self, name: str) -> Any:
        attribute = self._io.InquireAttribute(name, "", "/")
        if attribute.Type() == "string":
            values = attribute.DataString()
            return values[0] if attribute.SingleValue() else list(values)
        data = np.array(attribute.Data())
        return data.reshape(-1)[0].item() if attribute.SingleValue() else data

    def read(self, name: str, pieces: Iterable[Selection]) -> None:
        """Fill the pieces of array `name`. All are read in one go, by several threads of ADIOS2."""
        with self._lock, self._errors():
            if self._engine is None:
                self._open()
            try:
                variable = self._io.InquireVariable(name)
                for piece in pieces:
                    variable.SetStepSelection((piece.step, 1))
                    for start, out in self._selected(name, variable, piece):
                        variable.SetSelection((list(start), list(out.shape)))
                        self._engine.Get(variable, out, self._bindings.Mode.Deferred)
                self._engine.PerformGets()
            except Exception:
                self._drop()  # it would fill the pieces at the next call, when the arrays may be gone
                raise

    def _selected(self, name: str, variable: Any, piece: Selection) -> Iterator[tuple[Shape, NDArray[Any]]]:
        """Yield places in what ADIOS2 selects from, the array or block after block, and parts of the piece."""
        if not self.contents.arrays[name].by_block:
            yield piece.start, piece.out
            return
        first, rest = piece.start[0], piece.start[1:]
        for block, ((begin, *_), (n, *_)) in enumerate(self._boxes(name, piece.step)):
            low, high = max(first, begin), min(first + len(piece.out), begin + n)
            if low < high:
                variable.SetBlockSelection(block)
                yield (low - begin, *rest), piece.out[low - first : high - first]

    def _boxes(self, name: str, step: int) -> list[tuple[Shape, Shape]]:
        """Return start and shape of the blocks of an array; those of a local array follow each other."""
        listed = self._engine.BlocksInfo(name, step)
        boxes = [tuple(tuple(map(int, b[key].split(","))) for key in ("Start", "Count")) for b in listed]
        if self._io.InquireVariable(name).ShapeID() != self._bindings.ShapeID.LocalArray:
            return [(start, shape) for start, shape in boxes]
        ends = np.cumsum([0] + [shape[0] for _, shape in boxes]).tolist()
        return [((begin, *(0,) * (len(shape) - 1)), shape) for begin, (_, shape) in zip(ends, boxes)]

    def blocks(self, name: str, step: int) -> list[StoredBlock]:
        """Return the blocks of array `name` at an output step, in the order in which they were written."""
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

    def _drop(self) -> None:
        """Release the files. ADIOS2's own Close would also leave its times of each reader in /tmp."""
        self._engine = self._io = None
        self._adios.RemoveIO("input")

    def close(self) -> None:
        """Release the files; a later `read` opens them again."""
        with self._lock, self._errors():
            if self._engine is not None:
                self._drop()
