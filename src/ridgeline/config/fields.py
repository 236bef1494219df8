"""The fields of settings: type, unit, range and description, stated once for checks, help and documents."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, get_args, get_origin

import annotated_types
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from ridgeline.runtime.files import expanded

CROSS_FIELD = "settings"  # pydantic's error type of a rule that involves several settings


class Problem(NamedTuple):
    """Name one setting that breaks a rule.

    Attributes
    ----------
    key : str
        The key of the setting.
    rule : str
        The rule, as it follows the words "it must be".

    Examples
    --------
    >>> from ridgeline.config.fields import Problem
    >>> problem = Problem("dt", "at most 1/(6 D), the stability limit of forward Euler")
    >>> f"{problem.key}: it must be {problem.rule}"
    'dt: it must be at most 1/(6 D), the stability limit of forward Euler'
    """

    key: str
    rule: str


class Checked(BaseModel):
    """Derive a group of settings from this class.

    The values are frozen, unknown keys are errors, and every broken rule is found at once. Fields are declared with
    `setting`. A derived class overrides `problems` for rules that involve several settings. It is a pydantic model.

    Raises
    ------
    pydantic.ValidationError
        When an object is made with wrong values. A run turns it into a ConfigError that names the line of the file.

    Examples
    --------
    >>> from ridgeline.config.fields import Checked, Number, Problem, setting
    >>> class ModelSection(Checked):
    ...     D: Number = setting(1.0, "Diffusivity.", unit="cells^2/time", gt=0)
    ...     dt: Number = setting(0.1, "Time step.", unit="time", gt=0)
    ...
    ...     def problems(self):
    ...         if self.dt * self.D * 6 > 1:
    ...             yield Problem("dt", "at most 1/(6 D)")
    >>> ModelSection(dt=0.15).dt
    0.15
    >>> try:
    ...     section = ModelSection(dt=0.2)
    ... except ValueError as error:
    ...     print("dt must be at most 1/(6 D)" in str(error))
    True
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    def problems(self) -> Iterator[Problem]:
        """Yield the rules between settings that these values break."""
        yield from ()

    def all_problems(self) -> Iterator[Problem]:
        """Yield `problems`, and in subclasses also the broken rules that hold for every model."""
        yield from self.problems()

    @model_validator(mode="after")
    def _no_problems(self) -> Self:
        problems = tuple(self.all_problems())
        if problems:
            text = " ".join(f"{key} must be {rule}." for key, rule in problems)
            raise PydanticCustomError(CROSS_FIELD, "{text}", {"text": text, "problems": problems})
        return self


# The bounds of all settings unless a field has others. Counts: MPI and the counters of random numbers have 32 bits.
# Numbers: float32 holds the largest and the smallest, and float64 their tenth powers. Names: with what is added to
# them they stay within the 4096 and 255 bytes that file systems allow.
MOST_COUNT = 2**31 - 1
MOST, LEAST = 1e30, 1e-30
MOST_PATH, MOST_NAME = 4000, 200
MOST_POINTS = 2**53  # of a grid: float64 counts them, int64 their bytes
_GENERAL = "general"  # pydantic's error type of the rules below

_LARGE = f"at most {MOST:g} in magnitude, and either 0 or at least {LEAST:g}"
_LONG = f"of at most {MOST_PATH} bytes, with at most {MOST_NAME} between slashes and without NUL"


def _number_in_range(value: float) -> float:
    if value != 0 and not LEAST <= abs(value) <= MOST:
        raise PydanticCustomError(_GENERAL, "{text}", {"text": _LARGE})
    return value


def _counted(value: int) -> int:
    if abs(value) > MOST_COUNT:
        raise PydanticCustomError(_GENERAL, "{text}", {"text": f"at most {MOST_COUNT} in magnitude"})
    return value


def _path(value: str) -> str:
    try:
        value = expanded(value)
    except ValueError as error:
        raise PydanticCustomError(_GENERAL, "{text}", {"text": f"and {error}"}) from None
    parts = value.encode(errors="replace").split(b"/")
    if "\0" in value or sum(map(len, parts)) + len(parts) > MOST_PATH or max(map(len, parts)) > MOST_NAME:
        raise PydanticCustomError(_GENERAL, "{text}", {"text": _LONG})
    return value


# Strict types: a text is not a number, 1.0 is not an integer, true is neither, and NaN is not accepted.
Integer = Annotated[int, Strict(), AfterValidator(_counted)]
Number = Annotated[float, Strict(), AllowInfNan(False), AfterValidator(_number_in_range)]
Truth = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=1), AfterValidator(_counted)]
Triple = tuple[Count, Count, Count]
PathText = Annotated[str, AfterValidator(_path)]


def _as_text(value: Any) -> Any:
    """Return the text of a number, and anything else as it is."""
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class FormulaMark:
    """Mark the types of settings that are formulas, for which functions of the user may stand."""


# A number, a formula or a function, kept as text for config/expressions.py.
FormulaText = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}),
    FormulaMark(),
]


def takes_formula(annotation: Any, metadata: Sequence[Any] = ()) -> bool:
    """Say whether values of a field's type are formulas, or hold them."""
    return any(isinstance(each, FormulaMark) for each in metadata) or any(
        isinstance(part, FormulaMark) or takes_formula(part) for part in get_args(annotation)
    )


# The values that other keys must have for a key to have an effect, by key; all must hold. See needs.py.
Needs = Mapping[str, Any]
ON: tuple[Any, ...] = ()  # any value that is not 0, false, "none" or empty


