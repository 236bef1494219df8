"""What a time step needs of the operators, the sums and the sides, on hosts (`engine_cpu`) and on GPUs (`device`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.models.navier_stokes.problem import Array
from ridgeline.models.navier_stokes.solves import ConstrainedValues
from ridgeline.models.navier_stokes.time_stepping import StepCoefficients

# A field is a NumPy array on the host or a device array on a GPU; Python has no type for both.
Field = Any
# Some of this rank's elements: int64 numbers on the host, a range (first, end) of their order on a GPU.
Part = Any


class FlowKernels(Protocol):
    """Operators on the fields of this rank's elements, each element by itself ("unassembled").

    every: all elements, as a part. Shapes are those of `engine_cpu.ElementKernels`.
    """

    every: Part

    @property
    def advection(self) -> Callable[[Field, Field, Field], None]:
        """Sets its third argument to (v, u.grad f) of the velocity u and fields f."""

    def right_hand_side(
        self,
        part: Part,
        coefficients: tuple[Array, Array],
        force: Field,
        fields: Sequence[Field],
        rates: Sequence[Field],
        out: Field,
    ) -> None:
        """Set a part of out to the known side of the step, with the coefficients (a, b)."""

    def force_divergence(self, force: Field, inverse_mass: Field, out: Field) -> None:
        """Set out to (grad q, inverse_mass force)."""

    def momentum(self, part: Part, p: Field, force: Field, share: Field, out: Field) -> None:
        """Set a part of out to share force - mass grad p."""

    def subtract_buoyancy(self, fields: Field, rates: Field) -> None:
        """Subtract the weak force of the scalars from the rates."""

    def courant(self, velocity: Field) -> float:
        """Return the largest Courant number over dt among this rank's points."""

    def filter(self, fields: Field) -> None:
        """Apply the explicit filter in place."""


class CopySums(Protocol):
    """Sums of the copies of points that elements share, within the rank and with other ranks."""

    def sum(self, values: Field, /) -> None:
        """Replace each copy of a point by the sum of all its copies, in place. Communicates with neighbours."""


class FlowBoundaries(Protocol):
    """The sides of a problem on this rank: `boundary_terms.Boundaries`, `device.boundary_cuda.CudaBoundaries`."""

    pressure_points: NDArray[np.int64]

    @property
    def velocity(self) -> ConstrainedValues:
        """The Dirichlet values of the velocity."""

    @property
    def scalars(self) -> Sequence[ConstrainedValues]:
        """The Dirichlet values of each scalar."""

    @property
    def flux(self) -> Callable[[], tuple[float, float]]:
        """Returns the integrals of n.u and |u| over all Dirichlet sides. Collective."""

    def update(self, time: float) -> None:
        """Compute the Dirichlet values at a time; steady values are computed only once."""

    def record(self, velocity: Field) -> None:
        """Keep the vorticity of a new velocity at the sides that need it. Communicates with neighbours."""

    def add_pressure_terms(self, at: StepCoefficients, b: Field) -> None:
        """Add the surface integrals of the sides to the pressure's weak right-hand side."""

    def add_backflow(self, ahead: Sequence[tuple[float, Field]], right: Field) -> None:
        """Add the term that keeps an outflow stable where it flows in to the velocity's weak right-hand side."""

    def add_scalar_fluxes(self, time: float, ahead: Sequence[tuple[float, Field]], right: Field) -> None:
        """Add the given fluxes of scalars to the weak right-hand sides."""
