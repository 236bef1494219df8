"""Tendencies: what changes the fields beside advection, at cells.

    velocity   F = -G p + nu lap(u) + sources        (`set_momentum`)
    scalars    F = kappa lap(q)                      (`set_diffusion`)

Eddy viscosities add d_j[nu_t (d_j u_i + d_i u_j)] and d_j[kappa_t d_j q], with nu_t and kappa_t at cells and their
means at faces. Constant viscosities leave out the transposed gradient, whose divergence is 0. Fluxes through sides
are added by the engine, in the cells at the sides.

Places in memory are unsigned numbers here: Numba lets a signed one count from the end where it is negative, and LLVM
does not vectorise a loop with that choice.
"""

from numba import float64, prange, types, uint64

from ridgeline.jit.kernel import kernel
from ridgeline.models.wind.forcing import momentum_rates
from ridgeline.models.wind.kernels import FIELD, LAYOUT, point_formula

VISCOUS, PER_WIDTH = 0, 3  # numbers of `set_momentum`

point_rates = point_formula(momentum_rates)


@point_formula
def laplacian(q, c, plane, row, one, cz, cy, cx):
    """Return the diffusion of a field in cell c. cz, cy, cx: diffusivity over the squared widths."""
    here = q[c]
    z = ((q[c + plane] - here) - (here - q[c - plane])) * cz
    y = ((q[c + row] - here) - (here - q[c - row])) * cy
    x = ((q[c + one] - here) - (here - q[c - one])) * cx
    return (z + y) + x


@kernel(
    lambda: (*[FIELD] * 5, *[LAYOUT] * 3, *[float64[::1]] * 3, types.UniTuple(FIELD, 3)),
    parallel=True,
    nogil=True,
)
def set_momentum(u, v, w, theta, p, layout, nodes, shape, numbers, forces, theta_ref, out):
    """Set the tendencies of the velocity: pressure gradient, diffusion, rotation, buoyancy and forces.

    Parameters
    ----------
    u, v, w, theta : flat fields with one layer of ghosts filled; any field in place of theta without buoyancy
    p : the pressure at nodes; nodes : its layout, whose node (k, j, i) is the lowest corner of that cell
    numbers : (6,) viscosity over squared widths and 1/widths in z, y and x
    forces : (6,) of `momentum_rates`; theta_ref : (nz,) the temperature without buoyancy of the block's planes
    out : tendencies of u, v and w

    Communication: none.  Cost: 5 values read and 3 written per cell, about 90 flops.
    """
    origin, row, plane = layout
    p_origin, p_row, p_plane = nodes
    nz, ny, nx = shape
    up, ahead, one = uint64(plane), uint64(row), uint64(1)
    cz, cy, cx = numbers[VISCOUS], numbers[VISCOUS + 1], numbers[VISCOUS + 2]
    hz, hy, hx = numbers[PER_WIDTH], numbers[PER_WIDTH + 1], numbers[PER_WIDTH + 2]
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            base = p_origin + k * p_plane + j * p_row
            n = nx
            p00, p01 = p[base : base + n + 1], p[base + p_row : base + p_row + n + 1]
            p10 = p[base + p_plane : base + p_plane + n + 1]
            p11 = p[base + p_plane + p_row : base + p_plane + p_row + n + 1]
            us, vs, ws = u[at : at + n], v[at : at + n], w[at : at + n]
            heat = theta[at : at + n]
            fu, fv, fw = out[0][at : at + n], out[1][at : at + n], out[2][at : at + n]
            for i in range(n):
                gz, gy, gx = gradient(p00, p01, p10, p11, i, hz, hy, hx)
                rate_u, rate_v, rate_w = point_rates(us[i], vs[i], ws[i], heat[i], theta_ref[k], forces)
                fu[i], fv[i], fw[i] = rate_u - gx, rate_v - gy, rate_w - gz
            if cx != 0.0:
                for axis in range(3):
                    q, to = (u, v, w)[axis], out[axis]
                    for c in range(uint64(at), uint64(at + n)):
                        to[c] += laplacian(q, c, up, ahead, one, cz, cy, cx)


@point_formula
def gradient(p00, p01, p10, p11, i, hz, hy, hx):
    """Return the mean gradient of the trilinear pressure in a cell, in z, y and x. p_zy: the rows of nodes around."""
    a, b, c, d = p00[i], p01[i], p10[i], p11[i]
    e, f, g, h = p00[i + 1], p01[i + 1], p10[i + 1], p11[i + 1]
    z = ((((c - a) + (d - b)) + ((g - e) + (h - f))) * 0.25) * hz
    y = ((((b - a) + (d - c)) + ((f - e) + (h - g))) * 0.25) * hy
    x = ((((e - a) + (f - b)) + ((g - c) + (h - d))) * 0.25) * hx
    return z, y, x


