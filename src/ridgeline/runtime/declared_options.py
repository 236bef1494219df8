"""Options that are declared once: frozen dataclasses whose fields have a type, a default, a help and a range.

    @dataclass(frozen=True)
    class Trials(DeclaredOptions):
        n: Annotated[int, OptionSpec("How many.", minimum=1)] = 3

The flags of the command line (cli/command_line_options.py), their help and the checks follow from the declaration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ridgeline.runtime.errors import ConfigError


@dataclass(frozen=True)
class OptionSpec:
    """State what an option has beside its type and default.

    It stands in the annotation of the field: `Annotated[int, OptionSpec("Trials.")]`.

    Parameters
    ----------
    help : str
        One sentence, with a full stop.
    unit : str
        The unit of the value, such as "B" or "s".
    minimum, maximum, above : float, optional
        The allowed range; `above` excludes its bound.
    flags : tuple of str
        Names on the command line, the long one first; by default made from the field's name.
    metavar : str, optional
        The name of the value in the help.
    otherwise : str
        What happens for None, or for an empty tuple, in words.
    commas : bool
        Whether the numbers of a tuple are given at once with commas in between, instead of by repeated flags.
    only : tuple of (str, value), optional
        Name and value of another option. With another value of it, this option is an error.
    completes : str
        What a shell completes the value with: "benchmark" or "setting".

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import Annotated
    >>> from ridgeline.runtime.declared_options import DeclaredOptions, OptionSpec, options_of
    >>> @dataclass(frozen=True)
    ... class Trials(DeclaredOptions):
    ...     n: Annotated[int, OptionSpec("How many.", minimum=1)] = 3
    >>> [(option.flags, option.allowed) for option in options_of(Trials)]
    [(('--n',), '1 or more')]
    """

    help: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    otherwise: str = ""
    commas: bool = False
    only: tuple[str, Any] | None = None
    completes: Literal["benchmark", "setting"] | None = None


@dataclass(frozen=True)
class Option:
    """One option, as the command line, the documentation and the checks need it. type: without `| None`."""

    name: str
    type: Any
    default: Any
    spec: OptionSpec

    @property
    def flags(self) -> tuple[str, ...]:
        """Names on the command line, the long one first."""
        return self.spec.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def repeated(self) -> bool:
        """Say whether it takes any number of values, tuple[X, ...]."""
        return get_origin(self.type) is tuple and get_args(self.type)[-1] is Ellipsis

    @property
    def items(self) -> tuple[Any, ...]:
        """Types of its values: a single one, or those of a tuple of fixed length."""
        if get_origin(self.type) is not tuple:
            return (self.type,)
        return get_args(self.type)[:1] if self.repeated else get_args(self.type)

    @property
    def choices(self) -> tuple[Any, ...]:
        """Values of a Literal; none for other types."""
        return get_args(self.items[0]) if get_origin(self.items[0]) is Literal else ()

    @property
    def allowed(self) -> str:
        """Return the range in words; nothing if every value of the type is allowed."""
        spec = self.spec
        if self.choices:
            return ", ".join(map(str, self.choices))
        if spec.above is not None:
            return f"more than {spec.above:g}"
        if spec.minimum is not None and spec.maximum is not None:
            return f"{spec.minimum:g} to {spec.maximum:g}"
        return "" if spec.minimum is None else f"{spec.minimum:g} or more"

    @property
    def default_text(self) -> str:
        """Return the default in words; nothing if there is none."""
        if self.default is None or self.default == ():
            return self.spec.otherwise
        if isinstance(self.default, tuple):
            return ("," if self.spec.commas else " ").join(map(str, self.default))
        return {True: "on", False: "off"}[self.default] if self.type is bool else str(self.default)

    def check(self, options: DeclaredOptions) -> None:
        """Raise ConfigError unless the value that `options` hold is allowed."""
        value = getattr(options, self.name)
        if value is None:
            return
        if self.type not in (bool, str):
            for item in value if get_origin(self.type) is tuple else (value,):
                if not self._allows(item):
                    rule = " or ".join(self.allowed.rsplit(", ", 1)) or "a finite number"
                    flags = " or ".join(reversed(self.flags))
                    raise ConfigError(f"{flags} is {item}, but it must be {rule}.")
        if self.spec.only is not None and value != self.default:
            other, needed = self.spec.only
            present = getattr(options, other)
            if present != needed:
                flag = f"--{other.replace('_', '-')}"
                if needed is True:
                    raise ConfigError(f"{self.flags[0]} requires {flag}.")
                raise ConfigError(
                    f"{self.flags[0]} requires {flag} {needed}. It cannot be used with {flag} {present}."
                )

    def _allows(self, value: Any) -> bool:
        spec = self.spec
        if self.choices:
            return value in self.choices
        if isinstance(value, str):
            return True
        return bool(
            math.isfinite(value)
            and (spec.minimum is None or value >= spec.minimum)
            and (spec.maximum is None or value <= spec.maximum)
            and (spec.above is None or value > spec.above)
        )


@dataclass(frozen=True)
class DeclaredOptions:
    """Base class of all options: frozen dataclasses in which every field is annotated with an `OptionSpec`.

    Raises ConfigError for a value out of its range.
    """

    def __post_init__(self) -> None:
        """Check the range of every value."""
        for option in options_of(type(self)):
            option.check(self)


def options_of(options: type[DeclaredOptions]) -> list[Option]:
    """Return the options that a class declares, in their order."""
    hints = get_type_hints(options, include_extras=True)
    declared = []
    for field in fields(options):
        annotation, *extras = get_args(hints[field.name])
        (spec,) = (extra for extra in extras if isinstance(extra, OptionSpec))
        if NoneType in get_args(annotation):  # X | None
            (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
        declared.append(Option(field.name, annotation, field.default, spec))
    return declared
