"""A user's Python code that settings name: whether it may run, and its failures as errors of one line."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ridgeline.runtime.errors import ConfigError, RidgelineError

# If it is set in the environment, settings that would run a Python file are errors, on all ranks that are started
# too.
NO_PYTHON = "RIDGELINE_NO_PYTHON"
FUNCTION = re.compile(r"\s*(?P<file>[^\n\0=]+\.py):(?P<name>[A-Za-z_]\w*)\s*")
_MOST_LETTERS = 300  # of what an exception says


def names_function(text: str) -> bool:
    """Say whether a text has the form "file.py:function"."""
    return FUNCTION.fullmatch(text) is not None


def digest_of(file: str) -> str:
    """Return a digest of the content of a Python file and of the files beside it that it imports, directly or not.

    It is that of the content alone where it imports none, and that of nothing if it cannot be read.
    """
    path = Path(file)
    contents = {path: _content_of(path)}
    waiting = [path]
    while waiting:
        at = waiting.pop()
        for found in _imported_files(at, contents[at], path.parent):
            if found not in contents:
                contents[found] = _content_of(found)
                waiting.append(found)
    digest = hashlib.blake2b(contents.pop(path), digest_size=16)
    for each in sorted(contents):
        content = contents[each]
        digest.update(f"\0{each.relative_to(path.parent).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _content_of(path: Path) -> bytes:
    with suppress(OSError):
        if path.is_file():
            return path.read_bytes()
    return b""


def _imported_files(path: Path, content: bytes, folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, and in packages in it, that the content of a file imports anywhere."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # which running the file will report
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [(folder, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = folder if not node.level else path.parent
            start = start.joinpath(*[".."] * (node.level - 1)) if node.level > 1 else start
            name = node.module or ""
            modules = [(start, name), *((start, f"{name}.{alias.name}".lstrip(".")) for alias in node.names)]
        else:
            continue
        for start, name in modules:
            parts = name.split(".") if name else []
            for count in range(1, len(parts) + 1):
                place = start.joinpath(*parts[:count])
                for found in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                    if found.is_file() and found.is_relative_to(folder):
                        yield found


def place_in(file: str, problem: BaseException) -> str:
    """Return "FILE:LINE: " of the innermost line of a file that raised an exception; "" if none of its lines did."""
    path = os.path.realpath(file)
    if isinstance(problem, SyntaxError) and os.path.realpath(problem.filename or "") == path:
        return f"{file}:{problem.lineno}: "
    line, trace = None, problem.__traceback__
    while trace is not None:
        if os.path.realpath(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f"{file}:{line}: "


def defined_at(file: str, function: Callable[..., Any]) -> str:
    """Return "FILE:LINE: " of the definition of a function of a file; "" if it is not known."""
    code = getattr(function, "__code__", None)
    return f"{file}:{code.co_firstlineno}: " if code is not None else ""


def described(problem: BaseException) -> str:
    """Return the class of an exception and what it says, in one line."""
    said = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    words = " ".join(said.split())
    words = words if len(words) <= _MOST_LETTERS else f"{words[: _MOST_LETTERS - 3]}..."
    return f"{type(problem).__name__}: {words}".removesuffix(": ")


@contextmanager
def user_errors(what: str, file: str) -> Iterator[None]:
    """Turn any exception of a user's file into a ConfigError: "FILE:LINE: WHAT failed (ValueError: why)".

    SystemExit is one of them.
    """
    try:
        yield
    except RidgelineError:
        raise
    except (Exception, SystemExit) as problem:
        raise ConfigError(
            f"{place_in(file, problem)}{what} failed ({described(problem)}). Correct that file."
        ) from problem


@contextmanager
def _importing_from(folder: Path) -> Iterator[None]:
    """Let `import` find modules of a folder, after all other ones."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # the user's code may have removed it
            sys.path.remove(str(folder))


def load_function(
    key: str | None, text: str, arguments: int | None = None, loaded: dict[Path, ModuleType] | None = None
) -> Callable[..., Any]:
    """Run the file that a setting names as "file.py:function", and return the function.

    No setting of any model runs Python otherwise. Call the function in a block of `user_errors`.

    Parameters
    ----------
    key, text : the setting, None if it is not known here, and its value
    arguments : with how many arguments it will be called; None if that is not checked
    loaded : the modules that were run before, by path, so that the functions of one file share its variables

    Raises ConfigError if there is no such function, if its file fails, or if RIDGELINE_NO_PYTHON forbids running it.
    """
    what = f'"{text}"' if key is None else f'{key} = "{text}"'
    if os.environ.get(NO_PYTHON):
        raise ConfigError(
            f"{what} runs that Python file, which --no-python or {NO_PYTHON} forbids. "
            f"Read the file, and omit the option if you trust it."
        )
    name, _, function = text.strip().rpartition(":")
    path, loaded = Path(os.path.realpath(name)), {} if loaded is None else loaded
    if path not in loaded:
        if not os.path.isfile(path):
            raise ConfigError(
                f"{what}: there is no file {name} here. Give a Python file and a function in it."
            )
        # It is compiled here, because Python's own loader leaves a folder with machine code beside the file.
        module = ModuleType(str(path))
        module.__file__ = str(path)
        sys.modules[module.__name__] = module
        with user_errors(f"{what}: running {name}", name), _importing_from(path.parent):
            exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
        loaded[path] = module
    found = getattr(loaded[path], function, None)
    if not callable(found):
        raise ConfigError(f"{what}: {name} has no function {function}. Define it.")
    if arguments is not None and (wrong := _wrong_signature(found, arguments)):
        count = f"{arguments} argument{'s' * (arguments != 1)}"
        raise ConfigError(
            f"{defined_at(name, found)}{what}: {function} is called with {count}, but its parameters are "
            f"{wrong}. Correct that file."
        )
    return found  # type: ignore[no-any-return]


def _wrong_signature(function: Callable[..., Any], arguments: int) -> str:
    """Return the parameters of a function that cannot be called with so many arguments, "" if it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of what is not written in Python
        return ""
    try:
        signature.bind(*range(arguments))
    except TypeError:
        return str(signature)
    return ""
