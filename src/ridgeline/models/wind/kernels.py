"""Formulas of one point and of rows of cells, which the kernels of advection, diffusion and projection share.

Fields are `BlockArray`s, all of one layout (origin, row_pitch, plane_pitch): kernels take their flat memory. A row is
a run of neighbouring cells in x. Rows are slices, so that LLVM vectorises the loops over them. Arithmetic is in
float64, in one order for each cell, and nothing is fused: a cell has the same bits in any tile, thread and rank.
"""

from numba import float64, int64, prange, types

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.models.wind.problem import PLM, UNLIMITED

FIELD = float64[::1]
LAYOUT = types.UniTuple(int64, 3)
# Codes of faces on sides: the value at the side, or the state from inside; 0 elsewhere.
SIDE_VALUE, INSIDE = 1, 2
SIXTH, TWO_THIRDS = 1.0 / 6.0, 2.0 / 3.0


# ---- formulas of one point ----

# They are always inlined, because a call in a loop keeps it from being vectorised.
point_formula = subroutine(forceinline=True)


@point_formula
def minmod(a, b):
    """Return the argument nearer to 0 if both have one sign, otherwise 0. Minima and maxima need no branch."""
    return max(min(a, b), 0.0) + min(max(a, b), 0.0)


@point_formula
def limited(below, here, above):
    """Return the difference across a cell, limited by twice the one-sided ones (van Leer 1977)."""
    low, high = 2.0 * (here - below), 2.0 * (above - here)
    return minmod(0.5 * (above - below), minmod(low, high))


@point_formula
def parabola(q2, q1, q, p1, p2):
    """Return the values at both faces of a cell's limited parabola (Colella and Woodward 1984, eqs. 1.6 to 1.10).

    Eq. 1.10, which lets no extremum into a cell, is a minmod of the differences to both faces.
    """
    slope = limited(q1, q, p1)
    low = 0.5 * (q1 + q) - (slope - limited(q2, q1, q)) * SIXTH
    high = 0.5 * (q + p1) - (limited(q, p1, p2) - slope) * SIXTH
    down, up = q - low, high - q
    return q - minmod(down, 2.0 * up), q + minmod(up, 2.0 * down)


@point_formula
def smooth_parabola(q2, q1, q, p1, p2):
    """Return the values at both faces of a cell's parabola, of fourth order and without limits."""
    slope = 0.5 * (p1 - q1)
    low = 0.5 * (q1 + q) - (slope - 0.5 * (q - q2)) * SIXTH
    high = 0.5 * (q + p1) - (0.5 * (p2 - q) - slope) * SIXTH
    return low, high


@point_formula
def line(q1, q, p1):
    """Return the values at both faces of a cell's limited line."""
    half = 0.5 * limited(q1, q, p1)
    return q - half, q + half


@point_formula
def traced_low(q, low, high, ratio):
    """Return the mean over what crosses the lower face. ratio: velocity there times dt over the width."""
    down = max(-ratio, 0.0)
    return low + 0.5 * down * ((high - low) + (1.0 - TWO_THIRDS * down) * (6.0 * q - 3.0 * (low + high)))


@point_formula
def traced_high(q, low, high, ratio):
    """Return the mean over what crosses the upper face. ratio: velocity there times dt over the width."""
    up = max(ratio, 0.0)
    return high - 0.5 * up * ((high - low) - (1.0 - TWO_THIRDS * up) * (6.0 * q - 3.0 * (low + high)))


@point_formula
def upwind(velocity, left, right, small):
    """Return the state on the side that the velocity comes from, the mean of both for a velocity of about 0."""
    mean = 0.5 * (left + right)
    right_or_mean = right if velocity < -small else mean
    return left if velocity > small else right_or_mean


@point_formula
def riemann(left, right, small):
    """Return the velocity across a face between two states, as of Burgers' equation."""
    total = left + right
    still = (left <= 0.0 and right >= 0.0) or abs(total) < small
    moving = left if total > 0.0 else right
    return 0.0 if still else moving


# ---- rows ----