def setting(
    default: Any,
    description: str,
    *,
    unit: str = "",
    rule: str = "",
    needs: Needs | tuple[Needs, ...] = (),
    **bounds: Any,
) -> Any:
    """Return the pydantic field of one setting.

    Parameters
    ----------
    default : object
        Its value where a file does not give it; `...` makes it required.
    description : str
        What it does, in one sentence.
    unit : str
        Its unit; "" for pure numbers and words.
    rule : str
        What is allowed, where types and bounds do not say it.
    needs : mapping or tuple of mappings
        The values that other keys must have for this one to have an effect, {"kind": ("box", "patches")}; one of
        several mappings must hold.
    **bounds
        Further arguments of `pydantic.Field`, such as gt=0.

    Returns
    -------
    pydantic.fields.FieldInfo
        What a class derived from `Checked` assigns to the name of the setting.

    Examples
    --------
    >>> from ridgeline.config.fields import Checked, Integer, rule_of, setting
    >>> class Waves(Checked):
    ...     count: Integer = setting(1, "Number of waves.", ge=1)
    >>> rule_of(Waves.model_fields["count"])
    'an integer >= 1'
    """
    conditions = needs if isinstance(needs, tuple) else (needs,)
    plain = [{k: list(v) if isinstance(v, tuple) else [v] for k, v in each.items()} for each in conditions]
    extra: dict[str, Any] = {"unit": unit}
    if rule:
        extra["rule"] = rule
    if plain:
        extra["needs"] = plain
    return Field(default, description=description, json_schema_extra=extra, **bounds)


_BOUNDS = (
    (annotated_types.Gt, "gt", ">"),
    (annotated_types.Ge, "ge", ">="),
    (annotated_types.Lt, "lt", "<"),
    (annotated_types.Le, "le", "<="),
)
_NOUNS = {int: "an integer", float: "a number", str: "text", bool: "true or false"}
_TYPES = {int: "integer", float: "number", str: "text", bool: "true/false"}


def extra_of(field: FieldInfo, name: str) -> str:
    """Return "unit" or "rule" of a field made by `setting`, "" if it has none."""
    extra = field.json_schema_extra
    return str(extra.get(name, "")) if isinstance(extra, dict) else ""


def needs_of(field: FieldInfo) -> list[dict[str, list[Any]]]:
    """Return the conditions of a field made by `setting`, of which one must hold; [] if there are none."""
    extra = field.json_schema_extra
    needs: Any = extra.get("needs", []) if isinstance(extra, dict) else []
    return list(needs)


def toml(value: Any, most: int = 60) -> str:
    """Write a value as TOML does, cut to `most` characters."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = json.dumps(value[: most + 1], ensure_ascii=False)
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(toml(item) for item in value[:most]) + "]"
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{key} = {toml(item)}" for key, item in islice(value.items(), most)) + "}"
    elif value is None:
        text = "none"
    elif isinstance(value, int) and value.bit_length() > 4 * most:  # Python may refuse to write it out
        text = f"an integer of {value.bit_length()} bits"
    else:
        text = str(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def choices(words: Any) -> str:
    """Write alternatives for people: "a", "b" or "c"."""
    quoted = [toml(word) for word in words]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def bounds_of(field: FieldInfo) -> str:
    """Write the bounds of a number, such as ">= 0 and <= 9"; "" if it has none."""
    parts = [
        f"{sign} {getattr(item, attribute)}"
        for kind, attribute, sign in _BOUNDS
        for item in field.metadata
        if isinstance(item, kind)
    ]
    return " and ".join(parts)


def general_rule(fault: ErrorDetails) -> str:
    """Return the general rule that a fault of pydantic breaks, as an addition to a rule; "" if there is none."""
    context = fault.get("ctx", {})
    if fault["type"] == _GENERAL:
        return f", {context['text']}"
    if (
        fault["type"] == "float_type"
        and isinstance(fault["input"], int)
        and not isinstance(fault["input"], bool)
    ):
        return f", {_LARGE}"
    most = context.get("max_length", 0)
    if most < 100:  # the setting's own rule states it
        return ""
    return f", of at most {most} {'characters' if fault['type'] == 'string_too_long' else 'items'}"


def rule_of(field: FieldInfo) -> str:
    """Say what a field allows, as it follows the words "it must be"."""
    rule = extra_of(field, "rule")
    return rule or f"{_noun(field.annotation)} {bounds_of(field)}".rstrip()


def _noun(annotation: Any) -> str:
    """Say which values a type has, as it follows "it must be"; bounds on items are stated by a `rule`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _noun(args[0])
    if origin is Literal:
        return choices(args)
    if origin in (Union, UnionType):
        return " or ".join(_noun(arg) for arg in args if arg is not type(None))
    if origin is tuple:
        return f"a {type_of(annotation)}"
    return _NOUNS[annotation]


def type_of(annotation: Any) -> str:
    """Name a field's type for people."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_of(args[0])
    if origin is Literal:
        return "text" if isinstance(args[0], str) else type_of(type(args[0]))
    if origin in (Union, UnionType):
        names = dict.fromkeys(type_of(arg) for arg in args if arg is not type(None))
        return " or ".join(names)
    if origin is tuple:
        item = type_of(args[0])
        items = f"{item}s" if item in ("integer", "number") else item
        return f"list of {items}" if args[-1] is Ellipsis else f"list of {len(args)} {items}"
    if origin is dict:
        return f"table of {type_of(args[1])}s"
    return _TYPES[annotation]
