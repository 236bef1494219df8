"""The one console: it prints texts as they are, so that `[cuda]` and `:x:` in a message or a file name stay there.

Rich takes square brackets for markup and words between colons for emoji. Styles are given as `rich.text.Text`.
"""

from __future__ import annotations

import sys
from typing import TextIO

from rich.console import Console

FILE_WIDTH = 240  # columns where there is no terminal to fit into, so that no table is cut


def plain_console(
    stream: TextIO | None = None, *, soft_wrap: bool = False, file_width: int | None = FILE_WIDTH
) -> Console:
    """Return what prints texts as they are given on a stream, by default standard output.

    soft_wrap: whether long lines are left to the terminal. file_width: columns where there is none; None is Rich's
    choice, for prose.
    """
    stream = sys.stdout if stream is None else stream
    return Console(
        file=stream,
        width=None if stream.isatty() else file_width,
        soft_wrap=soft_wrap,
        markup=False,
        emoji=False,
        highlight=False,
    )
