"""Functions of the user that stand where formulas may, "file.py:function": `config.expressions.parse` returns them.

The names of its parameters say which variables of the formula a function gets. It takes numbers and returns a number,
and Numba compiles it. Where Numba may not be imported yet, because a job has not set its environment, as in the
checks of settings, it is called as it is, at a few points.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.check import nearest
from ridgeline.runtime.errors import ConfigError
from ridgeline.runtime.numba_errors import is_refusal, refusal
from ridgeline.runtime.user_code import NO_PYTHON, defined_at, digest_of, load_function, user_errors

_ALLOCATES = "@NRT_MemInfo_"  # in the code of a function that makes arrays or lists


class UserFunction:
    """A function of one point, of a file whose content is fixed.

    Attributes
    ----------
    text : "file.py:function", as the settings have it
    file : the file as the settings have it
    digest : of the content of the file
    function : the function itself
    parameters : the names of its parameters
    """

    def __init__(self, text: str, digest: str) -> None:
        self.text, self.digest = text, digest
        self.file, _, self.name = text.rpartition(":")
        found = load_function(None, text)
        self.function = getattr(found, "py_func", found)  # the user may have compiled it already
        self.parameters = _parameters(self)

    def __call__(self, *values: Any) -> NDArray[np.float64]:
        """Return the values at points: numbers and arrays that broadcast, float64."""
        with np.errstate(all="ignore"):
            if "numba" in sys.modules:
                return np.asarray(self._ufunc(*values) if values else self.compiled("float64")(), np.float64)
            return self._one_by_one(values)

    def at_points(self, dtype: Any, *values: Any) -> NDArray[Any]:
        """Return the values of the function as it is, called with numbers of a dtype: the reference."""
        arrays = np.broadcast_arrays(*(np.asarray(value, dtype) for value in values))
        found = np.empty(arrays[0].shape if arrays else (), dtype)
        for place in np.ndindex(found.shape):
            found[place] = self.function(*(each[place] for each in arrays))
        return found

    def compiled(self, dtype: str) -> Any:
        """Return the compiled function of numbers of a dtype.

        Raises ConfigError if it cannot be compiled, allocates memory or does not return a number.
        """
        from numba import from_dtype, types

        kind = from_dtype(np.dtype(dtype))
        signature = (kind,) * len(self.parameters)
        try:
            self._dispatcher.compile(signature)
        except Exception as error:  # some of Numba's have no other base
            if not is_refusal(error):
                raise
            where = refusal(self.function, error)
            file = self.file if where.file == os.path.realpath(self.file) else where.file
            raise ConfigError(
                f'{file}:{where.line}: "{self.text}" cannot be compiled: {where.reason}. Use what Numba compiles: '
                "numbers, math and NumPy's functions of numbers."
            ) from error
        made = self._dispatcher.overloads[signature]
        returned, place = made.signature.return_type, defined_at(self.file, self.function)
        if not isinstance(returned, types.Float | types.Integer | types.Boolean):
            what = (
                "nothing in some case" if isinstance(returned, types.NoneType | types.Optional) else returned
            )
            raise ConfigError(f'{place}"{self.text}" returns {what}, but it must return a number.')
        if _ALLOCATES in made.library.get_llvm_str():
            raise ConfigError(
                f'{place}"{self.text}" allocates memory, for an array or a list, at every point. Use numbers alone.'
            )
        return self._dispatcher

    @cached_property
    def _dispatcher(self) -> Any:
        from numba import njit

        return njit(error_model="numpy")(self.function)

    @cached_property
    def _ufunc(self) -> Callable[..., Any]:
        from numba import float64, vectorize

        inner = self.compiled("float64")
        names = ", ".join(f"p{i}" for i in range(len(self.parameters)))
        # A number of any kind becomes a float here.
        call = eval(f"lambda {names}: 1.0 * inner({names})", {"inner": inner})
        return vectorize([float64(*[float64] * len(self.parameters))])(call)  # type: ignore[no-any-return]

    def _one_by_one(self, values: Sequence[Any]) -> NDArray[np.float64]:
        arrays = np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values))
        found = np.empty(arrays[0].shape if arrays else ())
        for place in np.ndindex(found.shape):
            numbers = [each[place] for each in arrays]
            where = ", ".join(f"{name} = {value:g}" for name, value in zip(self.parameters, numbers))
            with user_errors(f'"{self.text}"{f" at {where}" if where else ""}', self.file):
                value = self.function(*numbers)
                if (
                    np.ndim(value)
                    or not np.isrealobj(value)
                    or not isinstance(value, int | float | np.generic)
                ):
                    raise ConfigError(
                        f'{defined_at(self.file, self.function)}"{self.text}" returns a {type(value).__name__}, '
                        "but it must return a number."
                    )
                found[place] = value
        return found


def _parameters(function: UserFunction) -> tuple[str, ...]:
    """Return the names of the parameters. Raises ConfigError for others than plain ones."""
    parameters = inspect.signature(function.function).parameters.values()
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for each in parameters:
        if each.kind is not plain or each.default is not inspect.Parameter.empty:
            raise ConfigError(
                f'{defined_at(function.file, function.function)}"{function.text}" has a parameter {each}, but all '
                "its parameters must be plain names, without defaults and stars."
            )
    return tuple(each.name for each in parameters)


def load_user_function(text: str, variables: Sequence[str] | None = None) -> UserFunction:
    """Return the function of a text "file.py:function".

    variables: the names that its parameters may have, None if they have been checked.

    Raises ConfigError for a file or function that is missing, fails or has other parameters, and if user code may
    not run.
    """
    text = text.strip()
    name = text.rpartition(":")[0]
    function = _loaded(text, os.path.realpath(name), digest_of(name), bool(os.environ.get(NO_PYTHON)))
    for parameter in function.parameters:
        if variables is not None and parameter not in variables:
            near = nearest(parameter, variables)
            hint = f" (did you mean {near}?)" if near else ""
            raise ConfigError(
                f'{defined_at(name, function.function)}"{text}" has a parameter {parameter}, which is unknown{hint}; '
                f"the known names are {', '.join(variables) or 'none'}"
            )
    return function


@lru_cache(maxsize=64)
def _loaded(text: str, path: str, digest: str, forbidden: bool) -> UserFunction:
    """Return the function of a file with this content. The other arguments are what it depends on."""
    return UserFunction(text, digest)
