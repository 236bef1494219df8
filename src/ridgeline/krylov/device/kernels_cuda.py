"""Passes over long vectors in GPU memory: the twins of `krylov.kernels`.

Vectors are flat float64 device arrays of c components of n points, one component after the other. Scalars of the
components are tuples. A thread block works on every `blocks`-th run of THREADS points of one component. Thread blocks
that have the same points of different components are neighbours, so that they share weights in the second-level
cache. Launch fields x blocks thread blocks of THREADS. A kernel with k sums leaves sum `which` of thread block b of
component c at out[(k c + which) blocks + b]; `fold_sums` adds these parts. Sums therefore have one order, whatever
thread block runs first.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from ridgeline.jit.cuda_device import SIMULATED, device_function, fma, kernel, load, store, sum_threads

THREADS = 8 if SIMULATED else 256
BLOCKS = 4  # that fit on a multiprocessor: 64 registers for a thread
MOST_BLOCKS = 3 if SIMULATED else 1024  # of a component: several for each multiprocessor
_TWO = 2 * THREADS


@device_function
def thread_place(block, blocks, thread, fields):
    """Return (component, first point, distance to the next) of a thread of thread block `block` of `blocks`."""
    return block % fields, (block // fields) * THREADS + thread, (blocks // fields) * THREADS


@device_function
def leave_sums(scratch, count, block, blocks, thread, fields, out):
    """Add up what the threads of a thread block have in scratch, `count` sums, and put the sums into `out`."""
    sum_threads(scratch, count, thread, THREADS)
    blocks_of_field = blocks // fields
    if thread < count:
        place = (count * (block % fields) + thread) * blocks_of_field + block // fields
        store(out, place, load(scratch, thread * THREADS))


@kernel(THREADS, BLOCKS)
def set_zero(out):
    """out = 0; fields: 1."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, out.size, step):
        store(out, i, 0.0)


@kernel(THREADS, BLOCKS)
def subtract(a, b, out):
    """out = a - b; fields: 1."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, out.size, step):
        store(out, i, load(a, i) - load(b, i))


@kernel(THREADS, BLOCKS)
def copy(a, out):
    """out = a, from one precision to another; fields: 1."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, out.size, step):
        store(out, i, load(a, i))


@kernel(THREADS, BLOCKS)
def set_scaled(scale, a, out):
    """out = scale a; fields: 1."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, out.size, step):
        store(out, i, scale * load(a, i))


@kernel(THREADS, BLOCKS)
def add_product(scale, shape, a, out):
    """out += scale shape a; without a shape, of size 0, += scale a; fields: 1."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, out.size, step):
        part = load(a, i)
        if shape.size > 0:
            part *= load(shape, i)
        store(out, i, fma(scale, part, load(out, i)))


@kernel(THREADS, BLOCKS)
def add_scaled(scales, n, shape, out):
    """out[c] += scales[c] shape; without a shape, of size 0, += scales[c]."""
    c, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, len(scales))
    scale = scales[c]
    for i in range(first, n, step):
        part = load(shape, i) if shape.size > 0 else 1.0
        store(out, c * n + i, fma(scale, part, load(out, c * n + i)))


@kernel(THREADS, BLOCKS)
def cg_direction(beta, active, n, r, diagonal, p):
    """p = diagonal r + beta p, active components alone; p is not read where beta = 0. diagonal: of 1 or c."""
    c, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, len(beta))
    factor, begin = beta[c], c * n
    of_diagonal = begin if diagonal.size > n else 0
    if active[c]:
        for i in range(first, n, step):
            z = load(diagonal, of_diagonal + i) * load(r, begin + i)
            if factor != 0.0:
                z = fma(factor, load(p, begin + i), z)
            store(p, begin + i, z)


@kernel(THREADS, BLOCKS)
def weighted_dots(fields, n, u, v, weights, out):
    """Sums of u v weights; v may have one component for all of u, and weights of size 0 stand for ones."""
    scratch = cuda.shared.array(THREADS, np.float64)
    c, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, fields)
    begin = c * n
    of_v = begin if v.size > n else 0
    total = 0.0
    for i in range(first, n, step):
        product = load(u, begin + i) * load(v, of_v + i)
        if weights.size > 0:
            product *= load(weights, i)
        total += product
    store(scratch, cuda.threadIdx.x, total)
    leave_sums(scratch, 1, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, fields, out)


