"""Reductions that do not depend on how the grid is cut, and errors and decisions that all ranks share.

Every function that takes a communicator is collective over it and returns the same on all ranks.

Sums do not depend on their order because they are sums of integers on a fixed grid of powers of two. A float x with
|x| < 2**e, times 2**(width - e), is an integer of `width` bits plus a rest below 1. The rest times 2**width gives the
next integer, and so on. Each of FOLDS integers is summed separately. Integer sums are exact and associative, so any
order, any cutting into blocks and any number of threads give the same bits.

Source: the pre-rounding of Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Trans. Comput. 64 (2015),
Sec. 4, with integers in place of their floating-point bins.
"""

import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
import xxhash
from mpi4py import MPI
from numba import float64, int64, uint64
from numpy.lib.stride_tricks import as_strided
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ridgeline.jit.kernel import Specialisation, kernel, specialise, unsigned
from ridgeline.runtime.errors import ConfigError, RidgelineError, sentence

FOLDS = 3
SIGN_BIT = {4: np.uint32(0x7FFFFFFF), 8: np.uint64(0x7FFFFFFFFFFFFFFF)}  # by bytes: all bits but the sign

S = TypeVar("S")
T = TypeVar("T")


@kernel(lambda T: (unsigned(T)[::1], unsigned(T), *[uint64] * 5), nogil=True)
def largest_bits(bits, magnitude, plane_pitch, row_pitch, nz, ny, nx):
    """Return the largest bit pattern without sign, which is that of the largest |x|; NaN is larger than infinity.

    Parameters
    ----------
    bits : (n,) uint32 or uint64, the bits of floats
    magnitude : mask of all bits but the sign
    plane_pitch, row_pitch, nz, ny, nx : pitches and extents in items, uint64
    """
    largest = magnitude ^ magnitude
    for k in range(nz):
        for j in range(ny):
            start = k * plane_pitch + j * row_pitch
            for i in range(nx):
                largest = max(largest, bits[start + i] & magnitude)
    return largest


@kernel(lambda T: (T[::1], float64, float64, *[uint64] * 5, int64[::1]), nogil=True)
def fold_sums(values, scale, width, plane_pitch, row_pitch, nz, ny, nx, out_sums):
    """Add up the integer folds of all values.

    With |x| <= 2**e, 2**(62 - width bits) values can be added without overflow.

    Parameters
    ----------
    values : (n,) float32 or float64
    scale, width : 2**(width - e) and 2**width, float64
    plane_pitch, row_pitch, nz, ny, nx : pitches and extents in items, uint64
    out_sums : (FOLDS,) int64
    """
    first, second, third = np.int64(0), np.int64(0), np.int64(0)
    for k in range(nz):
        for j in range(ny):
            start = k * plane_pitch + j * row_pitch
            for i in range(nx):
                rest = np.float64(values[start + i]) * scale
                fold = np.int64(rest)
                first += fold
                rest = (rest - np.float64(fold)) * width
                fold = np.int64(rest)
                second += fold
                rest = (rest - np.float64(fold)) * width
                third += np.int64(rest)
    out_sums[0] = first
    out_sums[1] = second
    out_sums[2] = third


def allreduce_max(comm: MPI.Comm, values: ArrayLike) -> NDArray[np.float64]:
    """Return the element-wise maximum over ranks of a scalar or an array of one shape, as float64.

    NaN on any rank gives NaN, and zero is +0, whatever the order in which MPI compares.
    """
    mine = np.atleast_1d(np.asarray(values, dtype=np.float64))
    bad = np.isnan(mine)
    message = np.stack([np.where(bad, -np.inf, mine), bad]) + 0.0
    result = np.empty_like(message)
    comm.Allreduce(message, result, MPI.MAX)
    return np.where(result[1] > 0, np.nan, result[0]).reshape(np.shape(values))


def allreduce_min(comm: MPI.Comm, values: ArrayLike) -> NDArray[np.float64]:
    """Return the element-wise minimum over ranks, as `allreduce_max` does the maximum."""
    return 0.0 - allreduce_max(comm, 0.0 - np.asarray(values, dtype=np.float64))


