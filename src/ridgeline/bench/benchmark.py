"""How a benchmark is declared: its name, its pattern and formula in a sentence each, its options, its function.

The command line, the page of documentation, the checks of ranges and the outputs follow from the declaration
(cli/bench.py, tools/generate_benchmarks_doc.py, bench/run.py); docs/adding-a-benchmark.md shows one. Declarations
import neither Numba nor MPI: `ridgeline --help` reads them all. The function is named, and imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from ridgeline.runtime.declared_options import DeclaredOptions, Option, options_of

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

    from ridgeline.bench.result import Result
    from ridgeline.bench.scaling import Scaling


@dataclass(frozen=True)
class BenchmarkOptions(DeclaredOptions):
    """Base of the options of all benchmarks.

    Two names have a meaning for the job too: `threads` (of a rank), `device` ("cpu" or "cuda": the function gets
    `memory`, the kind of its messages' memory).
    """


@dataclass(frozen=True)
class Benchmark:
    """The declaration of a benchmark.

    name: of the command; summary: what it does, one sentence; pattern: who does what with whom, one sentence;
    formula: how figures follow from measured times; options: their class; function: "module.function" beside the
    declaration, called as function(comm, options), with memory= and progress= if it has such parameters, collective
    over comm; it returns a Result. details: what else a user must know; fixed: options that this benchmark does not
    offer, and their values; finish: "module.function" called on rank 0 as finish(result, options) after all else is
    written, which writes further files and returns lines to print; scaling: how studies scale it, or the name of the
    benchmark that a study runs in its place; family: the folder, set by the registry.
    """

    name: str
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

    @cached_property
    def offered(self) -> list[Option]:
        """The options that a user may give."""
        return [one for one in options_of(self.options) if one.name not in self.fixed]

    @property
    def text(self) -> str:
        """The help: summary, pattern, formula, details."""
        parts = [self.summary, f"Pattern: {self.pattern}", f"Formula: {self.formula}", self.details]
        return "\n\n".join(filter(None, parts))

    def make_options(self, **given: Any) -> BenchmarkOptions:
        """Return options with the values given, the others as declared. Raises ConfigError for one out of range."""
        return self.options(**given, **self.fixed)

    def find(self, name: str) -> Callable[..., Any]:
        """Return the function called "module.function" in this benchmark's folder."""
        module, _, function = name.rpartition(".")
        found: Callable[..., Any] = getattr(
            import_module(f"ridgeline.bench.{self.family}.{module}"), function
        )
        return found

    def measure(self, comm: Comm, options: BenchmarkOptions, **offers: Any) -> Result:
        """Measure: call the function with comm, options, and those of `offers` that are parameters of it.

        offers: memory (a `parallel.payload.Memory`), progress (a `runtime.progress.Phases`). Collective over comm.
        """
        function = self.find(self.function)
        parameters = signature(function).parameters
        result: Result = function(comm, options, **{k: v for k, v in offers.items() if k in parameters})
        return result
