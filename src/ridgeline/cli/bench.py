"""`ridgeline bench`: a command for every declared benchmark, made from its declaration."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from inspect import Parameter, Signature
from types import GenericAlias
from typing import Annotated, Any

import typer

from ridgeline.bench.benchmark import Benchmark, Option
from ridgeline.bench.registry import available
from ridgeline.cli.options import Debug, Ranks
from ridgeline.runtime.errors import ConfigError

Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the figures here too; - for stdout alone.")
]
Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="Write the rows as comma-separated values, SI units."),
]
Plot = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Draw the figures: a PNG, SVG or PDF file.")
]
# What every benchmark has, after its own options; the job's names, which no option of a benchmark may have.
OUTPUTS = {"json": (Json, None), "csv": (Csv, None), "plot": (Plot, None), "debug": (Debug, False)}

bench = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@bench.callback()
def group() -> None:
    """Measure this machine: its parts alone, and on the patterns of the models."""


def help_of(option: Option) -> str:
    """Return the help of an option: its sentence, then unit, range and default in brackets."""
    repeated = option.repeated and not option.spec.commas
    default = option.default_text
    facts = (
        option.spec.unit,
        "" if option.choices else option.allowed,  # the choices stand in place of the value
        "may be repeated" if repeated else "",
        f"default: {default}" if default and option.type is not bool else "",
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
    """Return the value of an option from what Typer gave. Raises ConfigError for what is no list of numbers."""
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


def make_command(benchmark: Benchmark) -> Callable[..., None]:
    """Return the function whose signature Typer reads, and which runs the benchmark."""

    def run(ranks: int | None, debug: bool, **given: Any) -> None:
        from ridgeline.bench.run import BenchmarkOutputs, run_benchmark
        from ridgeline.parallel.job import start_ranks

        outputs = BenchmarkOutputs(**{name: given[name] for name in OUTPUTS if name != "debug"})
        values = {
            one.name: value_of(one, given[one.name])
            for one in benchmark.offered
            if given[one.name] not in (None, [])
        }
        options = benchmark.make_options(**values)
        code = start_ranks(ranks)
        if code is not None:
            raise typer.Exit(code)
        run_benchmark(benchmark, options, outputs, debug)

    common = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in OUTPUTS.items()
    ]
    ranks = Parameter("ranks", Parameter.KEYWORD_ONLY, default=None, annotation=Ranks)
    parameters = [ranks, *map(parameter_of, benchmark.offered), *common]
    vars(run)["__signature__"] = Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__ = benchmark.text
    return run


for declared in available().values():
    bench.command(declared.name)(make_command(declared))
