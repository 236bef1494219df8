"""Options and steps that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from inspect import Parameter, signature
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ridgeline.runtime.declared_options import Option
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.launcher import OVERSUBSCRIBE
from ridgeline.runtime.user_code import NO_PYTHON

if TYPE_CHECKING:
    from ridgeline.config.load import LoadedCase

CasePath = Annotated[
    str, typer.Argument(metavar="CASE", help="Settings file: TOML, or JSON of GrayScott.jl.")
]
Ranks = Annotated[int | None, typer.Option("-n", "--ranks", min=1, help="MPI ranks; starts mpiexec itself.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="Threads of each rank (run.threads).")]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda (run.device).")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override one setting; may be repeated."),
]


def _switch(name: str) -> Callable[[bool], bool]:
    """Return what sets a variable where a flag is given. Ranks, and jobs that this process starts, inherit it."""

    def keep(given: bool) -> bool:
        if given:
            os.environ[name] = "1"
        return given

    return keep


NoPython = Annotated[
    bool,
    typer.Option(
        "--no-python",
        help="Refuse settings that run a Python file: for cases from elsewhere.",
        callback=_switch(NO_PYTHON),
    ),
]
Oversubscribe = Annotated[
    bool,
    typer.Option(
        "--oversubscribe",
        help="Start more ranks on a machine than max(16, 4 x cores).",
        callback=_switch(OVERSUBSCRIBE),
    ),
]


def load(
    path: str,
    settings: list[str] | None,
    threads: int | None = None,
    device: str | None = None,
    warn: bool = True,
) -> LoadedCase:
    """Load and check a case with the command line's overrides on top. warn: print its warnings, once."""
    from ridgeline.config.load import load_case
    from ridgeline.models import case_class
    from ridgeline.runtime.launcher import may_print

    overrides = list(settings or [])
    if threads is not None:
        overrides.append(f"run.threads={threads}")
    if device is not None:
        overrides.append(f'run.device="{device}"')
    loaded = load_case(path, case_class, overrides)
    if warn and may_print():
        for warning in loaded.warnings:
            typer.echo(f"warning: {warning}", err=True)
    return loaded


def with_options(
    offered: Sequence[Option], make: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator: a command has these flags where its function has the parameter `options`, made of them.

    make: called with the values that the user gave, by name. It returns `options`, or raises ConfigError.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            found = {one.name: value_of(one, given.pop(one.name)) for one in offered}
            values = {name: value for name, value in found.items() if value is not None}
            function(options=make(**values), **given)

        hints = get_type_hints(function, include_extras=True)
        parameters: list[Parameter] = []
        for one in signature(function).parameters.values():
            if one.name == "options":
                parameters += map(parameter_of, offered)
            else:
                parameters.append(one.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[one.name]))
        vars(command)["__signature__"] = signature(function).replace(parameters=parameters)
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        return command

    return decorate


def help_of(option: Option) -> str:
    """Return the help of an option: its sentence, then unit, range and default in brackets."""
    repeated = option.repeated and not option.spec.commas
    default = option.default_text
    if option.type is bool:
        default = option.flags[0].removeprefix("--") if option.default else ""
    facts = (
        option.spec.unit,
        "" if option.choices else option.allowed,  # the choices stand in place of the value
        "may be repeated" if repeated else "",
        f"default: {default}" if default else "",
    )
    known = "; ".join(filter(None, facts))
    return f"{option.spec.help} [{known}]" if known else option.spec.help


def parameter_of(option: Option) -> Parameter:
    """Return the parameter that Typer makes the option from. None stands for the declared default."""
    default: Any = None
    kind: Any = option.type
    flags = option.flags
    if kind is bool:
        default = option.default
        if default:
            flags = (*flags[:-1], f"{flags[-1]}/--no-{flags[-1].removeprefix('--')}")
    elif option.spec.commas:
        kind = str
    elif option.repeated:
        kind = GenericAlias(list, (_enumeration(option) if option.choices else option.items[0],))
    info = typer.Option(*flags, metavar=option.spec.metavar, help=help_of(option), show_default=False)
    annotation = kind if kind is bool else kind | None
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )


def _enumeration(option: Option) -> Any:
    """Return the choices as Typer wants them where an option may be repeated: it knows no list of a Literal."""
    make: Any = StrEnum
    return make(option.name, {text: text for text in option.choices})


def value_of(option: Option, given: Any) -> Any:
    """Return the value of an option from what Typer gave, None if the user gave none.

    Raises ConfigError for what is no list of numbers.
    """
    if given in (None, []):
        return None
    if option.spec.commas:
        try:
            return tuple(map(option.items[0], given.split(",")))
        except ValueError:
            raise ConfigError(
                f"{option.flags[0]} {given} is no list of numbers of {option.spec.unit}; write it as 1,2,4,8"
            ) from None
    if option.repeated:
        return tuple(one.value if isinstance(one, StrEnum) else one for one in given)
    return given
