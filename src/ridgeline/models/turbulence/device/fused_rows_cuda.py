"""Transforms in x and products at points in one pass over rows, for slabs on NVIDIA GPUs.

A thread block handles two rows of modes in x, a and b, and transforms a + i b as one complex row. The real and the
imaginary parts of the result are the two rows at points. Products of the real parts, and of the imaginary parts, are
the products of both rows. Points therefore stay in registers and shared memory: rows of velocity and scalars are read
once, and rows of products are written once.

A thread has modes j, while n - j belongs to another thread. When rows are read, both threads read the mode; before
rows are written, the upper half is exchanged through shared memory. Arrays are planes [variable, z, y, x] as in
`fourier.device.pipeline_cuda`.

Source: Press et al., Numerical Recipes, Sec. 12.3 (two real functions at once); products as in `kernels_cuda`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ridgeline.fourier.device.block_fft_cuda import (
    FORWARD,
    INVERSE,
    in_turn,
    join,
    make_block_fft,
    make_gather,
    make_scatter,
)
from ridgeline.fourier.device.block_plans import BlockTransform
from ridgeline.jit.cuda_device import (
    barrier,
    device_function,
    kernel,
    load,
    load_pair,
    store,
    store_pair,
)
from ridgeline.models.turbulence.device.device_estimate import product_shape
from ridgeline.models.turbulence.device.kernels_cuda import larger, largest_of_threads
from ridgeline.models.turbulence.kernels import N_PRODUCTS, XX, XY, XZ, YZ, ZZ


@cache
def _make_fetch(plan: BlockTransform) -> Any:
    """Return fetch(planes, t, at, pitch, n_columns), which loads a + i b of the rows at `at` and `pitch` later.

    at is -1 where there are no rows.
    """
    half, n = plan.held // 2, plan.n

    def one(m: int) -> Any:
        first = m * plan.threads

        @device_function
        def mode(planes, t, at, pitch, n_columns):
            zero = planes.dtype.type(0)
            j = t + first
            if m >= half:
                j = n - j
            a, b = (zero, zero), (zero, zero)
            if at >= 0 and j < n_columns:
                a, b = load_pair(planes, at + j), load_pair(planes, at + pitch + j)
            if m == 0 and j == 0:  # the mean is real: its imaginary rounding error would enter the other row
                a, b = (a[0], zero), (b[0], zero)
            if m >= half:
                return ((a[0] + b[1], b[0] - a[1]),)
            return ((a[0] - b[1], a[1] + b[0]),)

        return mode

    return _join_of_five([one(m) for m in range(plan.held)])


def _join_of_five(parts: list[Any]) -> Any:
    first = parts[0]
    if len(parts) == 1:
        return first
    rest = _join_of_five(parts[1:])
    return device_function(lambda a, b, c, d, e: first(a, b, c, d, e) + rest(a, b, c, d, e))


@cache
def _make_keep(plan: BlockTransform, spread: int) -> Any:
    """Return keep(x, shared, place, _), which stores the numbers of a thread for itself, `spread` numbers apart."""

    def one(m: int, part: int) -> Any:
        ahead = (2 * m + part) * spread

        @device_function
        def put(x, shared, place, _):
            store(shared, place + ahead, x[m][part])

        return put

    return in_turn([one(m, part) for m in range(plan.held) for part in (0, 1)])


@device_function
def _value(shared, place, w, is_w):
    """Return a pair that a thread has stored, or w if `is_w`."""
    if is_w:
        return w
    return load(shared, place[0]), load(shared, place[1])


@cache
def _make_products(plan: BlockTransform, spread: int) -> Any:
    """Return products(shared, w, sources): real parts times real parts, and imaginary times imaginary parts.

    sources : places of both factors, -1 for w, and of a third row whose squares are subtracted, -1 for none
    """

    def one(m: int) -> Any:
        re, im = 2 * m * spread, (2 * m + 1) * spread

        @device_function
        def product(shared, w, sources):
            first, second, third = sources
            a = _value(shared, (first + re, first + im), w[m], first < 0)
            b = _value(shared, (second + re, second + im), w[m], second < 0)
            a = a[0] * b[0], a[1] * b[1]
            if third >= 0:
                b = load(shared, third + re), load(shared, third + im)
                a = a[0] - b[0] * b[0], a[1] - b[1] * b[1]
            return (a,)

        return product

    return join([one(m) for m in range(plan.held)])


@cache
def _make_rate(plan: BlockTransform, spread: int) -> Any:
    """Return rate(shared, w, place, per_cell, largest): the maximum of largest and |u| a + |v| b + |w| c.

    per_cell: (a, b, c). u is stored at `place`, and v behind it.
    """
    kept = 2 * plan.held * spread

    def part(m: int, which: int) -> Any:
        ahead = (2 * m + which) * spread

        @device_function
        def of_part(shared, w, place, per_cell, largest):
            a, b, c = per_cell
            u, v = load(shared, place + ahead), load(shared, place + ahead + kept)
            return larger(largest, a * abs(u) + b * abs(v) + c * abs(w[m][which]))

        return of_part

    def all_of(parts: list[Any]) -> Any:
        first = parts[0]
        if len(parts) == 1:
            return first
        rest = all_of(parts[1:])
        return device_function(
            lambda shared, w, place, per_cell, largest: rest(
                shared, w, place, per_cell, first(shared, w, place, per_cell, largest)
            )
        )

    return all_of([part(m, which) for m in range(plan.held) for which in (0, 1)])


@cache
def _make_store(plan: BlockTransform, dtype: Any) -> Any:
    """Return put(x, planes, t, rows, n_columns, column, shared), which stores the modes of the two rows in x.

    rows : place of the first row, -1 for none, and distance of the second

    All threads of a thread block must call it.
    """
    half, n = plan.held // 2, plan.n
    held = tuple(range(0, n, plan.threads))
    scatter = [make_scatter(tuple(range(plan.held)), held, 1, part) for part in (0, 1)]
    mirrored = [_make_mirrored(plan, m) for m in range(half)]
    gather = join(mirrored)
    store_modes = in_turn([_make_split(plan, m, dtype) for m in range(half)])
    real, imaginary = scatter

    @device_function
    def put(x, planes, t, rows, n_columns, column, shared):
        real(x, shared, t, column)
        barrier()
        re = gather(shared, t, column)
        barrier()
        imaginary(x, shared, t, column)
        barrier()
        im = gather(shared, t, column)
        barrier()
        store_modes((x, re, im), planes, (t, n_columns), rows)

    return put


def _make_mirrored(plan: BlockTransform, m: int) -> Any:
    """Return a function of (shared, t, column): number n - j of a column, j = t + m n / E; number 0 for j = 0."""
    n, first = plan.n, m * plan.threads
    gather = make_gather((0,), 1)

    @device_function
    def one(shared, t, column):
        j = t + first
        return gather(shared, n - j if j > 0 else 0, column)

    return one


def _make_split(plan: BlockTransform, m: int, dtype: Any) -> Any:
    """Return a function that stores mode j = t + m n / E of both rows: (c_j +- conj c_{n-j}) / 2."""
    first = m * plan.threads
    half: Any = np.dtype(dtype).type(0.5)

    @device_function
    def store_mode(modes, planes, place, rows):
        x, re, im = modes
        t, n_columns = place
        at, pitch = rows
        j = t + first
        if at >= 0 and j < n_columns:
            c, other = x[m], (re[m], im[m])
            store_pair(planes, at + j, half * (c[0] + other[0]), half * (c[1] - other[1]))
            store_pair(planes, at + pitch + j, half * (c[1] + other[1]), half * (other[0] - c[0]))

    return store_mode


@cache
def make_row_products(n: int, dtype: Any, n_scalars: int, rated: bool) -> Any:
    """Return the kernel multiply_rows(counts, n_columns, pitch, n_rows, variable, per_cell, twiddles, factors,
    out_rates, planes).

    counts : of fields and of products, 3 + S and 5 + 3 S; factors : `product_factors`, flat
    planes : complex [variables, n_rows, pitch] as reals, `variable` complex numbers from one to the next; n_rows is
        even. Rows of modes of u_x, u_y, u_z and scalars are replaced by those of the products, unscaled, in the order
        T_xx, T_zz, T_xy, T_xz, T_yz, and F of each scalar. Modes from j_x = n_columns on count as zero
    per_cell, out_rates : see `kernels_cuda.make_multiply`; twiddles : of n points
    Launch: `product_shape`. Cost: reads 3 + S and writes 5 + 3 S rows.
    """
    shape = product_shape(n, dtype, n_scalars)
    if shape is None:
        raise ValueError(f"there is no transform within thread blocks for rows of {n} points")
    plan, _, pairs, least_blocks = shape
    kind = np.dtype(dtype)
    zero, room, threads = kind.type(0), plan.room * pairs, shape.threads
    plan_threads, plan_room, kept = plan.threads, plan.room, 2 * plan.held * threads
    fetch, put = _make_fetch(plan), _make_store(plan, dtype)
    to_points, to_modes = make_block_fft(n, dtype, INVERSE), make_block_fft(n, dtype, FORWARD)
    keep, products, rate = (make(plan, threads) for make in (_make_keep, _make_products, _make_rate))
    nothing = ((zero, zero),) * plan.held
    size = shape.room

    @kernel(threads, least_blocks)
    def multiply_rows(
        counts, n_columns, pitch, n_rows, variable, per_cell, twiddles, factors, out_rates, planes
    ):
        shared = cuda.shared.array(size, dtype)
        n_in, n_out = counts
        thread = cuda.threadIdx.x
        t, mine = thread % plan_threads, thread // plan_threads
        column, own = mine * plan_room, room + thread
        largest = zero
        for base in range(cuda.blockIdx.x * pairs, n_rows // 2, cuda.gridDim.x * pairs):
            row = 2 * (base + mine)
            at = row * pitch if row < n_rows else -1
            w = nothing
            for i in range(n_in):
                x = fetch(planes, t, at, pitch, n_columns)
                at = _after(at, variable)
                x = to_points(x, t, column, twiddles, shared)
                if i == 2:
                    w = x
                else:
                    keep(x, shared, own + (i if i < 2 else i - 1) * kept, 0)
            if rated:
                largest = rate(shared, w, own, per_cell, largest)
            at = _after(at, -n_in * variable)
            for i in range(n_out):
                first, second = np.int64(load(factors, 2 * i)), np.int64(load(factors, 2 * i + 1))
                first = own + first * kept if first >= 0 else first
                second = own + second * kept if second >= 0 else second
                x = products(shared, w, (first, second, own + kept if i < 2 else -1))
                x = to_modes(x, t, column, twiddles, shared)
                put(x, planes, t, (at, pitch), n_columns, column, shared)
                at = _after(at, variable)
        if rated:
            barrier()
            largest = largest_of_threads(shared, thread, threads, largest)
            if thread == 0:
                out_rates[cuda.blockIdx.x] = largest

    return multiply_rows


def product_factors(n_scalars: int) -> NDArray[np.int32]:
    """Return the places of both factors of each product, in the order of planes: u 0, v 1, scalars 2 ..., w -1."""
    u, v, w = 0, 1, -1
    of_flow = {XX: (u, u), ZZ: (w, w), XY: (u, v), XZ: (u, w), YZ: (v, w)}
    pairs = [of_flow[product] for product in range(N_PRODUCTS)]
    pairs += [(component, 2 + s) for s in range(n_scalars) for component in (u, v, w)]
    return np.array(pairs, np.int32)


@device_function
def _after(at, ahead):
    """Return the place of a row of another variable, `ahead` further; -1 where there is no row."""
    return at + ahead if at >= 0 else at
