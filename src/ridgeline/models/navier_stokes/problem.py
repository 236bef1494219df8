"""What a Navier-Stokes solver solves, in plain values: a case without its files, ranks and defaults.

`FlowProblem` is shared by the engines and by reference.py, and so are the functions below it. Physical vectors are
(x, y, z). A function of space and time takes arrays (x, y, z) of equal shape and the time t.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import VARIABLES, Formula
from ridgeline.elements.quadrature import legendre_matrix
from ridgeline.models.navier_stokes.sources import (
    VISCOSITY_KEY,
    SourceTerm,
    Sponge,
    VariableCoefficient,
    values_of,
)
from ridgeline.models.navier_stokes.time_stepping import StepControl

Array = NDArray[np.float64]
# (x, y, z, t) -> three components, each a number or an array of x's shape.
VectorFunction = Callable[[Array, Array, Array, float], Sequence[Array | float] | Array]
# (x, y, z, t) -> a number or an array of x's shape.
ScalarFunction = Callable[[Array, Array, Array, float], Array | float]

VelocityKind = Literal["wall", "moving-wall", "inflow", "outflow", "symmetry", "periodic"]
ScalarKind = Literal["fixed", "flux", "adiabatic", "periodic"]
# Dirichlet sides. Where two meet, the later kind overwrites the earlier one: a wall is at rest up to its edges.
DIRICHLET: tuple[VelocityKind, ...] = ("inflow", "moving-wall", "wall")
# The largest net flux through Dirichlet sides, over the flux that the same speeds would carry straight through them;
# more is surely a mistake. The flux in and out would be a bad measure, because along moving walls it is rounding.
LEAK = 1e-3


VELOCITIES = ("velocity_x", "velocity_y", "velocity_z")


def field_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names of velocity and scalars, in the order of the fields [3 + S, ...] of a time level."""
    return (*VELOCITIES, *(f"scalar_{i}" for i in range(n_scalars)))


@dataclass(frozen=True, eq=False)
class FlowState:
    """A flow at one time: velocity [3, E, n, n, n], pressure [E, n, n, n], scalars [s, E, n, n, n], float64."""

    time: float
    velocity: Array
    pressure: Array
    scalars: Array


@dataclass(frozen=True)
class VelocitySide:
    """The condition of the velocity at one side. value: the velocity there; None is rest."""

    kind: VelocityKind
    value: VectorFunction | None = None
    steady: bool = True  # whether the value does not depend on time


def sides_of(sides: Mapping[str, VelocitySide], *kinds: VelocityKind) -> list[str]:
    """Return the names of the sides of some kinds, in the order of the kinds."""
    return [name for kind in kinds for name, side in sides.items() if side.kind == kind]


@dataclass(frozen=True)
class ScalarSide:
    """The condition of a scalar at one side. value: of the scalar ("fixed") or of k dT/dn, inwards ("flux").

    A flux may also be a formula of the velocity and the scalars there, as a source of the scalar.
    """

    kind: ScalarKind
    value: ScalarFunction | Formula | None = None
    steady: bool = True

    @property
    def sees_flow(self) -> bool:
        """Whether the value depends on velocity or scalars."""
        return isinstance(self.value, Formula) and not self.value.variables.issubset(VARIABLES)

    def value_at(self, coordinates: Array, time: float, flow: Callable[[], Array]) -> Array | float:
        """Return the value at points [3, ...]. flow: returns velocity and scalars there, [3 + S, ...], if needed."""
        if self.value is None:
            return 0.0
        if self.sees_flow:
            assert isinstance(self.value, Formula)
            return self.value.evaluate(values_of(coordinates, time, flow()))
        assert callable(self.value)
        x, y, z = coordinates
        return np.asarray(self.value(x, y, z, time))


@dataclass(frozen=True)
class TransportedScalar:
    """A scalar of the flow: dT/dt + u.grad T = k lap T + source - mean_gradient.u.

    sides: by name, such as "x_min". source: a formula, which may hold velocity and scalars (`source_names`), or a
    function of space and time. mean_gradient: (x, y, z), a uniform gradient; T is the deviation from it.
    expansion, reference: of the force -expansion (T - reference) gravity on the flow; a passive scalar has 0.
    diffusivity_formula: k at each place, a formula like source; k is then the reference, see kernels_diffusion.py.
    """

    diffusivity: float
    sides: Mapping[str, ScalarSide]
    source: Formula | ScalarFunction | None = None
    mean_gradient: tuple[float, float, float] = (0.0, 0.0, 0.0)
    expansion: float = 0.0
    reference: float = 0.0
    diffusivity_formula: Formula | None = None


@dataclass(frozen=True)
class FlowRate:
    """A bulk velocity along one axis (0 = x), which a uniform force keeps."""

    axis: int
    bulk_velocity: float


@dataclass(frozen=True)
class PressureSolver:
    """How the pressure is solved for. tolerance: of the residual; projection: solutions kept for initial guesses."""

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
    """How velocity and scalars are solved for. Fields as in `PressureSolver`."""

    tolerance: float = 1e-10
    max_iterations: int = 500
    projection: int = 8


