"""Products of matrices in device memory: the one file that knows a library for them.

On a GPU the products are cuBLAS's, through the bindings of nvmath-python. In numba-cuda's simulator NumPy multiplies
in the same places. Matrices are float64 and column-major. No communication.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError

INSTALL_CUBLAS = 'pip install "ridgeline[cuda,cublas]"'
_ITEM = 8  # bytes of a number


@dataclass(frozen=True)
class DeviceBlock:
    """A column-major matrix: number (i, j) is number `offset` + i + `pitch` j of a flat device array of float64."""

    array: Any
    offset: int
    pitch: int
    rows: int
    columns: int

    def part(self, row: int, column: int, rows: int, columns: int) -> DeviceBlock:
        """Return the block of these sizes that begins at (row, column)."""
        return DeviceBlock(self.array, self.offset + row + self.pitch * column, self.pitch, rows, columns)

    @property
    def empty(self) -> bool:
        """Whether it has no numbers."""
        return self.rows == 0 or self.columns == 0


class DeviceBlas(ABC):
    """What both kinds have. Calls put the work on a stream; blocks without numbers are left out."""

    def subtract_product(self, left: DeviceBlock, right: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        """Compute out <- out - left right. left [m, k], right [k, n], out [m, n]."""
        if not (left.empty or out.empty):
            self._multiply(-1.0, left, right, 1.0, out, stream)

    def assign_product(self, left: DeviceBlock, right: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        """Compute out <- left right. left [m, k], right [k, n], out [m, n], k > 0."""
        if not out.empty:
            self._multiply(1.0, left, right, 0.0, out, stream)

    def subtract_product_of_vector(
        self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any
    ) -> None:
        """Compute out <- out - left x. left [m, k], x [k, 1], out [m, 1]."""
        if not left.empty:
            self._multiply_vector(left, x, out, stream)

    @abstractmethod
    def free(self) -> None:
        """Give back what the library holds; not usable afterwards."""

    @abstractmethod
    def _multiply(
        self, factor: float, left: DeviceBlock, right: DeviceBlock, kept: float, out: DeviceBlock, stream: Any
    ) -> None:
        """Compute out <- kept out + factor left right. With kept = 0, out is not read."""

    @abstractmethod
    def _multiply_vector(self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        """Compute out <- out - left x."""


def make_blas() -> DeviceBlas:
    """Return the products on the current device. Raises DeviceError if the library is missing or does not begin."""
    return _NumpyBlas() if simulated() else _Cublas()


class _NumpyBlas(DeviceBlas):
    """Stands in for cuBLAS where devices are simulated."""

    def free(self) -> None:
        """Do nothing: nothing is held."""

    def _multiply(
        self, factor: float, left: DeviceBlock, right: DeviceBlock, kept: float, out: DeviceBlock, stream: Any
    ) -> None:
        product = factor * (_view(left) @ _view(right))
        if kept:
            product += kept * _view(out)
        _view(out)[...] = product

    def _multiply_vector(self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        self._multiply(-1.0, left, x, 1.0, out, stream)


def _view(block: DeviceBlock) -> NDArray[np.float64]:
    """Return a block of a simulated device."""
    flat = block.array._ary
    last = block.offset + block.rows - 1 + block.pitch * (block.columns - 1)
    if block.pitch < block.rows or last >= flat.size:
        raise IndexError(f"a block of pitch {block.pitch} reaches number {last} of an array of {flat.size}")
    return as_strided(flat[block.offset :], (block.rows, block.columns), (_ITEM, _ITEM * block.pitch))


class _Cublas(DeviceBlas):
    """A handle of cuBLAS. Factors lie on the host, where cuBLAS looks for them unless told otherwise."""

    def __init__(self) -> None:
        self._cublas = _bindings()
        self._no = int(self._cublas.Operation.N)
        self._numbers = {value: ctypes.c_double(value) for value in (-1.0, 0.0, 1.0)}
        with self._explained("begins not"):
            self._handle = self._cublas.create()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._cublas.cuBLASError as error:
            raise DeviceError(f"cuBLAS {what} ({error}); use a smaller --n, or --device cpu") from error

    def free(self) -> None:
        """Destroy the handle."""
        self._cublas.destroy(self._handle)

    def _factor(self, value: float) -> int:
        return ctypes.addressof(self._numbers[value])

    def _multiply(
        self, factor: float, left: DeviceBlock, right: DeviceBlock, kept: float, out: DeviceBlock, stream: Any
    ) -> None:
        with self._explained(f"multiplies not {left.rows} x {left.columns} x {out.columns}"):
            self._cublas.set_stream(self._handle, int(stream))
            self._cublas.dgemm(
                self._handle, self._no, self._no, out.rows, out.columns, left.columns,
                self._factor(factor), _address(left), left.pitch, _address(right), right.pitch,
                self._factor(kept), _address(out), out.pitch,
            )  # fmt: skip

    def _multiply_vector(self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        with self._explained(f"multiplies not {left.rows} x {left.columns} by a vector"):
            self._cublas.set_stream(self._handle, int(stream))
            self._cublas.dgemv(
                self._handle, self._no, left.rows, left.columns, self._factor(-1.0), _address(left), left.pitch,
                _address(x), 1, self._factor(1.0), _address(out), 1,
            )  # fmt: skip


def _address(block: DeviceBlock) -> int:
    return int(block.array.__cuda_array_interface__["data"][0]) + _ITEM * block.offset


def _bindings() -> Any:
    """Return nvmath's bindings of cuBLAS; DeviceError if they or the library are missing."""
    try:
        bindings = import_module("nvmath.bindings.cublas")
        bindings.get_cudart_version()
    except ImportError as error:
        raise DeviceError(
            f"nvmath-python, which calls cuBLAS, does not load ({error}); {INSTALL_CUBLAS}"
        ) from error
    except Exception as error:  # nvmath has errors of its own, without a common class, for what does not load
        raise DeviceError(f"the library cuBLAS does not load ({error}); {INSTALL_CUBLAS}") from error
    return bindings