def allreduce_sums(comm: MPI.Comm, arrays: Sequence[NDArray[Any]], n_global: int) -> NDArray[np.float64]:
    """Return the sum of each distributed array, the same bits for every process grid and number of ranks.

    Each value is cut into integers on a grid of powers of two that the largest magnitude on any rank sets, and
    integers add without rounding. The error, before the one rounding at the end, is below
    n_global * 2**(-3 * (62 - log2 n_global)) of the largest magnitude: 2**-78 of it for 1024^3 cells.

    Parameters
    ----------
    arrays : this rank's parts, float32 or float64, up to 3-D; contiguous rows (owned views) are fast
    n_global : number of values of the largest array on all ranks, or any larger number that is the same for every
        process grid

    Returns
    -------
    array
        float64, one sum for each array; NaN for an array that holds NaN or infinity on any rank.

    Raises ValueError on all ranks if an array has more than n_global values, whose integers might overflow.

    Notes
    -----
    Collective: two allreduces, of 8 and 32 bytes per array. Two passes over the arrays.
    """
    parts = [_Pitched(array) for array in arrays]
    largest = allreduce_max(comm, [part.largest() for part in parts])
    bits = 62 - max(n_global - 1, 1).bit_length()
    exponents = [math.frexp(value)[1] if math.isfinite(value) else 0 for value in largest]
    shifts = [min(bits - exponent, 1000) for exponent in exponents]  # 2**shift stays a float
    mine = np.zeros((len(parts), FOLDS + 1), np.int64)  # the last column counts the values
    for array, part, shift, value, sums in zip(arrays, parts, shifts, largest, mine):
        sums[FOLDS] = array.size
        if math.isfinite(value):
            part.fold(math.ldexp(1.0, shift), math.ldexp(1.0, bits), sums[:FOLDS])
    total = np.empty_like(mine)
    comm.Allreduce(mine, total, MPI.SUM)
    if (most := total[:, FOLDS].max(initial=0)) > n_global:
        raise ValueError(
            f"n_global = {n_global} is less than the {most} values of all ranks. Pass their number."
        )
    return np.array(
        [
            _combine(sums, shift, bits) if math.isfinite(value) else math.nan
            for sums, shift, value in zip(total[:, :FOLDS], shifts, largest)
        ]
    )


def kernels_of_sums(dtype: DTypeLike) -> list[Specialisation]:
    """Return the kernels that `allreduce_sums` calls for arrays of dtype, float32 or float64."""
    return specialise([largest_bits, fold_sums], dtype)


def _combine(sums: NDArray[np.int64], shift: int, bits: int) -> float:
    """Return the sum of the folds as the nearest float; Python integers hold it exactly."""
    whole = 0
    for fold in sums:
        whole = (whole << bits) + int(fold)
    shift += (len(sums) - 1) * bits
    try:
        return whole / (1 << shift) if shift >= 0 else float(whole << -shift)
    except OverflowError:
        return math.copysign(math.inf, whole)