@kernel(lambda: (FIELD, *[LAYOUT] * 2, types.UniTuple(float64, 3), FIELD), parallel=True, nogil=True)
def set_diffusion(q, layout, shape, coefficients, out):
    """Set the diffusion of a field with a constant diffusivity.

    Parameters
    ----------
    q : a flat field with one layer of ghosts filled; coefficients : diffusivity over squared widths in z, y and x
    out : the tendency

    Communication: none.  Cost: 1 value read and 1 written per cell, 14 flops.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    cz, cy, cx = coefficients
    up, ahead, one = uint64(plane), uint64(row), uint64(1)
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            for c in range(uint64(at), uint64(at + nx)):
                out[c] = laplacian(q, c, up, ahead, one, cz, cy, cx)


@point_formula
def face_difference(q, kappa, c, pitch):
    """Return twice the mean of kappa times the difference of q between cells c and c + pitch."""
    return (kappa[c] + kappa[c + pitch]) * (q[c + pitch] - q[c])


@kernel(
    lambda: (FIELD, FIELD, *[LAYOUT] * 2, types.UniTuple(float64, 3), float64, FIELD),
    parallel=True,
    nogil=True,
)
def add_eddy_diffusion(q, kappa, layout, shape, per_width, factor, out):
    """Add factor * d_j[kappa d_j q] to a tendency.

    Parameters
    ----------
    q, kappa : flat fields at cells, one layer of ghosts filled; per_width : 1/widths in z, y and x
    out : the tendency

    Communication: none.  Cost: 3 values read and 1 written per cell, 30 flops.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    cz, cy, cx = (
        0.5 * factor * per_width[0] * per_width[0],
        0.5 * factor * per_width[1] * per_width[1],
        0.5 * factor * per_width[2] * per_width[2],
    )
    up, ahead, one = uint64(plane), uint64(row), uint64(1)
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            for c in range(uint64(at), uint64(at + nx)):
                z = face_difference(q, kappa, c, up) - face_difference(q, kappa, c - up, up)
                y = face_difference(q, kappa, c, ahead) - face_difference(q, kappa, c - ahead, ahead)
                x = face_difference(q, kappa, c, one) - face_difference(q, kappa, c - one, one)
                out[c] += (z * cz + y * cy) + x * cx


@point_formula
def cross_stress(q, c, along, across, viscosity, per_along):
    """Return nu d q/d(along) at the face between cells c and c + across."""
    high = q[c + along] + q[c + along + across]
    low = q[c - along] + q[c - along + across]
    mean = 0.5 * (viscosity[c] + viscosity[c + across])
    return mean * ((high - low) * (0.25 * per_along))


@point_formula
def transposed(u, v, w, nu, c, own, one, row, plane, hx, hy, hz, ho):
    """Return d_j[nu d_i u_j] in a cell, for the axis i of pitch `own` and inverse width `ho`."""
    x = cross_stress(u, c, own, one, nu, ho) - cross_stress(u, c - one, own, one, nu, ho)
    y = cross_stress(v, c, own, row, nu, ho) - cross_stress(v, c - row, own, row, nu, ho)
    z = cross_stress(w, c, own, plane, nu, ho) - cross_stress(w, c - plane, own, plane, nu, ho)
    return (z * hz + y * hy) + x * hx


@kernel(
    lambda: (*[FIELD] * 4, *[LAYOUT] * 2, types.UniTuple(float64, 3), types.UniTuple(FIELD, 3)),
    parallel=True,
    nogil=True,
)
def add_transposed_stress(u, v, w, nu, layout, shape, per_width, out):
    """Add d_j[nu d_i u_j] to the tendencies of u, v and w: the transposed part of the stress of an eddy viscosity.

    Parameters
    ----------
    u, v, w, nu : flat fields at cells, one layer of ghosts with edges filled; per_width : 1/widths in z, y and x
    out : the tendencies

    Communication: none.  Cost: 7 values read and 3 written per cell, about 180 flops.
    """
    origin, row, plane = layout
    nz, ny, nx = shape
    hz, hy, hx = per_width
    up, ahead, one = uint64(plane), uint64(row), uint64(1)
    pitches, per_own = (one, ahead, up), (hx, hy, hz)
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            for axis in range(3):
                own, ho, to = pitches[axis], per_own[axis], out[axis]
                for c in range(uint64(at), uint64(at + nx)):
                    to[c] += transposed(u, v, w, nu, c, own, one, ahead, up, hx, hy, hz, ho)
