"""A periodic box on one rank by plain np.fft: the oracle of what is computed from modes."""

import numpy as np
from mpi4py import MPI

from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.fourier.modes import Modes

COMM = MPI.COMM_SELF


def make_modes(shape, lengths, dealias, process_grid=(1, 1), rank=0) -> Modes:
    return Modes.of(PencilGrid(shape, dealias, process_grid, rank), lengths)


def wavevector(modes) -> np.ndarray:
    """Return k [3, nz, ny, nx] in the order x, y, z."""
    axes = [2 * np.pi / length * np.fft.fftfreq(n, 1 / n) for n, length in zip(modes.shape, modes.lengths)]
    return np.stack(np.meshgrid(*axes, indexing="ij"))[::-1]


def points(modes) -> list[np.ndarray]:
    """Return z, y, x of the grid points, broadcasting to [nz, ny, nx]."""
    axes = (length * np.arange(n) / n for n, length in zip(modes.shape, modes.lengths))
    return np.meshgrid(*axes, indexing="ij")


def derivative(field, axis, modes) -> np.ndarray:
    """Return the derivative of values [nz, ny, nx] along axis 0, 1, 2 = x, y, z."""
    return np.fft.ifftn(1j * wavevector(modes)[axis] * np.fft.fftn(field)).real


class WholeTransform:
    """The signatures of a distributed transform, for all modes and points on one rank."""

    def __init__(self, modes, dtype=np.complex128) -> None:
        self.modes, self.dtype = modes, np.dtype(dtype)
        self.calls = {"to_physical": 0, "to_spectral": 0}

    def to_physical(self, spectral):
        self.calls["to_physical"] += len(spectral)
        whole = np.zeros((len(spectral), *self.modes.shape), complex)
        jz, jy, jx = self.modes.lines.expand()
        whole[:, -jz, -jy, -jx] = spectral.conj()
        whole[:, jz, jy, jx] = spectral
        values = np.fft.ifftn(whole, axes=(1, 2, 3)) * np.prod(self.modes.shape)
        return values.real.astype(np.zeros(0, self.dtype).real.dtype)

    def to_spectral(self, physical):
        self.calls["to_spectral"] += len(physical)
        whole = np.fft.fftn(physical, axes=(1, 2, 3)) / np.prod(self.modes.shape)
        jz, jy, jx = self.modes.lines.expand()
        return np.ascontiguousarray(whole[:, jz, jy, jx]).astype(self.dtype)


def random_velocity(modes, seed=1, n_scalars=0) -> np.ndarray:
    """Return retained modes of a random solenoidal velocity with a mean, and of scalars, complex128."""
    noise = np.random.default_rng(seed).normal(size=(3 + n_scalars, *modes.shape))
    whole = np.fft.fftn(noise, axes=(1, 2, 3)) / np.prod(modes.shape)
    k = wavevector(modes)
    k2 = (k**2).sum(0)
    k2[0, 0, 0] = 1
    whole /= 1 + k2 / k2[0, 1, 0]  # smooth, so that no figure is all from the smallest scales
    whole[:3] -= k * (k * whole[:3]).sum(0) / k2
    jz, jy, jx = modes.lines.expand()
    return np.ascontiguousarray(whole[:, jz, jy, jx])


def gradient(u, modes) -> np.ndarray:
    """Return du_i/dx_j [3, 3, nz, ny, nx] of values [3, nz, ny, nx]."""
    return np.array([[derivative(u[i], j, modes) for j in range(3)] for i in range(3)])


def curl(u, modes) -> np.ndarray:
    g = gradient(u, modes)
    return np.array([g[2, 1] - g[1, 2], g[0, 2] - g[2, 0], g[1, 0] - g[0, 1]])


def mean(values) -> np.ndarray:
    return values.mean(axis=(-3, -2, -1))


def taylor_green(z, y, x):
    return np.array([np.sin(x) * np.cos(y) * np.cos(z), -np.cos(x) * np.sin(y) * np.cos(z), 0 * x])


def beltrami(z, y, x, a=1.0, b=0.7, c=-0.4):
    return np.array(
        [
            a * np.sin(z) + c * np.cos(y),
            b * np.sin(x) + a * np.cos(z),
            c * np.sin(y) + b * np.cos(x),
        ]
    )
