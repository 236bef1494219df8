"""The statistics of Graph500 and its result lines, as the reference code prints them, for scripts that read those.

Names, order, widths and formats are those of `src/main.c` of the reference, version 3. A kernel that did not run has
no lines.

Sources: the specification of Graph500, "Output"; N. Norris, "The Standard Errors of the Geometric and Harmonic Means
and Their Application to Index Numbers", Annals of Mathematical Statistics 11 (1940) 445-448.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

_WIDTH = 32  # columns of a name with its colon
INVALID = "No results printed for invalid run."
KERNELS = ("bfs", "sssp")


@dataclass(frozen=True)
class Summary:
    """Order statistics of one figure over all searches, with its mean and standard deviation (n - 1)."""

    min: float
    firstquartile: float
    median: float
    thirdquartile: float
    max: float
    mean: float
    stddev: float


@dataclass(frozen=True)
class RateSummary:
    """Order statistics of TEPS, their harmonic mean and its standard deviation. Unit: edges per second."""

    min: float
    firstquartile: float
    median: float
    thirdquartile: float
    max: float
    harmonic_mean: float
    harmonic_stddev: float


def summarise(values: Sequence[float]) -> Summary:
    """Return the statistics of one or more values, one for each search. The deviation of a single value is 0.

    A quartile is the mean of the two values around it in order, as the reference code takes them.
    """
    x = np.sort(np.asarray(values, np.float64))
    n = x.size
    return Summary(
        min=float(x[0]),
        firstquartile=float(x[(n - 1) // 4] + x[n // 4]) / 2,
        median=float(x[(n - 1) // 2] + x[n // 2]) / 2,
        thirdquartile=float(x[n - 1 - (n - 1) // 4] + x[n - 1 - n // 4]) / 2,
        max=float(x[-1]),
        mean=float(x.mean()),
        stddev=float(x.std(ddof=1)) if n > 1 else 0.0,
    )


def summarise_rates(edges: Sequence[float], seconds: Sequence[float]) -> RateSummary:
    """Return the statistics of edges[i] / seconds[i], computed from the times per edge, as the specification demands.

    The deviation of the harmonic mean is s / (m^2 sqrt(n - 1)), m and s being mean and deviation of 1 / TEPS.
    """
    inverse = summarise([t / m for t, m in zip(seconds, edges, strict=True)])
    n = len(seconds)
    return RateSummary(
        min=1 / inverse.max,
        firstquartile=1 / inverse.thirdquartile,
        median=1 / inverse.median,
        thirdquartile=1 / inverse.firstquartile,
        max=1 / inverse.min,
        harmonic_mean=1 / inverse.mean,
        harmonic_stddev=inverse.stddev / (inverse.mean**2 * (n - 1) ** 0.5) if n > 1 else 0.0,
    )


@dataclass(frozen=True)
class SearchRecord:
    """One search of one kernel: root, seconds of the slowest rank, input edges in its component, and its validation.

    validate: seconds of the validation; failures: its sentences, none for a valid search.
    """

    kernel: str
    root: int
    seconds: float
    edges: int
    validate: float
    failures: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """The traversed edges per second."""
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
    seconds = [search.seconds for search in searches]
    edges = [float(search.edges) for search in searches]
    return KernelSummary(
        time=summarise(seconds),
        edges=summarise(edges),
        rate=summarise_rates(edges, seconds),
        validate=summarise([search.validate for search in searches]),
    )


def official_text(facts: Mapping[str, int | float], summaries: Mapping[str, KernelSummary]) -> str:
    """Return all lines of a valid run. facts: SCALE ... construction_time by their official names, in order."""
    kernels = [name for name in KERNELS if name in summaries]
    lines = [_line(name, value) for name, value in facts.items()]
    for kernel in kernels:
        lines += [
            _line(f"{kernel:4} {name}_time", value) for name, value in asdict(summaries[kernel].time).items()
        ]
    edges = next(iter(summaries.values())).edges
    lines += [_line(f"{name}_nedge", value, ".11g") for name, value in asdict(edges).items()]
    for kernel in kernels:
        lines += _rates(kernel, summaries[kernel].rate)
    for kernel in kernels:
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
