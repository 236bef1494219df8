"""A force that formulas of x, y, z and t give: its solenoidal part, in Fourier space.

A formula is evaluated at the points of the grid, transformed, and truncated as all fields are. A force without t is
evaluated once, and only the modes that it has are forced. Any other is evaluated in the middle of each step, where it
has an error of second order in the step with both Runge-Kutta schemes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.config.expressions import Expression
from ridgeline.config.fields import toml
from ridgeline.fourier.decomposition import PencilGrid
from ridgeline.jit.kernel import compile_kernels, specialise
from ridgeline.models.turbulence.forcing import Forcing
from ridgeline.models.turbulence.solenoidal import project
from ridgeline.parallel.allreduce import allreduce_max, allreduce_sums, broadcast_first
from ridgeline.parallel.communicator import compile_on_nodes
from ridgeline.runtime.errors import ConfigError

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.turbulence.engine import EngineTransform, FlowEngine

ROUNDING = 16  # amplitudes below this many units of rounding of the largest are rounding errors


class FormulaForce(Forcing):
    """The force [f_x, f_y, f_z] of three formulas. Creating it is collective.

    Parameters
    ----------
    engine : whose modes and transform it uses, and whose dtype
    grid : points of this rank
    formulas : of x, y, z and t
    """

    def __init__(
        self, engine: FlowEngine, grid: PencilGrid, comm: MPI.Comm, formulas: Sequence[Expression]
    ) -> None:
        super().__init__(engine.modes, comm)
        self._transform: EngineTransform = engine.transform
        self._formulas, modes = formulas, engine.modes
        axes = [
            (np.arange(n) + first) * (length / points)
            for n, first, length, points in zip(
                grid.block, grid.offset, modes.lengths, modes.shape, strict=True
            )
        ]
        self._z, self._y, self._x = np.meshgrid(*axes, indexing="ij", sparse=True)
        self._per_cell = [n / length for n, length in zip(modes.shape[::-1], modes.lengths[::-1])]
        self.transforms = not all(formula.steady for formula in formulas)
        compile_on_nodes(comm, lambda: compile_kernels(specialise([project], np.complex128)))
        self._rate, self._rated_at = self._rate_of(self._points_at(0.0)), 0.0
        values = self._modes_at(0.0)
        self.indices = np.arange(modes.n_modes)
        if not self.transforms:
            largest = float(allreduce_max(comm, np.abs(values).max(initial=0.0)))
            smallest = ROUNDING * float(np.finfo(self._transform.real).eps) * largest
            self.indices = np.flatnonzero((np.abs(values) > smallest).any(axis=0))
        self.values = values[:, self.indices]
        self._weight = modes.weight()[self.indices]

    def _points_at(self, time: float) -> NDArray[Any]:
        """Return the force at the points of this rank, [3, *block].

        Raises ConfigError on all ranks if it is not finite somewhere.
        """
        names = {"x": self._x, "y": self._y, "z": self._z, "t": time}
        shape = np.broadcast_shapes(self._x.shape, self._y.shape, self._z.shape)
        values = np.empty((3, *shape), self._transform.real)
        for component, formula in zip(values, self._formulas):
            component[...] = formula.evaluate(names)
        self._raise_unless_finite(values, time)
        return values

    def _raise_unless_finite(self, values: NDArray[Any], time: float) -> None:
        wrong = np.argwhere(~np.isfinite(values))
        mine = None
        if len(wrong):
            c, k, j, i = wrong[0]
            place = f"x = {self._x[0, 0, i]:g}, y = {self._y[0, j, 0]:g}, z = {self._z[k, 0, 0]:g}"
            mine = (
                f"forcing.formula: {toml(self._formulas[c].text)} is {values[c, k, j, i]:g} at {place} and "
                f"t = {time:g}. Use a formula that is finite at every point and time of the run."
            )
        found = broadcast_first(self.comm, mine)
        if found is not None:
            raise ConfigError(found)

    def _modes_at(self, time: float) -> NDArray[np.complex128]:
        """Return the modes of the solenoidal part of the force, [3, n_modes]. Collective."""
        points = self._points_at(time)
        values = np.ascontiguousarray(self._transform.to_spectral(points).astype(np.complex128))
        modes = self.modes
        project(modes.lines.most, modes.kx, modes.kz, modes.unit[1], modes.line_weight, *values, np.zeros(3))
        return values

    def _rate_of(self, points: NDArray[Any]) -> float:
        """Return the largest sum of |f_i| / dx_i of all points. Collective."""
        sums = sum(np.abs(component) * n for component, n in zip(points, self._per_cell))
        return float(allreduce_max(self.comm, np.max(sums, initial=0.0)))

    def begin_step(self, step: int, dt: float, time: float = 0.0) -> None:
        if self.transforms:
            self.values = self._modes_at(time + dt / 2)

    def bound_rate(self, rate: float, step: int, dt: float, time: float = 0.0) -> float:
        # How the force changes within the step is left out.
        if self.transforms and self._rated_at != time:
            self._rate, self._rated_at = self._rate_of(self._points_at(time)), time
        return rate + dt * self._rate

    def injection(self, velocity: NDArray[Any], energy: float) -> float:
        power = self._weight * (self.values.conj() * velocity).sum(0).real
        return float(allreduce_sums(self.comm, [power], self.modes.truncation.n_modes)[0])
