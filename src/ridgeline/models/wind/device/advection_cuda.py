"""Advection on GPUs, from the formulas of one point that the CPU uses (`models.wind.kernels`).

A prediction or an advection takes two kinds of launches for each axis. The first traces the states at the faces of
an axis without transverse derivatives. The second traces them again, corrects them by the transverse derivatives
and the tendencies, and chooses the upwind side. States are traced twice instead of kept, because a trace reads five
neighbours from the first-level cache, and keeping its two results would write and read four values.

A thread block takes a row of cells. `pitch` is the distance to the next cell along the axis of the launch, `codes`
what the faces at the lower and the upper side are (0 where this block has no side).
"""

from __future__ import annotations

from numba import cuda

from ridgeline.blocks.rows_cuda import THREADS
from ridgeline.jit.cuda_device import device_function, kernel, load, store
from ridgeline.models.wind.kernels import (
    SIDE_VALUE,
    line,
    parabola,
    riemann,
    smooth_parabola,
    traced_high,
    traced_low,
    upwind,
)
from ridgeline.models.wind.problem import PLM, UNLIMITED


@device_function
def traced_states(q, c, pitch, at_low, at_high, reconstruction):
    """Return the traced states at both faces of a cell. at_low, at_high: velocities there times dt over the width."""
    q1, here, p1 = load(q, c - pitch), load(q, c), load(q, c + pitch)
    if reconstruction == PLM:
        low, high = line(q1, here, p1)
    elif reconstruction == UNLIMITED:
        low, high = smooth_parabola(load(q, c - 2 * pitch), q1, here, p1, load(q, c + 2 * pitch))
    else:
        low, high = parabola(load(q, c - 2 * pitch), q1, here, p1, load(q, c + 2 * pitch))
    return traced_low(here, low, high, at_low), traced_high(here, low, high, at_high)


@device_function
def state_at(q, c, pitch, code, last, left, right):
    """Return the state at the face below cell c that lies on a side. left, right: the traced ones."""
    if code == SIDE_VALUE:
        return 0.5 * (load(q, c - pitch) + load(q, c))
    return left if last else right


@device_function
def side_code(codes, index, cells):
    """Return the code of the face at an index along its axis, 0 inside, and whether it is at the upper side."""
    if index == 0:
        return codes[0], False
    if index == cells:
        return codes[1], True
    return 0, False


@device_function
def index_along(axis, k, j, i):
    """Return the index of a cell along an axis."""
    if axis == 0:
        return k
    if axis == 1:
        return j
    return i


@device_function
def transverse(velocity, hat, c, pitch, per_width):
    """Return the derivative of a field along an axis times the velocity in a cell, from the values at its faces."""
    mean = 0.5 * (load(velocity, c) + load(velocity, c + pitch))
    return mean * ((load(hat, c + pitch) - load(hat, c)) * per_width)


@kernel(THREADS)
def set_velocity_hats(
    normal, first_other, second_other, layout, first, shape, axis, pitch, cells, ratio, small, reconstruction,
    normal_codes, first_codes, second_codes, out_normal, out_first, out_second,
):  # fmt: skip
    """Set the velocities at the faces of an axis without transverse derivatives; launch `rows_launch(shape)`.

    Parameters
    ----------
    normal, first_other, second_other : the velocity across the faces, and the two others
    first, shape : of the faces, local
    cells : of the block along the axis
    ratio : dt over the width; small : the least speed that chooses a side
    """
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        c = start + i
        index = index_along(axis, k, j, i)
        below, here = load(normal, c - pitch) * ratio, load(normal, c) * ratio
        _, left = traced_states(normal, c - pitch, pitch, below, below, reconstruction)
        right, _ = traced_states(normal, c, pitch, here, here, reconstruction)
        code, last = side_code(normal_codes, index, cells)
        velocity = riemann(left, right, small)
        if code != 0:
            velocity = state_at(normal, c, pitch, code, last, left, right)
        store(out_normal, c, velocity)
        _, left = traced_states(first_other, c - pitch, pitch, below, below, reconstruction)
        right, _ = traced_states(first_other, c, pitch, here, here, reconstruction)
        code, last = side_code(first_codes, index, cells)
        state = upwind(velocity, left, right, small)
        if code != 0:
            state = state_at(first_other, c, pitch, code, last, left, right)
        store(out_first, c, state)
        _, left = traced_states(second_other, c - pitch, pitch, below, below, reconstruction)
        right, _ = traced_states(second_other, c, pitch, here, here, reconstruction)
        code, last = side_code(second_codes, index, cells)
        state = upwind(velocity, left, right, small)
        if code != 0:
            state = state_at(second_other, c, pitch, code, last, left, right)
        store(out_second, c, state)


