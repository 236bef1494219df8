"""The result lines of Graph500 as the reference code prints them, so that scripts made for it read ours.

Names, order, widths and formats are those of `src/main.c` of the reference, version 3. A kernel that did not run has
no lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from ridgeline.bench.graph500.statistics import RateSummary, Summary, summarise, summarise_rates

_WIDTH = 32  # of a name with its colon
INVALID = "No results printed for invalid run."
KERNELS = ("bfs", "sssp")


@dataclass(frozen=True)
class SearchRecord:
    """One search of one kernel: root, seconds of the slowest rank, input edges in its component, and its check.

    failures: sentences of the validation, none for a valid search; validate: seconds that it took.
    """

    kernel: str
    root: int
    seconds: float
    edges: int
    validate: float
    failures: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Traversed edges per second."""
        return self.edges / self.seconds


@dataclass(frozen=True)
class KernelSummary:
    """The statistics of all searches of one kernel."""

    time: Summary
    edges: Summary
    rate: RateSummary
    validate: Summary


def summarise_kernel(searches: list[SearchRecord]) -> KernelSummary:
    """Return the statistics of the searches of one kernel, at least one."""
    seconds = [one.seconds for one in searches]
    edges = [float(one.edges) for one in searches]
    return KernelSummary(
        time=summarise(seconds),
        edges=summarise(edges),
        rate=summarise_rates(edges, seconds),
        validate=summarise([one.validate for one in searches]),
    )


def official_text(facts: Mapping[str, int | float], summaries: Mapping[str, KernelSummary]) -> str:
    """Return all lines of a valid run. facts: SCALE ... construction_time by their official names, in order."""
    lines = [_line(name, value) for name, value in facts.items()]
    for kernel in (name for name in KERNELS if name in summaries):
        lines += [
            _line(f"{kernel:4} {name}_time", value) for name, value in asdict(summaries[kernel].time).items()
        ]
    edges = next(iter(summaries.values())).edges
    lines += [_line(f"{name}_nedge", value, ".11g") for name, value in asdict(edges).items()]
    for kernel in (name for name in KERNELS if name in summaries):
        lines += _rates(kernel, summaries[kernel].rate)
    for kernel in (name for name in KERNELS if name in summaries):
        values = asdict(summaries[kernel].validate)
        lines += [_line(f"{kernel:4} {name}_validate", value) for name, value in values.items()]
    return "\n".join([*lines, ""])


def _rates(kernel: str, rate: RateSummary) -> Iterator[str]:
    for name, value in asdict(rate).items():
        if name == "harmonic_mean":  # the one figure that counts is marked
            yield f"{f'{kernel:4} {name}_TEPS:':{_WIDTH - 3}}!  {value:g}"
        else:
            yield _line(f"{kernel:4} {name}_TEPS", value)


def _line(name: str, value: float, form: str = "g") -> str:
    return f"{name + ':':{_WIDTH}}{value:{'d' if isinstance(value, int) else form}}"
