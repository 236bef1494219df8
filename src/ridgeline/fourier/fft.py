"""One-dimensional Fourier transforms of strided batches, by FFTW or by scipy.fft.

`planning` makes plans that are equal on all ranks, and keeps what was measured for later runs. This is the only file
that imports pyfftw, a binding of FFTW, which is GPL. scipy.fft (BSD) is used where pyfftw is not installed, or if
RIDGELINE_FFT=scipy is set. It is slower, and it allocates in every call.

The speed of layouts was measured on one core of Zen 4 for n = 32...512, with data in the L2 cache and FFTW 3.3.5.
Contiguous lines out of place reach 45-60 GFLOP/s in single and 27-38 in double precision; in place 35-50 and 23-40.
The strided layout, with unit stride across the batch, is as fast up to n = 128 if the pitch is not a power of two.
With a pitch that is a power of two it falls to as little as half of that. From n = 192 on it is half as fast (out of
place with such a pitch, an eighth). Real transforms reach 14-30, counted by 2.5 n log2 n, because FFTW's real
codelets are scalar: two real rows as one complex row are faster. `execute` costs 0.1 us.

Transforms are unnormalised both ways: forward sum_x f(x) exp(-i k x), inverse sum_k F(k) exp(+i k x). Source:
Frigo and Johnson, "The Design and Implementation of FFTW3", Proc. IEEE 93 (2005), its guru interface.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError

Direction = Literal["forward", "inverse"]
Effort = Literal["estimate", "measure", "patient", "wisdom-only"]
Backend = Literal["fftw", "scipy"]

SWITCH = "RIDGELINE_FFT"
PRECISION = {"f": "single", "F": "single", "d": "double", "D": "double"}
# "wisdom-only" accepts plans that were measured at least as well as "measure" does.
_FLAGS = {
    "estimate": ("FFTW_ESTIMATE",),
    "measure": ("FFTW_MEASURE",),
    "patient": ("FFTW_PATIENT",),
    "wisdom-only": ("FFTW_MEASURE", "FFTW_WISDOM_ONLY"),
}


class MissingWisdomError(ConfigError):
    """FFTW has no wisdom for a transform and may not measure."""


class FFTPlan:
    """A transform of one array into another, made once and executed often; keeps both arrays alive.

    execute() transforms what `source` holds now into `target`. It has no arguments, does not allocate (FFTW), and
    releases the GIL. Several threads may execute plans at the same time if their arrays differ, but not the same
    plan.
    """

    __slots__ = ("axis", "direction", "execute", "source", "target")

    def __init__(
        self,
        source: NDArray[Any],
        target: NDArray[Any],
        axis: int,
        direction: Direction,
        execute: Callable[[], None],
    ) -> None:
        self.source = source
        self.target = target
        self.axis = axis
        self.direction = direction
        self.execute = execute


def plan(
    source: NDArray[Any],
    target: NDArray[Any],
    axis: int,
    direction: Direction,
    *,
    effort: Effort = "measure",
    known: bool = False,
) -> FFTPlan:
    """Return the plan of 1-D transforms along `axis` of all lines of `source` into `target`, in one precision.

    Complex to complex: the shapes are equal; the transform is in place if both are the same memory with the same
    strides. Real to complex (forward only): n points to n/2 + 1 modes. Complex to real (inverse only): the other way;
    the imaginary parts of the first and, if n is even, of the last mode count as zero. Strides and rank are free, so
    that slices of larger arrays can be transformed; aligned arrays (`runtime.aligned`) are fastest.

    Planning OVERWRITES BOTH ARRAYS unless there is wisdom or effort is "estimate". A complex-to-real transform
    destroys its source when executed; others never do. No communication. Not for the step loop, because measuring
    takes up to seconds.

    Parameters
    ----------
    source, target : arrays of one precision
    axis, direction : of the transforms
    effort : the setting fft.effort
    known : fail instead of measuring

    Raises
    ------
    MissingWisdomError : a ConfigError, where FFTW has no wisdom of this effort for this transform, and effort is
        "wisdom-only" or `known` is true
    ValueError : for arrays that do not fit each other
    """
    axis = range(source.ndim)[axis]
    n, n_lines = _check(source, target, axis, direction)
    if n_lines == 0:
        return FFTPlan(source, target, axis, direction, _nothing)
    if backend() == "scipy":
        return FFTPlan(source, target, axis, direction, _scipy_execute(source, target, axis, direction, n))
    import pyfftw

    flags = _FLAGS[effort]
    if known and effort != "wisdom-only":
        flags = (*flags, "FFTW_WISDOM_ONLY")
    if np.isrealobj(target):
        flags = (*flags, "FFTW_DESTROY_INPUT")
    towards = "FFTW_FORWARD" if direction == "forward" else "FFTW_BACKWARD"
    try:
        transform = pyfftw.FFTW(source, target, axes=(axis,), direction=towards, flags=flags, threads=1)
    except RuntimeError as error:
        if "FFTW_WISDOM_ONLY" not in flags:
            raise
        raise MissingWisdomError(
            f"there is no FFTW wisdom for {n_lines} {direction} transforms of {n} points in {source.dtype} with the "
            'memory layout of this run, which model.fft.effort = "wisdom-only" requires. Run once on this machine '
            'with model.fft.effort = "measure", or use that setting.'
        ) from error
    return FFTPlan(source, target, axis, direction, transform.execute)


def _check(source: NDArray[Any], target: NDArray[Any], axis: int, direction: Direction) -> tuple[int, int]:
    """Return (points, lines) of the transform or raise ValueError."""
    real = target if np.isrealobj(target) else source
    complex_ = source if real is target else target
    if direction not in ("forward", "inverse"):
        raise ValueError(f"direction is '{direction}', but it must be 'forward' or 'inverse'")
    if np.isrealobj(real) and (np.isrealobj(complex_) or (real is source) != (direction == "forward")):
        raise ValueError(f"there is no {direction} transform of {source.dtype} into {target.dtype}")
    if PRECISION.get(real.dtype.char) is None or PRECISION[real.dtype.char] != PRECISION[complex_.dtype.char]:
        raise ValueError(
            f"there is no transform of {source.dtype} into {target.dtype}. Both must be float32, or both float64."
        )
    shape = list(real.shape)
    n = shape[axis]
    if np.isrealobj(real):
        shape[axis] = n // 2 + 1
    if list(complex_.shape) != shape or n == 0:
        raise ValueError(f"shapes {source.shape} and {target.shape} do not match along axis {axis}")
    return n, real.size // n


def _nothing() -> None:
    """Transform no lines."""


def _scipy_execute(
    source: NDArray[Any], target: NDArray[Any], axis: int, direction: Direction, n: int
) -> Callable[[], None]:
    """Return the transform by scipy.fft, whose "forward" norm scales only forward transforms."""
    import scipy.fft

    if np.isrealobj(source):

        def execute() -> None:
            target[...] = scipy.fft.rfft(source, axis=axis)

    elif np.isrealobj(target):

        def execute() -> None:
            target[...] = scipy.fft.irfft(source, n=n, axis=axis, norm="forward")

    elif direction == "forward":

        def execute() -> None:
            target[...] = scipy.fft.fft(source, axis=axis)

    else:

        def execute() -> None:
            target[...] = scipy.fft.ifft(source, axis=axis, norm="forward")

    return execute


def backend() -> Backend:
    """Return the library in use: that of RIDGELINE_FFT, or FFTW if pyfftw is installed, otherwise scipy.

    Raises ConfigError if RIDGELINE_FFT names another library, or FFTW where pyfftw is missing.
    """
    return _backend(os.environ.get(SWITCH, ""))


@cache
def _backend(setting: str) -> Backend:
    if setting not in ("", "fftw", "scipy"):
        raise ConfigError(f"{SWITCH} is '{setting}', but it must be 'fftw' or 'scipy'.")
    if setting == "scipy":
        return "scipy"
    try:
        import pyfftw  # noqa: F401  whether it loads is the question
    except ImportError as error:
        if setting == "fftw":
            raise ConfigError(
                f"{SWITCH} is 'fftw', but pyfftw cannot be imported ({error}). Unset {SWITCH}, or install it with: "
                "pip install pyfftw"
            ) from error
        return "scipy"
    return "fftw"


def describe() -> str:
    """Return the library and its version, such as 'FFTW 3.3.10 (pyfftw 0.15.1)'."""
    if backend() == "scipy":
        import scipy

        return f"scipy.fft {scipy.__version__}"
    import pyfftw

    return f"FFTW {pyfftw.fftw_version} (pyfftw {pyfftw.__version__})"


def export_wisdom() -> dict[str, bytes]:
    """Return what FFTW has measured in this process, by precision; nothing where scipy is in use."""
    if backend() == "scipy":
        return {}
    import pyfftw

    return dict(zip(("double", "single"), pyfftw.export_wisdom()))


def import_wisdom(wisdom: dict[str, bytes]) -> list[str]:
    """Add wisdom to FFTW's; return the precisions whose text FFTW rejects: it is damaged, or of another FFTW."""
    if not wisdom or backend() == "scipy":
        return []
    import pyfftw

    texts = [wisdom.get(name, b"") for name in ("double", "single")]
    accepted = pyfftw.import_wisdom((*texts, b""))
    return [name for name, good in zip(("double", "single"), accepted) if name in wisdom and not good]
