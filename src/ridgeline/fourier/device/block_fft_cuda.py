"""Complex Fourier transforms within a thread block, for kernels that do more with what they load or store.

A transform of n points has n / E threads. Thread t holds the points t, t + n/E, t + 2 n/E ... as a tuple of E pairs
(re, im), before and after the transform. In between there are passes of radix r, in Stockham's order. A pass
multiplies what a thread holds by twiddle factors and makes transforms of r points; the results are redistributed over
threads through shared memory. Real parts go through it before imaginary ones, which halves the memory.

E is 8 for n = 8 x 2^a and 12 for n = 12 x 2^a; other n are not possible (`block_plans`). Functions of E pairs are
composed of functions of fewer pairs, so that every number is a register. Nothing is scaled. No communication.

Source: Swarztrauber, Parallel Computing 1 (1984) 45 (Stockham's order); Govindaraju et al., SC'08 (registers and
shared memory of a GPU); Temperton, J. Comput. Phys. 52 (1983) 1 (transforms of composite length).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ridgeline.fourier.device.block_plans import SIZES, SPACING, BlockTransform, block_transform
from ridgeline.jit.cuda_device import barrier, device_function, load, load_pair, store

FORWARD, INVERSE = -1, 1  # signs of the exponent


def twiddle_factors(n: int, dtype: Any) -> NDArray[Any]:
    """Return exp(-2 pi i j / n), j < n, as 2 n reals of `dtype`, rounded once."""
    factors = np.exp(-2j * np.pi * np.arange(n) / n)
    return np.stack([factors.real, factors.imag], axis=-1).ravel().astype(dtype)


@device_function
def add(a, b):
    """Return a + b of two pairs."""
    return a[0] + b[0], a[1] + b[1]


@device_function
def subtract(a, b):
    """Return a - b of two pairs."""
    return a[0] - b[0], a[1] - b[1]


@device_function
def multiply(a, b):
    """Return the product of two complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def join(parts: Sequence[Any]) -> Any:
    """Return a function of three arguments that returns the tuples which `parts` return for them, concatenated."""
    first = parts[0]
    if len(parts) == 1:
        return first
    rest = join(parts[1:])
    return device_function(lambda a, b, c: first(a, b, c) + rest(a, b, c))


@cache
def make_pick(places: tuple[int, ...]) -> Any:
    """Return pick(x), the entries of a tuple at these places."""
    place = places[0]
    if len(places) == 1:
        return device_function(lambda x: (x[place],))
    rest = make_pick(places[1:])
    return device_function(lambda x: (x[place],) + rest(x))  # noqa: RUF005  # the compiler knows no other


@cache
def _make_factor(numerator: int, n: int, dtype: Any, sign: int) -> Any:
    """Return turn(a) = a exp(sign 2 pi i numerator / n); quarters are exact and cost nothing."""
    quarters, rest = divmod(4 * numerator, n)
    if rest:
        real, angle = np.dtype(dtype).type, 2 * np.pi * numerator / n
        factor = real(np.cos(angle)), real(sign * np.sin(angle))
        return device_function(lambda a: multiply(a, factor))
    which = sign * quarters % 4
    if which == 0:
        return device_function(lambda a: a)
    if which == 1:
        return device_function(lambda a: (-a[1], a[0]))
    if which == 2:
        return device_function(lambda a: (-a[0], -a[1]))
    return device_function(lambda a: (a[1], -a[0]))


@cache
def _make_turns(numerators: tuple[int, ...], n: int, dtype: Any, sign: int) -> Any:
    """Return a function that multiplies entries of a tuple by exp(sign 2 pi i numerator / n)."""
    turn = _make_factor(numerators[0], n, dtype, sign)
    if len(numerators) == 1:
        return device_function(lambda x: (turn(x[0]),))
    rest = _make_turns(numerators[1:], n, dtype, sign)
    return device_function(lambda x: (turn(x[0]),) + rest(x[1:]))  # noqa: RUF005


