"""Reading a BP5 data set: what is in it, and pieces of its arrays. Serial; needs no MPI."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.io import bp_files
from ridgeline.io.bp import adios2_errors, load_bindings
from ridgeline.io.bp_blocks import Shape
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
    """A global array, the same at every step."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape


@dataclass(frozen=True)
class Piece:
    """A box of one array at one output step, and where it goes: a contiguous array of the box's shape."""

    step: int
    start: Shape
    out: NDArray[Any]


class BPReader:
    """Reads the output steps that are whole, also while a run is writing the data set at `path`.

    arrays: global arrays by name; scalars: values per step by name (`step`, `time`); attributes: as written,
    those of one array (units) under its name in `array_attributes`; attribute_types: dtypes of all under their
    full names, str for text. Opening reads metadata only.

    Raises OutputError if `path` is not a BP5 data set, holds no whole step, or is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()  # ADIOS2's engines are for one thread at a time
        index = bp_files.read_index(self.path)
        bp_files.check(self.path, index)
        if not index.steps:
            raise OutputError(f"the data set {self.path} holds no whole output step yet; wait for the first")
        self.steps = len(index.steps)
        self._bindings = load_bindings()
        self._engine: Any = None
        with self._errors():
            self._adios = self._bindings.ADIOS()
            self._open()
            self._read_contents()

    def _open(self) -> None:
        self._io = self._adios.DeclareIO("input")
        self._io.SetEngine("BP5")
        # The POSIX transport waits for ever for data that a killed writer never wrote; this one raises.
        self._io.AddTransport("File", {"Library": "stdio"})
        # Steps that a run has written since the index was checked are for the next reader.
        self._io.SetParameters({"SelectSteps": f"0:{self.steps - 1}"})
        self._engine = self._io.Open(str(self.path), self._bindings.Mode.ReadRandomAccess)

    def _errors(self) -> Any:
        return adios2_errors(
            f"read the data set {self.path}",
            "it may be damaged, or compressed with an operator that this ADIOS2 lacks",
        )

    def _read_contents(self) -> None:
        self.arrays: dict[str, StoredArray] = {}
        self.scalars: dict[str, NDArray[Any]] = {}
        self.attributes: dict[str, Any] = {}
        self.array_attributes: dict[str, dict[str, Any]] = {}
        self.attribute_types: dict[str, np.dtype[Any]] = {}
        attributes = set(self._io.AvailableAttributes("", "/"))
        for name in self._io.AvailableVariables():
            variable = self._io.InquireVariable(name)
            dtype, kind = DTYPES.get(variable.Type()), variable.ShapeID()
            known = kind in (self._bindings.ShapeID.GlobalArray, self._bindings.ShapeID.GlobalValue)
            steps = 1 if f"{name}/once" in attributes else self.steps
            if dtype is None or not known or variable.Steps() != steps:
                warnings.warn(
                    f"{self.path}: {name} is left out, it is not a number or array of every step",
                    stacklevel=4,
                )
            elif kind == self._bindings.ShapeID.GlobalValue:
                values = np.empty(self.steps, dtype)
                variable.SetStepSelection((0, self.steps))
                self._engine.Get(variable, values, self._bindings.Mode.Sync)
                self.scalars[name] = values
            else:
                self.arrays[name] = StoredArray(name, np.dtype(dtype), tuple(variable.Shape()))
        for name in self._io.AvailableAttributes("", "/"):
            owner, _, key = name.rpartition("/")
            place = self.array_attributes.setdefault(owner, {}) if owner in self.arrays else self.attributes
            place[key if owner in self.arrays else name] = self._attribute(name)
            self.attribute_types[name] = np.dtype(
                DTYPES.get(self._io.InquireAttribute(name, "", "/").Type(), str)
            )

    def _attribute(self, name: str) -> Any:
        attribute = self._io.InquireAttribute(name, "", "/")
        if attribute.Type() == "string":
            values = attribute.DataString()
            return values[0] if attribute.SingleValue() else list(values)
        data = np.array(attribute.Data())
        return data.reshape(-1)[0].item() if attribute.SingleValue() else data

    def read(self, name: str, pieces: Iterable[Piece]) -> None:
        """Fill the pieces of array `name`. All are read in one go, by several threads of ADIOS2.

        Raises OutputError if the data cannot be read.
        """
        wanted = list(pieces)
        stored = self.arrays[name]
        if any(not piece.out.flags.c_contiguous or piece.out.dtype != stored.dtype for piece in wanted):
            raise ValueError(f"{name} can be read into contiguous arrays of {stored.dtype} only")
        with self._lock, self._errors():
            if self._engine is None:
                self._open()
            try:
                variable = self._io.InquireVariable(name)
                for piece in wanted:
                    variable.SetStepSelection((piece.step, 1))
                    variable.SetSelection((list(piece.start), list(piece.out.shape)))
                    self._engine.Get(variable, piece.out, self._bindings.Mode.Deferred)
                self._engine.PerformGets()
            except Exception:
                self._drop()  # it would fill `wanted` at the next call, when the arrays may be gone
                raise

    def _drop(self) -> None:
        self._engine = self._io = None
        self._adios.RemoveIO("input")

    def close(self) -> None:
        """Release the files; a later `read` opens them again."""
        with self._lock, self._errors():
            if self._engine is not None:
                self._engine.Close()
                self._drop()

    def __enter__(self) -> BPReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return BPReader, (self.path,)  # a process that gets a copy opens the data set itself
