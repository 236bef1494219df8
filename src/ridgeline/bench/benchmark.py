"""How a benchmark is declared and found: its name, its pattern and formula, its options, its function, its scaling.

The command line, the page of documentation, the checks of ranges and the outputs follow from the declaration
(cli/bench_commands.py, tools/generate_benchmarks_doc.py, bench/run.py); docs/adding-a-benchmark.md shows one. The
declarations of a family are in its `<family>_options.py`. They import neither Numba nor MPI, because
`ridgeline --help` reads them all; the function of a benchmark is named there, and imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ridgeline.bench
from ridgeline.config.size_law import SizeLaw
from ridgeline.runtime.declared_options import DeclaredOptions, Option, options_of
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.plugins import package_of, plugin_errors

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

    from ridgeline.bench.result import Result

# Characters of a short help that `ridgeline bench --help` shows whole in a terminal of 80 columns.
LONGEST_SHORT = 45


@dataclass(frozen=True)
class Scaling:
    """The part of a declaration that lets `ridgeline study` scale a benchmark.

    Attributes
    ----------
    law
        How its size changes with the number of ranks.
    figures
        "module.function" beside the declaration. The function takes what the benchmark's JSON holds
        (`Result.to_dict`) and returns a `ScalingFigures` for each curve of the study. Its module imports neither
        Numba nor MPI, because a study reads reports on login nodes.
    """

    law: SizeLaw
    figures: str


@dataclass(frozen=True)
class ScalingFigures:
    """One point of one scaling curve: what a job measured on all its ranks together.

    Attributes
    ----------
    seconds
        One step or iteration on the slowest rank.
    points
        The points that it advances.
    labels
        What tells the curves of a study apart, such as {"implementation": "reference"}.
    phases
        Seconds of the parts, which add up to about `seconds`.
    flops, bytes
        Counted rates per second, or None if they are not known.
    fraction
        The share of the limit that the same job measured, or None.
    """

    seconds: float
    points: float
    labels: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, float] = field(default_factory=dict)
    flops: float | None = None
    bytes: float | None = None
    fraction: float | None = None


@dataclass(frozen=True)
class BenchmarkOptions(DeclaredOptions):
    """Derive the options of a benchmark from this class.

    Each field of a derived frozen dataclass is an option: its type, an `OptionSpec`, and its default. Four names
    have a meaning for the job too: `threads` is the threads of a rank; with `device` ("cpu" or "cuda") the function
    is called with `memory`, the kind of memory that its messages lie in; `hmem` sets how MPICH treats that of GPUs;
    and `format` ("table" or "osu") says how the figures are printed.

    Raises
    ------
    ConfigError
        When an object is made, for a value out of its range. The message names the flag.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import Annotated
    >>> from ridgeline.bench.benchmark import BenchmarkOptions
    >>> from ridgeline.runtime.declared_options import OptionSpec
    >>> @dataclass(frozen=True)
    ... class RingOptions(BenchmarkOptions):
    ...     laps: Annotated[int, OptionSpec("Timed laps of a size.", minimum=1)] = 100
    >>> RingOptions(laps=20)
    RingOptions(laps=20)
    """


@dataclass(frozen=True)
class Benchmark:
    """Declare a benchmark: the command line, its help and checks, and its outputs follow from the declaration.

    Attributes
    ----------
    name : str
        The name of the command.
    short : str
        The help in a list of commands: at most 45 characters, which begin with a verb.
    summary : str
        One sentence that says what it measures.
    pattern : str
        One sentence that says which ranks do what with which.
    formula : str
        How the figures follow from the measured times.
    options : type
        The class of its options, derived from `BenchmarkOptions`.
    function : str
        "module.function" beside the declaration. It is called as function(comm, options), with memory= and progress=
        if it has such parameters, is collective over comm, and returns a `Result`.
    details : str
        What else a user must know.
    fixed : mapping
        Options that this benchmark does not offer, with their values.
    finish : str, optional
        "module.function", called on rank 0 as finish(result, options) after everything else is written. It writes
        further files and returns lines to print.
    scaling : Scaling or str, optional
        How studies scale it, or the name of the benchmark that a study runs instead.
    family : str
        The folder, set by `available`.
    thread_level : str
        The thread level with which MPI starts for it; "multiple" where several threads of a rank call MPI.

    Examples
    --------
    >>> from ridgeline.bench.benchmark import Benchmark, BenchmarkOptions
    >>> ring = Benchmark(
    ...     name="ring",
    ...     short="Time a message around all ranks.",
    ...     summary="Time a message on its way around all ranks.",
    ...     pattern="every rank receives the message from the rank before it and sends it to the next one.",
    ...     formula="time of a hop = t / (laps x ranks).",
    ...     options=BenchmarkOptions,
    ...     function="measure.measure_ring",
    ... )
    >>> print(ring.text.splitlines()[2])
    Pattern: every rank receives the message from the rank before it and sends it to the next one.
    """

    name: str
    short: str
    summary: str
    pattern: str
    formula: str
    options: type[BenchmarkOptions]
    function: str
    details: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    finish: str | None = None
    scaling: Scaling | str | None = None
    family: str = ""
    thread_level: str = "serialized"

    def __post_init__(self) -> None:
        if len(self.short) > LONGEST_SHORT:
            raise ConfigError(
                f'the short help of the benchmark "{self.name}" has {len(self.short)} characters. It may have at '
                f"most {LONGEST_SHORT}, because a list of commands cuts a longer one off."
            )

    @cached_property
    def offered(self) -> list[Option]:
        """The options that a user may give."""
        return [option for option in options_of(self.options) if option.name not in self.fixed]

    @property
    def text(self) -> str:
        """The help text: summary, pattern, formula, details."""
        parts = [self.summary, f"Pattern: {self.pattern}", f"Formula: {self.formula}", self.details]
        return "\n\n".join(filter(None, parts))

    def make_options(self, **given: Any) -> BenchmarkOptions:
        """Return options with the given values and the declared defaults. Raises ConfigError for a wrong value."""
        return self.options(**given, **self.fixed)

    def find(self, name: str) -> Callable[..., Any]:
        """Return the function called "module.function" in this benchmark's folder."""
        module, _, function = name.rpartition(".")
        member: Callable[..., Any] = getattr(
            import_module(f"ridgeline.bench.{self.family}.{module}"), function
        )
        return member

    def measure(self, comm: Comm, options: BenchmarkOptions, **offers: Any) -> Result:
        """Call the function of the benchmark.

        Parameters
        ----------
        comm : MPI.Comm
            The ranks that measure.
        options : BenchmarkOptions
            The options, the same on all ranks.
        **offers
            memory (a `parallel.payload.Memory`) and progress (a `runtime.console.Phases`), which the function gets
            if it has such parameters.

        Returns
        -------
        Result
            The figures, with complete rows on rank 0.

        Notes
        -----
        Collective over comm.
        """
        function = self.find(self.function)
        parameters = signature(function).parameters
        result: Result = function(comm, options, **{k: v for k, v in offers.items() if k in parameters})
        return result


