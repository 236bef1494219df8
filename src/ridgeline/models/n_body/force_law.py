"""The gravity of two particles: the part that the mesh computes, and the short-range part that completes it.

**The mesh** solves Poisson's equation mode by mode. With wavenumbers k in units of 1/cell, so that |k_i| < pi, the
potential of a mode of the density contrast delta is source * G(k) S(k) delta, where

    G = (45/128) / [sum_i cos k_i - (5/64) sum_i cos 2 k_i + (1/1024) sum_i cos 4 k_i - 2835/1024]
    S = exp(-k^2 sigma^2 / 4) [(2 / k) sin(k / 2)]^n_s
    d/dx_i -> i [(4/3) sin k_i - (1/6) sin 2 k_i]

are the influence function of sixth order, the filter that makes the mesh isotropic, and the Super-Lanczos derivative
of fourth order, as in HACC.

**The short-range force** is the difference between Newton's force and the mesh's. With distances r in cells and
s = r^2, a particle attracts another one by r f(s). Beyond the matching radius f = 0, because the mesh has the whole
force; within it

    f(s) = (s + softening^2)^(-3/2) - P(s),   P = polynomial of degree 5 that fits the force of the mesh over r.

HACC fits P to samples of the mesh's force. We fit it to the mean of the force over all positions and directions,
which is a sum over modes, because the aliases of clouds cancel in the mean:

    F(r) = 4 pi / N^3 sum_k G S W^2 [sum_i d(k_i) k_i / k] j_1(k r),   W = prod_i sinc(k_i / 2)^2 of a cloud.

Source: Habib et al., New Astronomy 42 (2016) 49, Sec. 3; arXiv:1410.2805.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
DEGREE = 5  # of the polynomial, in s
MESH = 48  # cells in each direction of the mesh whose force is computed
NODES = 100  # distances of the fit
BEYOND = (
    4.0  # cells beyond the matching radius in which the error is measured; farther out it is smaller still
)


@dataclass(frozen=True)
class Filter:
    """The isotropising filter S. width: sigma in cells; power: the exponent n_s. The defaults are HACC's."""

    width: float = 0.8
    power: int = 3


def influence(kz: Reals, ky: Reals, kx: Reals) -> Reals:
    """Return G(k), which is -1 / k^2 to sixth order, and 0 at k = 0. kz, ky, kx: in 1/cell, broadcast together."""

    def cosines(m: int) -> Reals:
        return np.asarray(np.cos(m * kz) + np.cos(m * ky) + np.cos(m * kx))

    bracket = cosines(1) - 5 / 64 * cosines(2) + cosines(4) / 1024 - 2835 / 1024
    at_rest = (kz == 0) & (ky == 0) & (kx == 0)
    return np.where(at_rest, 0.0, 45 / 128 / np.where(at_rest, 1.0, bracket))


def filter_factor(square: Reals, filter: Filter) -> Reals:
    """Return S(k). square: k^2, with k in 1/cell."""
    return np.asarray(
        np.exp(-0.25 * filter.width**2 * square) * np.sinc(np.sqrt(square) / (2 * np.pi)) ** filter.power
    )


def slope(k: Reals) -> Reals:
    """Return the Super-Lanczos derivative of a mode over i times the mode. k: in 1/cell."""
    return np.asarray(4 / 3 * np.sin(k) - np.sin(2 * k) / 6)


def mesh_force(r: Reals, filter: Filter) -> Reals:
    """Return the mean attraction of two particles by the mesh at distances r > 0 in cells, where Newton's is r^-2.

    The forces of the periodic images and of the uniform background of MESH cells are removed. Averaged over
    directions they are those of the background alone, -(4 pi / 3) r / MESH^3.
    """
    j = np.arange(MESH // 2) * (2 * np.pi / MESH)
    kz, ky, kx = np.meshgrid(j, j, j, indexing="ij")
    square = kz * kz + ky * ky + kx * kx
    signs = np.where(j > 0, 2.0, 1.0)
    copies = signs[:, None, None] * signs[:, None] * signs
    k = np.sqrt(square)
    clouds = np.prod([np.sinc(each / (2 * np.pi)) ** 4 for each in (kz, ky, kx)], axis=0)
    along = slope(kz) * kz + slope(ky) * ky + slope(kx) * kx
    weight = (
        copies
        * influence(kz, ky, kx)
        * filter_factor(square, filter)
        * clouds
        * along
        / np.where(k > 0, k, 1.0)
    )
    # Modes of equal |k| share the Bessel function.
    shells, shell = np.unique(np.rint(square * (MESH / (2 * np.pi)) ** 2).astype(int), return_inverse=True)
    shell_weight = np.bincount(shell.ravel(), weight.ravel())[1:]
    kr = np.outer(r, np.sqrt(shells[1:]) * (2 * np.pi / MESH))
    bessel = np.sin(kr) / kr**2 - np.cos(kr) / kr
    return np.asarray(-4 * np.pi / MESH**3 * (bessel @ shell_weight) + 4 * np.pi / 3 * r / MESH**3)


@dataclass(frozen=True)
class ForceLaw:
    """The short-range force, with lengths in cells; `force_law` computes it.

    Attributes
    ----------
    radius, softening : float
        Matching radius, and Plummer's softening length.
    coefficients : tuple of floats
        The coefficients of P, beginning with s^0.
    error : float
        Largest relative deviation of the mean force from Newton's, which is softened within the matching radius.
    """

    radius: float
    softening: float
    coefficients: tuple[float, ...]
    error: float

    def __call__(self, s: Reals) -> Reals:
        """Return f(s), which is 0 from the matching radius on."""
        near = (s + self.softening**2) ** -1.5 - np.polynomial.Polynomial(self.coefficients)(s)
        return np.where(s < self.radius**2, near, 0.0)

    def potential(self, s: Reals) -> Reals:
        """Return the potential of the attraction r f(s); it is 0 from the matching radius on."""
        integral = np.polynomial.Polynomial(self.coefficients).integ()
        edge = self.radius**2
        near = (edge + self.softening**2) ** -0.5 - (s + self.softening**2) ** -0.5
        return np.where(s < edge, near + 0.5 * (integral(edge) - integral(s)), 0.0)


@functools.cache
def force_law(radius: float, softening: float, filter: Filter) -> ForceLaw:
    """Return the short-range force for a matching radius and a softening in cells."""
    inside = radius * np.sqrt(0.5 - 0.5 * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES))
    force = mesh_force(inside, filter)
    # Least squares of the deviation relative to Newton's force r^-2: P r is fitted with the weight r^2.
    powers = np.vander((inside / radius) ** 2, DEGREE + 1, increasing=True)
    weight = inside**3
    scaled, *_ = np.linalg.lstsq(powers * weight[:, None], force / inside * weight, rcond=None)
    within = np.abs((powers @ scaled) * weight - force * inside**2).max()
    outside = np.linspace(radius, radius + BEYOND, NODES)
    beyond = np.abs(mesh_force(outside, filter) * outside**2 - 1.0).max()
    coefficients = scaled / radius ** (2.0 * np.arange(DEGREE + 1))
    return ForceLaw(radius, softening, tuple(coefficients.tolist()), float(max(within, beyond)))
