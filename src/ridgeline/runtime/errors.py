"""Errors on which a user can act: a message of one line, an exit code, and no traceback."""

import re


def full_stop(text: str) -> str:
    """Return a text with a full stop, unless a mark ends it already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def sentence(clause: str) -> str:
    """Return a clause as a sentence: with a capital, unless it begins with a name or an option, and a full stop."""
    begin = clause[:1].upper() if re.match(r"[a-z]+[ ,]", clause) else clause[:1]
    return full_stop(begin + clause[1:])


class RidgelineError(Exception):
    """Report an error on which a user can act; `exit_code` is what a process that it ends exits with.

    All errors of Ridgeline derive from this class.

    Examples
    --------
    >>> import ridgeline
    >>> try:
    ...     data = ridgeline.open("missing.bp")
    ... except ridgeline.RidgelineError as error:
    ...     code = error.exit_code
    >>> code
    6
    """

    exit_code = 1


class ConfigError(RidgelineError):
    """Report wrong settings; the message gives the place, the key, the nearest valid key and what is allowed.

    Examples
    --------
    >>> import ridgeline
    >>> from ridgeline.runtime.errors import ConfigError
    >>> try:
    ...     case = ridgeline.Case("gray_scott", 10, grid={"shape": (8, 8, 8)}, parameters={"f": 0.03})
    ... except ConfigError as error:
    ...     print("'F'" in str(error), error.exit_code)
    True 2
    """

    exit_code = 2


class DecompositionError(RidgelineError):
    """The grid cannot be divided over the ranks; the message gives sizes, ranks, process grid and valid choices."""

    exit_code = 3


class CheckpointError(RidgelineError):
    """A checkpoint is missing, damaged or of another run."""

    exit_code = 4


class DivergedError(RidgelineError):
    """Report that a state or a solve failed; the message says at which step, where, and what to try.

    Examples
    --------
    >>> from ridgeline.runtime.errors import DivergedError
    >>> DivergedError("the solve of step 3 did not converge. Use a smaller model.dt.").exit_code
    5
    """

    exit_code = 5


class ParticleError(DivergedError):
    """A particle is not finite, or left a domain that is not periodic; the message has identity, place and step."""


class OutputError(RidgelineError):
    """A file cannot be written or read: no permission, disk full, not a data set."""

    exit_code = 6


class LauncherError(RidgelineError):
    """The MPI launcher and the MPI library do not match, or the launcher is missing."""

    exit_code = 7


class DeviceError(RidgelineError):
    """The chosen device does not exist, fails, or has no kernel for this."""

    exit_code = 8


class KernelError(RidgelineError):
    """A function cannot be compiled as it is written; the message gives the kernel, file and line."""


class VerificationError(RidgelineError):
    """A received or computed value is wrong, so memory, processor or network is at fault."""

    exit_code = 9
