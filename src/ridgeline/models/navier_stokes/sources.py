"""What formulas add to the momentum and to scalars: sources, and sponges that relax the flow towards a state.

    SourceTerm               a term, of one field: s, or -strength (field - target)
    kept_formulas(terms)     the formulas of place alone, which are evaluated once and kept
    source_names(S)          the names that a source may hold
    blame(terms, ...)        which formula is not finite, and where

Terms belong to the rates of their time level and are extrapolated with them, so that the scheme keeps its order in
time. A relaxation is therefore stable only while strength dt is below a limit, `relaxation_limit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import VARIABLES, Formula

Array = NDArray[np.float64]
PLACES = VARIABLES[:3]
COMPONENTS = ("u", "v", "w")
VISCOSITY_KEY = "model.viscosity_formula"


def field_symbols(n_scalars: int) -> tuple[str, ...]:
    """Return the names of velocity and scalars in formulas, in the order of the fields of a time level."""
    return (*COMPONENTS, *(f"scalar_{i}" for i in range(n_scalars)))


def source_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names that a source may hold, beside constants."""
    return (*VARIABLES, *field_symbols(n_scalars))


@dataclass(frozen=True)
class Sponge:
    """A relaxation of the flow: strength (target - field) is added to each field that has a target.

    strength: 1/time, and the targets, of x, y, z, t. velocity: (x, y, z), or empty; scalars: of the first ones, None
    for one that is left alone.
    """

    strength: Formula
    velocity: tuple[Formula, ...] = ()
    scalars: tuple[Formula | None, ...] = ()


@dataclass(frozen=True)
class SourceTerm:
    """What is added to one field: formula, or with a strength -strength (field - formula). key: of the setting."""

    key: str
    field: int
    formula: Formula
    strength: Formula | None = None

    def formulas(self) -> Iterator[tuple[str, Formula]]:
        """Yield the formulas, each with the key of its setting."""
        if self.strength is None:
            yield self.key, self.formula
            return
        yield f"{self.key}.strength", self.strength
        yield f"{self.key}.{'velocity' if self.field < 3 else 'scalars'}", self.formula

    def evaluate(self, values: Mapping[str, Any], fields: Array) -> Array:
        """Return the term with NumPy. values: of all names; fields: [3 + S, ...]."""
        value = self.formula.evaluate(values)
        return (
            value if self.strength is None else -self.strength.evaluate(values) * (fields[self.field] - value)
        )


@dataclass(frozen=True)
class VariableCoefficient:
    """A viscosity or diffusivity that is a formula, of `count` fields from number `field` on.

    reference: the constant that the scheme takes implicitly, see kernels_diffusion.py.
    """

    key: str
    field: int
    count: int
    formula: Formula
    reference: float

    @property
    def steady(self) -> bool:
        """Whether it depends on nothing but the place."""
        return self.formula.variables.issubset(PLACES)

    def evaluate(self, coordinates: Array, time: float, fields: Array) -> Array:
        """Return it at points with NumPy. coordinates: [3, ...]; fields: [3 + S, ...]."""
        value = self.formula.evaluate(values_of(coordinates, time, fields))
        return np.array(np.broadcast_to(value, coordinates.shape[1:]))


def is_kept(formula: Formula) -> bool:
    """Say whether a formula depends on the place and on nothing else."""
    return bool(formula.variables) and formula.variables.issubset(PLACES)


def kept_formulas(terms: Sequence[SourceTerm]) -> list[Formula]:
    """Return the formulas that are evaluated once, each text once."""
    formulas = [formula for term in terms for _, formula in term.formulas() if is_kept(formula)]
    return list({formula.text: formula for formula in formulas}.values())


def used_places(terms: Sequence[SourceTerm]) -> list[int]:
    """Return the axes (0 = x) whose coordinates occur in formulas that are evaluated at every step, ascending."""
    used = {
        name for term in terms for _, each in term.formulas() if not is_kept(each) for name in each.variables
    }
    return [axis for axis, name in enumerate(PLACES) if name in used]


def values_of(coordinates: Array, time: float, fields: Array) -> dict[str, Any]:
    """Return the values of all names. coordinates: [3, ...]; fields: [3 + S, ...], of the same points."""
    return {
        **dict(zip(PLACES, coordinates)),
        "t": time,
        **dict(zip(field_symbols(len(fields) - 3), fields)),
    }


def blame(
    terms: Sequence[SourceTerm],
    coefficients: Sequence[VariableCoefficient],
    coordinates: Array,
    time: float,
    fields: Array,
) -> str:
    """Return which formula has no finite value at a point where the fields are finite, and where; "" if none.

    Coefficients must not be negative either. coordinates: [3, ...]; fields: [3 + S, ...]. Local.
    """
    values = values_of(coordinates, time, fields)
    sane = np.isfinite(fields).all(axis=0)
    everyone = [(key, formula, -np.inf) for term in terms for key, formula in term.formulas()]
    for key, formula, least in [*everyone, *((each.key, each.formula, 0.0) for each in coefficients)]:
        results = np.broadcast_to(formula.evaluate(values), sane.shape)
        bad = np.flatnonzero(~(np.isfinite(results) & (results >= least)) & sane)
        if len(bad):
            found = results.flat[bad[0]]
            names = [*PLACES, *sorted(formula.variables.difference(VARIABLES))]
            at = ", ".join(f"{name} = {values[name].flat[bad[0]]:.6g}" for name in names)
            return f'{key} = "{formula.text}" is {found:g} at {at}, t = {time:.6g}.'
    return ""


def relaxation_limit(order: int) -> float:
    """Return the largest lambda dt for which extrapolated relaxation, u' = -lambda u, does not grow.

    At the limit u changes its sign in each step: with z = -1 in sum_j b_j z^-j = -lambda dt sum_j a_j z^-j, for the
    coefficients of equal steps in time_stepping.py.
    """
    return (2.0, 4 / 3, 20 / 21)[order - 1]
