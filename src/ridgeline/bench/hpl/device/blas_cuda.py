"""Products of matrices in device memory, and their rate. No other file knows the library that computes them.

On a GPU the products are those of cuBLAS, through the bindings of nvmath-python. In numba-cuda's simulator NumPy
computes them. Matrices are column-major, float64 or float32. Factors of a float32 product may have 16 bits, float16
or bfloat16: products are then accumulated in float32. float32 is never shortened to TF32.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np
from mpi4py import MPI
from numba import cuda
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from ridgeline.bench.hpl import blas
from ridgeline.bench.hpl.record import Numbers
from ridgeline.jit.cuda_device import SIMULATED, make_stream
from ridgeline.parallel.allreduce import allreduce_max, errors_on_all_ranks
from ridgeline.parallel.devices import require_device_memory, select_device
from ridgeline.runtime.device_errors import device_errors_explained
from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.extras import import_extra

Narrow = Literal["float16", "bfloat16"]
# Order of the products that are timed. A product takes ten milliseconds, a launch microseconds.
ORDER = 64 if SIMULATED else 8192
_REPEATS, _PRODUCTS = 5, 1 if SIMULATED else 4  # timed repeats, and products in each
_TYPES = {"float32": 0, "float16": 2, "bfloat16": 14}  # values of cudaDataType_t


@dataclass(frozen=True)
class DeviceBlock:
    """A column-major matrix: number (i, j) is number `offset` + i + `pitch` j of a flat device array.

    array: float64 or float32, or uint16 with the bits of a format `narrow`.
    """

    array: Any
    offset: int
    pitch: int
    rows: int
    columns: int
    narrow: Narrow | None = None

    def part(self, row: int, column: int, rows: int, columns: int) -> DeviceBlock:
        """Return the block of these sizes that begins at (row, column)."""
        offset = self.offset + row + self.pitch * column
        return replace(self, offset=offset, rows=rows, columns=columns)

    @property
    def empty(self) -> bool:
        """Whether the matrix has no numbers."""
        return self.rows == 0 or self.columns == 0


class DeviceBlas(ABC):
    """Products and solves on a device, launched on a stream. Calls with an empty block do nothing."""

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

    def solve_lower(self, triangle: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        """Compute out <- L^-1 out, float32; L: the unit lower triangle of triangle [k, k]. out [k, n]."""
        if not out.empty:
            self._solve(triangle, out, stream, lower=True)

    def solve_upper_from_right(self, triangle: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        """Compute out <- out U^-1, float32; U: the upper triangle of triangle [k, k]. out [m, k]."""
        if not out.empty:
            self._solve(triangle, out, stream, lower=False)

    @abstractmethod
    def free(self) -> None:
        """Free the resources of the library. The object cannot be used afterwards."""

    @abstractmethod
    def _multiply(
        self, factor: float, left: DeviceBlock, right: DeviceBlock, kept: float, out: DeviceBlock, stream: Any
    ) -> None:
        """Compute out <- kept out + factor left right. With kept = 0, out is not read."""

    @abstractmethod
    def _multiply_vector(self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        """Compute out <- out - left x."""

    @abstractmethod
    def _solve(self, triangle: DeviceBlock, out: DeviceBlock, stream: Any, *, lower: bool) -> None:
        """Solve with the unit lower triangle from the left, or with the upper one from the right."""


def make_blas() -> DeviceBlas:
    """Return the products on the current device. Raises DeviceError if the library is missing or does not start."""
    return _NumpyBlas() if simulated() else _Cublas()


class _NumpyBlas(DeviceBlas):
    """The substitute for cuBLAS where devices are simulated."""

    def free(self) -> None:
        """Do nothing, because there is nothing to free."""

    def _multiply(
        self, factor: float, left: DeviceBlock, right: DeviceBlock, kept: float, out: DeviceBlock, stream: Any
    ) -> None:
        product = factor * (_numbers(left) @ _numbers(right))
        if kept:
            product += kept * _view(out)
        _view(out)[...] = product

    def _multiply_vector(self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        self._multiply(-1.0, left, x, 1.0, out, stream)

    def _solve(self, triangle: DeviceBlock, out: DeviceBlock, stream: Any, *, lower: bool) -> None:
        solve = blas.solve_lower if lower else blas.solve_upper_from_right
        solve(_view(triangle), _view(out))


def _numbers(block: DeviceBlock) -> NDArray[Any]:
    """Return the numbers of a block of a simulated device, 16-bit formats as float32."""
    bits = _view(block)
    if block.narrow == "float16":
        return bits.copy().view(np.float16).astype(np.float32)
    if block.narrow == "bfloat16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return bits


def _view(block: DeviceBlock) -> NDArray[Any]:
    """Return a view of a block of a simulated device."""
    flat = block.array._ary
    last = block.offset + block.rows - 1 + block.pitch * (block.columns - 1)
    if block.pitch < block.rows or last >= flat.size:
        raise IndexError(
            f"a block of pitch {block.pitch} ends at number {last} of an array of {flat.size} numbers"
        )
    item = flat.itemsize
    return as_strided(flat[block.offset :], (block.rows, block.columns), (item, item * block.pitch))


class _Cublas(DeviceBlas):
    """A handle of cuBLAS. Scalar factors are in host memory, where cuBLAS expects them by default."""

    def __init__(self) -> None:
        self._cublas = _bindings()
        self._no = int(self._cublas.Operation.N)
        self._numbers = {
            kind: {value: number(value) for value in (-1.0, 0.0, 1.0)}
            for kind, number in (("float64", ctypes.c_double), ("float32", ctypes.c_float))
        }
        with self._explained("cannot start"):
            self._handle = self._cublas.create()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._cublas.cuBLASError as error:
            raise DeviceError(f"cuBLAS {what} ({error}). Use a smaller --order, or --device cpu.") from error

    def free(self) -> None:
        self._cublas.destroy(self._handle)

    def _factor(self, value: float, kind: str) -> int:
        return ctypes.addressof(self._numbers[kind][value])

    def _multiply(
        self, factor: float, left: DeviceBlock, right: DeviceBlock, kept: float, out: DeviceBlock, stream: Any
    ) -> None:
        kind = _kind(out)
        sizes = out.rows, out.columns, left.columns
        by, keeping = self._factor(factor, kind), self._factor(kept, kind)
        with self._explained(f"cannot multiply {left.rows} x {left.columns} x {out.columns}"):
            self._cublas.set_stream(self._handle, int(stream))
            if kind == "float64":
                self._cublas.dgemm(
                    self._handle,
                    self._no,
                    self._no,
                    *sizes,
                    by,
                    _address(left),
                    left.pitch,
                    _address(right),
                    right.pitch,
                    keeping,
                    _address(out),
                    out.pitch,
                )
            else:
                self._cublas.gemm_ex(
                    self._handle,
                    self._no,
                    self._no,
                    *sizes,
                    by,
                    _address(left),
                    _TYPES[_kind(left)],
                    left.pitch,
                    _address(right),
                    _TYPES[_kind(right)],
                    right.pitch,
                    keeping,
                    _address(out),
                    _TYPES[kind],
                    out.pitch,
                    int(self._cublas.ComputeType.COMPUTE_32F),
                    int(self._cublas.GemmAlgo.DEFAULT),
                )

    def _multiply_vector(self, left: DeviceBlock, x: DeviceBlock, out: DeviceBlock, stream: Any) -> None:
        kind = _kind(out)
        multiply = self._cublas.dgemv if kind == "float64" else self._cublas.sgemv
        with self._explained(f"cannot multiply {left.rows} x {left.columns} by a vector"):
            self._cublas.set_stream(self._handle, int(stream))
            multiply(
                self._handle,
                self._no,
                left.rows,
                left.columns,
                self._factor(-1.0, kind),
                _address(left),
                left.pitch,
                _address(x),
                1,
                self._factor(1.0, kind),
                _address(out),
                1,
            )

    def _solve(self, triangle: DeviceBlock, out: DeviceBlock, stream: Any, *, lower: bool) -> None:
        cublas = self._cublas
        side = cublas.SideMode.LEFT if lower else cublas.SideMode.RIGHT
        half = cublas.FillMode.LOWER if lower else cublas.FillMode.UPPER
        diagonal = cublas.DiagType.UNIT if lower else cublas.DiagType.NON_UNIT
        with self._explained(f"cannot solve for {out.rows} x {out.columns}"):
            cublas.set_stream(self._handle, int(stream))
            cublas.strsm(
                self._handle,
                int(side),
                int(half),
                self._no,
                int(diagonal),
                out.rows,
                out.columns,
                self._factor(1.0, "float32"),
                _address(triangle),
                triangle.pitch,
                _address(out),
                out.pitch,
            )


def _kind(block: DeviceBlock) -> str:
    return block.narrow or str(block.array.dtype)


def _address(block: DeviceBlock) -> int:
    array = block.array
    return int(array.__cuda_array_interface__["data"][0]) + int(array.dtype.itemsize) * block.offset


def _bindings() -> Any:
    """Return nvmath's bindings of cuBLAS; DeviceError if they or the library are missing."""
    return import_extra("nvmath.bindings.cublas", "cuBLAS", error=DeviceError, probe="get_cudart_version")


