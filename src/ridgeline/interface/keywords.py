"""Errors of options for Python programs: they name the keyword that Python gives, and not the flag of a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ridgeline.runtime.declared_options import Option
from ridgeline.runtime.errors import RidgelineError

_FLAG = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*(?<!-)")
_RANKS = {"-n": "ranks"}  # an argument of every call that starts ranks


@contextmanager
def errors_name_keywords(options: Sequence[Option]) -> Iterator[None]:
    """Let errors of the block name the keywords of options where they name flags: all_pairs for --all-pairs."""
    try:
        yield
    except RidgelineError as error:
        error.args = (with_keywords(str(error), options),)
        raise


def with_keywords(message: str, options: Sequence[Option]) -> str:
    """Return a message with the keywords of options in place of their flags. Other flags stay."""
    names = _RANKS | {flag: option.name for option in options for flag in option.flags}
    return _FLAG.sub(lambda found: names.get(found[0], found[0]), message)
