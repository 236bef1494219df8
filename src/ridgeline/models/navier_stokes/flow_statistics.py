"""Statistics gathered during a run: means and second moments of velocity, pressure and scalars.

    statistics = Statistics(comm, grid, geometry, n_scalars, start)    # zeros: 11 + 5 s numbers for each point
    Statistics(comm, grid, geometry, n_scalars, start, viscosity)      # 25 more, see stress_budgets.py
    compile_kernels(statistics.kernels())
    statistics.sample(step, time, velocity, pressure, scalars)         # every so many steps; one pass
    statistics.state() -> {name: DistributedArray}                     # for Model.state: part of every checkpoint
    statistics.restored(step)                                          # after the arrays of `state` were filled
    statistics.averages(homogeneous) -> {name: Average}                # collective
    statistics.begin_window()                                          # from zero again, from the last sample on

A sample stands for the time since the previous sample, so that steps of any length count by their length. Averages
over homogeneous directions are integrals along the lines of points in them, by the quadrature of the mesh. Second
moments are central: <a'b'> = <ab> - <a><b>, with <.> over time and these directions.

Means and central moments of a window, with its length, determine the sums over it, so that windows can be added
afterwards (`ridgeline.analysis.windows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.elements.geometry import ElementGeometry
from ridgeline.elements.mesh import BoxMesh, ElementGrid
from ridgeline.elements.quadrature import gauss_lobatto
from ridgeline.jit.kernel import Specialisation, specialise
from ridgeline.models.navier_stokes.kernels import add_moments
from ridgeline.models.navier_stokes.stress_budgets import (
    PRESSURE_VELOCITY,
    add_terms,
    central_terms,
    gradients,
    term_names,
)
from ridgeline.models.windows import WindowClock
from ridgeline.parallel.partition import DistributedArray

if TYPE_CHECKING:
    from mpi4py import MPI


Array = NDArray[np.float64]
AXES = ("z", "y", "x")
ELEMENT_DIMS = ("element", "t", "s", "r")
SAMPLED_STEP = "statistics_step"  # missing in old checkpoints, see Model.later


@dataclass(frozen=True, eq=False)
class Average:
    """An averaged quantity.

    dims: names of the axes. values: with homogeneous directions the whole array, equal on all ranks; without them,
    this rank's [n_elements, n, n, n], with the dims ELEMENT_DIMS.
    """

    values: Array
    dims: tuple[str, ...]
    description: str


def moment_names(n_scalars: int, budgets: bool = False) -> tuple[list[str], list[tuple[str, int, int]]]:
    """Return the names of the means, and (name, i, j) of each second moment, that of means number i and j."""
    means = ["velocity_x", "velocity_y", "velocity_z", "pressure"]
    means += [f"scalar_{i}" for i in range(n_scalars)]
    moments = [("uu", 0, 0), ("vv", 1, 1), ("ww", 2, 2), ("uv", 0, 1), ("uw", 0, 2), ("vw", 1, 2)]
    moments += [("pp", 3, 3)]
    for i in range(n_scalars):
        theta = f"scalar_{i}"
        moments += [(f"{u}_{theta}", axis, 4 + i) for axis, u in enumerate("uvw")]
        moments += [(f"{theta}_{theta}", 4 + i, 4 + i)]
    if budgets:
        moments += PRESSURE_VELOCITY
    return means, moments


class Statistics:
    """Running sums over time at every point of this rank's elements.

    start: model time before which nothing is gathered; viscosity: that of the flow if the terms of budgets are
    gathered too, otherwise None. clock: of the present window and the last call of `sample`.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: ElementGrid,
        geometry: ElementGeometry,
        n_scalars: int = 0,
        start: float = 0.0,
        viscosity: float | None = None,
    ) -> None:
        self._comm, self._grid, self._geometry = comm, grid, geometry
        self._viscosity = viscosity
        self._means, self._moments = moment_names(n_scalars, viscosity is not None)
        self._terms = [] if viscosity is None else term_names()
        self._first = np.array([i for _, i, _ in self._moments], np.int64)
        self._second = np.array([j for _, _, j in self._moments], np.int64)
        self._sums = np.zeros((len(self._means) + len(self._moments) + len(self._terms), *grid.shape))
        self._fields = np.empty((4, grid.n_points))
        self.clock = WindowClock(comm, start, "statistics")

    def begin_window(self) -> None:
        """Begin a new window, which extends from the last sample on."""
        self._sums[...] = 0.0
        self.clock.begin_window()

    @staticmethod
    def kernels() -> list[Specialisation]:
        """Return the kernel that `sample` calls."""
        return specialise([add_moments])

    def memory(self) -> int:
        """Return the bytes of the sums and buffers."""
        return self._sums.nbytes + self._fields.nbytes

    def sample(self, step: int, time: float, velocity: Array, pressure: Array, scalars: Array) -> None:
        """Add the flow of `step`, at model time `time`, weighted by the time since the last call or since `start`.

        velocity: [3, E, n, n, n]; pressure: [E, n, n, n]; scalars: [s, E, n, n, n], float64, contiguous. The first
        call, and calls at or before `start`, only set the clock. No communication.
        Memory: fields read once (velocity and pressure twice, because they are copied), sums read and written.
        """
        weight = self.clock.weigh(step, time)
        if not weight:
            return
        self._fields[:3] = velocity.reshape(3, -1)
        self._fields[3] = pressure.reshape(-1)
        n_moments = len(self._sums) - len(self._terms)
        sums = self._sums[:n_moments].reshape(n_moments, -1)
        theta = scalars.reshape(len(scalars), self._grid.n_points)
        add_moments(weight, self._fields, theta, self._first, self._second, sums)
        if self._terms:
            add_terms(weight, self._geometry, velocity, pressure, self._sums[n_moments:])

    def state(self) -> dict[str, DistributedArray]:
        """Return what a checkpoint holds: the sums, and on rank 0 the clock and the step of the last sample."""
        shape = (len(self._sums), *self._grid.shape_global)
        sums = DistributedArray("statistics", shape, (0, self._grid.first, 0, 0, 0), self._sums)
        return {sums.name: sums, **self.clock.state()}

    def restored(self, step: int) -> None:
        """Continue from what was read into the arrays of `state`. Collective.

        step: that of the last sample, for old checkpoints that do not hold it.
        """
        self.clock.restored(step)

    def averages(self, homogeneous: Sequence[str] = ()) -> dict[str, Average]:
        """Return means, central second moments and, with a viscosity, terms of budgets by name. Collective.

        homogeneous: directions among "x", "y", "z" to average over; with none, the averages are at the points of the
        elements. The other axes are the lattice of the mesh's points, each point once; with all three, one point is
        left. Without a map of the mesh, the coordinates along these axes are among the averages, under the names of
        the axes. With a map, the axes are named k, j, i, and the mean places x, y, z are arrays. All averages are 0
        until there is a sample.
        """
        seconds = self.clock.seconds or 1.0
        if not homogeneous:
            fields = ((name, values / seconds) for name, values in self._named_sums())
            places = zip("xyz", self._geometry.coordinates)
            averages = {name: Average(place, ELEMENT_DIMS, f"place along {name}") for name, place in places}
            return averages | self._central(dict(fields), ELEMENT_DIMS)
        lines = AverageLines(self._comm, self._grid, self._geometry, homogeneous)
        means = {name: lines.mean(values) / seconds for name, values in self._named_sums()}
        averages = {name: Average(place, dims, what) for name, place, dims, what in lines.places()}
        return averages | self._central(means, lines.dims)

    def _named_sums(self) -> Iterator[tuple[str, Array]]:
        names = [*self._means, *(name for name, _, _ in self._moments), *self._terms]
        yield from zip(names, self._sums)
        if self._terms:
            yield from gradients(self._geometry, self._sums[:3])

    def _central(self, fields: Mapping[str, Array], dims: tuple[str, ...]) -> dict[str, Average]:
        """Turn means of products into central moments."""
        averages = {name: Average(fields[name], dims, f"mean of {name}") for name in self._means}
        for name, i, j in self._moments:
            a, b = self._means[i], self._means[j]
            values = fields[name] - fields[a] * fields[b]
            averages[name] = Average(
                values, dims, f"covariance of {a} and {b}" if i != j else f"variance of {a}"
            )
        if self._viscosity is not None:
            for name, values, description in central_terms(fields, self._viscosity):
                averages[name] = Average(values, dims, description)
        return averages