@subroutine
def trace_row(q, start, pitch, lows, low_start, highs, high_start, ratio, reconstruction, below, above):
    """Trace the states at both faces of each cell of a row.

    q : the field; start : its first cell; pitch : between neighbours along the axis
    lows, highs : velocities at the lower and upper faces, or in the cells; ratio : dt over the width
    below, above : (n,) the states at the lower and the upper face
    """
    n = below.size
    q2, q1 = q[start - 2 * pitch : start - 2 * pitch + n], q[start - pitch : start - pitch + n]
    q0 = q[start : start + n]
    p1, p2 = q[start + pitch : start + pitch + n], q[start + 2 * pitch : start + 2 * pitch + n]
    at_low, at_high = lows[low_start : low_start + n], highs[high_start : high_start + n]
    if reconstruction == PLM:
        for i in range(n):
            low, high = line(q1[i], q0[i], p1[i])
            below[i] = traced_low(q0[i], low, high, at_low[i] * ratio)
            above[i] = traced_high(q0[i], low, high, at_high[i] * ratio)
    elif reconstruction == UNLIMITED:
        for i in range(n):
            low, high = smooth_parabola(q2[i], q1[i], q0[i], p1[i], p2[i])
            below[i] = traced_low(q0[i], low, high, at_low[i] * ratio)
            above[i] = traced_high(q0[i], low, high, at_high[i] * ratio)
    else:
        for i in range(n):
            low, high = parabola(q2[i], q1[i], q0[i], p1[i], p2[i])
            below[i] = traced_low(q0[i], low, high, at_low[i] * ratio)
            above[i] = traced_high(q0[i], low, high, at_high[i] * ratio)


@subroutine
def upwind_row(velocity, left, right, small, out):
    """Set the upwind states at the faces of a row."""
    for i in range(out.size):
        out[i] = upwind(velocity[i], left[i], right[i], small)


@subroutine
def riemann_row(left, right, small, out):
    """Set the velocities across the faces of a row."""
    for i in range(out.size):
        out[i] = riemann(left[i], right[i], small)


@subroutine
def side_row(code, last, below, above, left, right, out):
    """Set the states at faces on a side. below, above: the cells around the faces."""
    for i in range(out.size):
        if code == SIDE_VALUE:
            out[i] = 0.5 * (below[i] + above[i])
        else:
            out[i] = left[i] if last else right[i]


# ---- kernels that look at every cell once ----


@kernel(
    lambda: (FIELD, FIELD, FIELD, LAYOUT, LAYOUT, types.UniTuple(float64, 3), int64, float64[:, ::1]),
    parallel=True,
    nogil=True,
)
def find_speeds(u, v, w, layout, shape, per_width, n_threads, out_largest):
    """Find the largest speed along an axis, and the largest rate at which fluid crosses cells.

    Parameters
    ----------
    u, v, w : flat fields; layout, shape : of the block
    per_width : 1 / (dz, dy, dx)
    out_largest : (n_threads, 2) the largest |u_i|, and the largest |u_i| / width; NaN is not seen

    Communication: none.  Cost: 3 values read, 6 flops per cell.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    for thread in prange(n_threads):
        speed, rate = 0.0, 0.0
        for k in range(nz * thread // n_threads, nz * (thread + 1) // n_threads):
            for j in range(ny):
                first = origin + k * plane + j * row
                us, vs, ws = u[first : first + nx], v[first : first + nx], w[first : first + nx]
                for i in range(nx):
                    a, b, c = abs(us[i]), abs(vs[i]), abs(ws[i])
                    speed = max(speed, max(a, max(b, c)))
                    rate = max(rate, max(a * per_width[2], max(b * per_width[1], c * per_width[0])))
        out_largest[thread, 0] = speed
        out_largest[thread, 1] = rate


@kernel(lambda: (FIELD, float64, FIELD, FIELD, LAYOUT, LAYOUT), parallel=True, nogil=True)
def add_difference(q, factor, new, old, layout, shape):
    """q += factor * (new - old) in the owned cells.

    Parameters
    ----------
    q, new, old : flat fields; layout, shape : of the block

    Communication: none.  Cost: 3 values read, 1 written per cell.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    for k in prange(nz):
        for j in range(ny):
            first = origin + k * plane + j * row
            here, a, b = q[first : first + nx], new[first : first + nx], old[first : first + nx]
            for i in range(nx):
                here[i] += factor * (a[i] - b[i])


@kernel(lambda: (FIELD, float64, FIELD, float64, FIELD, FIELD, LAYOUT, LAYOUT), parallel=True, nogil=True)
def combine(base, first_factor, first_rate, second_factor, second_rate, out, layout, shape):
    """out = base + first_factor * first_rate + second_factor * second_rate in the owned cells.

    Parameters
    ----------
    base, first_rate, second_rate, out : flat fields; layout, shape : of the block

    Communication: none.  Cost: 3 values read, 1 written per cell.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    for k in prange(nz):
        for j in range(ny):
            first = origin + k * plane + j * row
            here, to = base[first : first + nx], out[first : first + nx]
            a, b = first_rate[first : first + nx], second_rate[first : first + nx]
            for i in range(nx):
                to[i] = here[i] + (first_factor * a[i] + second_factor * b[i])
