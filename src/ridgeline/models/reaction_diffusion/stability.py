"""The largest stable time step, from diffusion and from the Jacobian of the rates at the initial state.

A mode of diffusion decays at the rate s = sum over directions of 4 D/h^2 sin^2(angle/2), and a perturbation of the
rates grows as their Jacobian J says. A forward Euler step is stable for an eigenvalue l of J - s with negative real
part if dt <= -2 Re(l)/|l|^2 (that is |1 + dt l| <= 1). Eigenvalues with a positive real part belong to what really
grows, and bound no step. J is taken at some cells of the initial state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.reaction_diffusion.formulas import RANDOM, Species, System

MOST_PLACES = 12  # of a direction at which formulas are looked at

Values = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class StableSteps:
    """Largest stable steps, infinity where nothing limits them: of diffusion, of the rates, and of both together."""

    diffusion: float
    rates: float
    both: float

    def words(self, dt: float) -> str:
        """Return the limits in words, for people."""
        diffusion, rates, both = (
            "any" if math.isinf(each) else f"{each:.4g}" for each in (self.diffusion, self.rates, self.both)
        )
        return (
            f"time step: {dt:g}; the largest stable one is {both} at the initial state (by diffusion alone "
            f"{diffusion}, by the rates alone {rates})"
        )

    def advice(self, dt: float) -> str:
        """Return a sentence that says what to try when a run with steps of dt has blown up."""
        if dt > self.both:
            return f"Try model.dt = {self.both:.2g}, up to which a step is stable at the initial state."
        bound = "whatever its length" if math.isinf(self.both) else f"up to model.dt = {self.both:.3g}"
        return (
            f"At the initial state a step is stable {bound}, so the rates have become stiffer or grow without bound. "
            "Try a smaller model.dt, or correct the rates."
        )


def sampled_axes(system: System) -> list[NDArray[np.float64]]:
    """Return the centres of some cells in z, y and x, of the first and the last of each direction among them."""
    axes = []
    for n, h in zip(system.shape, system.spacing, strict=True):
        cells = np.unique(np.linspace(0, n - 1, min(n, MOST_PLACES)).round())
        axes.append((cells + 0.5) * h)
    return axes


def sampled_places(system: System) -> dict[str, NDArray[np.float64]]:
    """Return x, y and z of some cells, the first and the last of each direction among them, each 1-D."""
    z, y, x = (each.ravel() for each in np.meshgrid(*sampled_axes(system), indexing="ij"))
    return {"x": x, "y": y, "z": z}


def sampled_start(system: System, places: Values) -> dict[str, NDArray[np.float64]]:
    """Return the species at some places of the initial state, with random numbers of the same distribution."""
    generator = np.random.default_rng(0)
    start = {}
    for each in system.species:
        names = {**system.parameters, **places, RANDOM: generator.uniform(-1, 1, places["x"].shape)}
        start[each.name] = np.broadcast_to(each.initial.evaluate(names), places["x"].shape)
    return start


def nonfinite_at_start(system: System) -> Iterator[tuple[str, str]]:
    """Yield key and rule of each formula that is not finite at some places of the initial state."""
    places = sampled_places(system)
    start = sampled_start(system, places)
    names: dict[str, Any] = {**system.parameters, **places}
    names_of_rates = {**names, **start, "t": system.begin}
    for i, each in enumerate(system.species):
        formulas = [("initial", start[each.name]), ("rate", each.rate.evaluate(names_of_rates))]
        if each.of_place:
            formulas += [("diffusivity", formula.evaluate(names)) for formula in each.diffusivity]
        for key, found in formulas:
            values = np.broadcast_to(found, places["x"].shape)
            wrong = ~np.isfinite(values) if key != "diffusivity" else ~(np.isfinite(values) & (values >= 0))
            if wrong.any():
                first = int(np.argmax(wrong))
                where = ", ".join(f"{axis} = {places[axis][first]:g}" for axis in "xyz")
                when = f" at t = {system.begin:g}" if key == "rate" else ""
                what = "finite and not negative" if key == "diffusivity" else "finite"
                yield (
                    f"model.species.{i}.{key}",
                    f"{what} in every cell{when}; it is {values[first]:g} at {where}",
                )
                break


def greatest_decay(system: System, species: Species) -> float:
    """Return the largest rate s at which diffusion damps a mode of a species on the grid.

    Among n periodic cells the angle nearest pi is pi itself if n is even and pi - pi/n if it is odd; one periodic
    cell has none. Other sides do not exceed pi. A diffusivity of place is bounded by its largest value, at the places
    that are looked at.
    """
    h, periodic = system.spacing, system.periodic
    if species.of_place:
        places = {**system.parameters, **sampled_places(system)}
        x, y, z = (float(np.max(each.evaluate(places))) for each in species.diffusivity)
        diffusivity = (z, y, x)
    else:
        diffusivity = species.constant_diffusivity(system.parameters)
    total = 0.0
    for n, width, d, wraps in zip(system.shape, h, diffusivity, periodic, strict=True):
        largest = 4.0 if not wraps or n % 2 == 0 else 2.0 + 2.0 * math.cos(math.pi / n)
        total += largest * d / width**2
    return total


def jacobians(system: System) -> NDArray[np.float64]:
    """Return the derivatives of the rates by the species at some cells of the initial state, [n, N, N]."""
    places = sampled_places(system)
    start = sampled_start(system, places)
    names = {**system.parameters, **places, "t": system.begin}
    count = len(system.species)
    result = np.zeros((len(places["x"]), count, count))  # not finite where a rate is not, which is refused
    with np.errstate(all="ignore"):
        for j, by in enumerate(system.species):
            here = start[by.name]
            step = 1e-6 * np.maximum(np.abs(here), 1e-3)
            sides = [{**names, **start, by.name: here + sign * step} for sign in (1, -1)]
            for i, each in enumerate(system.species):
                up, down = (each.rate.evaluate(values) for values in sides)
                result[:, i, j] = (up - down) / (2 * step)
    return result


def _largest_step(matrices: NDArray[np.float64]) -> float:
    """Return the largest step that is stable for all decaying eigenvalues of some matrices."""
    finite = matrices[np.isfinite(matrices).all(axis=(1, 2))]
    if not len(finite):
        return math.inf
    values = np.linalg.eigvals(finite).ravel()
    size = np.abs(values)
    decaying = (values.real < 0) & (size > 0)
    return float(np.min(-2 * values.real[decaying] / size[decaying] ** 2, initial=math.inf))


def stable_steps(system: System) -> StableSteps:
    """Return the largest stable steps of a case."""
    decay = np.array([greatest_decay(system, each) for each in system.species])
    largest = decay.max(initial=0.0)
    rates = jacobians(system)
    diffusion = 2.0 / largest if largest > 0 else math.inf
    alone = _largest_step(rates)
    both = min(_largest_step(rates - np.diag(decay)), _largest_step(rates))
    return StableSteps(diffusion, alone, both)
