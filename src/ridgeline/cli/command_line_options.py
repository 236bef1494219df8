"""Options that several commands share, and the commands' options that are made from declarations.

`with_options` turns the declared options of a command (runtime/declared_options.py) into the parameters that Typer
reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from inspect import Parameter, signature
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperGroup

from ridgeline.cli.completion import complete_benchmark, complete_setting
from ridgeline.runtime.declared_options import Option
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.launcher import OVERSUBSCRIBE
from ridgeline.runtime.user_code import NO_PYTHON

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

    from ridgeline.config.load import LoadedCase

# Typer writes the Python type of an argument behind its name in a help: "CASE <str>". The name is enough.
TyperArgument.display_type_rich = lambda self, ctx: None  # type: ignore[method-assign]

CasePath = Annotated[
    str, typer.Argument(metavar="CASE", help="Settings file: TOML, or the JSON of GrayScott.jl.")
]
Ranks = Annotated[
    int | None, typer.Option("-n", "--ranks", min=1, metavar="N", help="Number of MPI ranks to start.")
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="Threads of each rank; sets run.threads.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", metavar="<cpu|cuda>", help="Where the kernels run; sets run.device."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override one setting. May be repeated.",
        autocompletion=complete_setting,
    ),
]


class PanelGroup(TyperGroup):
    """A group whose help lists its commands under the names of their panels.

    Typer draws panels with Rich alone, which takes text in brackets, as in "[default: 3]", for markup.
    """

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands), default=0)
        for name, command in self.commands.items():
            if not command.hidden:
                panel = getattr(command, "rich_help_panel", None) or "Commands"
                panels.setdefault(panel, []).append((f"{name:{width}}", command.get_short_help_str(80)))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


def _set_environment(name: str) -> Callable[[bool], bool]:
    """Return a callback that sets a variable if its flag is given. Ranks and jobs started from here inherit it."""

    def callback(flag: bool) -> bool:
        if flag:
            os.environ[name] = "1"
        return flag

    return callback


NoPython = Annotated[
    bool,
    typer.Option(
        "--no-python",
        help="Refuse settings that run a Python file, for cases from strangers.",
        callback=_set_environment(NO_PYTHON),
    ),
]
Oversubscribe = Annotated[
    bool,
    typer.Option(
        "--oversubscribe",
        help="Allow more than max(16, 4 x cores) ranks on one machine.",
        callback=_set_environment(OVERSUBSCRIBE),
    ),
]


def load(
    path: str,
    settings: list[str] | None,
    threads: int | None = None,
    device: str | None = None,
    warn: bool = True,
) -> LoadedCase:
    """Load and check a case with the overrides of the command line; with `warn`, print its warnings once."""
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
    """Return a decorator that replaces the parameter `options` of a command with a flag for each offered option.

    `make` is called with the values that the user gave, by name. It returns what the command gets as `options`, or
    raises ConfigError.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def command(**arguments: Any) -> None:
            values = {option.name: value_of(option, arguments.pop(option.name)) for option in offered}
            given = {name: value for name, value in values.items() if value is not None}
            function(options=make(**given), **arguments)

        hints = get_type_hints(function, include_extras=True)
        parameters: list[Parameter] = []
        for parameter in signature(function).parameters.values():
            if parameter.name == "options":
                parameters += map(parameter_of, offered)
            else:
                annotation = hints[parameter.name]
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=annotation))
        vars(command)["__signature__"] = signature(function).replace(parameters=parameters)
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
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
        # Choices are shown in the place of the value.
        "" if option.choices else option.allowed,
        "may be repeated" if repeated else "",
        f"default: {default}" if default else "",
    )
    brackets = "; ".join(filter(None, facts))
    return f"{option.spec.help} [{brackets}]" if brackets else option.spec.help


_COMPLETERS = {"benchmark": complete_benchmark, "setting": complete_setting, None: None}


def parameter_of(option: Option) -> Parameter:
    """Return the parameter that Typer makes an option from. Its default None stands for the declared default."""
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
        item: Any = option.items[0]
        if option.choices:
            # Typer does not know a list of a Literal, so choices that may be repeated are an enumeration.
            make_enumeration: Any = StrEnum
            item = make_enumeration(option.name, {text: text for text in option.choices})
        kind = GenericAlias(list, (item,))
    info = typer.Option(
        *flags,
        metavar=option.spec.metavar or _metavar_of(option),
        help=help_of(option),
        show_default=False,
        autocompletion=_COMPLETERS.get(option.spec.completes),
    )
    annotation = kind if kind is bool else kind | None
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )


def _metavar_of(option: Option) -> str | None:
    """Return what stands for the value in a help, None where Typer's own says it: of flags and choices."""
    if option.type is bool or (option.choices and not option.repeated):
        return None
    if option.choices:
        return f"<{'|'.join(map(str, option.choices))}>"
    return {int: "N", float: "NUMBER"}.get(option.items[0], "TEXT")


def value_of(option: Option, given: Any) -> Any:
    """Return the value of an option from what Typer parsed, or None if the user gave none.

    Raises ConfigError for a text that is not a list of numbers.
    """
    if given in (None, []):
        return None
    if option.spec.commas:
        try:
            return tuple(map(option.items[0], given.split(",")))
        except ValueError:
            raise ConfigError(
                f"{option.flags[0]} {given} is not a list of numbers of {option.spec.unit}. Write it as 1,2,4,8."
            ) from None
    if option.repeated:
        return tuple(item.value if isinstance(item, StrEnum) else item for item in given)
    return given
