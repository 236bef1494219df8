"""Python of a user that settings name: whether it may run, and its failures as errors of one sentence."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ridgeline.runtime.errors import ConfigError, RidgelineError

# Set in the environment: settings that would run a Python file are refused, on every rank that is started too.
NO_PYTHON = "RIDGELINE_NO_PYTHON"


@contextmanager
def user_errors(what: str) -> Iterator[None]:
    """Turn whatever a user's code raises, SystemExit too, into a ConfigError: "WHAT failed (ValueError: why)"."""
    try:
        yield
    except RidgelineError:
        raise
    except (Exception, SystemExit) as problem:
        raise ConfigError(
            f"{what} failed ({type(problem).__name__}: {problem}). Correct that file"
        ) from problem


def load_function(key: str, text: str) -> Callable[..., Any]:
    """Return the function that a setting names as "file.py:function", which runs the file.

    Nothing else in the settings of any model runs Python. Call the function in a block of `user_errors`.

    Raises ConfigError if there is no such function, if its file fails, or if RIDGELINE_NO_PYTHON forbids to run it.
    """
    if os.environ.get(NO_PYTHON):
        raise ConfigError(
            f'{key} = "{text}" runs that Python file, which --no-python or {NO_PYTHON} forbids; '
            f"read the file, and leave the option out if you trust it"
        )
    name, _, function = text.rpartition(":")
    path = Path(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(f'{key} = "{text}": no file {name} here; need a Python file and a function of it')
    module = importlib.util.module_from_spec(spec)
    with user_errors(f'{key} = "{text}": running {name}'):
        spec.loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise ConfigError(f'{key} = "{text}": {name} has no function {function}; define it')
    return found  # type: ignore[no-any-return]
