"""Values and fluxes at the sides of the domain: ghosts beyond them, from formulas of the place on a side and of time.

A ghost beyond a side is a + b * (the cell inside). A value v at the side is the mean of both: a = 2 v, b = -1. A
flux q into the domain is D (ghost - inside)/h, with the diffusivity D at the side: a = q h/D, b = 1. Formulas are
evaluated in float64, at the centres of the faces of cells, and a is rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ridgeline.blocks.block import Block
from ridgeline.blocks.sweep import Sides
from ridgeline.config.expressions import Expression

SIDES = ("z_min", "z_max", "y_min", "y_max", "x_min", "x_max")


@dataclass(frozen=True)
class SideFormula:
    """What a species has at a side.

    Attributes
    ----------
    side : one of SIDES
    fixed : whether `value` is that at the side; otherwise it is the flux into the domain
    value, diffusivity : formulas; that of the diffusivity across the side
    width : of a cell across the side
    place : of the side along its axis
    """

    side: str
    fixed: bool
    value: Expression
    diffusivity: Expression
    width: float
    place: float

    @property
    def axis(self) -> int:
        """The direction across the side: 0, 1, 2 for z, y, x."""
        return "zyx".index(self.side[0])

    @property
    def weight(self) -> float:
        """The factor b of the cell inside."""
        return -1.0 if self.fixed else 1.0

    @property
    def variables(self) -> frozenset[str]:
        """The names that the ghosts depend on."""
        return self.value.variables | (frozenset() if self.fixed else self.diffusivity.variables)

    def offset(self, names: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the number a of some places. names: parameters, t, and the places on the side."""
        names = {**names, self.side[0]: self.place}
        value = self.value.evaluate(names)
        if self.fixed:
            return 2 * value
        with np.errstate(all="ignore"):
            return np.where(value == 0, 0.0, value * self.width / self.diffusivity.evaluate(names))


class _Table(NamedTuple):
    """Where the numbers of a formula lie, (steps, rows of the side, cells of a row), and what they depend on."""

    formula: SideFormula
    first: int
    shape: tuple[int, int, int]
    names: Mapping[str, Any]

    def fill(self, values: NDArray[Any], times: Sequence[float]) -> None:
        """Write the numbers at some times, one after the other."""
        table = values[self.first : self.first + math.prod(self.shape)].reshape(self.shape)
        for target, time in zip(table, times):
            target[...] = self.formula.offset({**self.names, "t": time})


def places_on(
    side: SideFormula, block: Block, spacing: Sequence[float], ghost: int
) -> dict[str, NDArray[Any]]:
    """Return the coordinates of the faces of this block on a side, with ghosts around, which broadcast to 2-D."""
    along = [axis for axis in range(3) if axis != side.axis]
    places = {}
    for n, axis in enumerate(along):
        index = block.offset_global[axis] + np.arange(-ghost, block.shape_local[axis] + ghost)
        cells = block.shape_global[axis]
        index = index % cells if block.periodic[axis] else index.clip(0, cells - 1)
        coordinates = (index + 0.5) * spacing[axis]
        places["zyx"[axis]] = coordinates if n else coordinates[:, np.newaxis]
    return places


def touches(block: Block, side: str) -> bool:
    """Say whether a block lies at a side that is not periodic."""
    n = SIDES.index(side)
    axis, last = n // 2, n % 2
    offset, cells = block.offset_global[axis], block.shape_local[axis]
    edge = offset + cells == block.shape_global[axis] if last else offset == 0
    return edge and not block.periodic[axis]


class SideTables:
    """The numbers of the ghosts beyond the sides of one block, for the sweeps; those that vary in time are refilled.

    Attributes
    ----------
    sides : as sweeps take them
    varies : whether `update` changes anything
    """

    def __init__(
        self,
        formulas: Sequence[Sequence[SideFormula]],
        parameters: Mapping[str, float],
        block: Block,
        spacing: Sequence[float],
        dtype: DTypeLike,
        time: float,
    ) -> None:
        """Lay out the tables, and fill them for a time.

        formulas: of each species, at the sides that are not periodic.
        """
        tables = []
        places = np.zeros((len(formulas), len(SIDES), 4), np.int64)
        weights = np.zeros(places.shape[:2], dtype)
        size, ghost = 0, block.ghost
        for n, of_species in enumerate(formulas):
            for formula in of_species:
                if not touches(block, formula.side):
                    continue
                names = places_on(formula, block, spacing, ghost)
                rows, cells = (
                    values.size if name in formula.variables else 1 for name, values in names.items()
                )
                steps = ghost if "t" in formula.variables else 1
                tables.append(
                    _Table(formula, size, (steps, rows, cells), {**parameters, **_used(names, formula)})
                )
                pitches = cells * (rows > 1), int(cells > 1)
                step_pitch = rows * cells * (steps > 1)
                side = SIDES.index(formula.side)
                places[n, side] = size + ghost * sum(pitches), step_pitch, *pitches
                weights[n, side] = formula.weight
                size += steps * rows * cells
        self.sides = Sides(np.zeros(max(size, 1), dtype), places, weights)
        for table in tables:
            table.fill(self.sides.values, [time] * table.shape[0])
        self._varying = [table for table in tables if "t" in table.formula.variables]
        self.varies = bool(self._varying)

    def update(self, times: Sequence[float]) -> None:
        """Refill what varies in time, for the steps of a sweep that begin at these times."""
        for table in self._varying:
            table.fill(self.sides.values, times)


def _used(places: Mapping[str, NDArray[Any]], formula: SideFormula) -> dict[str, Any]:
    """Return the places that a formula depends on, and one number for each of the others."""
    return {name: values if name in formula.variables else 0.0 for name, values in places.items()}


def fault_on_side(
    formula: SideFormula, species: str, places: Mapping[str, NDArray[Any]], names: Mapping[str, Any]
) -> str:
    """Return the rule that a formula breaks at some places on its side, as it follows "it must be"; "" if none.

    places: two coordinates that broadcast to 2-D. names: parameters and t.
    """
    known = {**names, **places, formula.side[0]: formula.place}
    value, offset = formula.value.evaluate(known), formula.offset({**names, **places})
    rows, cells = places.values()
    wrong = ~np.isfinite(np.broadcast_to(offset, (rows.size, cells.size)))
    if not wrong.any():
        return ""
    j, i = np.argwhere(wrong)[0]
    at = {name: axis.ravel()[n] for (name, axis), n in zip(places.items(), (j, i))} | {
        formula.side[0]: formula.place
    }
    where = ", ".join(f"{name} = {at[name]:g}" for name in "xyz")
    found = np.broadcast_to(value, wrong.shape)[j, i]
    if np.isfinite(found):
        return f"without a flux of {species} where its diffusivity is 0, as at {where}"
    return f"a table in which {species} is finite on the whole side at t = {names['t']:g}; it is {found:g} at {where}"
