"""What a Navier-Stokes solver solves, in plain values: what settings say, without files, ranks or defaults.

Vectors of physics are (x, y, z). A function of space and time takes arrays (x, y, z) of equal shape and the time t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.quadrature import legendre_matrix
from ridgeline.models.navier_stokes.courant import StepControl

Array = NDArray[np.float64]
# (x, y, z, t) -> three components, each a number or an array of x's shape.
VectorFunction = Callable[[Array, Array, Array, float], Sequence[Array | float] | Array]
# (x, y, z, t) -> a number or an array of x's shape.
ScalarFunction = Callable[[Array, Array, Array, float], Array | float]

VelocityKind = Literal["wall", "moving-wall", "inflow", "outflow", "symmetry", "periodic"]
ScalarKind = Literal["fixed", "flux", "adiabatic", "periodic"]
# Dirichlet sides, the later overwriting the earlier where two meet: a wall is at rest to its edges.
DIRICHLET: tuple[VelocityKind, ...] = ("inflow", "moving-wall", "wall")
# Net flux through Dirichlet sides, over that of the same speeds straight through them, which is surely a
# mistake. Not over the flux in and out: along walls that move, it is rounding itself.
LEAK = 1e-3


@dataclass(frozen=True)
class VelocitySide:
    """What holds at one side of the box. value: the velocity there; None is rest."""

    kind: VelocityKind
    value: VectorFunction | None = None
    steady: bool = True  # whether the value does not depend on time


def sides_of(sides: Mapping[str, VelocitySide], *kinds: VelocityKind) -> list[str]:
    """Return the names of the sides of some kinds, those of one kind together, in the order of the kinds."""
    return [name for kind in kinds for name, side in sides.items() if side.kind == kind]


@dataclass(frozen=True)
class ScalarSide:
    """What holds for a scalar at one side. value: of the scalar ("fixed") or of k dT/dn, inwards ("flux")."""

    kind: ScalarKind
    value: ScalarFunction | None = None
    steady: bool = True


@dataclass(frozen=True)
class TransportedScalar:
    """A scalar of the flow: dT/dt + u.grad T = k lap T + source - mean_gradient.u.

    sides: by name, "x_min" ... "z_max". mean_gradient: (x, y, z) of a uniform gradient from which T is the deviation.
    expansion, reference: of the force -expansion (T - reference) gravity on the flow; 0 is a passive scalar.
    """

    diffusivity: float
    sides: Mapping[str, ScalarSide]
    source: ScalarFunction | None = None
    mean_gradient: tuple[float, float, float] = (0.0, 0.0, 0.0)
    expansion: float = 0.0
    reference: float = 0.0


@dataclass(frozen=True)
class FlowRate:
    """A force along one axis (0 = x) that holds the mean velocity there."""

    axis: int
    bulk_velocity: float


@dataclass(frozen=True)
class PressureSolver:
    """How the pressure is solved for. tolerance: of the residual, see `linalg`; projection: vectors kept."""

    solver: Literal["gmres", "cg"] = "gmres"
    tolerance: float = 1e-8
    max_iterations: int = 200
    restart: int = 30
    preconditioner: Literal["schwarz", "jacobi", "none"] = "schwarz"
    precision: Literal["float32", "float64"] = "float32"
    coarse: Literal["auto", "direct", "amg"] = "auto"
    projection: int = 20


@dataclass(frozen=True)
class HelmholtzSolver:
    """How velocity and scalars are solved for."""

    tolerance: float = 1e-10
    max_iterations: int = 500
    projection: int = 8


@dataclass(frozen=True)
class FlowProblem:
    """What is solved, and how in time.

    dt: length of every step, NaN where `control` chooses it.
    dealias_points: Gauss points per direction of the advection term; 0 evaluates it at the Gauss-Lobatto points.
    filter_weight: share of the highest `filter_modes` modes that each step takes away, quadratically growing
    with the mode; 0 is none.
    gravity: (x, y, z), of the buoyancy of scalars with an expansion.
    products: the code of the small matrix products, see `elements.tensor`.
    overlap: whether messages between neighbours travel while elements are computed.
    """

    viscosity: float
    dt: float
    sides: Mapping[str, VelocitySide]
    time_order: int = 3
    control: StepControl | None = None
    dealias_points: int = 0
    scalars: tuple[TransportedScalar, ...] = ()
    force: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    flow_rate: FlowRate | None = None
    filter_weight: float = 0.0
    filter_modes: int = 1
    pressure: PressureSolver = field(default_factory=PressureSolver)
    velocity: HelmholtzSolver = field(default_factory=HelmholtzSolver)
    products: Literal["generated", "plain"] = "generated"
    overlap: bool = True

    def sides_of(self, *kinds: VelocityKind) -> list[str]:
        """Return the names of the sides of some kinds, those of one kind together, in the order of the kinds."""
        return sides_of(self.sides, *kinds)

    @property
    def buoyant(self) -> bool:
        """Whether a scalar acts back on the flow."""
        return any(self.gravity) and any(scalar.expansion for scalar in self.scalars)

    @property
    def level_is_free(self) -> bool:
        """Whether the pressure is known up to a constant only: no side lets the flow out."""
        return not self.sides_of("outflow")


def smallest_spacing(coordinates: Array) -> float:
    """Return the smallest distance of neighbouring points of elements, infinity without elements.

    coordinates: x, y, z of the points, [3, e, n, n, n].
    """
    gaps = [np.sqrt((np.diff(coordinates, axis=axis) ** 2).sum(axis=0)) for axis in (2, 3, 4)]
    return min(float(gap.min(initial=np.inf)) for gap in gaps)


def vorticity_order(order: int, viscosity: float, dt: float, spacing: float) -> int:
    """Return the order at which the vorticity at Dirichlet sides is extrapolated, in a step dt of an order.

    Third-order extrapolation is stable only while nu dt is not many times the square of the spacing of the points
    there. Second-order extrapolation is always stable. It leaves the velocity third order in time, with a larger
    factor. So the former is taken where nu dt <= spacing^2. Source: Leriche, Perchat, Labrosse, Deville, J. Sci.
    Comput. 26 (2006) 25.
    """
    return 2 if order == 3 and viscosity * dt > spacing**2 else order


def bubble_filter(points: Array, weight: float, modes: int) -> Array:
    """Return the matrix [n, n] that takes away the highest modes of a polynomial, leaving its ends alone.

    Modes are P_k - P_{k-2}, which vanish at both ends, and 1 and x. The share taken grows quadratically from the
    lowest of the `modes` highest to `weight` for the highest. Source: Fischer and Mullen, C. R. Acad. Sci. Paris 332
    (2001) 265.
    """
    n = len(points)
    legendre = legendre_matrix(points)
    basis = legendre.copy()
    basis[:, 2:] -= legendre[:, :-2]
    kept = np.ones(n)
    for k in range(max(2, n - modes), n):
        kept[k] -= weight * ((k - (n - 1 - modes)) / modes) ** 2
    return np.asarray((basis * kept) @ np.linalg.inv(basis))