def families() -> list[str]:
    """Return the sorted names of the families: the folders that have a `<family>_options.py`."""
    paths = (path for folder in ridgeline.bench.__path__ for path in Path(folder).glob("*/*_options.py"))
    return sorted({path.parent.name for path in paths if path.stem == f"{path.parent.name}_options"})


def failures() -> list[str]:
    """Return a sentence for each family of benchmarks of another package that fails on import."""
    sentences = []
    for family in families():
        try:
            declarations(family)
        except ConfigError as problem:
            sentences.append(str(problem))
    return sentences


def declarations(family: str) -> Sequence[Benchmark]:
    """Return the benchmarks of a family. ConfigError if that of another package fails on import."""
    folder = next(Path(folder) for folder in ridgeline.bench.__path__ if (Path(folder) / family).is_dir())
    what = f"the benchmarks {family} of {package_of(folder, ridgeline.bench.PLUGINS)}"
    with nullcontext() if folder == ridgeline.bench.OWN else plugin_errors(what):
        declared: Sequence[Benchmark] = import_module(f"ridgeline.bench.{family}.{family}_options").BENCHMARKS
        return declared


def available() -> dict[str, Benchmark]:
    """Return all benchmarks by name, family by family, without those of packages that fail on import.

    Raises ConfigError if two have the same name.
    """
    benchmarks: dict[str, Benchmark] = {}
    for family in families():
        try:
            found = declarations(family)
        except ConfigError:  # `failures` tells it
            continue
        for declared in found:
            if declared.name in benchmarks:
                raise ConfigError(
                    f'two benchmarks are called "{declared.name}", one in the family '
                    f"{benchmarks[declared.name].family} and one in {family}. Rename one of them."
                )
            benchmarks[declared.name] = replace(declared, family=family)
    return benchmarks


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of this name. Raises ConfigError if there is none."""
    benchmarks = available()
    if name not in benchmarks:
        near = get_close_matches(name, benchmarks, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        broken = " ".join(["", *failures()])
        raise ConfigError(
            f'no benchmark is called "{name[:60]}".{hint} Benchmarks: {", ".join(benchmarks)}.{broken}'
        )
    return benchmarks[name]
