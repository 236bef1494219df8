"""Settings of the parts of the fields that a run writes beside whole fields: [[output.part]].

A part has its own data set, its own schedule and its own precision. `part_selection` says which points it has,
`models.parts` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from ridgeline.config.fields import Integer, Number, PathText, Problem, Triple, Truth, setting, toml
from ridgeline.config.intervals import Scheduled, time_interval, wall_interval
from ridgeline.config.part_selection import (
    BOX_RULE,
    LINE_RULE,
    PLANE_RULE,
    SelectedPoints,
    UniformGrid,
    select,
)

if TYPE_CHECKING:
    from ridgeline.config.expressions import Expression

Precision = Literal["run", "float64", "float32", "float16"]
BYTES = {"float64": 8, "float32": 4, "float16": 2}
COORDINATES = ("x", "y", "z", "t")
# Short names of the fields of a flow in formulas.
SHORT = {"u": "velocity_x", "v": "velocity_y", "w": "velocity_z", "p": "pressure"}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART_NAME = re.compile(r"[A-Za-z0-9_-]+")
TAKEN = (*COORDINATES, "step", "time")  # names that the data set has already
VARIABLES_RULE = (
    'a list of fields and of "NAME = FORMULA", such as "speed = sqrt(u*u + v*v + w*w)", each name once'
)


class PartVariable(NamedTuple):
    """A variable of a part: its name, and its formula, None for a field of the model."""

    name: str
    formula: str | None = None


class PartSize(NamedTuple):
    """What a part takes in the planned run: its name, shape and axes, its outputs, and the bytes of each of them."""

    name: str
    shape: tuple[int, ...]
    outputs: int
    bytes: int
    axes: str


class PartExtent(NamedTuple):
    """How large a part is: its shape, the points from which it is computed, and whether it is a mean of them."""

    shape: tuple[int, ...]
    points: int
    averaged: bool
    axes: str = "z y x"


class PartSection(Scheduled):
    """A part of the fields, in a data set of its own: a plane, line or box, every so many points, or a mean."""

    name: str = setting(
        ...,
        "Name of the part, which no other part has.",
        rule="letters, digits, _ and -",
        min_length=1,
        max_length=100,
    )
    path: PathText = setting(
        "",
        'Data set to which the part is written. If it is "", it lies beside output.path, with the name of the part: '
        "gray_scott_NAME.bp.",
        rule="a path",
    )
    variables: tuple[str, ...] = setting(
        (),
        'Fields to write, and formulas of them as "NAME = FORMULA" with x, y, z, t and all fields that '
        "output.variables may list; u, v, w and p stand for the velocity and the pressure of a flow. If the list is "
        "empty, output.variables are written.",
        rule=VARIABLES_RULE,
        max_length=200,
    )
    plane: str = setting("", "Plane of the part, as `ridgeline plot --slice` takes it.", rule=PLANE_RULE)
    line: str = setting("", "Line of the part: the two planes in which it lies.", rule=LINE_RULE)
    box: str = setting("", "Box of the part; axes that are not named are whole.", rule=BOX_RULE)
    stride: Triple = setting(
        (1, 1, 1),
        "Distance of the points that are written [z, y, x], from the first point of the part on.",
        unit="points",
        rule="three integers >= 1 as [z, y, x]",
    )
    mean: tuple[Literal["x", "y", "z"], ...] = setting(
        (),
        "Axes over which the variables of the part are averaged. Values that are not finite, such as those outside a "
        "domain of elements, are left out.",
        rule='a list of "x", "y" and "z", each at most once',
    )
    precision: Precision = setting(
        "run",
        'Floating-point type of the part; "run" is that of the fields. Values above 65504 become infinite in '
        '"float16", and the run logs a warning.',
    )
    every: Integer = setting(
        100, "Number of steps between outputs of the part; 0 writes none.", unit="steps", ge=0
    )
    every_time: Number | None = time_interval("outputs of the part")
    every_wall: Number | None = wall_interval("outputs of the part")
    initial: Truth = setting(False, "Whether the state of step 0 is written as well.")

    def problems(self) -> Iterator[Problem]:
        """Yield the rules that these values break."""
        if not PART_NAME.fullmatch(self.name):
            yield Problem("name", "letters, digits, _ and -")
        given = [key for key in ("plane", "line", "box") if getattr(self, key)]
        if len(given) > 1:
            yield Problem(given[1], f"left out, because the part has a {given[0]}")
        if len(set(self.mean)) < len(self.mean):
            yield Problem("mean", 'a list of "x", "y" and "z", each at most once')

    def quantities(self, default: Sequence[str]) -> list[PartVariable]:
        """Return the variables. default: those of a part that lists none."""
        words = [text.partition("=") for text in self.variables]
        own = [PartVariable(name.strip(), rest.strip() if sign else None) for name, sign, rest in words]
        return own or [PartVariable(name) for name in default]

    def dtype(self, of_run: str) -> str:
        """Return the floating-point type in which the part is written. of_run: of the fields."""
        return of_run if self.precision == "run" else self.precision

    def select(self, grid: UniformGrid) -> SelectedPoints:
        """Return the points of the part. Raises SelectionError."""
        return select(grid, self.plane, self.line, self.box, self.stride, self.mean)

    def faults(self, key: str, names: Sequence[str]) -> Iterator[Problem]:
        """Yield what is wrong with the variables. key: of the part; names: the fields that the model can write."""
        from ridgeline.config.check import did_you_mean

        key, seen = f"{key}.variables", set[str]()
        for quantity in self.quantities(()):
            if quantity.formula is not None:
                yield from _faults_of_formula(key, quantity, names)
            elif quantity.name not in names:
                near = did_you_mean(quantity.name, names)
                yield Problem(
                    key,
                    f"a list of fields and formulas. {toml(quantity.name)} is not a field{near} "
                    f"The fields are {', '.join(names)}",
                )
            if quantity.name in seen:
                yield Problem(key, f"{VARIABLES_RULE}, but {toml(quantity.name)} is there twice")
            seen.add(quantity.name)


def _faults_of_formula(key: str, quantity: PartVariable, names: Sequence[str]) -> Iterator[Problem]:
    from ridgeline.config.expressions import ExpressionError

    if not NAME.fullmatch(quantity.name) or quantity.name in TAKEN:
        yield Problem(
            key, f"{VARIABLES_RULE}. {toml(quantity.name)} is not a name, or is the name of a coordinate"
        )
        return
    try:
        compiled(quantity, names)
    except ExpressionError as error:
        yield Problem(key, f"a list of fields and formulas. In {toml(quantity.formula)}, {error}")


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return short names of some of the fields `names`."""
    return {short: name for short, name in SHORT.items() if name in names and short not in names}


def compiled(quantity: PartVariable, names: Sequence[str]) -> Expression:
    """Return the formula of a quantity, the field itself if it has none. names: the fields of the model.

    Raises ExpressionError.
    """
    from ridgeline.config.expressions import parse

    text = quantity.name if quantity.formula is None else quantity.formula
    return parse(text, (*COORDINATES, *names, *short_names(names)))


def fields_needed(quantities: Sequence[PartVariable], names: Sequence[str]) -> list[str]:
    """Return the fields of the model that quantities need, in the order of `names`."""
    from ridgeline.config.expressions import ExpressionError

    variables: set[str] = set()
    for quantity in quantities:
        with suppress(ExpressionError):  # `PartSection.faults` says what is wrong
            variables |= compiled(quantity, names).variables
    whole = {short_names(names).get(name, name) for name in variables}
    return [name for name in names if name in whole]
