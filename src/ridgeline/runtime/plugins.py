"""Models, benchmarks and recorders of other packages, which declare them as entry points.

    [project.entry-points."ridgeline.models"]
    brusselator = "ridgeline_brusselator"

    [project.entry-points."ridgeline.recorders"]
    mean_profile = "ridgeline_brusselator.profiles:recorder"

The value is an importable package whose folders are models (or families of benchmarks, in "ridgeline.benchmarks"),
and for a recorder the module and the name of a function. Nothing of it is imported until one of them is used, so that
a package that fails disturbs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ridgeline.runtime.errors import ConfigError, RidgelineError
from ridgeline.runtime.user_code import described

MODELS, BENCHMARKS, RECORDERS = "ridgeline.models", "ridgeline.benchmarks", "ridgeline.recorders"  # groups


@dataclass(frozen=True)
class Plugin:
    """A folder with models or benchmarks, and the package that declares it, such as "ridgeline-brusselator 1.0"."""

    folder: Path
    package: str


def plugins(group: str) -> list[Plugin]:
    """Return the folders that installed packages declare in a group of entry points, each once."""
    found: dict[Path, Plugin] = {}
    for entry in entry_points(group=group):
        top, *inner = entry.value.split(".")
        # The specification of a package that is in no other one is found without importing anything.
        spec = find_spec(top)
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            folder = Path(root, *inner)
            found.setdefault(folder, Plugin(folder, owner_of(entry)))
    return list(found.values())


def entries(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages declare in a group by its name; the first package with a name keeps it."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, entry)
    return found


def load_entry(entry: EntryPoint, what: str) -> Any:
    """Import what an entry names. Raises ConfigError for a package that fails; what: for its message."""
    with plugin_errors(f"{what} of the package {owner_of(entry)}"):
        return entry.load()


def owner_of(entry: EntryPoint) -> str:
    """Return the package of an entry with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def package_of(folder: Path, among: list[Plugin]) -> str:
    """Return what messages call the owner of a folder with a model or a family: its package, or the folder."""
    return next(
        (f"the package {plugin.package}" for plugin in among if plugin.folder == folder),
        f"the folder {folder}",
    )


@contextmanager
def plugin_errors(what: str, doing: str = "imported") -> Iterator[None]:
    """Turn any exception of a package that fails on import, or in use, into a ConfigError of one sentence."""
    try:
        yield
    except RidgelineError:
        raise
    except (Exception, SystemExit) as problem:
        raise ConfigError(
            f"{what} cannot be {doing} ({described(problem)}). Install a version of the package that "
            "fits this version of Ridgeline, or uninstall it."
        ) from problem
