"""What the shell completes: models, examples, and keys of settings after --set. Nothing here may fail or print."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path

import typer

from ridgeline.runtime.errors import ConfigError


def example_folders() -> dict[str, Path]:
    """Return the folders of the examples by name: those of the installed package, or of the checkout."""
    package = Path(__file__).resolve().parents[1]
    root = package / "examples"
    if not root.is_dir():
        root = package.parents[1] / "examples"
    return {path.parent.name: path.parent for path in sorted(root.glob("*/README.md"))}


def complete_model(incomplete: str) -> list[str]:
    """Return the models whose names begin so."""
    from ridgeline.models import available

    return [name for name in available() if name.startswith(incomplete)]


def complete_example(incomplete: str) -> list[str]:
    """Return the examples whose names begin so."""
    return [name for name in example_folders() if name.startswith(incomplete)]


def complete_benchmark(incomplete: str) -> list[str]:
    """Return the benchmarks whose names begin so."""
    from ridgeline.bench.benchmark import available

    return [name for name in available() if name.startswith(incomplete)]


def complete_predictable(incomplete: str) -> list[str]:
    """Return "hpcg", which `predict` takes beside settings files, if it begins so."""
    return [name for name in ("hpcg",) if incomplete and name.startswith(incomplete)]


def complete_key(context: typer.Context, incomplete: str) -> list[str]:
    """Return the keys of settings that begin so: of the model that the command line names, or of all models."""
    return [key for key in _keys(context) if key.startswith(incomplete)]


def complete_setting(context: typer.Context, incomplete: str) -> list[str]:
    """Return what may follow --set: `key=` for each key that begins so."""
    return [f"{key}=" for key in complete_key(context, incomplete)]


def _keys(context: typer.Context) -> list[str]:
    from ridgeline.config.schema import fields_of
    from ridgeline.models import available, case_class

    names = available()
    case = context.params.get("case") or context.params.get("subject")
    chosen = context.params.get("model") or _model_of(str(case))
    keys: dict[str, None] = {}
    for name in names:
        with suppress(ConfigError):  # a package of somebody else that fails
            keys |= dict.fromkeys(fields_of(case_class(name)) if chosen in (name, "") else ())
    return list(keys)


def _model_of(path: str) -> str:
    """Return run.model of a settings file, "" if it cannot be read."""
    try:
        return str(tomllib.loads(Path(path).read_text(encoding="utf-8"))["run"]["model"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