class AverageLines:
    """Averages along lines of points in homogeneous directions, on the lattice of the others. Made collectively."""

    def __init__(
        self, comm: MPI.Comm, grid: ElementGrid, geometry: ElementGeometry, homogeneous: Sequence[str]
    ) -> None:
        self._comm, self._grid, self._geometry = comm, grid, geometry
        self._along = tuple(1 + AXES.index(name) for name in AXES if name in homogeneous)
        self._kept = tuple(a for a in range(3) if AXES[a] not in homogeneous)
        assert isinstance(grid.mesh, BoxMesh)  # settings.py allows homogeneous directions only in a box
        self._mesh = grid.mesh
        # The two ends of a periodic direction remain two points, because they have two places.
        self._shape = tuple(grid.mesh.elements[a] * grid.order + 1 for a in self._kept) or (1,)
        index = np.zeros((grid.n_elements, *(grid.n,) * len(self._kept)), np.int64)
        for place, a in enumerate(self._kept):
            line = grid.positions[:, a, None] * grid.order + np.arange(grid.n)
            form = [grid.n_elements] + [grid.n if other == place else 1 for other in range(len(self._kept))]
            index = index * self._shape[place] + line.reshape(form)
        self._index = index.reshape(-1)
        self._weight = self._gather(np.ones(1))

    def _gather(self, values: Array) -> Array:
        """Return the integral of point values over each line, the same on all ranks."""
        mass = self._geometry.mass
        integral = np.empty(len(self._index)).reshape(len(mass), -1)
        for e in range(len(mass)):  # element by element, in the caches
            product = mass[e] * (values[e] if values.ndim == 4 else values)
            integral[e] = product.sum(axis=tuple(a - 1 for a in self._along)).reshape(-1)
        size = int(np.prod(self._shape, dtype=np.int64))
        mine = np.bincount(self._index, integral.reshape(-1), size)
        total = np.empty(size)
        self._comm.Allreduce(mine, total)
        return total.reshape(self._shape)

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the axes of an average."""
        return tuple(self._name(a) for a in self._kept) or ("point",)

    def _name(self, axis: int) -> str:
        return AXES[axis] if self._grid.mesh.axis_aligned else "kji"[axis]

    def mean(self, values: Array) -> Array:
        """Return the mean of values [E, n, n, n] over each line, the same on all ranks. Collective."""
        return self._gather(values) / self._weight

    def places(self) -> Iterator[tuple[str, Array, tuple[str, ...], str]]:
        """Yield (name, values, dims, description) of the places of the lattice's points. Collective."""
        for a in self._kept:
            if self._grid.mesh.axis_aligned:
                yield AXES[a], self._places(a), (AXES[a],), f"place along {AXES[a]}"
            else:
                yield (
                    AXES[a],
                    self.mean(self._geometry.coordinates[2 - a]),
                    self.dims,
                    f"mean place along {AXES[a]}",
                )

    def _places(self, axis: int) -> Array:
        """Return the places of the lattice's points along an axis of a mesh without a map."""
        edges = self._mesh.edges[axis]
        xi = gauss_lobatto(self._grid.n)[0]
        inside = edges[:-1, None] * (1 - xi) / 2 + edges[1:, None] * (1 + xi) / 2
        return np.asarray(np.append(inside[:, :-1].reshape(-1), edges[-1]), np.float64)
