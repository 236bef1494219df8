"""The Gray-Scott sweeps written in C, on the same arrays as ours, and the check that they solve the same."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.c_library import load
from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.random import PHILOX_7, uniform_reference
from ridgeline.models.gray_scott.physics import Coefficients, coefficients, point_update

Y_BLOCKS = (8, 16, 32, 64)  # strips tried for the tuned C sweep; it gets the best
_SIMD: dict[bool, tuple[str, ...]] = {False: (), True: ("-DSIMD",)}


@dataclass(frozen=True)
class Fields:
    """u, v and their next values on one block of one rank; all cells and ghosts hold smooth, bounded values."""

    u: BlockArray
    v: BlockArray
    u_new: BlockArray
    v_new: BlockArray

    @classmethod
    def allocate(cls, shape: tuple[int, int, int], dtype: str, ghost: int = 1) -> "Fields":
        """Allocate on `shape` and fill; no value is tiny, so that subnormal numbers slow nobody down."""
        block = Block.of_rank(shape, (1, 1, 1), 0, ghost=ghost)
        fields = cls(*(BlockArray.allocate(block, dtype) for _ in range(4)))
        wave = 0.1 * np.sin(np.arange(2**18 + 5))
        for array, mean in ((fields.u, 0.5), (fields.v, 0.25), (fields.u_new, 0.5), (fields.v_new, 0.25)):
            for start in range(0, array.flat.size, wave.size):
                piece = array.flat[start : start + wave.size]
                piece[:] = mean + wave[: piece.size]
            # Our sweep wraps by itself, and C reads ghosts, which therefore hold what a wrap gives.
            array.ghosted[...] = np.pad(array.owned.copy(), ghost, mode="wrap")
        return fields

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type."""
        return self.u.flat.dtype

    def swapped(self) -> "Fields":
        """Return the same arrays with old and new exchanged."""
        return Fields(self.u_new, self.v_new, self.u, self.v)


def step_coefficients(dtype: str, noise: float = 0.0) -> Coefficients:
    """Return the coefficients that all benchmarks use.

    With this F and k, u and v settle near 0.1 and 0.6 for ever; in many other regimes v dies out into
    subnormal numbers, which some processors are slow at.
    """
    return coefficients(Du=0.2, Dv=0.1, F=0.04, k=0.02, noise=noise, dt=1.0, dtype=dtype)


def reference_step(fields: Fields, c: Coefficients, seed: int, step: int) -> tuple[NDArray, NDArray]:
    """Return u and v after one step by NumPy, for a block at global cell (0, 0, 0)."""

    def sum_of_neighbours(f: NDArray) -> NDArray:
        middle = slice(1, -1)
        x = f[middle, middle, :-2] + f[middle, middle, 2:]
        y = f[middle, :-2, middle] + f[middle, 2:, middle]
        z = f[:-2, middle, middle] + f[2:, middle, middle]
        return (x + y) + z

    z, y, x = np.ogrid[tuple(slice(n) for n in fields.u.block.shape_local)]
    r = uniform_reference(seed, step, z, y, x, fields.dtype, PHILOX_7) if c.noise else None
    update = point_update(lambda a, b, c: a * b + c)
    sums = (sum_of_neighbours(fields.u.ghosted), sum_of_neighbours(fields.v.ghosted))
    return update(fields.u.owned, fields.v.owned, *sums, r, c)


def check(sweep: Callable[[Fields], None], name: str, dtype: str, noise: float = 0.0) -> None:
    """Run `sweep` (seed 7, step 3) once on an odd grid; raise RuntimeError unless it agrees with NumPy.

    Also raises if a ghost was written. Tolerance: 8 units in the last place.
    """
    fields = Fields.allocate((9, 13, 37), dtype)
    ghosts = fields.u_new.ghosted.copy(), fields.v_new.ghosted.copy()
    expected = reference_step(fields, step_coefficients(dtype, noise), seed=7, step=3)
    sweep(fields)
    for array, value, before in zip((fields.u_new, fields.v_new), expected, ghosts):
        np.testing.assert_allclose(array.owned, value, rtol=8 * np.finfo(dtype).eps, err_msg=name)
        before[1:-1, 1:-1, 1:-1] = array.owned
        np.testing.assert_array_equal(array.ghosted, before, err_msg=f"{name} wrote ghosts")


def _flags(dtype: str) -> tuple[str, ...]:
    return ("-DREAL=float", "-DSINGLE") if dtype == "float32" else ()


def _arguments(fields: Fields, c: Coefficients) -> tuple[object, ...]:
    """Return the C arguments that all sweeps share: four arrays, the extent, the coefficients."""
    u = fields.u
    extent = (ctypes.c_ssize_t * 6)(*u.block.shape_local, u.origin, u.row_pitch, u.plane_pitch)
    real = ctypes.c_float if fields.dtype == np.float32 else ctypes.c_double
    values = (real * 6)(c.diffusion_u, c.diffusion_v, c.feed, c.loss_v, c.noise, c.dt)
    arrays = (fields.u, fields.v, fields.u_new, fields.v_new)
    return (*(ctypes.c_void_p(a.flat.ctypes.data) for a in arrays), extent, values)


def c_plain(dtype: str, n_threads: int, simd: bool) -> Callable[[Fields], None]:
    """Return the plain C sweep, its loops over x marked `omp simd` or not. Raises CUnavailable."""
    library, c = load("gray_scott_plain", *_flags(dtype), *_SIMD[simd]), step_coefficients(dtype)
    return lambda fields: library.gray_scott_step(*_arguments(fields, c), n_threads)


def c_plain_noise(
    dtype: str, n_threads: int, noise: float, seed: int = 7, step: int = 3
) -> Callable[[Fields], None]:
    """Return the plain C sweep with noise, `omp simd`. Raises CUnavailable, and MemoryError when called."""
    library, c = load("gray_scott_plain", *_flags(dtype), *_SIMD[True]), step_coefficients(dtype, noise)

    def sweep(fields: Fields) -> None:
        seeds = ctypes.c_uint64(seed), ctypes.c_uint32(step)
        if library.gray_scott_step_noise(*_arguments(fields, c), *seeds, n_threads):
            raise MemoryError("the C sweep could not allocate a row of noise")

    return sweep


def c_tuned(dtype: str, n_threads: int, y_block: int) -> Callable[[Fields], None]:
    """Return the C sweep tuned with AVX-512 intrinsics. Raises CUnavailable."""
    library, c = load("gray_scott_avx512", *_flags(dtype)), step_coefficients(dtype)
    return lambda fields: library.gray_scott_step(
        *_arguments(fields, c), ctypes.c_ssize_t(y_block), n_threads
    )


def check_c(dtype: str) -> None:
    """Check every C sweep that can run here against NumPy. Raises CUnavailable or AssertionError."""
    check(c_plain(dtype, 2, False), "plain C", dtype)
    check(c_plain(dtype, 2, True), "plain C, omp simd", dtype)
    check(c_plain_noise(dtype, 2, 0.01), "plain C with noise", dtype, 0.01)
    check(c_tuned(dtype, 2, 4), "tuned C", dtype)