class _Pitched:
    """An array in the form that the kernels take: flat memory, pitches and extents."""

    def __init__(self, array: NDArray[Any]) -> None:
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        if array.ndim > 3 or (array.size and array.strides[-1:] != (array.itemsize,)):
            array = np.ascontiguousarray(array).reshape(1, 1, -1)
        array = array[(None,) * (3 - array.ndim)]
        pitches = [stride // array.itemsize for stride in array.strides]
        span = 1 + sum((n - 1) * pitch for n, pitch in zip(array.shape, pitches)) if array.size else 0
        self.flat = as_strided(array, (span,), (array.itemsize,))
        self.layout = tuple(np.uint64(n) for n in (*pitches[:2], *array.shape))

    def largest(self) -> float:
        """Return the largest magnitude, NaN if there is a NaN."""
        size = self.flat.itemsize
        unsigned = np.dtype(f"u{size}")
        bits = largest_bits(self.flat.view(unsigned), SIGN_BIT[size], *self.layout)
        return float(np.array(bits, unsigned).view(self.flat.dtype))

    def fold(self, scale: float, width: float, out_sums: NDArray[np.int64]) -> None:
        """Sum the folds of all values into out_sums."""
        fold_sums(self.flat, scale, width, *self.layout, out_sums)


def raise_on_all_ranks(comm: MPI.Comm, error: Exception | None) -> None:
    """Raise on all ranks the error of the first rank that has one; return if none has. Collective.

    This is for work that one rank does, or that each does alone, such as writing a file: no rank continues without
    the others, and none waits for ever. That rank raises the exception itself, with its traceback; the others raise
    an equal one with a note that names the rank. An exception that cannot be pickled becomes a RidgelineError with
    its text.
    """
    first = comm.allreduce(comm.size if error is None else comm.rank, MPI.MIN)
    if first == comm.size:
        return
    message: Exception | None = None
    if error is not None and comm.rank == first:
        message = RidgelineError(f"{type(error).__name__}: {error}")
        with suppress(Exception):  # whatever an exception class does when it is pickled
            copy = pickle.loads(pickle.dumps(error))
            if type(copy) is type(error) and str(copy) == str(error):
                message = error
    shared: Exception = comm.bcast(message, first)
    if error is not None and comm.rank == first:
        raise error
    shared.add_note(f"raised on rank {first} of {comm.size}")
    raise shared from error


@contextmanager
def errors_on_all_ranks(comm: MPI.Comm) -> Iterator[None]:
    """Run a block without communication in it; an exception in it on any rank is raised on all. Collective."""
    problem: Exception | None = None
    try:
        yield
    except Exception as error:
        problem = error
    raise_on_all_ranks(comm, problem)


def broadcast_decision(comm: MPI.Comm, choose: Callable[[], T], root: int = 0) -> T:
    """Return on all ranks what `choose()` returns on root; an exception there is raised on all. Collective."""
    answer: T | None = None
    with errors_on_all_ranks(comm):
        if comm.rank == root:
            answer = choose()
    result: T = comm.bcast(answer, root)
    return result


def broadcast_first(comm: MPI.Comm, value: S | None) -> S | None:
    """Return on all ranks the value of the lowest rank that has one, None if no rank has. Collective.

    One allreduce of a number, and a broadcast where a rank has a value: no rank receives the values of all ranks.
    """
    first = comm.allreduce(comm.size if value is None else comm.rank, MPI.MIN)
    if first == comm.size:
        return None
    shared: S = comm.bcast(value, first)
    return shared


def allgather_shared(comm: MPI.Comm, mine: S) -> list[S]:
    """Return what each rank says, where few ranks say something new: equal values are one object. Collective.

    A rank receives 12 bytes for each rank, and each distinct value once.
    """
    digests = np.empty(comm.size, np.int64)
    digest = xxhash.xxh3_64_intdigest(pickle.dumps(mine)) - (1 << 63)
    comm.Allgather(np.array([digest], np.int64), digests)
    _, first, which = np.unique(digests, return_index=True, return_inverse=True)
    said: list[S] = comm.allgather(mine if comm.rank in first else None)
    distinct = [said[rank] for rank in first]
    return [distinct[number] for number in which]


def gather_and_broadcast(comm: MPI.Comm, mine: S, combine: Callable[[list[S]], T]) -> T:
    """Return on all ranks `combine` of the list of every rank's value, in the order of ranks. Collective.

    Only rank 0 holds all values. An exception of `combine` is raised on all ranks.
    """
    values = comm.gather(mine)
    return broadcast_decision(comm, lambda: combine(values or []))


def require_same_on_all_ranks(comm: MPI.Comm, facts: Mapping[str, object], advice: str) -> None:
    """Raise ConfigError on all ranks unless all have equal facts. Collective: one allreduce of 16 bytes.

    facts: values by name, which are compared by their `repr`. advice: what to do, the end of the error.
    """
    digest = np.int64(xxhash.xxh3_64_intdigest(repr(dict(facts)).encode()) - (1 << 63))
    bounds = np.array([digest, ~digest])
    comm.Allreduce(MPI.IN_PLACE, bounds, MPI.MAX)
    if bounds[0] == ~bounds[1]:
        return
    everywhere = comm.allgather({key: repr(value) for key, value in facts.items()})
    first = everywhere[0]
    rank, other = next((rank, other) for rank, other in enumerate(everywhere) if other != first)
    key = next(key for key in {**first, **other} if first.get(key) != other.get(key))
    theirs = other.get(key, "not set")
    raise ConfigError(
        f"the ranks disagree: {key} is {first.get(key, 'not set')} on rank 0, but {theirs} on rank {rank}. "
        f"{sentence(advice)}"
    )
