"""Batches of one-dimensional Fourier transforms in device memory. This is the one file that knows cuFFT.

On a GPU the transforms are cuFFT's, through the bindings of nvmath-python. They take plans of any strides, 64-bit
sizes, a stream, and one work area that all plans share. In numba-cuda's simulator NumPy transforms the same places.
Results are not scaled: there and back multiplies by the number of points. No communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from ridgeline.runtime.devices import simulated
from ridgeline.runtime.errors import DeviceError
from ridgeline.runtime.extras import import_extra

Kind = Literal["complex", "real forward", "real inverse"]
_NAMES = {
    ("complex", 8): "Z2Z",
    ("real forward", 8): "D2Z",
    ("real inverse", 8): "Z2D",
    ("complex", 4): "C2C",
    ("real forward", 4): "R2C",
    ("real inverse", 4): "C2R",
}
_FORWARD, _INVERSE = -1, 1  # cuFFT's directions


@dataclass(frozen=True)
class Spacing:
    """Where the numbers of a batch lie: number i of transform b at `stride` i + `distance` b.

    Both are counted in the numbers of that side of the transform, which are real or complex.
    """

    stride: int
    distance: int


def make_plan(
    kind: Kind, n: int, count: int, source: Spacing, target: Spacing, dtype: DTypeLike
) -> DevicePlan:
    """Return the plan of `count` transforms of n points on the current device; dtype is float64 or float32.

    Raises DeviceError if the library is not installed, does not load, or cannot make the plan.
    """
    real = np.dtype(dtype)
    if simulated():
        return _NumpyPlan(kind, n, count, source, target, real)
    return _CufftPlan(kind, n, count, source, target, real)


class DevicePlan(Protocol):
    """Transforms of one kind and size. work_bytes: memory that `run` needs beside its arrays."""

    work_bytes: int

    def use_work(self, work: Any) -> None:
        """Set the device array to work in, of at least `work_bytes`. Runs that share one must not overlap."""

    def run(self, source: Any, target: Any, stream: Any, inverse: bool = False) -> None:
        """Put the transforms on a stream; source and target: flat device arrays of real numbers, or one array twice.

        inverse: whether a complex transform has the exponent +i; the direction of a real one is part of its kind.
        """


class _NumpyPlan:
    """NumPy in place of cuFFT, where kernels are simulated."""

    work_bytes = 0

    def __init__(
        self, kind: Kind, n: int, count: int, source: Spacing, target: Spacing, dtype: np.dtype[Any]
    ) -> None:
        self._kind, self._n, self._count, self._dtype = kind, n, count, dtype
        self._complex = np.result_type(dtype, np.complex64)
        modes = n if kind == "complex" else n // 2 + 1
        self._source: tuple[np.dtype[Any], int, Spacing] = (self._complex, modes, source)
        self._target: tuple[np.dtype[Any], int, Spacing] = (self._complex, modes, target)
        if kind == "real forward":
            self._source = (dtype, n, source)
        if kind == "real inverse":
            self._target = (dtype, n, target)

    def _view(self, array: Any, side: tuple[np.dtype[Any], int, Spacing]) -> NDArray[Any]:
        """Return the numbers of a simulated device array as [transform, number]."""
        dtype, n, spacing = side
        flat = array._ary.view(dtype)
        last = (n - 1) * spacing.stride + (self._count - 1) * spacing.distance
        if last >= flat.size:
            raise IndexError(f"the plan reads element {last} of an array of {flat.size} elements")
        steps = spacing.distance * dtype.itemsize, spacing.stride * dtype.itemsize
        return as_strided(flat, (self._count, n), steps)

    def use_work(self, work: Any) -> None:
        """Do nothing: NumPy allocates its work area."""

    def run(self, source: Any, target: Any, stream: Any, inverse: bool = False) -> None:
        """Transform at once."""
        numbers = self._view(source, self._source)
        transformed: NDArray[Any]
        if self._kind == "real forward":
            transformed = np.fft.rfft(numbers)
        elif self._kind == "real inverse":
            transformed = np.fft.irfft(numbers, self._n, norm="forward")
        elif inverse:
            transformed = np.fft.ifft(numbers, norm="forward")
        else:
            transformed = np.fft.fft(numbers)
        self._view(target, self._target)[...] = transformed


class _CufftPlan:
    """A plan of cuFFT."""

    def __init__(
        self, kind: Kind, n: int, count: int, source: Spacing, target: Spacing, dtype: np.dtype[Any]
    ) -> None:
        self._cufft = _bindings()
        self._kind = kind
        name = _NAMES[kind, dtype.itemsize]
        try:
            self._plan = self._cufft.create()
            self._cufft.set_auto_allocation(self._plan, 0)
            # In one dimension the extents of the embedding arrays mean nothing, but must be given.
            self.work_bytes = int(
                self._cufft.make_plan_many64(
                    self._plan,
                    1,
                    [n],
                    [n],
                    source.stride,
                    source.distance,
                    [n],
                    target.stride,
                    target.distance,
                    int(self._cufft.Type[name]),
                    count,
                )
            )
        except self._cufft.cuFFTError as error:
            raise DeviceError(
                f"cuFFT cannot plan {count} transforms {name} of {n} points ({error}). Use another grid.shape."
            ) from error
        self._run = getattr(self._cufft, f"exec_{name.lower()}")

    def use_work(self, work: Any) -> None:
        self._work = work  # lives as long as the plan
        self._cufft.set_work_area(self._plan, _address(work))

    def run(self, source: Any, target: Any, stream: Any, inverse: bool = False) -> None:
        self._cufft.set_stream(self._plan, int(stream))
        direction = (_INVERSE if inverse else _FORWARD,) if self._kind == "complex" else ()
        self._run(self._plan, _address(source), _address(target), *direction)


def _address(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def _bindings() -> Any:
    """Return nvmath's bindings of cuFFT; DeviceError if they or the library are missing."""
    return import_extra("nvmath.bindings.cufft", "cuFFT", error=DeviceError, probe="get_version")
