"""What a Navier-Stokes run writes: the fields of its data set, Nek5000 field files, and statistics.

    fields = OutputFields(comm, grid, geometry, gather_scatter, n_scalars, uniform)    # once, collective
    fields.layout(names) -> [Variable]                                                 # for Model.output_layout
    fields.compute(names, velocity, pressure, scalars) -> {name: DistributedArray}     # for Model.outputs, collective
    nek5000_recorder(case, comm, grid, geometry, flow) -> [Recorder]                   # for Model.recorders
    statistics_recorder(case, comm, grid, statistics, flow) -> [Recorder]

The names of output.variables are velocity_x, velocity_y, velocity_z, pressure, scalar_0, ..., vorticity_x,
vorticity_y, vorticity_z of curl u, vorticity_magnitude |curl u|, q_criterion (W:W - S:S)/2, which is positive in
vortices, and streamfunction, streamfunction_x, streamfunction_y (streamfunction.py). At the points of the elements an
array is [E, n, n, n], elements in the order of the curve; x, y, z, the places of the points, are written with the
first output step. With `uniform` = [nz, ny, nx] it is an image of that shape in the box around the domain
(`sampling.image_lattice`), NaN outside the domain.

A recorder is returned only if the settings ask for it. `flow` returns the present FlowState when a record is due. The
time loop opens the files. Probes and forces on sides are in probes.py and side_forces.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.gather_scatter import GatherScatter
from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import ElementGrid
from ridgeline.io import bp_sums
from ridgeline.io.nek5000 import Nek5000Writer
from ridgeline.io.open_store import open_writer
from ridgeline.io.store import Variable
from ridgeline.models.contract import Record, Recorder
from ridgeline.models.navier_stokes.derivatives import element_chunks, velocity_gradient, vorticity
from ridgeline.models.navier_stokes.flow_statistics import ELEMENT_DIMS, Statistics
from ridgeline.models.navier_stokes.problem import VELOCITIES, FlowState, field_names
from ridgeline.models.navier_stokes.sampling import Lattice, Sampler, image_lattice
from ridgeline.models.navier_stokes.streamfunction import AXES, Streamfunction
from ridgeline.models.windows import OF_WINDOWS, WindowRecord
from ridgeline.parallel.partition import DistributedArray, Triple

if TYPE_CHECKING:
    from mpi4py import MPI

    from ridgeline.models.navier_stokes.settings import NavierStokesCase


Array = NDArray[np.float64]
VORTICITY = ("vorticity_x", "vorticity_y", "vorticity_z")
DERIVED = (*VORTICITY, "vorticity_magnitude", "q_criterion", *AXES)
PLACES = ("x", "y", "z")


def output_names(n_scalars: int) -> tuple[str, ...]:
    """Return the names that output.variables may have."""
    return (*VELOCITIES, "pressure", *field_names(n_scalars)[3:], *DERIVED)


class OutputFields:
    """Computes the fields of the data set. Made collectively.

    uniform: None for the points of the elements; streamfunctions: what computes them, of those among the outputs.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        gather_scatter: GatherScatter,
        n_scalars: int = 0,
        uniform: Triple | None = None,
        streamfunctions: Mapping[str, Streamfunction] | None = None,
    ) -> None:
        self._grid, self._geometry, self._gather_scatter = grid, geometry, gather_scatter
        self._streamfunctions = streamfunctions or {}
        self._names = output_names(n_scalars)
        self._sampler: Sampler | None = None
        if uniform is not None:
            self._sampler = Sampler(comm, grid, image_lattice(comm, grid, uniform))

    def image_fields(self) -> tuple[str, ...]:
        """Return the names of the outputs that are images: all, or none."""
        return self._names if self._sampler is not None else ()

    def image_geometry(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return origin and spacing of images, (z, y, x)."""
        if self._sampler is None:
            return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        return self._sampler.lattice.origin, self._sampler.lattice.spacing

    def layout(self, names: Sequence[str]) -> list[Variable]:
        """Return shapes and this rank's blocks of the outputs and, at the points of elements, of x, y, z."""
        if self._sampler is not None:
            places = self._sampler.shape_global, self._sampler.offset_global, self._sampler.shape_local
            return [Variable(name, np.float64, *places) for name in names]
        grid = self._grid
        blocks = grid.shape_global, (grid.first, 0, 0, 0), grid.shape
        variables = [Variable(name, np.float64, *blocks, dims=ELEMENT_DIMS) for name in names]
        return variables + [
            Variable(
                name, np.float64, *blocks, description=f"place along {name}", dims=ELEMENT_DIMS, once=True
            )
            for name in PLACES
        ]

    def compute(
        self, names: Sequence[str], velocity: Array, pressure: Array, scalars: Array
    ) -> dict[str, DistributedArray]:
        """Return the outputs of a flow, with the shapes of `layout`. Collective.

        velocity: [3, E, n, n, n]; pressure: [E, n, n, n]; scalars: [s, E, n, n, n]. Fields of the flow at the points
        of the elements are not copied.
        """
        fields = {name: self.field(name, velocity, pressure, scalars) for name in names}
        if self._sampler is not None:
            shape, offset = self._sampler.shape_global, self._sampler.offset_global
            return {
                name: DistributedArray(name, shape, offset, self._sampler.sample(field))
                for name, field in fields.items()
            }
        fields |= dict(zip(PLACES, self._geometry.coordinates))
        whole, first = self._grid.shape_global, (self._grid.first, 0, 0, 0)
        return {name: DistributedArray(name, whole, first, field) for name, field in fields.items()}

    def field(self, name: str, velocity: Array, pressure: Array, scalars: Array) -> Array:
        """Return one output of a flow at the points of the elements. Collective. Arguments as for `compute`."""
        if name in VELOCITIES:
            return np.asarray(velocity[VELOCITIES.index(name)])
        if name == "pressure":
            return pressure
        if name not in DERIVED:
            return np.asarray(scalars[int(name.removeprefix("scalar_"))])
        if name in AXES:
            return self._streamfunctions[name].of(velocity)  # model.py makes those of the outputs

        field = np.empty(self._grid.shape)
        for chunk in element_chunks(self._grid.n_elements, self._grid.n**3):
            gradient = velocity_gradient(self._geometry, velocity, chunk)
            if name in VORTICITY:
                field[chunk] = vorticity(gradient)[VORTICITY.index(name)]
            elif name == "vorticity_magnitude":
                field[chunk] = np.sqrt((vorticity(gradient) ** 2).sum(axis=0))
            else:
                field[chunk] = -0.5 * (gradient * gradient.swapaxes(0, 1)).sum(axis=(0, 1))
        # Derivatives jump between elements: give the copies of a point the mean of their values, by mass.
        mass = self._geometry.mass.copy()
        field *= mass
        self._gather_scatter.sum(field)
        self._gather_scatter.sum(mass)
        field /= mass
        return field


class SampledPart:
    """A part of the fields at points of a lattice, which the ranks share by planes of z. Made collectively."""

    def __init__(
        self, comm: MPI.Comm, grid: ElementGrid, lattice: Lattice, field: Callable[[str], Array]
    ) -> None:
        """Plan the interpolation. field: returns an output of the present flow at the points of the elements."""
        self._sampler, self._field = Sampler(comm, grid, lattice), field
        self.offset: tuple[int, ...] = self._sampler.offset_global
        self.shape: tuple[int, ...] = self._sampler.shape_local

    def values(self, names: Sequence[str]) -> dict[str, Array]:
        return {name: self._sampler.sample(self._field(name)) for name in names}


def nek5000_recorder(
    case: NavierStokesCase,
    comm: MPI.Comm,
    grid: ElementGrid,
    geometry: ElementGeometry,
    flow: Callable[[], FlowState],
) -> list[Recorder]:
    """Return the recorder of Nek5000 field files, if the settings ask for it."""
    output = case.output
    every = output.interval("nek5000_every")
    if not every:
        return []

    def begin(_: Mapping[str, Any], keep: int | None) -> Record:
        writer = Nek5000Writer(
            comm,
            output.nek5000,
            grid,
            geometry.coordinates,
            precision=output.nek5000_precision,
            mesh=output.nek5000_geometry,
            keep_files=keep,
        )
        return _FieldFiles(output.nek5000, writer, flow)

    path = output.nek5000
    return [Recorder("Nek5000 files", path, every, begin, plot=f"{path}.nek5000")]


class _FieldFiles:
    """Writes a Nek5000 field file for each recorded step."""

    def __init__(self, path: str, writer: Nek5000Writer, flow: Callable[[], FlowState]) -> None:
        self.path = path
        self._writer, self._flow = writer, flow

    @property
    def count(self) -> int:
        return self._writer.files

    def write(self, step: int) -> int:
        now = self._flow()
        return self._writer.write(step, now.time, now.velocity, now.pressure, now.scalars)

    def close(self) -> None:
        """Do nothing, because every file is complete."""


def statistics_recorder(
    case: NavierStokesCase,
    comm: MPI.Comm,
    grid: ElementGrid,
    statistics: Statistics | None,
    flow: Callable[[], FlowState],
) -> list[Recorder]:
    """Return the recorder that samples the statistics and writes their windows, if the settings ask for it.

    statistics: made by the model if the settings ask for them, and saved with its state.
    """
    output = case.output
    every = output.interval("statistics_every")
    if not every or statistics is None:
        return []
    running, window = statistics, output.interval("statistics_window")

    def variable(name: str, values: Array, dims: tuple[str, ...], description: str) -> Variable:
        if dims == ELEMENT_DIMS:
            blocks = grid.shape_global, (grid.first, 0, 0, 0), grid.shape
        else:
            blocks = values.shape, (0,) * values.ndim, here(values).shape  # type: ignore[assignment]
        place = dims == ELEMENT_DIMS and name in ("x", "y", "z")
        return Variable(name, np.float64, *blocks, description=description, dims=dims, once=place)

    def here(values: Array) -> Array:
        """Return the part of an array that this rank writes: rank 0 the whole, the other ranks nothing."""
        return values if comm.rank == 0 else values[(slice(0),) * values.ndim]

    def sample(step: int) -> None:
        now = flow()
        running.sample(step, now.time, now.velocity, now.pressure, now.scalars)

    def averages() -> dict[str, Array]:
        return {
            name: average.values if average.dims == ELEMENT_DIMS else here(average.values)
            for name, average in running.averages(output.homogeneous).items()
        }

    def begin(attributes: Mapping[str, Any], keep: int | None) -> Record:
        variables = [
            variable(name, average.values, average.dims, average.description)
            for name, average in running.averages(output.homogeneous).items()
        ]
        variables += [variable(name, np.zeros(1), ("point",), words) for name, words in OF_WINDOWS]
        writer = open_writer(
            output.statistics,
            comm,
            variables,
            attributes,
            store=output.format,
            keep_steps=keep,
            setting="output.statistics",
        )
        return WindowRecord(output.statistics, writer, running, window, sample, averages, comm.rank == 0)

    fingerprint = bp_sums.fingerprint
    return [Recorder("statistics", output.statistics, every, begin, fingerprint=fingerprint, also=window)]
