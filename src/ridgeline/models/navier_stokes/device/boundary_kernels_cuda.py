"""Passes over the points and elements at sides, on NVIDIA GPUs: neighbouring threads take neighbouring points.

Fields are flat, float64, of `stride` points each; elements: int32, cube points each.
"""

from __future__ import annotations

from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, fma, kernel, load, store

THREADS = 8 if SIMULATED else 256


@kernel(THREADS)
def write_points(places, values, out):
    """out[places] = values; places: int64. Launch ceil(places / THREADS) x THREADS."""
    i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    if i < places.size:
        store(out, load(places, i), load(values, i))


@kernel(THREADS)
def take_elements(elements, cube, stride, fields, packed):
    """packed[c, e] = element elements[e] of field c. Launch (elements, components) x THREADS."""
    e, c = cuda.blockIdx.x, cuda.blockIdx.y
    source = c * stride + load(elements, e) * cube
    target = (c * elements.size + e) * cube
    for i in range(cuda.threadIdx.x, cube, THREADS):
        store(packed, target + i, load(fields, source + i))


@kernel(THREADS)
def add_elements(elements, cube, stride, scale, packed, fields):
    """Element elements[e] of field c += scale packed[c, e]. Launch (elements, components) x THREADS."""
    e, c = cuda.blockIdx.x, cuda.blockIdx.y
    target = c * stride + load(elements, e) * cube
    source = (c * elements.size + e) * cube
    for i in range(cuda.threadIdx.x, cube, THREADS):
        store(fields, target + i, fma(scale, load(packed, source + i), load(fields, target + i)))
