"""The sweep of reaction-diffusion on NVIDIA GPUs: one pass over the species, with the formulas of a program.

    sweep = make_sweep(program, dtype, row_pitch)
    sweep[(*sweep_launch(shape, y_offset), stream)](
        values, out, (origin, plane_pitch, field_pitch), shape, offset_global, step, time, keys, numbers)

advances the owned cells of a block by one stage from `values` to `out`, flat device arrays that hold all species,
each laid out as a `BlockArray` and `field_pitch` cells behind the one before. Ghosts of faces must be valid. numbers:
a row of `kernels.numbers` on the device, whose time is not read, since it is an argument. keys: `device_key` of each
noisy species, one after the other.

A thread takes the four rows of an aligned group at one x, which share the random numbers of a block, and marches in
z. Loads of neighbours are left to the first-level cache. For formulas of + - * / the bits are those of CPUs.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from ridgeline.jit.cuda_device import SIMULATED, kernel, load, store
from ridgeline.jit.cuda_random import SCALE, how_drawn
from ridgeline.jit.cuda_random import numbers as random_rows
from ridgeline.jit.random import PHILOX_7, WORDS
from ridgeline.models.reaction_diffusion.device.code_arithmetic import (
    Code,
    CodeArithmetic,
    Lines,
    function_of_code,
)
from ridgeline.models.reaction_diffusion.kernels import TIME, Program, cell_update, count_numbers
from ridgeline.parallel.partition import Triple

THREADS = 128
ALONG_X = 32
MARCH = 8  # planes through which a thread marches
SIDE_THREADS = 8 if SIMULATED else 128


class DeviceKernel(Protocol):
    """A kernel that is compiled when it is first launched, by kernel[grid, block, stream](*arguments)."""

    def __getitem__(self, launch: tuple[Any, ...], /) -> Callable[..., None]: ...


class _CodeCells:
    """What the rule of a cell reads, as code: `values` at the index `at`."""

    def __init__(self, lines: Lines, program: Program, pitch: int) -> None:
        self._lines, self._pitch = lines, pitch
        self.coefficients = [
            Code(lines, "time") if n == TIME else lines.add(f"load(numbers, {n})")
            for n in range(count_numbers(program))
        ]
        self.noise = [Code(lines, f"r{n}") for n in range(sum(program.noisy))]

    def place(self, field: int) -> str:
        """Return the index of these cells in a field."""
        return self._lines.add(f"at + {field} * field_pitch").text

    def here(self, field: int) -> Code:
        return self._lines.add(f"load(values, {self.place(field)})")

    def before(self, field: int) -> Code:
        return self._lines.add(f"load(out, {self.place(field)})")

    def neighbours(self, field: int) -> tuple[Code, ...]:
        distances = ("1", str(self._pitch), "plane")
        signs = [f"{sign} {distance}" for distance in distances for sign in "-+"]
        return tuple(self._lines.add(f"load(values, {self.place(field)} {sign})") for sign in signs)

    def index(self, axis: int) -> Code:
        return self._lines.add(f"real({'zyx'[axis]})")


def _make_cell(program: Program, dtype: DTypeLike, pitch: int) -> Any:
    """Return the device function that updates one cell."""
    lines = Lines(dtype)
    cells = _CodeCells(lines, program, pitch)
    new = cell_update(program, cells, CodeArithmetic(lines), SCALE)
    for field, value in enumerate(new):
        lines.do(f"store(out, {cells.place(field)}, {value.text})")
    draws = [f"r{n}" for n in range(sum(program.noisy))]
    arguments = ["values", "out", "at", "plane", "field_pitch", "numbers", "time", "z", "y", "x", *draws]
    return lines.function(arguments)


def _make_group(program: Program, dtype: DTypeLike, pitch: int) -> Any:
    """Return the device function that updates the four cells of a group, in those rows that the block has."""
    noisy = sum(program.noisy)
    lines = [
        f"r{n} = random_rows(x, group, z, step, (keys[{2 * n}], keys[{2 * n + 1}]), drawn, real)"
        for n in range(noisy)
    ]
    for row in range(WORDS):
        draws = "".join(f", r{n}[{row}]" for n in range(noisy))
        where = f"at + {row * pitch}, plane, field_pitch, numbers, time, z, y + {row}, x{draws}"
        lines += [f"if j + {row} >= 0 and j + {row} < ny:", f"    cell(values, out, {where})"]
    names = {
        "cell": _make_cell(program, dtype, pitch),
        "random_rows": random_rows,
        "drawn": how_drawn(dtype, PHILOX_7),
        "real": np.dtype(dtype).type,
    }
    place = ("at", "plane", "field_pitch", "numbers", "time", "z", "y", "x")
    return function_of_code(("values", "out", *place, "j", "ny", "group", "step", "keys"), lines, names)


@cache
def make_sweep(program: Program, dtype: DTypeLike, row_pitch: int) -> DeviceKernel:
    """Return the sweep (see the module) for fields of `dtype` whose rows lie `row_pitch` cells apart."""
    update_group, pitch = _make_group(program, dtype, row_pitch), row_pitch

    @kernel(THREADS)
    def sweep(values, out, layout, shape, offset_global, step, time, keys, numbers):
        origin, plane, field_pitch = layout
        nz, ny, nx = shape
        oz, oy, ox = offset_global
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        group = oy // WORDS + cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
        j = group * WORDS - oy
        k = cuda.blockIdx.z * MARCH
        if i >= nx or j >= ny:
            return
        end = min(k + MARCH, nz)
        at = origin + k * plane + j * pitch + i
        while k < end:
            z, y, x = k + oz, j + oy, i + ox
            update_group(
                values, out, at, plane, field_pitch, numbers, time, z, y, x, j, ny, group, step, keys
            )  # fmt: skip
            at += plane
            k += 1

    compiled: DeviceKernel = sweep
    return compiled


def sweep_launch(shape: Triple, y_offset: int) -> tuple[Triple, Triple]:
    """Return grid and thread block of the sweep of a block of `shape` cells; y_offset: global y of its first row."""
    nz, ny, nx = shape
    groups = (y_offset + ny - 1) // WORDS - y_offset // WORDS + 1
    along_x = min(ALONG_X, 1 << (nx - 1).bit_length())
    along_y = min(THREADS // ALONG_X, groups)
    return (-(-nx // along_x), -(-groups // along_y), -(-nz // MARCH)), (along_x, along_y, 1)


@kernel(SIDE_THREADS)
def set_sides(values, layout, row_pitch, shape, side_values, places, weights):
    """Set the ghosts beyond all sides that are not periodic; launch (n, 6 fields) x SIDE_THREADS.

    Parameters
    ----------
    values, layout : as the sweep takes them, rows `row_pitch` cells apart; shape: owned (nz, ny, nx)
    side_values, places, weights : those of `blocks.sweep.Sides`, flat, on the device; weight 0 for no side
    """
    origin, plane, field_pitch = layout
    nz, ny, nx = shape
    which = cuda.blockIdx.y
    weight = load(weights, which)
    if weight == 0:
        return
    axis, last = which % 6 // 2, which % 2
    rows, cells = nz, nx
    if axis == 0:
        rows = ny
    if axis == 2:
        cells = ny
    n = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    while n < rows * cells:
        row, cell = n // cells, n % cells
        k, j, i, distance = row, cell, 0, 1
        if axis == 0:
            k, j, i, distance = 0, row, cell, plane
            if last == 1:
                k = nz - 1
        elif axis == 1:
            k, j, i, distance = row, 0, cell, row_pitch
            if last == 1:
                j = ny - 1
        elif last == 1:
            i = nx - 1
        inside = origin + which // 6 * field_pitch + k * plane + j * row_pitch + i
        ghost = inside + distance if last == 1 else inside - distance
        first = 4 * which
        at = load(places, first) + row * load(places, first + 2) + cell * load(places, first + 3)
        store(values, ghost, load(side_values, at) + weight * load(values, inside))
        n += cuda.gridDim.x * cuda.blockDim.x


def sides_launch(shape: Triple, n_fields: int) -> tuple[tuple[int, int], int]:
    """Return grid and thread block of `set_sides`."""
    nz, ny, nx = shape
    return (-(-max(nz * ny, nz * nx, ny * nx) // SIDE_THREADS), 6 * n_fields), SIDE_THREADS
