"""Benchmarks measured as the command line measures them: found by name, with their declared options."""

from __future__ import annotations

from typing import Any

from ridgeline.bench.benchmark import BenchmarkOptions, find_benchmark
from ridgeline.bench.result import Result
from ridgeline.runtime.console import silent


def options_for(name: str, **given: Any) -> BenchmarkOptions:
    """Return the options of a benchmark; lists become tuples."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return find_benchmark(name).make_options(**values)


def measure(name: str, comm: Any, memory: str = "host", **given: Any) -> Result:
    """Measure a benchmark with these options. Collective over comm."""
    return find_benchmark(name).measure(comm, options_for(name, **given), memory=memory, progress=silent())
