"""A potential V(x, y, z, t) that acts on every atom, from a formula: its energy, its slopes, and where they jump.

The force on an atom is -grad V, by symbolic derivatives of the formula, at its position in the box: 0 <= x < Lx.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.derivatives import derivative
from ridgeline.config.expressions import VARIABLES, Expression, parse

EDGES = ("Lx", "Ly", "Lz")  # of the box
NAMES = (*VARIABLES, *EDGES)
SMALLEST_JUMP = 1e-9  # of the largest value in the box; below it a jump is a rounding error
FACE_PLACES = 16  # in each direction of a side of the box, where jumps are looked for

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class ExternalPotential:
    """A potential and its slopes.

    energy: V; slopes: its derivatives by x, y and z. They are formulas of NAMES.
    """

    energy: Expression
    slopes: tuple[Expression, Expression, Expression]

    @classmethod
    def of(cls, text: str) -> ExternalPotential:
        """Return the potential of a text. Raises ExpressionError if it cannot be used or differentiated."""
        energy = parse(text, NAMES)
        x, y, z = (derivative(energy, name) for name in VARIABLES[:3])
        return cls(energy, (x, y, z))

    @property
    def steady(self) -> bool:
        """Whether it does not depend on time, so that energy is conserved."""
        return self.energy.steady

    @property
    def operations(self) -> int:
        """The operations and functions of the slopes of one atom, as they are written."""
        kinds = ast.BinOp | ast.UnaryOp | ast.Call | ast.Compare | ast.BoolOp
        return sum(isinstance(node, kinds) for slope in self.slopes for node in ast.walk(slope.tree))

    def at(self, places: Reals, lengths: Reals, time: float) -> tuple[Reals, Reals]:
        """Return energies (n,) and forces (n, 3) at places (n, 3), which may be outside of the box."""
        x, y, z = (places - lengths * np.floor(places / lengths)).T
        names = {"x": x, "y": y, "z": z, "t": time, **dict(zip(EDGES, lengths.tolist()))}
        energy, *slopes = (
            np.broadcast_to(formula.evaluate(names), len(places)) for formula in (self.energy, *self.slopes)
        )
        return energy, -np.stack(slopes, axis=1)

    def jumps(self, lengths: Reals) -> Iterator[str]:
        """Yield a sentence for each pair of periodic sides between which V or its slope jumps at time 0.

        lengths: Lx, Ly, Lz. Some places of the sides are compared; a jump of V is said, and not that of its slope.
        """
        inside = [(np.arange(FACE_PLACES) + 0.5) * (length / FACE_PLACES) for length in lengths]
        edges = dict(zip(EDGES, lengths.tolist()))
        z, y, x = np.meshgrid(*inside[::-1], indexing="ij")
        within = {**edges, "t": 0.0, "x": x, "y": y, "z": z}
        formulas = {"the potential": self.energy} | {
            f"its slope in {axis}": slope for axis, slope in zip("xyz", self.slopes)
        }
        for number, axis in enumerate("xyz"):
            sides = []
            for end in (0.0, float(lengths[number])):
                grid = np.meshgrid(*(each if n != number else end for n, each in enumerate(inside)))
                names = {**edges, "t": 0.0, **dict(zip("xyz", grid))}
                sides.append({what: formula.evaluate(names) for what, formula in formulas.items()})
            for what in formulas:
                first, second = (np.broadcast_to(side[what], grid[0].shape) for side in sides)
                jump = np.abs(first - second).max()
                largest = max(np.abs(each).max() for each in (first, second, formulas[what].evaluate(within)))
                if jump > SMALLEST_JUMP * largest:
                    yield (
                        f"{what} jumps by up to {jump:.3g} between the sides {axis} = 0 and {axis} = L{axis}, "
                        "through which atoms pass"
                    )
                    break
