"""Terms of the budget of Reynolds stresses, beside means and second moments.

    d<u_i'u_j'>/dt = production + turbulent transport + viscous diffusion + pressure terms - dissipation

Production and viscous diffusion follow from means and second moments. The other terms need 25 numbers for a point:

    uuu, uuv, ...               <u_i'u_j'u_k'>, ten: turbulent transport is minus their divergence
    up, vp, wp                  <u_i'p'>: pressure diffusion
    pressure_strain_xx, ...     <p's_ij'> with s_ij = (du_i/dx_j + du_j/dx_i)/2, six
    dissipation_xx, ...         2 nu <du_i'/dx_k du_j'/dx_k>, six; half their trace is that of the turbulence energy

With them go the nine gradients of the mean velocity, without which the last two could not be added up over windows.

Derivatives are those of the elements' polynomials and jump between elements. Source: Mansour, Kim and Moin, J. Fluid
Mech. 194 (1988) 15, Eq. 1. The square-duct paper counts 27 statistics, and does not say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.models.navier_stokes.derivatives import element_chunks, physical_gradient, velocity_gradient
from ridgeline.models.navier_stokes.problem import VELOCITIES

Array = NDArray[np.float64]
LETTERS, AXES = "uvw", "xyz"
TRIPLES = tuple(combinations_with_replacement(range(3), 3))
PAIRS = tuple(combinations_with_replacement(range(3), 2))
# Second moments that the budgets need: (name, numbers of the means).
PRESSURE_VELOCITY = [(f"{LETTERS[i]}p", i, 3) for i in range(3)]


def letters(indices: tuple[int, ...], alphabet: str = LETTERS) -> str:
    """Return (0, 0, 1) as "uuv", or as "xxy"."""
    return "".join(alphabet[i] for i in indices)


def term_names() -> list[str]:
    """Return the names of the sums that `add_terms` adds to."""
    return [
        *(letters(triple) for triple in TRIPLES),
        *(f"pressure_strain_{letters(pair, AXES)}" for pair in PAIRS),
        *(f"dissipation_{letters(pair, AXES)}" for pair in PAIRS),
    ]


def add_terms(
    weight: float, geometry: ElementGeometry, velocity: Array, pressure: Array, out_sums: Array
) -> None:
    """Add weight times the products to running sums [22, E, n, n, n], in the order of `term_names`.

    velocity: [3, E, n, n, n]; pressure: [E, n, n, n]. Viscosity is left out. No communication.
    Memory: fields read once, sums read and written once; products in the caches.
    """
    for chunk in element_chunks(len(pressure), pressure[0].size):
        u, p = velocity[:, chunk], weight * pressure[chunk]
        rows = iter(out_sums[:, chunk])
        squares = {pair: weight * u[pair[0]] * u[pair[1]] for pair in PAIRS}
        for i, j, k in TRIPLES:
            next(rows)[...] += squares[i, j] * u[k]
        gradient = velocity_gradient(geometry, velocity, chunk)
        for i, j in PAIRS:
            next(rows)[...] += 0.5 * p * (gradient[i, j] + gradient[j, i])
        for i, j in PAIRS:
            next(rows)[...] += weight * (gradient[i] * gradient[j]).sum(axis=0)


def gradients(geometry: ElementGeometry, velocity: Array) -> Iterator[tuple[str, Array]]:
    """Yield (name, du_i/dx_j [E, n, n, n]) of a velocity [3, E, n, n, n], "gradient_01" for i = 0 and j = 1."""
    for i, u in enumerate(velocity):
        for j, values in enumerate(physical_gradient(geometry, u, slice(None))):
            yield f"gradient_{i}{j}", values


def central_terms(fields: Mapping[str, Array], viscosity: float) -> Iterator[tuple[str, Array, str]]:
    """Yield (name, values, description) of the terms, moments of deviations from the means, and of mean gradients.

    fields: means, and means of products, over the same times and directions, by the names of the sums and of
    `gradients`.
    """
    mean = [fields[name] for name in VELOCITIES]
    for i, j, k in TRIPLES:
        name = letters((i, j, k))
        values = fields[name] + 2.0 * mean[i] * mean[j] * mean[k]
        for axis, pair in ((i, (j, k)), (j, (i, k)), (k, (i, j))):
            values = values - mean[axis] * fields[letters(pair)]
        yield name, values, f"third moment of {', '.join(VELOCITIES[axis] for axis in (i, j, k))}"
    slope = {(i, j): fields[f"gradient_{i}{j}"] for i in range(3) for j in range(3)}
    for (i, j), values in slope.items():
        yield (
            f"mean_gradient_{AXES[i]}{AXES[j]}",
            values,
            f"derivative of mean {VELOCITIES[i]} along {AXES[j]}",
        )
    for i, j in PAIRS:
        name = f"pressure_strain_{letters((i, j), AXES)}"
        strain = 0.5 * (slope[i, j] + slope[j, i])
        yield name, fields[name] - fields["pressure"] * strain, "covariance of pressure and strain rate"
    for i, j in PAIRS:
        name = f"dissipation_{letters((i, j), AXES)}"
        of_means = sum(slope[i, k] * slope[j, k] for k in range(3))
        yield name, 2.0 * viscosity * (fields[name] - of_means), "dissipation of the Reynolds stress"
