"""A user's Python code that settings name: whether it may run, and its failures as errors of one line."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ridgeline.runtime.errors import ConfigError, RidgelineError

# If it is set in the environment, settings that would run a Python file are errors, on all ranks that are started
# too.
NO_PYTHON = "RIDGELINE_NO_PYTHON"


@contextmanager
def user_errors(what: str) -> Iterator[None]:
    """Turn any exception of a user's code, SystemExit too, into a ConfigError: "WHAT failed (ValueError: why)"."""
    try:
        yield
    except RidgelineError:
        raise
    except (Exception, SystemExit) as problem:
        raise ConfigError(
            f"{what} failed ({type(problem).__name__}: {problem}). Correct that file."
        ) from problem


def load_function(key: str, text: str) -> Callable[..., Any]:
    """Run the file that a setting names as "file.py:function", and return the function.

    No other setting of any model runs Python. Call the function in a block of `user_errors`.

    Raises ConfigError if there is no such function, if its file fails, or if RIDGELINE_NO_PYTHON forbids running it.
    """
    if os.environ.get(NO_PYTHON):
        raise ConfigError(
            f'{key} = "{text}" runs that Python file, which --no-python or {NO_PYTHON} forbids. '
            f"Read the file, and omit the option if you trust it."
        )
    name, _, function = text.rpartition(":")
    path = Path(name)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ConfigError(
            f'{key} = "{text}": there is no file {name} here. Give a Python file and a function in it.'
        )
    module = importlib.util.module_from_spec(spec)
    with user_errors(f'{key} = "{text}": running {name}'):
        spec.loader.exec_module(module)
    loaded = getattr(module, function, None)
    if not callable(loaded):
        raise ConfigError(f'{key} = "{text}": {name} has no function {function}. Define it.')
    return loaded  # type: ignore[no-any-return]
