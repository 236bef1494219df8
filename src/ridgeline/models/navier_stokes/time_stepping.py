"""The scheme in time: its coefficients for steps of any lengths, its time levels, and how long a step may be.

With x_j the time from level j to the new one (x_1 = dt, x_2 = dt + the step before, ...), the polynomials of Lagrange
through j = 1 ... k levels, and through the new one too, give

    u^{n+1} ~ sum_j a_j u^{n+1-j},                 a_j = prod_{m != j} x_m / (x_m - x_j)
    du/dt   ~ sum_{j >= 0} b_j u^{n+1-j} / dt,     b_0 = sum_m dt / x_m,   b_j = -a_j dt / x_j

For equal steps these are the constants below, to the bit. Backward differences stay zero-stable while no step is
longer than the one before it by a certain factor, which is 1 + sqrt(2) at order 2 and (1 + sqrt(5))/2 at order 3
(tests compute both). Source: Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", 1993, Sec. III.5.

The Courant number of the flow is looked at before the first step and after each step. It chooses the length of the
next step (`StepControl`), and it ends a run whose steps are too long (`CourantWatch`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.runtime.errors import ConfigError, DivergedError

Array = NDArray[np.float64]

# The coefficients of equal steps: b_0, b_1, ... and a_1, a_2, ... of orders 1, 2, 3.
BACKWARD = ((1.0, -1.0), (3 / 2, -2.0, 1 / 2), (11 / 6, -3.0, 3 / 2, -1 / 3))
EXTRAPOLATION = ((1.0,), (2.0, -1.0), (3.0, -3.0, 1.0))
TIME_LEVELS = 3  # that the kernel of the known side takes; the coefficients of levels beyond the order are 0
MOST_CHANGE = 1.5  # of the length of a step over that of the one before it: below the limit of order 3

STABLE_COURANT = 1.0  # beyond it, third-order extrapolation of the advection grows on any flow
SAFE_COURANT = 0.5  # stable on most flows
# The largest growth of the Courant number of a resolved flow in one step. Where fluid moves by less than the distance
# of two points, between which its velocity changes by less than itself, |dt u.grad u| <= Courant number |u| <= |u|.
GROWTH = 2.0
BAND = 0.2  # share of model.courant by which the Courant number may differ from it before the step changes
ROUNDING = 1e-9  # relative, of a Courant number
SUDDEN_START = (
    0.1  # first step of a flow that starts suddenly, over the step that its Courant number asks for
)
JUMP = 0.01  # share of the Courant number: a larger jump of the velocity at a side is a sudden start
MOST_REPEATED = 12  # times that a step is made anew, each time with half its length at most
DIGITS = 3  # of the length of a step, so that velocities that differ by rounding choose the same step


def extrapolation(steps: Sequence[float]) -> tuple[float, ...]:
    """Return a_1, ..., a_k. steps: lengths of the new step and of the k - 1 before it, newest first, > 0."""
    if _equal(steps):
        return EXTRAPOLATION[len(steps) - 1]
    x = _times(steps)
    return tuple(
        math.prod(other / (other - mine) for m, other in enumerate(x) if m != j) for j, mine in enumerate(x)
    )


def backward(steps: Sequence[float]) -> tuple[float, ...]:
    """Return b_0, b_1, ..., b_k. steps: as for `extrapolation`."""
    if _equal(steps):
        return BACKWARD[len(steps) - 1]
    x, dt = _times(steps), steps[0]
    return (sum(dt / each for each in x), *(-a * dt / each for a, each in zip(extrapolation(steps), x)))


def _equal(steps: Sequence[float]) -> bool:
    return all(step == steps[0] for step in steps)


def _times(steps: Sequence[float]) -> list[float]:
    return [sum(steps[: k + 1]) for k in range(len(steps))]


# Smallest and largest coefficient over its reference for which `diffusion_limit` is infinite, of orders 1, 2, 3.
FREE_RATIOS = ((0.0, 2.0), (0.0, 4 / 3), (1 / 2, 8 / 7))
_LONGEST = 1e9  # of `diffusion_limit`: more is infinity


def diffusion_limit(order: int, ratio: float) -> float:
    """Return the largest k dt for which u' = -k u, of which -k_0 u is implicit, does not grow; k dt is that of k_0.

    ratio: k/k_0 >= 0. The rest, (k_0 - k) u, is extrapolated: sum_j b_j z^-j + k_0 dt = (k_0 - k) dt sum_j a_j z^-j.
    """
    low, high = FREE_RATIOS[order - 1]
    if low <= ratio <= high:
        return math.inf
    b, a = np.array(BACKWARD[order - 1]), np.array((0.0, *EXTRAPOLATION[order - 1]))
    implicit = np.zeros(order + 1)
    implicit[0] = 1.0

    def grows(size: float) -> bool:
        roots = np.roots((b + size * (implicit - (1.0 - ratio) * a)) / (1.0 + size))
        return bool(np.abs(roots).max() > 1.0 + ROUNDING)

    sizes = np.geomspace(1e-3, _LONGEST, 481)
    first = next((i for i, size in enumerate(sizes) if grows(float(size))), None)
    if not first:
        return math.inf if first is None else 0.0
    stable, unstable = float(sizes[first - 1]), float(sizes[first])
    for _ in range(40):
        middle = 0.5 * (stable + unstable)
        stable, unstable = (stable, middle) if grows(middle) else (middle, unstable)
    return stable


@dataclass(frozen=True)
class StepCoefficients:
    """The coefficients of one step.

    steps: lengths of this step and of those before it that the order takes, newest first; shift: b_0 / dt;
    a: extrapolation, b: b_1 / dt, ..., both float64 [TIME_LEVELS], latest level first.
    """

    steps: tuple[float, ...]
    shift: float
    a: Array
    b: Array

    @classmethod
    def of(cls, steps: Sequence[float]) -> StepCoefficients:
        """Return the coefficients of BDF and extrapolation of the order len(steps)."""
        order, dt = len(steps), steps[0]
        first, *others = backward(steps)
        a, b = np.zeros(TIME_LEVELS), np.zeros(TIME_LEVELS)
        a[:order] = extrapolation(steps)
        b[:order] = np.array(others) / dt
        return cls(tuple(steps), first / dt, a, b)

    @property
    def order(self) -> int:
        """Order of the step."""
        return len(self.steps)


class TimeLevels:
    """Fields [c, E, n, n, n] (velocity, then scalars) and their weak rates N at the latest time levels, newest first.

    make: returns new memory for the fields of a level, on the host or on a GPU, all zero. known: how many levels of
    fields hold a solution; the order of the next step is at most that. times: of the levels; steps: lengths of the
    steps that led to them; both are NaN where they are not known. repeatable: whether the oldest fields are kept
    during a step, so that `go_back` can undo it.
    Memory: 2 order fields of c components, and one more if steps are repeatable.
    """

    def __init__(self, order: int, make: Callable[[], Any], repeatable: bool = False) -> None:
        self.order, self.known = order, 0
        self.times, self.steps = [math.nan] * order, [math.nan] * order
        self.fields = [make() for _ in range(order)]
        self.rates = [make() for _ in range(order)]
        self.spare = [make()] if repeatable else []

    def begin(self, known: int, time: float, dt: float) -> None:
        """Set the number of known levels, the newest of them at `time`, and their times as steps of dt make them."""
        self.known = known
        self.times = [time - back * dt for back in range(self.order)]
        self.steps = [dt] * self.order

    def coefficients(self, dt: float) -> StepCoefficients:
        """Return the coefficients of the next step, of length dt."""
        order = min(self.order, self.known)
        return StepCoefficients.of([dt, *self.steps[: order - 1]])

    def begin_step(self, time: float, dt: float) -> None:
        """Record the time and the length of a step that leads to `time`. `begin_fields` will add its fields."""
        self.times = [time, *self.times[:-1]]
        self.steps = [dt, *self.steps[:-1]]

    def begin_rates(self) -> Any:
        """Add a newest level of rates in the memory of the oldest one; return its rates, which are to be filled."""
        self.rates.insert(0, self.rates.pop())
        return self.rates[0]

    def begin_fields(self) -> Any:
        """Add a newest level of fields in place of the oldest one; return its fields, which are to be filled."""
        if self.spare:
            self.fields.insert(0, self.spare.pop())
            self.spare.append(self.fields.pop())
        else:
            self.fields.insert(0, self.fields.pop())
        self.known = min(self.known + 1, self.order)
        return self.fields[0]

    def clock(self) -> tuple[int, list[float], list[float]]:
        """Return what `go_back` needs of the moment before a step."""
        return self.known, list(self.times), list(self.steps)

    def go_back(self, clock: tuple[int, list[float], list[float]]) -> None:
        """Undo a repeatable step whose rates and fields were added. The rates remain, as they are those before it."""
        self.known, self.times, self.steps = clock
        self.fields.append(self.spare.pop())
        self.spare.append(self.fields.pop(0))


def levels_of_kernel(levels: Sequence[Any]) -> list[Any]:
    """Return TIME_LEVELS levels for the kernel of the known side; the newest stands for those that do not exist."""
    return [*levels, *[levels[0]] * TIME_LEVELS][:TIME_LEVELS]


@dataclass(frozen=True)
class StepControl:
    """Chooses the length of each step by the Courant number of the flow.

    A step is kept while its Courant number is within BAND of the one asked for, because the operators, their
    diagonals and the response to a held flow rate must be computed anew for another length.

    courant: the Courant number asked for; shortest, longest: bounds of the step, time; change: largest factor by
    which a step is longer or shorter than the one before it.
    """

    courant: float
    shortest: float = 0.0
    longest: float = math.inf
    change: float = 1.25

    def first(self, rate: float, sudden: bool = False) -> float:
        """Return the length of the first step. rate: Courant number of the flow over the length of the step, 1/time.

        sudden: whether sides or a flow rate begin to move the fluid at once, so that the flow changes by much in the
        first step, which is made with first order; it is shorter then.

        Raises ConfigError for a flow at rest without a longest step.
        """
        if rate == 0.0 and self.longest == math.inf:
            raise ConfigError(
                f"model.courant = {self.courant:g} determines no first time step, because the fluid is at rest and "
                "no side moves it yet. Set model.dt_max, the longest step, as well."
            )
        return self.bounded(self._wanted(rate) * (SUDDEN_START if sudden else 1.0))

    def instead(self, dt: float, rate: float) -> float | None:
        """Return a shorter step to repeat one of dt, after which the Courant number is rate dt; None to keep that."""
        if rate * dt <= STABLE_COURANT:
            return None
        wanted = self._wanted(rate) if math.isfinite(rate) else 0.0
        shorter = max(min(dt / 2, wanted), dt / 10, self.shortest)
        return shorter if shorter < dt else None

    def after(self, dt: float, rate: float) -> float:
        """Return the step that follows one of dt, after which the flow has the Courant number rate dt."""
        kept = abs(rate * dt - self.courant) <= BAND * self.courant
        if kept and self.bounded(dt) == dt:
            return dt
        return self.bounded(min(max(self._wanted(rate), dt / self.change), dt * self.change))

    def bounded(self, dt: float) -> float:
        """Return a step within the bounds."""
        return min(max(dt, self.shortest), self.longest)

    def _wanted(self, rate: float) -> float:
        return float(f"{self.courant / rate:.{DIGITS}g}") if rate else math.inf


class CourantWatch:
    """Follows the Courant number from step to step, and ends a run whose steps are too long.

    It remembers the last step whose flow was sane: the Courant number, for steps of equal length, had at most doubled
    in that step. The first step of a run may change the flow by any amount, because a wall, an inflow or a force may
    start at once. control: what chooses the steps, None where they are fixed.
    """

    def __init__(self, control: StepControl | None = None) -> None:
        self._control = control
        self.begin()

    def begin(self) -> None:
        """Forget all steps."""
        self._seen = 0
        self._last = 0.0  # Courant number over the step
        self._sane = (0, 0.0)

    @property
    def begun(self) -> bool:
        """Whether a step has been seen."""
        return self._seen > 0

    def see(self, step: int, number: float, dt: float) -> None:
        """Record the Courant number after a step of dt, or before the first step, which will be of dt.

        Raises DivergedError if it is beyond stability, or not finite.
        """
        judged = self._seen > 1
        if math.isfinite(number) and (number <= GROWTH * self._last * dt or not judged):
            self._sane = (step, number)
        self._seen += 1
        self._last = number / dt
        if not number <= STABLE_COURANT:
            raise DivergedError(self._words(step, number, dt))

    def _words(self, step: int, number: float, dt: float) -> str:
        sane, before = self._sane
        finding = (
            f"gives the Courant number {number:.3g} at step {step}, but it must be at most {STABLE_COURANT:g}"
            if math.isfinite(number)
            else f"gives a velocity that is not finite at step {step}"
        )
        reason = f"for a Courant number of {SAFE_COURANT:g} there"
        blew_up = ""
        if sane < step:
            reason = blew_up = (
                f"because the flow blew up after step {sane}, the last step in which the Courant number had at most "
                f"doubled ({before:.3g})"
            )
        if self._control is None:
            most = dt * SAFE_COURANT / max(before, STABLE_COURANT)
            return f"model.dt = {dt:g} {finding}. Set model.dt <= {most:.3g}, {reason}."
        keys = "model.dt_min" if dt <= self._control.shortest else "model.courant or model.dt_max"
        courant = self._control.courant
        return (
            f"the time step {dt:g}, which model.courant = {courant:g} chose, {finding}. Set a smaller {keys}, "
            f"{blew_up or 'because the flow became fast within a few steps'}."
        )