@cache
def make_butterfly(radix: int, dtype: Any, sign: int) -> Any:
    """Return the transform of a tuple of 2, 3, 4, 8 or 12 pairs."""
    real = np.dtype(dtype).type
    if radix == 2:
        return device_function(lambda x: (add(x[0], x[1]), subtract(x[0], x[1])))
    if radix == 3:
        half, sine = real(0.5), real(sign * np.sqrt(0.75))

        @device_function
        def three(x):
            total, apart = add(x[1], x[2]), subtract(x[1], x[2])
            middle = x[0][0] - half * total[0], x[0][1] - half * total[1]
            turned = -sine * apart[1], sine * apart[0]
            return add(x[0], total), add(middle, turned), subtract(middle, turned)

        return three
    columns, rows = {4: (2, 2), 8: (2, 4), 12: (3, 4)}[radix]
    of_column, of_row = make_butterfly(rows, dtype, sign), make_butterfly(columns, dtype, sign)

    def column(q: int) -> Any:
        pick = make_pick(tuple(range(q, radix, columns)))
        return device_function(lambda x, _, __: of_column(pick(x)))

    def row(k: int) -> Any:
        pick = make_pick(tuple(q * rows + k for q in range(columns)))
        turns = _make_turns(tuple(q * k for q in range(columns)), radix, dtype, sign)
        return device_function(lambda x, _, __: of_row(turns(pick(x))))

    all_columns, all_rows = join([column(q) for q in range(columns)]), join([row(k) for k in range(rows)])
    natural = make_pick(tuple(j % rows * columns + j // rows for j in range(radix)))
    return device_function(lambda x: natural(all_rows(all_columns(x, 0, 0), 0, 0)))


@cache
def _make_twiddle(count: int) -> Any:
    """Return twiddle(x, w, power): entries times power, power w, power w^2 ..., with one power held at a time."""
    if count == 1:
        return device_function(lambda x, w, power: (multiply(x[0], power),))
    rest = _make_twiddle(count - 1)
    return device_function(
        lambda x, w, power: (multiply(x[0], power),) + rest(x[1:], w, multiply(power, w))  # noqa: RUF005
    )


@device_function
def _spaced(place):
    """Return where a number lies in shared memory."""
    return place + place // SPACING


@cache
def _make_spot(ahead: int) -> Any:
    """Return spot(place), where number place + ahead lies in shared memory."""
    if ahead % SPACING == 0:
        later = ahead + ahead // SPACING
        return device_function(lambda place: _spaced(place) + later)
    return device_function(lambda place: _spaced(place + ahead))


def in_turn(parts: Sequence[Any]) -> Any:
    """Return a function of four arguments that calls `parts` one after the other; none of them returns anything."""
    first = parts[0]
    if len(parts) == 1:
        return first
    rest = in_turn(parts[1:])

    @device_function
    def both(a, b, c, d):
        first(a, b, c, d)
        rest(a, b, c, d)

    return both


@cache
def make_gather(places: tuple[int, ...], columns: int) -> Any:
    """Return gather(shared, t, column), the numbers of a column at t + each of `places`."""

    def one(ahead: int) -> Any:
        spot = _make_spot(ahead)
        return device_function(lambda shared, t, column: (load(shared, spot(t) * columns + column),))

    return join([one(place) for place in places])


@cache
def make_scatter(entries: tuple[int, ...], places: tuple[int, ...], columns: int, part: int) -> Any:
    """Return scatter(x, shared, t, column), which stores a part of some entries at t + each of `places`.

    part: 0 for real parts, 1 for imaginary ones
    """

    def one(entry: int, ahead: int) -> Any:
        spot = _make_spot(ahead)

        @device_function
        def put(x, shared, t, column):
            store(shared, spot(t) * columns + column, x[entry][part])

        return put

    return in_turn([one(entry, place) for entry, place in zip(entries, places)])


@cache
def make_pairs(count: int) -> Any:
    """Return pairs(re, im) of two tuples."""
    if count == 1:
        return device_function(lambda re, im: ((re[0], im[0]),))
    rest = make_pairs(count - 1)
    return device_function(lambda re, im: ((re[0], im[0]),) + rest(re[1:], im[1:]))  # noqa: RUF005


class _Pass(NamedTuple):
    """A pass of radix r in a kernel of so many columns, after passes whose radices have the product `done`."""

    plan: BlockTransform
    radix: int
    done: int
    columns: int

    @property
    def groups(self) -> int:
        """Transforms of r points that a thread makes; number i takes those that it holds at i, i + groups ..."""
        return self.plan.held // self.radix


@cache
def _make_radix_pass(step: _Pass, dtype: Any, sign: int) -> Any:
    """Return a function of (x, t, table) that returns the pass of x, group after group."""
    (plan, radix, done, _), groups = step, step.groups
    butterfly = make_butterfly(radix, dtype, sign)
    stride = plan.n // (done * radix)

    def group(i: int) -> Any:
        pick = make_pick(tuple(range(i, plan.held, groups)))
        if done == 1:
            return device_function(lambda x, t, table: butterfly(pick(x)))
        first, twiddle = i * plan.threads, _make_twiddle(radix - 1)

        @device_function
        def turned(x, t, table):
            w = load_pair(table, (t + first) % done * stride)
            if sign > 0:
                w = w[0], -w[1]
            mine = pick(x)
            return butterfly((mine[0],) + twiddle(mine[1:], w, w))  # noqa: RUF005

        return turned

    return join([group(i) for i in range(groups)])


@cache
def _make_turnover(step: _Pass) -> Any:
    """Return turnover(y, shared, t, column), which redistributes the results of a pass; all threads call it."""
    (plan, radix, done, columns), groups = step, step.groups

    def put(i: int, q: int, part: int) -> Any:
        first, spot, entry = i * plan.threads, _make_spot(q * done), i * radix + q

        @device_function
        def one(y, shared, t, column):
            b = t + first
            k = b % done
            store(shared, spot((b - k) * radix + k) * columns + column, y[entry][part])

        return one

    real, imaginary = (
        in_turn([put(i, q, part) for i in range(groups) for q in range(radix)]) for part in (0, 1)
    )
    gather = make_gather(tuple(range(0, plan.n, plan.threads)), columns)
    pairs = make_pairs(plan.held)

    @device_function
    def turnover(y, shared, t, column):
        real(y, shared, t, column)
        barrier()
        re = gather(shared, t, column)
        barrier()
        imaginary(y, shared, t, column)
        barrier()
        im = gather(shared, t, column)
        barrier()
        return pairs(re, im)

    return turnover


@cache
def make_block_fft(n: int, dtype: Any, sign: int, columns: int = 1) -> Any:
    """Return fft(x, t, column, table, shared), the transform of what the threads of a column hold.

    x : tuple of pairs, entry m is point t + m n / E; the result is stored likewise
    table : of `twiddle_factors`
    shared : `room` times `columns` reals in shared memory
    column : of this thread, less than `columns`; where `columns` is 1, a multiple of `room`

    All threads of the thread block call it. If n has several passes, they have passed a barrier when it returns.
    """
    plan = block_transform(n)
    if plan is None:
        raise ValueError(f"{n} points cannot be transformed by thread blocks, only {SIZES} points")
    done, steps = 1, []
    for radix in plan.radices:
        steps.append(_Pass(plan, radix, done, columns))
        done *= radix
    return _compose(steps, dtype, sign)


def _compose(steps: Sequence[_Pass], dtype: Any, sign: int) -> Any:
    step = steps[0]
    of_radix = _make_radix_pass(step, dtype, sign)
    if len(steps) == 1:
        groups, radix = step.groups, step.radix
        natural = make_pick(tuple(m % groups * radix + m // groups for m in range(step.plan.held)))
        return device_function(lambda x, t, column, table, shared: natural(of_radix(x, t, table)))
    turnover, rest = _make_turnover(step), _compose(steps[1:], dtype, sign)

    @device_function
    def both(x, t, column, table, shared):
        next_held = turnover(of_radix(x, t, table), shared, t, column)
        return rest(next_held, t, column, table, shared)

    return both
