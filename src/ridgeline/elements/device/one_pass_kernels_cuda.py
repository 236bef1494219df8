"""The kernels of `CudaOnePassStiffness`: the twins of those of `elements.one_pass`.

    iterate   x += alpha p, r -= alpha w, p = r + beta p, w = A p before copies are summed; sums of each thread block
    update    x += alpha p, r -= alpha w: after the last iteration

A thread has a column of n points (elements/device/tensor_cuda.py). It loads four rows of x, r, p, w and the weight
before it stores any. The compiler must assume that a store changes what is loaded after it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from ridgeline.elements.device.tensor_cuda import (
    REGISTERS,
    fetch_tables,
    launch_bounds,
    layout_of,
    make_column,
    make_stiffness,
)
from ridgeline.jit.cuda_device import device_function, fma, kernel, load, store, sum_threads
from ridgeline.krylov.one_pass_cg import SUMS

ROWS = 4  # of a column, loaded together
X, R, P, W = range(4)  # the order of the fields


@cache
def _make_step(rows: int, pitch: int) -> Any:
    """Return step(weight, x, r, p, w, fields, stride, at, alpha, beta, mine) for columns of `rows` points.

    Stores x, r and p if the element is `mine`. Returns the column of p, and the sum of weight r r.
    """
    rest = _make_step(rows - 1, pitch) if rows > 1 else None

    @device_function
    def first(weight, x, r, p, w, fields, stride, at, alpha, beta, mine):
        value = fma(-alpha, w[0], r[0])
        if weight[0] == 0.0:
            value = 0.0
        direction = fma(beta, p[0], value)
        if mine:
            store(fields, at, fma(alpha, p[0], x[0]))
            store(fields, stride + at, value)
            store(fields, 2 * stride + at, direction)
        return (direction,), weight[0] * value * value

    if rest is None:
        return first

    @device_function
    def step(weight, x, r, p, w, fields, stride, at, alpha, beta, mine):
        mine_first, square = first(weight, x, r, p, w, fields, stride, at, alpha, beta, mine)
        others, squares = rest(
            weight[1:], x[1:], r[1:], p[1:], w[1:], fields, stride, at + pitch, alpha, beta, mine
        )
        return mine_first + others, square + squares

    return step


@cache
def make_advance(n: int, rows: int | None = None) -> Any:
    """Return advance(fields, stride, at, weights, weight_at, alpha, beta, mine), for columns of n points.

    Loads ROWS points of all five at a time. Returns the column of p and the sum of weight r r.
    """
    square, rows = n * n, n if rows is None else rows
    together = min(ROWS, rows)
    column, step = make_column(together, square), _make_step(together, square)

    @device_function
    def advance_some(fields, stride, at, weights, weight_at, alpha, beta, mine):
        x, r = column(fields, at), column(fields, stride + at)
        p, w = column(fields, 2 * stride + at), column(fields, 3 * stride + at)
        return step(column(weights, weight_at), x, r, p, w, fields, stride, at, alpha, beta, mine)

    if rows == together:
        return advance_some
    rest, ahead = make_advance(n, rows - together), together * square

    @device_function
    def advance(fields, stride, at, weights, weight_at, alpha, beta, mine):
        some, squares = advance_some(fields, stride, at, weights, weight_at, alpha, beta, mine)
        others, further = rest(fields, stride, at + ahead, weights, weight_at + ahead, alpha, beta, mine)
        return some + others, squares + further

    return advance


@cache
def _make_last(rows: int, pitch: int) -> Any:
    """Return last(result, p, weight, r, shift, fields, at, mine) for columns of `rows` points; at: of w.

    Stores w, and returns p.w, r.w and w.w, the last over points without copies.
    """
    rest = _make_last(rows - 1, pitch) if rows > 1 else None

    @device_function
    def first(result, p, weight, r, shift, fields, at, mine):
        value = fma(shift * weight[0], p[0], result[0])
        if mine:
            store(fields, at, value)
        alone = value if weight[0] == 1.0 else 0.0
        return p[0] * value, r[0] * value, alone * alone

    if rest is None:
        return first

    @device_function
    def last(result, p, weight, r, shift, fields, at, mine):
        pw, rw, ww = first(result, p, weight, r, shift, fields, at, mine)
        others = rest(result[1:], p[1:], weight[1:], r[1:], shift, fields, at + pitch, mine)
        return pw + others[0], rw + others[1], ww + others[2]

    return last


@cache
def make_finish(n: int, rows: int | None = None) -> Any:
    """Return finish(result, p, weights, weight_at, shift, fields, stride, at, mine), as `_make_last` for a column.

    result: the column of K p. r is loaded again, ROWS points at a time: it was stored a moment ago.
    """
    square, rows = n * n, n if rows is None else rows
    together = min(ROWS, rows)
    column, last = make_column(together, square), _make_last(together, square)

    @device_function
    def finish_some(result, p, weights, weight_at, shift, fields, stride, at, mine):
        weight, r = column(weights, weight_at), column(fields, stride + at)
        return last(result, p, weight, r, shift, fields, 3 * stride + at, mine)

    if rows == together:
        return finish_some
    rest, ahead = make_finish(n, rows - together), together * square

    @device_function
    def finish(result, p, weights, weight_at, shift, fields, stride, at, mine):
        pw, rw, ww = finish_some(result, p, weights, weight_at, shift, fields, stride, at, mine)
        others = rest(
            result[together:],
            p[together:],
            weights,
            weight_at + ahead,
            shift,
            fields,
            stride,
            at + ahead,
            mine,
        )
        return pw + others[0], rw + others[1], ww + others[2]

    return finish


@cache
def make_iterate(n: int, registers: int = REGISTERS) -> Any:
    """Return the kernel iterate(order, first, end, weights, constants, factors, tables, fields, sums, row).

    order: flat int32 [E, 2]: an element, and its kind, in the order of processing; those at first ... end are
    computed. weights: flat [kinds, n, n, n], inverse multiplicity, 0 at constrained points; constants: alpha, beta,
    shift; factors: flat [E, 6, n, n, n]; tables: flat `derivative_tables`; fields: flat x, r, p, w [4, E, n, n, n],
    all float64 device arrays. sums: flat [rows, 4]; thread block b leaves r.c.r, p.w, r.w and w.c.w at row + b, the
    last over points without copies. registers: as of `launch_bounds`.
    Launch layout.blocks(end - first) thread blocks of (n, n, layout.elements).

    Cost: reads x, r, p, w and six factors, writes x, r, p, w: 14 words per point.
    """
    layout = layout_of(n)
    square, cube, elements = n * n, n**3, layout.elements
    tables_size, layers_size = 3 * square, 3 * layout.layer
    shared_size, sums_size, threads = layers_size * elements, SUMS * layout.threads, layout.threads
    advance, stiffness, finish = make_advance(n), make_stiffness(n, np.float64), make_finish(n)

    @kernel(*launch_bounds(n, np.float64, registers))
    def iterate(order, first, end, weights, constants, factors, tables, fields, sums, row):
        own_tables = cuda.shared.array(tables_size, np.float64)
        layers = cuda.shared.array(shared_size, np.float64)
        scratch = cuda.shared.array(sums_size, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        thread = (part * n + j) * n + i
        fetch_tables(tables, own_tables, thread, threads)
        place = first + cuda.blockIdx.x * elements + part
        mine = place < end
        place = min(place, end - 1)  # those beyond the end compute the last element again, for the barriers
        element = load(order, 2 * place)
        alpha, beta = load(constants, 0), load(constants, 1)
        stride = fields.size // 4
        at = element * cube + j * n + i
        weight_at = load(order, 2 * place + 1) * cube + j * n + i
        own = layers[part * layers_size : (part + 1) * layers_size]
        p, rcr = advance(fields, stride, at, weights, weight_at, alpha, beta, mine)
        store(scratch, thread, rcr if mine else 0.0)
        result = stiffness(p, factors, element * 6 * cube, own_tables, own, i, j)
        # What the march does not need is loaded again after it: its registers are the columns'.
        shift = load(constants, 2)
        at = load(order, 2 * place) * cube + j * n + i
        weight_at = load(order, 2 * place + 1) * cube + j * n + i
        pw, rw, ww = finish(result, p, weights, weight_at, shift, fields, stride, at, mine)
        store(scratch, threads + thread, pw if mine else 0.0)
        store(scratch, 2 * threads + thread, rw if mine else 0.0)
        store(scratch, 3 * threads + thread, ww if mine else 0.0)
        sum_threads(scratch, SUMS, thread, threads)
        if thread < SUMS:
            store(sums, (row + cuda.blockIdx.x) * SUMS + thread, load(scratch, thread * threads))

    return iterate


@cache
def make_update(n: int) -> Any:
    """Return the kernel update(order, count, weights, constants, fields, sums); arguments as of `make_iterate`.

    Leaves r.c.r in the first of the four sums of each row, 0 in the others. p is of no use afterwards.
    """
    layout = layout_of(n)
    cube, elements, threads = n**3, layout.elements, layout.threads
    advance = make_advance(n)

    @kernel(*launch_bounds(n, np.float64))
    def update(order, count, weights, constants, fields, sums):
        scratch = cuda.shared.array(threads, np.float64)
        i, j, part = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        thread = (part * n + j) * n + i
        place = cuda.blockIdx.x * elements + part
        mine = place < count
        place = min(place, count - 1)
        at, weight_at = (
            load(order, 2 * place) * cube + j * n + i,
            load(order, 2 * place + 1) * cube + j * n + i,
        )
        alpha, beta = load(constants, 0), load(constants, 1)
        _, rcr = advance(fields, fields.size // 4, at, weights, weight_at, alpha, beta, mine)
        store(scratch, thread, rcr if mine else 0.0)
        sum_threads(scratch, 1, thread, threads)
        if thread < SUMS:
            store(sums, cuda.blockIdx.x * SUMS + thread, scratch[0] if thread == 0 else 0.0)

    return update
