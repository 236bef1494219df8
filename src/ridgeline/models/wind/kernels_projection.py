"""The discrete operators of both projections: divergences, and gradients of what their Poisson problems give."""

from numba import float64, prange, types

from ridgeline.jit.kernel import kernel
from ridgeline.models.wind.kernels import FIELD, LAYOUT
from ridgeline.models.wind.kernels_diffusion import gradient


@kernel(
    lambda: (types.UniTuple(FIELD, 3), *[LAYOUT] * 3, types.UniTuple(float64, 3), FIELD),
    parallel=True,
    nogil=True,
)
def set_face_divergence(faces, layout, target, shape, per_width, out):
    """Set minus the divergence of face velocities, the right side of the MAC projection.

    Parameters
    ----------
    faces : velocities across the lower faces in z, y and x, of the owned cells and one beyond
    layout : of faces; target : of out; per_width : 1/widths in z, y and x
    out : at cells

    Communication: none.  Cost: 3 values read and 1 written per cell, 8 flops.
    """
    origin, row, plane = layout
    to_origin, to_row, to_plane = target
    nz, ny, nx = shape
    hz, hy, hx = per_width
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            z, above = faces[0][at : at + nx], faces[0][at + plane : at + plane + nx]
            y, behind = faces[1][at : at + nx], faces[1][at + row : at + row + nx]
            x, right = faces[2][at : at + nx], faces[2][at + 1 : at + 1 + nx]
            first = to_origin + k * to_plane + j * to_row
            to = out[first : first + nx]
            for i in range(nx):
                to[i] = -(((above[i] - z[i]) * hz + (behind[i] - y[i]) * hy) + (right[i] - x[i]) * hx)


@kernel(
    lambda: (FIELD, *[LAYOUT] * 3, types.UniTuple(float64, 3), types.UniTuple(FIELD, 3)),
    parallel=True,
    nogil=True,
)
def correct_faces(phi, source, layout, shape, per_width, faces):
    """Subtract the gradient of phi from the velocities at faces, of the owned cells and one beyond.

    Parameters
    ----------
    phi : at cells, one layer of ghosts filled; source : its layout
    layout : of faces; per_width : 1/widths in z, y and x
    faces : velocities across the lower faces in z, y and x, changed in place

    Communication: none.  Cost: 4 values read and 3 written per cell, 9 flops.
    """
    origin, row, plane = layout
    p_origin, p_row, p_plane = source
    nz, ny, nx = shape
    hz, hy, hx = per_width
    for k in prange(nz + 1):
        for j in range(ny + 1):
            at, first = origin + k * plane + j * row, p_origin + k * p_plane + j * p_row
            here = phi[first : first + nx + 1]
            if j < ny:
                below, z = phi[first - p_plane : first - p_plane + nx], faces[0][at : at + nx]
                for i in range(nx):
                    z[i] -= (here[i] - below[i]) * hz
            if k < nz:
                before, y = phi[first - p_row : first - p_row + nx], faces[1][at : at + nx]
                for i in range(nx):
                    y[i] -= (here[i] - before[i]) * hy
            if j < ny and k < nz:
                left, x = phi[first - 1 : first + nx], faces[2][at : at + nx + 1]
                for i in range(nx + 1):
                    x[i] -= (here[i] - left[i]) * hx


@kernel(
    lambda: (FIELD, *[LAYOUT] * 3, types.UniTuple(float64, 3), float64, types.UniTuple(FIELD, 3)),
    parallel=True,
    nogil=True,
)
def add_gradient(p, nodes, layout, shape, per_width, factor, velocity):
    """velocity += factor * G p in the owned cells.

    Parameters
    ----------
    p : at nodes, of which node (k, j, i) is the lowest corner of that cell; nodes : its layout
    layout : of the velocity; per_width : 1/widths in z, y and x
    velocity : u, v and w, changed in place

    Communication: none.  Cost: 4 values read and 3 written per cell, 33 flops.
    """
    origin, row, plane = layout
    p_origin, p_row, p_plane = nodes
    nz, ny, nx = shape
    hz, hy, hx = per_width
    for k in prange(nz):
        for j in range(ny):
            at, base = origin + k * plane + j * row, p_origin + k * p_plane + j * p_row
            p00, p01 = p[base : base + nx + 1], p[base + p_row : base + p_row + nx + 1]
            p10 = p[base + p_plane : base + p_plane + nx + 1]
            p11 = p[base + p_plane + p_row : base + p_plane + p_row + nx + 1]
            u, v, w = velocity[0][at : at + nx], velocity[1][at : at + nx], velocity[2][at : at + nx]
            for i in range(nx):
                gz, gy, gx = gradient(p00, p01, p10, p11, i, hz, hy, hx)
                u[i] += factor * gx
                v[i] += factor * gy
                w[i] += factor * gz


@kernel(
    lambda: (*[FIELD] * 3, *[LAYOUT] * 3, types.UniTuple(float64, 3), float64, FIELD),
    parallel=True,
    nogil=True,
)
def set_node_divergence(u, v, w, layout, nodes, shape, per_width, factor, out):
    """Set minus the divergence at nodes times factor, the right side of the nodal projection.

    The cells around a node count alike; those beyond a side that is not periodic must hold 0.

    Parameters
    ----------
    u, v, w : at cells, one layer of ghosts with edges filled; layout : theirs
    nodes : the layout of out; shape : the owned nodes; per_width : 1/widths in z, y and x
    out : at the owned nodes

    Communication: none.  Cost: 3 values read and 1 written per node, 30 flops.
    """
    origin, row, plane = layout
    to_origin, to_row, to_plane = nodes
    nz, ny, nx = shape
    hz, hy, hx = 0.25 * factor * per_width[0], 0.25 * factor * per_width[1], 0.25 * factor * per_width[2]
    for k in prange(nz):
        for j in range(ny):
            at = origin + k * plane + j * row
            first = to_origin + k * to_plane + j * to_row
            for i in range(nx):
                d = at + i  # the cell above the node in all directions
                c, b = d - row, d - plane
                a = b - row
                x = ((u[a - 1] - u[a]) + (u[b - 1] - u[b])) + ((u[c - 1] - u[c]) + (u[d - 1] - u[d]))
                y = ((v[a - 1] - v[b - 1]) + (v[a] - v[b])) + ((v[c - 1] - v[d - 1]) + (v[c] - v[d]))
                z = ((w[a - 1] - w[c - 1]) + (w[a] - w[c])) + ((w[b - 1] - w[d - 1]) + (w[b] - w[d]))
                out[first + i] = (z * hz + y * hy) + x * hx