@dataclass(frozen=True)
class FlowProblem:
    """What is solved, and how in time.

    dt: length of every step, NaN where `control` chooses it.
    dealias_points: Gauss points per direction of the advection term; 0 evaluates it at the Gauss-Lobatto points.
    viscosity_formula: nu at each place, as for scalars.
    source: (x, y, z), formulas that are added to the force, as for scalars; None is 0.
    gravity: (x, y, z), of the buoyancy of scalars with an expansion.
    filter_weight: share of the highest mode that each step removes, see `bubble_filter`; 0 filters nothing.
    filter_modes: number of modes that are damped.
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
    viscosity_formula: Formula | None = None
    force: tuple[float, float, float] = (0.0, 0.0, 0.0)
    source: tuple[Formula | None, Formula | None, Formula | None] = (None, None, None)
    sponges: tuple[Sponge, ...] = ()
    gravity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    flow_rate: FlowRate | None = None
    filter_weight: float = 0.0
    filter_modes: int = 1
    pressure: PressureSolver = field(default_factory=PressureSolver)
    velocity: HelmholtzSolver = field(default_factory=HelmholtzSolver)
    products: Literal["generated", "plain"] = "generated"
    overlap: bool = True

    def sides_of(self, *kinds: VelocityKind) -> list[str]:
        """Return the names of the sides of some kinds, in the order of the kinds."""
        return sides_of(self.sides, *kinds)

    @cached_property
    def source_terms(self) -> list[SourceTerm]:
        """What formulas add to the fields: sources and sponges."""
        sources = [("model.source", i, source) for i, source in enumerate(self.source)]
        sources += [
            (f"scalar.{i}.source", 3 + i, scalar.source if isinstance(scalar.source, Formula) else None)
            for i, scalar in enumerate(self.scalars)
        ]
        terms = [SourceTerm(key, i, source) for key, i, source in sources if source is not None]
        for n, sponge in enumerate(self.sponges):
            targets = [*enumerate(sponge.velocity), *enumerate(sponge.scalars, start=3)]
            terms += [
                SourceTerm(f"sponge.{n}", i, target, sponge.strength)
                for i, target in targets
                if target is not None
            ]
        return terms

    @cached_property
    def variable_viscosity(self) -> VariableCoefficient | None:
        """The viscosity, if it is a formula."""
        if self.viscosity_formula is None:
            return None
        return VariableCoefficient(VISCOSITY_KEY, 0, 3, self.viscosity_formula, self.viscosity)

    @cached_property
    def variable_coefficients(self) -> list[VariableCoefficient]:
        """The viscosity and the diffusivities that are formulas."""
        found = [] if self.variable_viscosity is None else [self.variable_viscosity]
        return found + [
            VariableCoefficient(
                f"scalar.{i}.diffusivity_formula", 3 + i, 1, scalar.diffusivity_formula, scalar.diffusivity
            )
            for i, scalar in enumerate(self.scalars)
            if scalar.diffusivity_formula is not None
        ]

    @property
    def buoyant(self) -> bool:
        """Whether a scalar acts back on the flow."""
        return any(self.gravity) and any(scalar.expansion for scalar in self.scalars)

    def buoyancy_factors(self) -> tuple[Array, Array]:
        """Return gravity times expansion, [3, S], and the reference values [S] of the scalars, for the kernels.

        In the approximation of Oberbeck and Boussinesq each scalar T with an expansion beta adds -beta (T - T_0) g to
        the force; density changes nothing else. This force belongs to the rates of its time level and is extrapolated
        with them, so that the scheme keeps its order in time. Sources: Boussinesq, Theorie analytique de la chaleur 2
        (1903) 172; Chandrasekhar, Hydrodynamic and Hydromagnetic Stability, Oxford 1961, Chapter II.
        """
        factors = np.outer(self.gravity, [scalar.expansion for scalar in self.scalars])
        return factors, np.array([scalar.reference for scalar in self.scalars])

    @property
    def level_is_free(self) -> bool:
        """Whether the pressure is only known up to a constant, because no side is an outflow."""
        return not self.sides_of("outflow")


def smallest_spacing(coordinates: Array) -> float:
    """Return the smallest distance between neighbouring points of elements, infinity without elements.

    coordinates: x, y, z of the points, [3, e, n, n, n].
    """
    gaps = [np.sqrt((np.diff(coordinates, axis=axis) ** 2).sum(axis=0)) for axis in (2, 3, 4)]
    return min(float(gap.min(initial=np.inf)) for gap in gaps)


def vorticity_order(order: int, viscosity: float, dt: float, spacing: float) -> int:
    """Return the order at which the vorticity at Dirichlet sides is extrapolated, in a step dt of the given order.

    Third-order extrapolation is stable only while nu dt is not many times the square of the spacing of the points
    there. Second-order extrapolation is always stable, and leaves the velocity third order in time, with a larger
    factor. Third order is therefore used where nu dt <= spacing^2. Source: Leriche, Perchat, Labrosse, Deville, J.
    Sci. Comput. 26 (2006) 25.
    """
    return 2 if order == 3 and viscosity * dt > spacing**2 else order


def bubble_filter(points: Array, weight: float, modes: int) -> Array:
    """Return the matrix [n, n] that removes part of the highest modes of a polynomial and keeps its end values.

    The modes are P_k - P_{k-2}, which vanish at both ends, and 1 and x. The share that is removed grows quadratically
    from the lowest of the `modes` highest to `weight` for the highest. Source: Fischer and Mullen, C. R. Acad. Sci.
    Paris 332 (2001) 265.
    """
    n = len(points)
    legendre = legendre_matrix(points)
    basis = legendre.copy()
    basis[:, 2:] -= legendre[:, :-2]
    kept = np.ones(n)
    for k in range(max(2, n - modes), n):
        kept[k] -= weight * ((k - (n - 1 - modes)) / modes) ** 2
    return np.asarray((basis * kept) @ np.linalg.inv(basis))