@kernel(THREADS, BLOCKS)
def cg_sums(fields, n, r, diagonal, weights, norm_weights, out):
    """Two sums: r^2 diagonal weights, and r^2 norm_weights."""
    scratch = cuda.shared.array(_TWO, np.float64)
    c, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, fields)
    begin = c * n
    of_diagonal = begin if diagonal.size > n else 0
    rz = rr = 0.0
    for i in range(first, n, step):
        square = load(r, begin + i) * load(r, begin + i)
        rz += square * load(diagonal, of_diagonal + i) * load(weights, i)
        rr += square * load(norm_weights, i)
    store(scratch, cuda.threadIdx.x, rz)
    store(scratch, THREADS + cuda.threadIdx.x, rr)
    leave_sums(scratch, 2, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, fields, out)


@kernel(THREADS, BLOCKS)
def cg_update(alpha, active, n, p, w, diagonal, weights, norm_weights, x, r, out):
    """x += alpha p, r -= alpha w, and `cg_sums` of the new r; components that are not active stay, with sums 0."""
    scratch = cuda.shared.array(_TWO, np.float64)
    c, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, len(alpha))
    length, begin = alpha[c], c * n
    of_diagonal = begin if diagonal.size > n else 0
    rz = rr = 0.0
    if active[c]:
        for i in range(first, n, step):
            at = begin + i
            direction, image, solution, old = load(p, at), load(w, at), load(x, at), load(r, at)
            of_z, of_norm = load(diagonal, of_diagonal + i) * load(weights, i), load(norm_weights, i)
            value = fma(-length, image, old)
            store(x, at, fma(length, direction, solution))
            store(r, at, value)
            rz += value * value * of_z
            rr += value * value * of_norm
    store(scratch, cuda.threadIdx.x, rz)
    store(scratch, THREADS + cuda.threadIdx.x, rr)
    leave_sums(scratch, 2, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, len(alpha), out)


@kernel(THREADS, BLOCKS)
def flexible_sums(n, z, r, old_r, weights, out):
    """Two sums: z r weights, and z (r - old_r) weights; z of any precision."""
    scratch = cuda.shared.array(_TWO, np.float64)
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    zr = change = 0.0
    for i in range(first, n, step):
        weighted, now = load(z, i) * load(weights, i), load(r, i)
        zr = fma(weighted, now, zr)
        change = fma(weighted, now - load(old_r, i), change)
    store(scratch, cuda.threadIdx.x, zr)
    store(scratch, THREADS + cuda.threadIdx.x, change)
    leave_sums(scratch, 2, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1, out)


@kernel(THREADS, BLOCKS)
def flexible_direction(z, beta, p):
    """p = z + beta p; p is not read where beta = 0. z of any precision."""
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    for i in range(first, p.size, step):
        value = load(z, i) + 0.0
        if beta != 0.0:
            value = fma(beta, load(p, i), value)
        store(p, i, value)


@kernel(THREADS, BLOCKS)
def flexible_update(alpha, n, p, w, norm_weights, x, r, old_r, out):
    """old_r = r, x += alpha p, r -= alpha w, and the sum of r^2 norm_weights of the new r."""
    scratch = cuda.shared.array(THREADS, np.float64)
    _, first, step = thread_place(cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1)
    total = 0.0
    for i in range(first, n, step):
        direction, image, solution, old = load(p, i), load(w, i), load(x, i), load(r, i)
        value = fma(-alpha, image, old)
        store(old_r, i, old)
        store(x, i, fma(alpha, direction, solution))
        store(r, i, value)
        total = fma(value * value, load(norm_weights, i), total)
    store(scratch, cuda.threadIdx.x, total)
    leave_sums(scratch, 1, cuda.blockIdx.x, cuda.gridDim.x, cuda.threadIdx.x, 1, out)


@kernel(THREADS, BLOCKS)
def fold_sums(parts, blocks, out):
    """out[s] = the sum of parts[s blocks : (s + 1) blocks]. Launch a thread block for each sum."""
    scratch = cuda.shared.array(THREADS, np.float64)
    which, thread, total = cuda.blockIdx.x, cuda.threadIdx.x, 0.0
    for b in range(thread, blocks, THREADS):
        total += load(parts, which * blocks + b)
    store(scratch, thread, total)
    sum_threads(scratch, 1, thread, THREADS)
    if thread == 0:
        store(out, which, load(scratch, 0))
