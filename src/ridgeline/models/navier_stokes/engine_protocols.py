"""What a step asks of the parts of an engine, whether they work on fields of the host or of a GPU.

A field is a NumPy array on CPUs (`element_kernels`, `boundary_terms`, `elements.gather_scatter`) and a device array
on GPUs (`device.element_kernels_cuda`, `device.boundary_cuda`, `elements.device.gather_scatter_cuda`); Python has no
common type of both. The inner product is `krylov.operator.VectorPasses`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ridgeline.models.navier_stokes.extrapolation import StepCoefficients

Field = Any


class FlowKernels(Protocol):
    """Operators on the fields of this rank's elements.

    part: which elements, as the arguments that the engine's own kernels take for it; every: all of them.
    """

    every: Any

    @property
    def advection(self) -> Callable[[Field, Field, Field], None]:
        """Sets its third argument to (v, u.grad f) of the velocity u and fields f."""

    def right_hand_side(self, *part_and_fields: Any) -> None:
        """Set a part of the unassembled known side of the step: part, (a, b), force, fields, rates, out."""

    def force_divergence(self, force: Field, inverse_mass: Field, out: Field) -> None:
        """Set out to (grad q, inverse_mass force)."""

    def momentum(self, *part_and_fields: Any) -> None:
        """Set a part of out to share force - mass grad p: part, p, force, share, out."""

    def subtract_buoyancy(self, fields: Field, rates: Field) -> None:
        """Subtract the weak force of the scalars from the rates."""

    def courant(self, velocity: Field) -> float:
        """Return the Courant number over dt of this rank's points."""

    def filter(self, fields: Field) -> None:
        """Apply the explicit filter in place."""


class CopySums(Protocol):
    """Sums of the copies of points that elements share, within the rank and with others."""

    def sum(self, values: Field, /) -> None:
        """Replace each copy of a point by the sum of all, in place. Neighbours."""


class FlowBoundaries(Protocol):
    """The sides of a problem on this rank."""

    velocity: Any
    pressure_points: Any

    @property
    def scalars(self) -> Sequence[Any]:
        """The values given for each scalar, as `velocity` those for the velocity."""

    @property
    def flux(self) -> Callable[[], tuple[float, float]]:
        """Returns the integrals of n.u and |u| over all sides that give a velocity. Collective."""

    def update(self, time: float) -> None:
        """Compute the Dirichlet values of a time."""

    def record(self, velocity: Field) -> None:
        """Note the vorticity of a new velocity at the sides that need it. Neighbours."""

    def add_pressure_terms(self, at: StepCoefficients, b: Field) -> None:
        """Add what sides give to the pressure's weak right-hand side."""

    def add_backflow(self, ahead: Sequence[tuple[float, Field]], right: Field) -> None:
        """Add to the velocity's weak right-hand side what keeps an outflow stable where it flows in."""

    def add_scalar_fluxes(self, time: float, right: Field) -> None:
        """Add the given fluxes of scalars to weak right-hand sides."""
