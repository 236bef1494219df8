"""Diffusion of one variable on a GPU: the sweep with half of the fields, as the Frontier paper compares them.

Source: Godoy et al., SC-W 2023, Table 2: the two-variable kernel of the application beside a one-variable one without
random numbers. Bytes are counted as there, by Eqs. 4a and 4b with one variable. The loops are those of
`models/gray_scott/device/kernels_cuda.py`: a thread takes four rows and marches in z with three planes in registers.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import DTypeLike

from harness.device import seconds_per_call
from harness.table import Row
from ridgeline.blocks.block import Block, BlockArray
from ridgeline.jit.cuda_device import fma, kernel, load, make_stream, store
from ridgeline.models.gray_scott.device.kernels_cuda import Shape, launch_shape
from ridgeline.models.gray_scott.estimate import PAD_ROWS, effective_bytes

SIX = -6.0
DIFFUSION = 0.2 / 6.0


def shape_for(dtype: DTypeLike) -> Shape:
    """Return the threads: as many bytes asked for ahead as with two variables, from twice the threads."""
    return Shape(512, 2 if np.dtype(dtype) == np.float64 else 4, march=512)


@cache
def make_diffusion(dtype: DTypeLike, row_pitch: int) -> Any:
    """Return the kernel `diffuse(u, (origin, plane_pitch), shape, planes, diffusion, out)` for this row pitch.

    u, out: flat device arrays of one layout, of `dtype`; u with valid ghosts. shape: owned (nz, ny, nx). The launch
    is that of `launch_shape` over the whole block.
    """
    threads, blocks, *_ = shape_for(dtype)
    real, pitch = np.dtype(dtype).type, row_pitch
    six = real(SIX)

    @kernel(threads, blocks)
    def diffuse(u, layout, shape, planes, diffusion, out):
        origin, plane = layout
        nz, ny, nx = shape
        i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
        j = 4 * (cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y)
        k = cuda.blockIdx.z * planes
        if i >= nx or j >= ny or k >= nz:
            return
        end = min(k + planes, nz)
        at = origin + k * plane + j * pitch + i
        b0, b1 = load(u, at - plane), load(u, at - plane + pitch)
        b2, b3 = load(u, at - plane + 2 * pitch), load(u, at - plane + 3 * pitch)
        c0, c1 = load(u, at), load(u, at + pitch)
        c2, c3 = load(u, at + 2 * pitch), load(u, at + 3 * pitch)
        while k < end:
            up = at + plane
            a0, a1 = load(u, up), load(u, up + pitch)
            a2, a3 = load(u, up + 2 * pitch), load(u, up + 3 * pitch)
            s, n = load(u, at - pitch), load(u, at + 4 * pitch)
            p, q, r = at + pitch, at + 2 * pitch, at + 3 * pitch
            d0 = ((load(u, at - 1) + load(u, at + 1)) + (s + c1)) + (b0 + a0)
            d1 = ((load(u, p - 1) + load(u, p + 1)) + (c0 + c2)) + (b1 + a1)
            d2 = ((load(u, q - 1) + load(u, q + 1)) + (c1 + c3)) + (b2 + a2)
            d3 = ((load(u, r - 1) + load(u, r + 1)) + (c2 + n)) + (b3 + a3)
            store(out, at, fma(diffusion, fma(six, c0, d0), c0))
            if j + 1 < ny:
                store(out, p, fma(diffusion, fma(six, c1, d1), c1))
            if j + 2 < ny:
                store(out, q, fma(diffusion, fma(six, c2, d2), c2))
            if j + 3 < ny:
                store(out, r, fma(diffusion, fma(six, c3, d3), c3))
            b0, b1, b2, b3, c0, c1, c2, c3 = c0, c1, c2, c3, a0, a1, a2, a3
            at = up
            k += 1

    return diffuse


class OneVariable:
    """A field of a block on the device and the one that a step writes; `advance` puts a step on the stream."""

    def __init__(self, block: Block, dtype: DTypeLike, start: BlockArray, multiprocessors: int) -> None:
        self.block, self.layout = block, start
        pad = np.zeros(PAD_ROWS * start.row_pitch, dtype)
        flat = np.concatenate([pad, start.flat, pad])
        self._pad = pad.size
        self._fields = [cuda.to_device(flat), cuda.to_device(flat)]
        nz, ny, nx = block.shape_local
        self._launch = launch_shape((0, nz, 0, ny, 0, nx), 0, shape_for(dtype), multiprocessors)
        self._kernel = make_diffusion(dtype, start.row_pitch)
        self._diffusion = np.dtype(dtype).type(DIFFUSION)
        self.stream = make_stream()

    def advance(self) -> None:
        """Put one step on the stream; ghosts stay what they are."""
        now, new = self._fields
        layout = self.layout.origin + self._pad, self.layout.plane_pitch
        self._kernel[self._launch.grid, self._launch.block, self.stream](
            now, layout, self.block.shape_local, self._launch.planes, self._diffusion, new
        )
        self._fields.reverse()

    def owned(self) -> Any:
        """Return the present owned cells, a copy on the host."""
        self.stream.synchronize()
        self.layout.flat[:] = self._fields[0].copy_to_host()[self._pad : -self._pad]
        return self.layout.owned.copy()


def block_of(n: int) -> Block:
    """Return the block of n^3 cells on one rank, without periodic directions."""
    return Block.of_rank((n, n, n), (1, 1, 1), 0, (False, False, False))


def start_of(block: Block, dtype: DTypeLike) -> BlockArray:
    """Return a field of random numbers between 0 and 1, ghosts included."""
    field = BlockArray.allocate(block, dtype)
    field.ghosted[:] = np.random.default_rng(7).random(field.ghosted.shape)
    return field


def one_variable(
    n: int, dtypes: list[str], copy: float, seconds: float, multiprocessors: int
) -> Iterator[Row]:
    """Measure the one-variable kernel: the paper's effective bandwidth over that of a copy, one row a precision."""
    block = block_of(n)
    for dtype in dtypes:
        field = OneVariable(block, dtype, start_of(block, dtype), multiprocessors)
        step = seconds_per_call(field.advance, field.stream.synchronize, seconds)
        rate = effective_bytes(block.shape_local, np.dtype(dtype).itemsize) / step
        note = f"{rate / 1e9:.0f} of {copy / 1e9:.0f} GB/s, bytes as the paper's Eqs. 4a and 4b"
        yield Row(f"one variable over device copy: {n}^3 {dtype}", rate / copy, ">= 0.92", note=note)
