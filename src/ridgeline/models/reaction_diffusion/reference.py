"""Reaction-diffusion in plain NumPy on the whole grid: the oracle that the compiled sweeps are held to.

Written to be read. Everything is computed in the precision of the run, in the order of `kernels`; for formulas of
+ - * / the bits are those of the sweeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import CONSTANTS, arithmetic_in, evaluate, parse
from ridgeline.jit.random import PHILOX_7, uniform_reference
from ridgeline.models.reaction_diffusion.initial import seed_of

if TYPE_CHECKING:
    from ridgeline.models.reaction_diffusion.settings import ReactionDiffusionCase

Field = NDArray[np.floating]


class ReferenceSolver:
    """The fields of a case on the whole grid, advanced step by step.

    Parameters
    ----------
    case : the settings
    fields : the initial state, (nz, ny, nx) of each species, in the precision of the run
    """

    def __init__(self, case: ReactionDiffusionCase, fields: list[Field]) -> None:
        self.case, self.fields = case, [np.array(field) for field in fields]
        self.step, self.dtype = 0, fields[0].dtype
        self._using = arithmetic_in(self.dtype)
        number = self.dtype.type
        self._h = [number(h) for h in case.grid.spacing()]
        z, y, x = (
            (np.arange(n).astype(self.dtype) + number(0.5)) * h for n, h in zip(case.grid.shape, self._h)
        )
        self._places = {"x": x, "y": y[:, np.newaxis], "z": z[:, np.newaxis, np.newaxis]}
        numbers = {**CONSTANTS, **case.model.parameters}
        self._numbers = {name: number(value) for name, value in numbers.items()}

    def advance(self, steps: int) -> None:
        """Advance by some steps."""
        case, number = self.case, self.dtype.type
        for _ in range(steps):
            before: list[Field] = []
            for stage in case.stages():
                change = self.change(
                    self.fields, self.step * case.model.dt + stage.at * case.model.dt, stage.dt
                )
                base = self.fields
                if before:
                    here, there = number(stage.here), number(stage.before)
                    base = [here * u + there * old for u, old in zip(self.fields, before)]
                before, self.fields = self.fields, [u + each for u, each in zip(base, change)]
            self.step += 1

    def change(self, fields: list[Field], time: float, dt: float) -> list[Field]:
        """Return the change of each species by its rate, noise and diffusion at a time, in the time dt."""
        case, number = self.case, self.dtype.type
        names: dict[str, Any] = {**self._numbers, **self._places, **dict(zip(case.names(), fields))}
        names["t"] = number(time)
        noisy = 0
        changes = []
        for species, u in zip(case.species, fields):
            with np.errstate(all="ignore"):
                change = number(dt) * np.broadcast_to(
                    evaluate(species.rate.tree, names, self._using), u.shape
                )
            if species.noise:
                change = change + number(dt * species.noise) * self._random(noisy)
                noisy += 1
            spreading = self._diffusion(species, u, time, dt)
            changes.append(change if spreading is None else spreading + change)
        return changes

    def _random(self, n: int) -> Field:
        """Return the random numbers of the n-th noisy species in this step."""
        z, y, x = np.ogrid[tuple(slice(size) for size in self.case.grid.shape)]
        seed = seed_of(self.case.run.seed, n)
        return uniform_reference(seed, self.step, z, y, x, self.dtype, PHILOX_7)

    def _diffusion(self, species: Any, u: Field, time: float, dt: float) -> Field | None:
        """Return the change by diffusion, None where a species does not spread."""
        case, number = self.case, self.dtype.type
        periodic, h = case.boundary.periodic(), case.grid.spacing()
        present = [axis for axis in (2, 1, 0) if u.shape[axis] > 1 or not periodic[axis]]
        around = {axis: self._neighbours(u, axis, species, time) for axis in present}
        if species.of_place:
            terms = []
            for axis in present:
                low, high = around[axis]
                d_low, d_high = (self._diffusivity_at_faces(species, axis, side) for side in (0, 1))
                terms.append(number(dt / h[axis] ** 2) * (d_high * (high - u) - d_low * (u - low)))
            return _sum(terms)
        d = species.constant_diffusivity(case.model.parameters)
        rates = [d[axis] / h[axis] ** 2 for axis in present]
        if not any(rates):
            return None
        if all(rate == rates[0] for rate in rates):
            total = _sum([low + high for low, high in around.values()])
            axis = min(present)
            return number(dt * d[axis] / h[axis] ** 2) * (total - number(2 * len(present)) * u)
        return _sum(
            [
                number(dt * d[axis] / h[axis] ** 2) * ((low + high) - number(2) * u)
                for axis, (low, high) in around.items()
            ]
        )

    def _neighbours(self, u: Field, axis: int, species: Any, time: float) -> tuple[Field, Field]:
        """Return the values on both sides along an axis, beyond the sides of the domain as the boundaries say."""
        low, high = np.roll(u, 1, axis), np.roll(u, -1, axis)
        for values, side, cell in ((low, "min", 0), (high, "max", -1)):
            name = f"{'zyx'[axis]}_{side}"
            section = getattr(self.case.boundary, name)
            if section.kind == "periodic":
                continue
            place = [slice(None)] * 3
            place[axis] = slice(cell, cell + 1 or None)
            inside = u[tuple(place)]
            value = self._at_side(section.values.get(species.name, "0"), axis, cell, time)
            if section.kind == "fixed":
                values[tuple(place)] = (2 * value).astype(self.dtype) - inside
            else:
                rise: NDArray[np.float64] = np.zeros(())
                if np.any(value):
                    d = self._at_side(species.diffusivity[2 - axis].text, axis, cell, time)
                    rise = np.asarray(value * self.case.grid.spacing()[axis] / d)
                values[tuple(place)] = rise.astype(self.dtype) + inside
        return low, high

    def _at_side(self, text: str, axis: int, cell: int, time: float) -> NDArray[np.float64]:
        """Return the values of a formula on a side in float64, with one cell along the axis."""
        case = self.case
        z, y, x = ((np.arange(n) + 0.5) * h for n, h in zip(case.grid.shape, case.grid.spacing()))
        places: dict[str, Any] = {"x": x, "y": y[:, np.newaxis], "z": z[:, np.newaxis, np.newaxis]}
        places["zyx"[axis]] = case.grid.shape[axis] * case.grid.spacing()[axis] if cell else 0.0
        names = {**case.model.parameters, **places, "t": time}
        return parse(text, tuple(names)).evaluate(names)

    def _diffusivity_at_faces(self, species: Any, axis: int, side: int) -> Any:
        """Return the diffusivity at the lower (side 0) or the upper faces of all cells along an axis."""
        n = self.case.grid.shape[axis]
        index = np.arange(n) + side
        if self.case.boundary.periodic()[axis]:
            index %= n
        shape = [1, 1, 1]
        shape[axis] = n
        places = index.astype(self.dtype).reshape(shape) * self._h[axis]
        formula = species.diffusivity["xyz".index("zyx"[axis])]
        names = {**self._numbers, **self._places, "zyx"[axis]: places}
        return evaluate(formula.tree, names, self._using)


def _sum(terms: list[Field]) -> Field:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
