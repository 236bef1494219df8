"""The physics beside the equations of a `WindProblem` in plain NumPy, the oracle of `physical_terms`.

It puts the references of the parts together, each of which is in the file of its part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from ridgeline.models.wind.forcing import control_force, force_numbers, make_profiles, step_rates
from ridgeline.models.wind.problem import GHOST, WindProblem
from ridgeline.models.wind.settings import ENERGY, WindCase
from ridgeline.models.wind.subgrid import (
    make_closure,
    one_equation_reference,
    smagorinsky_reference,
    squared_lengths,
)
from ridgeline.models.wind.surface_layer import similarity_numbers, surface_reference
from ridgeline.models.wind.turbines import discs_reference

Array = NDArray[Any]
ONE_LAYER = (slice(GHOST - 1, 1 - GHOST),) * 3  # of fields with their ghosts


class Eddies(NamedTuple):
    """nu_t and kappa_t at the cells with ghosts, and the source of the subgrid energy, None without one."""

    viscosity: Array
    diffusivity: Array
    source: Array | None


class ReferencePhysics:
    """Closure, ground, turbines, controller and damping of a case on the whole grid."""

    def __init__(self, case: WindCase) -> None:
        self._case, self._names = case, case.transported()
        self._widths = case.grid.spacing()
        n, dz = case.grid.shape[0], self._widths[0]
        heights = np.asarray((np.arange(n) + 0.5) * dz)
        self.has_closure = case.subgrid.kind != "none"
        self._profiles = make_profiles(
            case.temperature, case.damping, case.driving, heights, case.grid.lengths[0]
        )
        if self.has_closure:
            self._closure = make_closure(case.subgrid, case.temperature, self._widths)
            surface = case.surface
            self._squared = squared_lengths(
                self._closure, heights, case.subgrid.wall_damping and case.has_surface(), surface.roughness,
                surface.von_karman,
            )  # fmt: skip

    def eddies(self, padded: list[Array]) -> tuple[Array, Array, Array | None]:
        """Return nu_t, kappa_t and the source of the energy at the cells, for fields with ghosts."""
        u, v, w = (q[ONE_LAYER] for q in padded[:3])
        theta = padded[3][ONE_LAYER] if self._case.temperature.enabled else u
        over_surface = self._case.has_surface()
        if self._case.subgrid.kind == "smagorinsky":
            nu, kappa = smagorinsky_reference(u, v, w, theta, self._closure, self._squared, over_surface)
            return nu, kappa, None
        energy = padded[-1][ONE_LAYER]
        return one_equation_reference(u, v, w, theta, energy, self._closure, over_surface)

    def coefficient(self, number: int, eddies: Eddies) -> Array:
        """Return the eddy diffusivity of a field."""
        is_energy = number >= 3 and self._names[number - 3] == ENERGY
        if is_energy:
            return 2.0 * eddies.viscosity
        return eddies.viscosity if number < 3 else eddies.diffusivity

    def forces(self, fields: list[Array], dt: float) -> Array:
        """Return the numbers of the forces in a step of length dt."""
        case, control = self._case, (0.0, 0.0)
        driving = case.driving
        if driving.kind == "hub-height":
            assert driving.height is not None
            heights = (np.arange(case.grid.shape[0]) + 0.5) * self._widths[0]
            u, v = (float(np.interp(driving.height, heights, q.mean((1, 2)))) for q in fields[:2])
            coriolis = case.rotation.coriolis()[0]
            control = control_force((u, v), driving.target, max(driving.relaxation_time or 0.0, dt), coriolis)
        return force_numbers(case.rotation, case.driving, case.temperature, control)

    def rates(self, fields: list[Array], time: float, dt: float) -> list[Array]:
        """Return what ground, turbines and damping add to the tendencies of all fields."""
        case = self._case
        rates = [np.zeros_like(q) for q in fields]
        if case.has_surface():
            self._add_ground(fields, time, rates)
        if case.turbine:
            discs = discs_reference(
                case.turbine, self._widths, case.boundary.periodic(), fields[0], fields[1]
            )
            rates[0] += discs[0]
            rates[1] += discs[1]
        if case.damping.depth:
            p = self._profiles
            rate = step_rates(p.rate, dt)
            targets = {2: np.zeros_like(rate)}
            if p.damps_wind:
                targets |= {0: 0 * rate + p.wind[0], 1: 0 * rate + p.wind[1]}
            if p.damps_theta:
                targets[3] = p.damped_theta
            for number, target in targets.items():
                rates[number] += rate[:, None, None] * (target[:, None, None] - fields[number])
        return rates

    def _add_ground(self, fields: list[Array], time: float, rates: list[Array]) -> None:
        s, temperature = self._case.surface, self._case.temperature
        u, v = fields[0][0], fields[1][0]
        theta = fields[3][0] if temperature.enabled else u
        value = s.heat_flux if s.heat == "flux" else 0.0
        if s.heat == "temperature":
            value = (s.temperature or 0.0) + s.temperature_rate * time
        numbers = similarity_numbers(s, temperature, self._widths[0] / 2)
        fluxes = surface_reference(s, numbers, u, v, theta, value)
        for number, flux in zip((0, 1, 3) if temperature.enabled else (0, 1), fluxes):
            rates[number][0] += flux / self._widths[0]

    def stresses(self, padded: list[Array], eddies: Eddies) -> list[Array]:
        """Return d_j[nu_t d_i u_j] of the velocity at the cells, and the source of the subgrid energy."""
        inner = (slice(GHOST, -GHOST),) * 3
        rates = [np.zeros_like(q[inner]) for q in padded]
        for i in range(3):
            own = 2 - i
            for j in range(3):
                axis = 2 - j
                # d_i u_j at the cells, and its mean at the faces across j.
                slope = (np.roll(padded[j], -1, own) - np.roll(padded[j], 1, own)) / (2 * self._widths[own])
                flux = (
                    0.25
                    * (np.roll(eddies.viscosity, 1, axis) + eddies.viscosity)
                    * (np.roll(slope, 1, axis) + slope)
                )
                rates[i] += (np.roll(flux, -1, axis) - flux)[inner] / self._widths[axis]
        if eddies.source is not None and self._names[-1:] == (ENERGY,):
            rates[-1] += eddies.source
        return rates


def solve_varying(problem: WindProblem, number: int, beta: Array, b: Array) -> Array:
    """Return the solution of x - div(beta grad x) = b by a sparse factorisation, for the oracle on small grids.

    x = 0 at sides where the field of that number has a value, and no gradient at others. beta: at cells, with ghosts
    beyond sides; means of two cells count at the faces between them.
    """
    numbers = np.arange(b.size).reshape(b.shape)
    ghost = (beta.shape[0] - b.shape[0]) // 2
    cells = beta[tuple(slice(ghost, -ghost) for _ in range(3))]
    rows, columns, values = [numbers.ravel()], [numbers.ravel()], [np.ones(b.size)]

    def add(row: Array, column: Array, value: Array) -> None:
        rows.append(row.ravel())
        columns.append(column.ravel())
        values.append(value.ravel())

    for axis, h in enumerate(problem.widths):
        for last in (False, True):
            side = problem.at(axis, last)
            shift = -1 if last else 1  # brings the next cell, or the one before, to each place
            other, around = np.roll(numbers, shift, axis), np.roll(cells, shift, axis)
            face = 0.5 * (cells + around) / h**2
            if side is not None:
                edge = tuple(
                    (slice(-1, None) if last else slice(0, 1)) if d == axis else slice(None) for d in range(3)
                )
                face[edge] = 2.0 * cells[edge] / h**2 if side.fields[number].fixed else 0.0
                # Half a cell lies between the centre and the side.
                add(numbers[edge], numbers[edge], face[edge].copy())
                face[edge] = 0.0
            add(numbers, numbers, face)
            add(numbers, other, -face)
    matrix = scipy.sparse.coo_matrix(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (b.size, b.size)
    )
    return np.asarray(scipy.sparse.linalg.spsolve(matrix.tocsc(), b.ravel())).reshape(b.shape)
