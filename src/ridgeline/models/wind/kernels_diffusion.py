"""Tendencies: what changes the fields beside advection, at cells.

    velocity   F = -G p + nu lap(u) + sources        (`set_momentum`)
    scalars    F = kappa lap(q)                      (`set_diffusion`)

Eddy viscosities add d_j[nu_t (d_j u_i + d_i u_j)] and d_j[kappa_t d_j q], with nu_t and kappa_t at cells and their
means at faces. Constant viscosities leave out the transposed gradient, whose divergence is 0. Fluxes through sides
are added by the engine, in the cells at the sides.
"""

from numba import float64, prange, types

from ridgeline.jit.kernel import kernel, subroutine
from ridgeline.models.wind.forcing import momentum_rates
from ridgeline.models.wind.kernels import FIELD, LAYOUT

VISCOUS, PER_WIDTH = 0, 3  # numbers of `set_momentum`

point_rates = subroutine(momentum_rates)


@subroutine
def laplacian(q, at, plane, row, i, cz, cy, cx):
    """Return the diffusion of a field in a cell. cz, cy, cx: diffusivity over the squared widths."""
    here = q[at + i]
    z = ((q[at + plane + i] - here) - (here - q[at - plane + i])) * cz
    y = ((q[at + row + i] - here) - (here - q[at - row + i])) * cy
    x = ((q[at + 1 + i] - here) - (here - q[at - 1 + i])) * cx
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
                for i in range(n):
                    fu[i] += laplacian(u, at, plane, row, i, cz, cy, cx)
                    fv[i] += laplacian(v, at, plane, row, i, cz, cy, cx)
                    fw[i] += laplacian(w, at, plane, row, i, cz, cy, cx)


@subroutine
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
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            to = out[at : at + nx]
            for i in range(nx):
                to[i] = laplacian(q, at, plane, row, i, cz, cy, cx)


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
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            for c in range(at, at + nx):
                here, mine = q[c], kappa[c]
                z = (mine + kappa[c + plane]) * (q[c + plane] - here) - (kappa[c - plane] + mine) * (
                    here - q[c - plane]
                )
                y = (mine + kappa[c + row]) * (q[c + row] - here) - (kappa[c - row] + mine) * (
                    here - q[c - row]
                )
                x = (mine + kappa[c + 1]) * (q[c + 1] - here) - (kappa[c - 1] + mine) * (here - q[c - 1])
                out[c] += (z * cz + y * cy) + x * cx


@subroutine
def cross_stress(q, c, along, across, viscosity, per_along):
    """Return nu d q/d(along) at the face between cells c and c + across."""
    high = q[c + along] + q[c + along + across]
    low = q[c - along] + q[c - along + across]
    mean = 0.5 * (viscosity[c] + viscosity[c + across])
    return mean * ((high - low) * (0.25 * per_along))


@subroutine
def transposed(u, v, w, nu, c, own, row, plane, hx, hy, hz, ho):
    """Return d_j[nu d_i u_j] in a cell, for the axis i of pitch `own` and inverse width `ho`."""
    x = cross_stress(u, c, own, 1, nu, ho) - cross_stress(u, c - 1, own, 1, nu, ho)
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
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            for c in range(at, at + nx):
                out[0][c] += transposed(u, v, w, nu, c, 1, row, plane, hx, hy, hz, hx)
                out[1][c] += transposed(u, v, w, nu, c, row, row, plane, hx, hy, hz, hy)
                out[2][c] += transposed(u, v, w, nu, c, plane, row, plane, hx, hy, hz, hz)
