"""All element kernels that a flow at one order needs, compiled or loaded together: `ridgeline compile` calls this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from ridgeline.elements.advection import make_advection, make_advection_collocated
from ridgeline.elements.courant import make_courant
from ridgeline.elements.derivatives import make_curl, make_gradient, make_weak_divergence
from ridgeline.elements.helmholtz import make_diagonal, make_helmholtz, make_helmholtz_cg

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class KernelSet:
    """The float64 kernels of one order and one kind of elements; each is described by its factory `make_...`."""

    n: int
    m: int
    axis_aligned: bool
    helmholtz: Kernel
    helmholtz_cg: Kernel
    diagonal: Kernel
    gradient: Kernel
    weak_divergence: Kernel
    curl: Kernel
    advection: Kernel
    courant: Kernel


@cache
def make_kernel_set(n: int, m: int, axis_aligned: bool) -> KernelSet:
    """Return the kernels for n Gauss-Lobatto points, advection on m Gauss points; m = 0: not dealiased."""
    if m:
        advection = make_advection(n, m, "float64", axis_aligned)
    else:
        advection = make_advection_collocated(n, "float64", axis_aligned)
    return KernelSet(
        n,
        m,
        axis_aligned,
        helmholtz=make_helmholtz(n, "float64", axis_aligned),
        helmholtz_cg=make_helmholtz_cg(n, "float64", axis_aligned),
        diagonal=make_diagonal(n, "float64", axis_aligned),
        gradient=make_gradient(n, "float64", axis_aligned),
        weak_divergence=make_weak_divergence(n, "float64", axis_aligned),
        curl=make_curl(n, "float64", axis_aligned),
        advection=advection,
        courant=make_courant(n, axis_aligned),
    )
