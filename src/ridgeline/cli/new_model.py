"""The command `new-model`: a package with a model that works, to be changed into one's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from ridgeline.runtime.errors import ConfigError, OutputError
from ridgeline.runtime.files import output_errors

_NAME = re.compile(r"[a-z][a-z0-9_]{1,39}")
_EXAMPLE = "heat"  # the model of docs/adding-a-model.md, which the package begins with

_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "ridgeline-{dashed}"
version = "0.1.0"
description = "The model {name} for Ridgeline."
requires-python = ">=3.11"
dependencies = ["ridgeline"]

[project.optional-dependencies]
test = ["pytest"]

# The package whose folders are models. Once it is installed, every command of Ridgeline knows them.
[project.entry-points."ridgeline.models"]
{name} = "ridgeline_{name}"

[tool.hatch.build.targets.wheel]
packages = ["ridgeline_{name}"]
"""

_README = """\
# ridgeline-{dashed}

The model `{name}` for Ridgeline. It begins as heat conduction: change `settings.py`, `kernels.py` and `model.py` in
`ridgeline_{name}/{name}` into the physics that you want. Ridgeline's page "Adding a model" explains each file.

```
pip install -e '.[test]'
ridgeline explain {name}
ridgeline run settings.toml -n 2
pytest
```
"""

_TESTS = '''\
"""The model {name}: against a plain NumPy program, on several ranks, after a restart, and in every format."""

import numpy as np
import pytest

import ridgeline

pytest_plugins = ["ridgeline.testing"]


@pytest.fixture
def case():
    return ridgeline.Case(
        "{name}",
        steps=8,
        grid={{"shape": (5, 6, 7)}},
        parameters={{"D": 1.0, "dt": 0.1}},
        initial={{"amplitude": 1.0, "waves": (0, 0, 1)}},
        output={{"every": 4, "initial": True}},
    )


def reference(case):
    """Advance the cosine by forward Euler, with periodic neighbours."""
    settings = case.settings
    nz, ny, nx = settings.grid.shape
    t = np.broadcast_to(np.cos(2 * np.pi * np.arange(nx) / nx), (nz, ny, nx)).copy()
    for _ in range(settings.run.steps):
        around = sum(np.roll(t, shift, axis) for axis in range(3) for shift in (-1, 1))
        t = t + settings.model.dt * settings.model.D * (around - 6 * t)
    return {{"T": t}}


def test_a_plain_numpy_program_finds_the_same(model_checks, case):
    model_checks.same_as(case, reference)


def test_the_answer_does_not_depend_on_the_ranks(model_checks, case):
    model_checks.same_on_ranks(case, ranks=(2, 3))


def test_a_restart_on_other_ranks_changes_nothing(model_checks, case):
    model_checks.same_after_resume(case)


def test_every_format_holds_the_same(model_checks, case):
    model_checks.same_in_formats(case)
'''


def new_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the model: letters, digits and _.")],
) -> None:
    """Write the folder ridgeline-NAME: a package with a model that works, and its tests.

    The model begins as heat conduction, to be changed into physics of your own.
    """
    from ridgeline.models import available

    if _NAME.fullmatch(name) is None:
        raise ConfigError(
            f"new-model {name}: the name must have 2 to 40 lower-case letters, digits and underscores, and begin "
            "with a letter."
        )
    if name in available():
        raise ConfigError(f"new-model {name}: there is a model of this name already. Choose another name.")
    root = Path(f"ridgeline-{name.replace('_', '-')}")
    if root.exists():
        raise OutputError(f"{root} exists already and is kept. Move it away, or use another folder.")
    words = {"name": name, "dashed": name.replace("_", "-")}
    texts = {
        "pyproject.toml": _PROJECT.format(**words),
        "README.md": _README.format(**words),
        f"tests/test_{name}.py": _TESTS.format(**words),
        f"ridgeline_{name}/__init__.py": f'"""The model {name} for Ridgeline."""\n',
    }
    for file in sorted(_example_folder().iterdir()):
        if file.suffix in (".py", ".toml"):
            text = re.sub(
                rf'"{_EXAMPLE}"|\b{_EXAMPLE}(?=\.bp"| model)',
                lambda at: _renamed(at[0], name),
                file.read_text(),
            )
            inside = file.name if file.suffix == ".toml" else f"ridgeline_{name}/{name}/{file.name}"
            texts[inside] = text
    with output_errors(f"write {root}", "use a folder in which you may write"):
        for inside, text in texts.items():
            path = root / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    typer.echo(f"wrote {root}")
    typer.echo(f"install it with: pip install -e './{root}[test]'")
    typer.echo(f"then run its tests with: pytest {root}")


def _renamed(text: str, name: str) -> str:
    return text.replace(_EXAMPLE, name)


def _example_folder() -> Path:
    """Return the folder of the model in the documentation: in the installed package, or in the checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "example_models" / _EXAMPLE
    return inside if inside.is_dir() else package.parents[1] / "docs" / "example_models" / _EXAMPLE
