"""Which benchmarks there are: a folder of ridgeline/bench with a `<family>_options.py` is a family of them."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import ridgeline.bench
from ridgeline.bench.benchmark import Benchmark
from ridgeline.runtime.errors import ConfigError


def families() -> list[str]:
    """Return the names of the folders that are a family, sorted."""
    found = (path for folder in ridgeline.bench.__path__ for path in Path(folder).glob("*/*_options.py"))
    return sorted({path.parent.name for path in found if path.stem == f"{path.parent.name}_options"})


def available() -> dict[str, Benchmark]:
    """Return all benchmarks by name, family by family. Raises ConfigError if two have one name."""
    found: dict[str, Benchmark] = {}
    for family in families():
        for declared in import_module(f"ridgeline.bench.{family}.{family}_options").BENCHMARKS:
            if declared.name in found:
                raise ConfigError(
                    f'two benchmarks are called "{declared.name}", in the families '
                    f"{found[declared.name].family} and {family}; give one another name"
                )
            found[declared.name] = replace(declared, family=family)
    return found


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of this name. Raises ConfigError if there is none."""
    known = available()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ConfigError(f'no benchmark is called "{name[:60]}"; need one of: {", ".join(known)}.{hint}')
    return known[name]
