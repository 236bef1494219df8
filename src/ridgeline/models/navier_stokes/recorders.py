"""The fields of output.variables: at the points of the elements, or as images on a uniform grid.

    fields = OutputFields(comm, grid, geometry, gather_scatter, n_scalars, uniform)    # once, collective
    fields.layout(names) -> [Variable]                                                 # for Model.output_layout
    fields.compute(names, velocity, pressure, scalars) -> {name: DistributedArray}     # for Model.outputs, collective
    fields.image_fields(), fields.image_geometry()                                     # for the model's like-named

Names: velocity_x, velocity_y, velocity_z, pressure, scalar_0, ..., vorticity_magnitude |curl u| and q_criterion
(W:W - S:S)/2, positive in vortices. At the points of the elements an array is [E, n, n, n], elements in the curve
order. x, y, z, the places of the points, are written with the first output step. With `uniform` = [nz, ny, nx] it is
an image of that shape in the box around the domain (`sampling.image_lattice`), NaN outside the domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.io.bp_blocks import Variable
from ridgeline.models.navier_stokes.derivatives import element_chunks, velocity_gradient, vorticity
from ridgeline.models.navier_stokes.sampling import Sampler, image_lattice
from ridgeline.models.navier_stokes.statistics.statistics import ELEMENT_DIMS
from ridgeline.parallel.distributed import DistributedArray
from ridgeline.parallel.partition import Triple

if TYPE_CHECKING:
    from mpi4py import MPI

Array = NDArray[np.float64]
VELOCITIES = ("velocity_x", "velocity_y", "velocity_z")
DERIVED = ("vorticity_magnitude", "q_criterion")
PLACES = ("x", "y", "z")


class Assembly(Protocol):
    """What adds the copies of points that elements share: `elements.gather_scatter.GatherScatter`."""

    def sum(self, u: NDArray[Any]) -> None:
        """Sum the copies of every point of u [E, n, n, n], in place."""


def output_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names that output.variables may have."""
    return (*VELOCITIES, "pressure", *(f"scalar_{i}" for i in range(n_scalars)), *DERIVED)


class OutputFields:
    """Computes the outputs of one run. Made collectively; uniform: None for the points of the elements."""

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        gather_scatter: Assembly,
        n_scalars: int = 0,
        uniform: Triple | None = None,
    ) -> None:
        self._grid, self._geometry, self._gather_scatter = grid, geometry, gather_scatter
        self._names = output_names(n_scalars)
        self._sampler: Sampler | None = None
        if uniform is not None:
            self._sampler = Sampler(comm, grid, image_lattice(comm, grid, uniform))

    def image_fields(self) -> tuple[str, ...]:
        """Name the outputs that are images: all, or none."""
        return self._names if self._sampler is not None else ()

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return origin and spacing of images, (z, y, x)."""
        if self._sampler is None:
            return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        return self._sampler.lattice.origin, self._sampler.lattice.spacing

    def layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shapes and this rank's blocks of the outputs and, at the points of elements, of their places."""
        if self._sampler is not None:
            places = self._sampler.shape_global, self._sampler.offset_global, self._sampler.shape_local
            return [Variable(name, np.float64, *places) for name in names]
        grid = self._grid
        blocks = grid.shape_global, (grid.first, 0, 0, 0), grid.shape
        found = [Variable(name, np.float64, *blocks, dims=ELEMENT_DIMS) for name in names]
        return found + [
            Variable(
                name, np.float64, *blocks, description=f"place along {name}", dims=ELEMENT_DIMS, once=True
            )
            for name in PLACES
        ]

    def compute(
        self, names: Sequence[str], velocity: Array, pressure: Array, scalars: Array
    ) -> dict[str, DistributedArray]:
        """Return the outputs of a flow, as `layout` says. Collective.

        velocity: [3, E, n, n, n]; pressure: [E, n, n, n]; scalars: [s, E, n, n, n]. Fields of the flow at the points
        of the elements are not copied.
        """
        fields = {name: self._field(name, velocity, pressure, scalars) for name in names}
        if self._sampler is not None:
            shape, offset = self._sampler.shape_global, self._sampler.offset_global
            return {
                name: DistributedArray(name, shape, offset, self._sampler.sample(field))
                for name, field in fields.items()
            }
        fields |= dict(zip(PLACES, self._geometry.coordinates))
        whole, first = self._grid.shape_global, (self._grid.first, 0, 0, 0)
        return {name: DistributedArray(name, whole, first, field) for name, field in fields.items()}

    def _field(self, name: str, velocity: Array, pressure: Array, scalars: Array) -> Array:
        if name in VELOCITIES:
            return np.asarray(velocity[VELOCITIES.index(name)])
        if name == "pressure":
            return pressure
        if name in DERIVED:
            return self._average(self._derived(name, velocity))
        return np.asarray(scalars[int(name.removeprefix("scalar_"))])

    def _derived(self, name: str, velocity: Array) -> Array:
        field = np.empty(self._grid.shape)
        for chunk in element_chunks(self._grid.n_elements, self._grid.n**3):
            gradient = velocity_gradient(self._geometry, velocity, chunk)
            if name == "vorticity_magnitude":
                field[chunk] = np.sqrt((vorticity(gradient) ** 2).sum(axis=0))
            else:
                field[chunk] = -0.5 * (gradient * gradient.swapaxes(0, 1)).sum(axis=(0, 1))
        return field

    def _average(self, field: Array) -> Array:
        """Give copies of a point the mean of their values, by mass: derivatives jump between elements."""
        mass = self._geometry.mass.copy()
        field *= mass
        self._gather_scatter.sum(field)
        self._gather_scatter.sum(mass)
        field /= mass
        return field
