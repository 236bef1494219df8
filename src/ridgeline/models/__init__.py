"""The physics: one folder per model, found by name. Read `contract.py` first, then `gray_scott/model.py`.

A folder with a `settings.py` is a model. Its `settings.CASE` is the class of its settings, and
`model.create_model()` returns the object that the time loop runs. Folders of models outside the package are
named by the environment variable RIDGELINE_MODEL_PATH, separated like those of PYTHONPATH, and by the entry points
"ridgeline.models" of installed packages (runtime/plugins.py).
"""

import os
from contextlib import nullcontext
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.plugins import MODELS, package_of, plugin_errors, plugins

if TYPE_CHECKING:
    from ridgeline.config.case import AnyCase
    from ridgeline.models.contract import Estimate, Model

# Python finds a package's modules in all folders of its __path__; the package's own models come first.
_OWN = Path(__path__[0])
_PLUGINS = plugins(MODELS)
__path__ += filter(None, os.environ.get("RIDGELINE_MODEL_PATH", "").split(os.pathsep))
__path__ += [str(plugin.folder) for plugin in _PLUGINS]


def available() -> list[str]:
    """Return the names of all models, sorted."""
    return sorted({path.parent.name for folder in __path__ for path in Path(folder).glob("*/settings.py")})


def _check(name: str) -> None:
    known = available()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        given = os.environ.get("RIDGELINE_MODEL_PATH", "").split(os.pathsep)
        if absent := [folder for folder in given if folder and not Path(folder).is_dir()]:
            hint += f" RIDGELINE_MODEL_PATH names {absent[0]}, which is not a directory."
        raise ConfigError(f'no model is called "{name[:60]}".{hint} The models are {", ".join(known)}.')


def _part(name: str, part: str) -> ModuleType:
    """Return a module of a model. ConfigError if there is no such model, or if that of another package fails."""
    _check(name)
    folder = next(Path(folder) for folder in __path__ if (Path(folder) / name / "settings.py").exists())
    with (
        nullcontext()
        if folder == _OWN
        else plugin_errors(f"the model {name} of {package_of(folder, _PLUGINS)}")
    ):
        return import_module(f"ridgeline.models.{name}.{part}")


def case_class(name: str) -> "type[AnyCase]":
    """Return the class of a model's settings; ConfigError if there is no such model."""
    settings: type[AnyCase] = _part(name, "settings").CASE
    return settings


def starter(name: str) -> str:
    """Return the text of a model's `starter.toml`, a small commented case to begin with.

    Raises ConfigError if there is no such model, or if it has no such file.
    """
    _check(name)
    for folder in __path__:
        file = Path(folder) / name / "starter.toml"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise ConfigError(
        f"the model {name} has no starter.toml in its folder, so there is no case to begin with."
    )


def create(name: str) -> "Model":
    """Return a new model to set up and run; ConfigError if there is no such model."""
    model: Model = _part(name, "model").create_model()
    return model


def estimate(case: "AnyCase", n_ranks: int) -> "Estimate":
    """Return what `case` would need on n_ranks ranks; DecompositionError if it cannot be cut so."""
    needs: Estimate = _part(case.run.model, "estimate").estimate(case, n_ranks)
    if not (parts := case.memory_of_parts(n_ranks)):
        return needs
    return replace(needs, memory_between_steps=needs.memory_between_steps + parts)