def device_product_rate(
    comm: MPI.Comm,
    width: int | None = None,
    numbers: Numbers = "float64",
) -> float:
    """Return the FLOP/s of matrix products on all devices, the best of the repeats. Collective over comm.

    Each device subtracts products of [ORDER, width] by [width, ORDER] from a matrix. The time of a repeat is that of
    its slowest rank. The result is the same on all ranks.

    Parameters
    ----------
    width : ORDER if not given, which gives the rate of DGEMM
    numbers : format of the factors; products of less than 64 bits are accumulated in float32

    Raises
    ------
    DeviceError : as `DeviceSystem` does
    """
    width = width or ORDER
    device = select_device(comm)
    with errors_on_all_ranks(comm):
        blas = make_blas()
    narrow: Narrow | None = numbers if numbers in ("float16", "bfloat16") else None
    values = np.random.default_rng(0).random(ORDER * width)
    factor = values.astype(numbers) if narrow is None else _bits(values, narrow)
    zeros = np.zeros(ORDER * ORDER, np.float64 if numbers == "float64" else np.float32)
    parts = {"matrices of products": float(zeros.nbytes + 2 * factor.nbytes)}
    require_device_memory(comm, device, parts, "stop other programs that use its memory")
    best = np.inf
    with device_errors_explained():
        stream = make_stream()
        left, right = (cuda.to_device(factor, stream=stream) for _ in range(2))
        out = cuda.to_device(zeros, stream=stream)
        factors = (
            DeviceBlock(left, 0, ORDER, ORDER, width, narrow),
            DeviceBlock(right, 0, width, width, ORDER, narrow),
        )
        for _ in range(_REPEATS):
            comm.Barrier()
            start = perf_counter()
            for _ in range(_PRODUCTS):
                blas.subtract_product(*factors, DeviceBlock(out, 0, ORDER, ORDER, ORDER), stream)
            stream.synchronize()
            best = min(best, float(allreduce_max(comm, perf_counter() - start)))
        blas.free()
    return 2.0 * _PRODUCTS * ORDER * ORDER * width * comm.size / best


def _bits(values: NDArray[np.float64], narrow: Narrow) -> NDArray[np.uint16]:
    """Return the bits of numbers of a narrow format, which may be rounded in any way here."""
    if narrow == "float16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
