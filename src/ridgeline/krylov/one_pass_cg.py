"""Conjugate gradients with one pass over memory and one allreduce in an iteration.

The operator updates the vectors and sums up in the same pass in which it is applied, part by part, while a part is in
cache (`OnePassOperator.iterate`):

    x += alpha p, r -= alpha w (both of the last iteration), p = r + beta p, w = A p, and four sums:
    r.r, p.w, r.w, w.w

One Allreduce of the four sums gives alpha = r.r / p.w and what the next direction needs before the next r exists,

    beta = (r.r - 2 alpha r.w + alpha^2 w.w) / r.r.

Only beta comes from this formula: the residual and alpha take r.r from r itself, so that its rounding does not add
up. There is no preconditioner, and the number of iterations is fixed, so that a GPU never waits for the host.
`krylov.cg` has a diagonal, several components and a tolerance, at the price of a second pass and a second Allreduce.

Source: Kronbichler, Sashko, Munch, "Enhancing data locality of the conjugate gradient method for high-order
matrix-free finite-element implementations", IJHPCA 2022, Sec. 3.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from ridgeline.krylov.operator import Array

if TYPE_CHECKING:
    from mpi4py import MPI

SUMS = 4  # of an iteration: r.r, p.w, r.w, w.w

Sums = TypeVar("Sums")
TakenSums = TypeVar("TakenSums", contravariant=True)


class StepLengths(Protocol[TakenSums]):
    """alpha and beta, where the operator's passes read them, and the residuals that they come from."""

    def reset(self, iterations: int) -> None:
        """Set alpha and beta to 0, for a solve of so many iterations. No communication."""

    def take(self, sums: TakenSums) -> None:
        """Add up the sums of all ranks and set alpha and beta by `step_lengths`. Collective: one Allreduce."""

    def residuals(self) -> list[float]:
        """Return sqrt(r.r) of every `take` since `reset`."""


class OnePassOperator(Protocol[Sums]):
    """A symmetric positive definite operator A that fuses the vectors' updates with its application.

    It holds x, r, p and w of this rank. Sums are this rank's share over distinct points, in host or device memory:
    what its `steps` take.
    """

    @property
    def steps(self) -> StepLengths[Sums]:
        """alpha and beta of the passes."""

    def start(self, b: Array, iterations: int) -> None:
        """Prepare a solve: x, p, w = 0, r = b, alpha and beta 0, memory for the residuals of so many iterations."""

    def iterate(self) -> Sums:
        """x += alpha p, r -= alpha w, p = r + beta p, w = A p; return r.r, p.w, r.w and w.w of these."""

    def update(self) -> Sums:
        """x += alpha p, r -= alpha w alone, after the last iteration; return r.r, and 0 for the other sums."""


def step_lengths(rr: float, pw: float, rw: float, ww: float) -> tuple[float, float]:
    """Return alpha and beta from the four sums; 0 once r is 0. GPUs compile this very function."""
    alpha = rr / pw if pw > 0.0 else 0.0
    following = max(rr - 2.0 * alpha * rw + alpha * alpha * ww, 0.0)
    return alpha, following / rr if rr > 0.0 else 0.0


class HostStepLengths:
    """Step lengths in host memory, of sums float64 [4].

    values: float64, alpha and beta first; what follows them is the operator's own.
    """

    def __init__(self, comm: MPI.Comm, values: Array) -> None:
        self._comm, self._values, self._total = comm, values, np.zeros(SUMS)
        self._residuals: list[float] = []

    def reset(self, iterations: int) -> None:
        """Set alpha and beta to 0."""
        self._values[:2] = 0.0
        self._residuals = []

    def take(self, sums: Array) -> None:
        """Set alpha and beta from the sums of all ranks. Collective."""
        self._comm.Allreduce(sums, self._total)
        rr, pw, rw, ww = map(float, self._total)
        self._values[:2] = step_lengths(rr, pw, rw, ww)
        self._residuals.append(math.sqrt(rr))

    def residuals(self) -> list[float]:
        """Return sqrt(r.r) of every `take` since `reset`."""
        return self._residuals


def one_pass_cg(operator: OnePassOperator[Sums], iterations: int) -> list[float]:
    """Iterate so often after `operator.start`, which may take longer; return the residuals. Collective.

    Returns
    -------
    list of float
        sqrt(r.r) before the first iteration and after each, the same on all ranks.

    Notes
    -----
    Communication per iteration: the operator's, and one Allreduce of four numbers.
    """
    steps = operator.steps
    for _ in range(iterations):
        steps.take(operator.iterate())
    steps.take(operator.update())
    return steps.residuals()
