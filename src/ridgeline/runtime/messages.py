"""Talking to people: log lines with a rank prefix on stderr. Nothing but data goes to stdout."""

import logging
import sys


def configure_logging(rank: int, size: int, verbose: bool = False) -> None:
    """Send warnings of every rank and notes of rank 0 to stderr (all notes of all ranks if verbose)."""
    handler = logging.StreamHandler(sys.stderr)
    prefix = f"[{rank}] " if size > 1 and (rank != 0 or verbose) else ""
    handler.setFormatter(_Words(prefix))
    root = logging.getLogger("ridgeline")
    root.handlers[:] = [handler]
    root.propagate = False
    if verbose:
        root.setLevel(logging.DEBUG)
    else:
        root.setLevel(logging.INFO if rank == 0 else logging.ERROR)


class _Words(logging.Formatter):
    """ "note: ..." and "warning: ..." instead of logger names and upper-case levels."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        kind = "note" if record.levelno <= logging.INFO else record.levelname.lower()
        return f"{self._prefix}{kind}: {record.getMessage()}"
