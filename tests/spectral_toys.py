"""Modes of all ranks in canonical order, their parts, and transforms by np.fft: the tests' oracle for files."""

import numpy as np

from ridgeline.fourier.decomposition import PencilGrid, Truncation, check_process_grid
from ridgeline.fourier.modes import Modes
from ridgeline.runtime.errors import DecompositionError


def process_grids(n, shape, dealias="phase-shift"):
    """All P_r x P_c of n ranks that leave none without data."""
    for rows in range(1, n + 1):
        if n % rows == 0:
            try:
                check_process_grid(Truncation(shape, dealias), (rows, n // rows))
            except DecompositionError:
                continue
            yield rows, n // rows


def whole_modes(shape, lengths, dealias="phase-shift"):
    """All modes, as one rank has them."""
    return Modes.of(PencilGrid(shape, dealias, (1, 1), 0), lengths)


def random_fields(n_scalars, dtype, shape, lengths, dealias="phase-shift", seed=11):
    """Solenoidal velocity and scalars of a real flow, complex [3 + S, all modes]."""
    modes = whole_modes(shape, lengths, dealias)
    physical = np.random.default_rng(seed).normal(size=(3 + n_scalars, *shape))
    fields = forward(physical, modes)
    kz, ky, kx = modes.expand()
    square = kx**2 + ky**2 + kz**2
    along = (kx * fields[0] + ky * fields[1] + kz * fields[2]) / np.where(square > 0, square, 1)
    fields[:3] -= np.stack([kx, ky, kz]) * along
    return fields.astype(dtype)


def forward(physical, modes):
    """Modes of real [n, z, y, x]: complex [n, n_modes]."""
    jz, jy, jx = modes.lines.expand()
    return np.fft.rfftn(physical, axes=(1, 2, 3), norm="forward")[:, jz, jy, jx]


def backward(fields, modes):
    """Real [n, z, y, x] of all modes."""
    jz, jy, jx = modes.lines.expand()
    nz, ny, nx = modes.shape
    full = np.zeros((len(fields), nz, ny, nx // 2 + 1), complex)
    full[:, jz, jy, jx] = fields
    return np.fft.irfftn(full, modes.shape, axes=(1, 2, 3), norm="forward")


def part(whole, lines):
    """The fields of one rank, [n, n_modes] of [n, all modes]."""
    own = [np.arange(s, s + n) for s, n in zip(lines.start_global, np.diff(lines.start))]
    return np.ascontiguousarray(whole[:, np.concatenate(own)])


def mode_keys(modes):
    """(j_z, j_y, j_x) of every mode of a rank, int64 [n_modes, 3]."""
    return np.stack(modes.lines.expand(), axis=1)


def shell_of_modes(shells):
    """The shell of each mode of a rank, int64 [n_modes]."""
    kz, ky, kx = shells.modes.expand()
    return shells.of(np.sqrt(kx * kx + kz * kz + ky * ky))


def dictionary(fields, modes):
    """Modes by (j_z, j_y, j_x)."""
    return dict(zip(map(tuple, mode_keys(modes).tolist()), fields.T))


class NumpyTransform:
    """FourierTransform.to_spectral by gathering everything on every rank."""

    def __init__(self, comm, grid, modes):
        self.comm, self.grid, self.modes = comm, grid, modes

    def to_spectral(self, physical, out=None):
        whole = np.empty((len(physical), *self.grid.shape))
        for (z, y, x), block in self.comm.allgather((self.grid.offset, physical)):
            _, nz, ny, nx = block.shape
            whole[:, z : z + nz, y : y + ny, x : x + nx] = block
        result = forward(whole, self.modes)
        if out is None:
            return result
        out[...] = result
        return out


def recorders_of_particles(model, comm):
    """Return what a model writes of particles."""
    return [one for one in model.recorders(model._case, comm) if one.name.endswith("particles")]