@device_function
def correction_of(tendency, c, half_dt, v1, hat1, pitch1, per1, v2, hat2, pitch2, per2):
    """Return what half a step adds to the states of a cell."""
    change = transverse(v1, hat1, c, pitch1, per1) + transverse(v2, hat2, c, pitch2, per2)
    return half_dt * (load(tendency, c) - change)


@kernel(THREADS)
def set_normal_faces(
    normal, tendency, layout, first, shape, axis, pitch, cells, ratio, half_dt, small, reconstruction, codes, v1,
    hat1, pitch1, per1, v2, hat2, pitch2, per2, out_faces,
):  # fmt: skip
    """Set the predicted velocities across the faces of an axis; launch `rows_launch(shape)`.

    Parameters
    ----------
    v1, hat1, pitch1, per1 : of the first other axis: velocities across its faces, the state of `normal` there, the
        distance to the next cell, and 1 / width; v2, hat2, pitch2 and per2 of the second
    """
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        c = start + i
        below, here = load(normal, c - pitch) * ratio, load(normal, c) * ratio
        _, left = traced_states(normal, c - pitch, pitch, below, below, reconstruction)
        right, _ = traced_states(normal, c, pitch, here, here, reconstruction)
        left += correction_of(tendency, c - pitch, half_dt, v1, hat1, pitch1, per1, v2, hat2, pitch2, per2)
        right += correction_of(tendency, c, half_dt, v1, hat1, pitch1, per1, v2, hat2, pitch2, per2)
        code, last = side_code(codes, index_along(axis, k, j, i), cells)
        velocity = riemann(left, right, small)
        if code != 0:
            velocity = state_at(normal, c, pitch, code, last, left, right)
        store(out_faces, c, velocity)


@kernel(THREADS)
def set_hats(
    q, faces, layout, first, shape, axis, pitch, cells, ratio, small, reconstruction, codes, out
):  # fmt: skip
    """Set the states of a field at the faces of an axis, not yet corrected; launch `rows_launch(shape)`."""
    j, k = first[1] + cuda.blockIdx.x, first[0] + cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    for i in range(first[2] + cuda.threadIdx.x, first[2] + shape[2], cuda.blockDim.x):
        c = start + i
        velocity = load(faces, c)
        before, after = load(faces, c - pitch) * ratio, load(faces, c + pitch) * ratio
        _, left = traced_states(q, c - pitch, pitch, before, velocity * ratio, reconstruction)
        right, _ = traced_states(q, c, pitch, velocity * ratio, after, reconstruction)
        code, last = side_code(codes, index_along(axis, k, j, i), cells)
        state = upwind(velocity, left, right, small)
        if code != 0:
            state = state_at(q, c, pitch, code, last, left, right)
        store(out, c, state)


@kernel(THREADS)
def add_fluxes(
    q, tendency, faces, layout, shape, axis, pitch, cells, ratio, per_width, half_dt, small, reconstruction, codes,
    v1, hat1, pitch1, per1, v2, hat2, pitch2, per2, kept, added, out,
):  # fmt: skip
    """Add -d(u q) along one axis in the owned cells; launch `rows_launch(shape)` for the axes in order.

    For axis 0 `out` is set; for axis 2 it becomes kept q + added (sum of all axes + tendency).
    """
    j, k = cuda.blockIdx.x, cuda.blockIdx.y
    start = layout[0] + k * layout[2] + j * layout[1]
    for i in range(cuda.threadIdx.x, shape[2], cuda.blockDim.x):
        lower = start + i
        index = index_along(axis, k, j, i)
        flux, change = 0.0, 0.0
        for upper in range(2):
            c = lower + upper * pitch
            velocity = load(faces, c)
            before, after = load(faces, c - pitch) * ratio, load(faces, c + pitch) * ratio
            _, left = traced_states(q, c - pitch, pitch, before, velocity * ratio, reconstruction)
            right, _ = traced_states(q, c, pitch, velocity * ratio, after, reconstruction)
            left += correction_of(
                tendency, c - pitch, half_dt, v1, hat1, pitch1, per1, v2, hat2, pitch2, per2
            )
            right += correction_of(tendency, c, half_dt, v1, hat1, pitch1, per1, v2, hat2, pitch2, per2)
            code, last = side_code(codes, index + upper, cells)
            state = upwind(velocity, left, right, small)
            if code != 0:
                state = state_at(q, c, pitch, code, last, left, right)
            change = velocity * state - flux
            flux = velocity * state
        if axis == 0:
            store(out, lower, -change * per_width)
        elif axis == 1:
            store(out, lower, load(out, lower) - change * per_width)
        else:
            total = load(out, lower) - change * per_width
            store(out, lower, kept * load(q, lower) + added * (total + load(tendency, lower)))
