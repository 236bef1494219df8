"""The species of a case and their formulas, parsed: rates, diffusivities, initial states and values at sides.

    du/dt = div(D grad u) + rate(species, x, y, z, t, parameters) + noise * r

Coordinates are the centres of cells, (i + 1/2) h. A diffusivity is a number for each direction, which may be a
formula of the parameters, or a formula of x, y and z.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from ridgeline.config.expressions import (
    CONSTANTS,
    FUNCTIONS,
    MOST_CHARACTERS,
    VARIABLES,
    Expression,
    ExpressionError,
    parse,
)
from ridgeline.config.fields import Problem, toml

PLACES = VARIABLES[:3]  # x, y, z
RANDOM = "random"
# Names that mean something else in formulas, or in data sets and time series.
RESERVED = (*VARIABLES, RANDOM, *CONSTANTS, *FUNCTIONS, "step", "time")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
NAME_RULE = (
    "a name of letters, digits and _ that begins with a letter, and not x, y, z, t, random, pi, e, step, time or a "
    "function of formulas"
)


class SpeciesTexts(Protocol):
    """A species as its table [[model.species]] gives it."""

    @property
    def name(self) -> str: ...
    @property
    def diffusivity(self) -> str | tuple[str, str, str]: ...
    @property
    def rate(self) -> str: ...
    @property
    def initial(self) -> str: ...
    @property
    def noise(self) -> float: ...


def is_name(text: str) -> bool:
    """Say whether a text can name a species or a parameter."""
    return NAME.fullmatch(text) is not None and text not in RESERVED


def fault_of(text: str, names: Sequence[str]) -> str:
    """Return the rule that a formula of these names breaks, as it follows "it must be"; "" if none."""
    try:
        parse(text, names)
    except ExpressionError as error:
        shown = toml(text.strip()[:MOST_CHARACTERS])
        return f"a formula of {', '.join(names)}. In {shown}, {error}"
    return ""


def formula_problems(tables: Sequence[SpeciesTexts], parameters: Sequence[str]) -> Iterator[Problem]:
    """Yield the faults of all formulas of [model]. parameters: their names."""
    species = tuple(each.name for each in tables)
    for i, each in enumerate(tables):
        diffusivity = each.diffusivity if isinstance(each.diffusivity, tuple) else (each.diffusivity,)
        texts = [
            ("rate", each.rate, (*species, *VARIABLES, *parameters)),
            ("initial", each.initial, (*PLACES, RANDOM, *parameters)),
            *(("diffusivity", text, (*PLACES, *parameters)) for text in diffusivity),
        ]
        for key, text, names in texts:
            if rule := fault_of(text, names):
                yield Problem(f"species.{i}.{key}", rule)


@dataclass(frozen=True)
class Species:
    """One species with its formulas parsed. diffusivity: in x, y and z."""

    name: str
    rate: Expression
    initial: Expression
    diffusivity: tuple[Expression, Expression, Expression]
    noise: float

    @cached_property
    def of_place(self) -> bool:
        """Whether the diffusivity depends on the place."""
        return any(each.variables & {*PLACES} for each in self.diffusivity)

    def constant_diffusivity(self, parameters: Mapping[str, float]) -> tuple[float, float, float]:
        """Return the diffusivity in z, y and x; it must not depend on the place."""
        x, y, z = (float(each.evaluate(parameters)) for each in self.diffusivity)
        return z, y, x


class System(NamedTuple):
    """The species of a case on its grid. Tuples are in z, y, x; parameters by name; begin: the time of step 0."""

    species: tuple[Species, ...]
    parameters: Mapping[str, float]
    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    periodic: tuple[bool, bool, bool]
    begin: float


def parse_species(tables: Sequence[SpeciesTexts], parameters: Sequence[str]) -> tuple[Species, ...]:
    """Return the species of [model], whose formulas are known to be good. parameters: their names."""
    names = tuple(each.name for each in tables)
    parsed = []
    for each in tables:
        texts = each.diffusivity if isinstance(each.diffusivity, tuple) else (each.diffusivity,) * 3
        x, y, z = (parse(text, (*PLACES, *parameters)) for text in texts)
        parsed.append(
            Species(
                each.name,
                parse(each.rate, (*names, *VARIABLES, *parameters)),
                parse(each.initial, (*PLACES, RANDOM, *parameters)),
                (x, y, z),
                each.noise,
            )
        )
    return tuple(parsed)
